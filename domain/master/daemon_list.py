"""Read which processes a machine runs: DAEMON_LIST, <NAME>_ARGS and local names.

A process may do the work of several HTCondor daemons, its *parts*. Its name is that of its first part, so that
settings such as MASTER_SCHEDD_BACKOFF_CONSTANT and commands such as `poolbook off -schedd` have their usual meanings.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from ..classad.argument_syntax import QuotingError, parse_environment, split, strip_double_quotes, uses_new_syntax
from ..config.config_errors import ConfigError
from ..coverage.settings import DAEMON_LIST, KBDD, is_manager_option
from ..state.peers import ACCESS_POINT, EXECUTION_POINT, MANAGER

if TYPE_CHECKING:
    from ..config import Configuration

POOL: Final = "POOL"  #: the process that has all roles of a pool on one machine
COMPANION: Final = "companion"
PROGRAM: Final = "program"
_ROLES: Final = {"COLLECTOR": MANAGER, "NEGOTIATOR": MANAGER, "SCHEDD": ACCESS_POINT, "STARTD": EXECUTION_POINT}
_ORDER: Final = (POOL, MANAGER, ACCESS_POINT, EXECUTION_POINT, COMPANION, PROGRAM)
_WITHOUT_PROCESS: Final = frozenset({"MASTER", "SHARED_PORT", KBDD})  # the startd's sensors ask the X server
_OPTIONS: Final = {"-p": "port", "-port": "port", "-local-name": "local_name", "-sock": ""}
"""Arguments of HTCondor daemons that have a value."""
_FLAGS: Final = frozenset({"-f", "-foreground", "-t"})


class ListedDaemon(NamedTuple):
    """A process that the master runs."""

    name: str
    kind: str  #: a row of `_ORDER`
    parts: tuple[str, ...]  #: the names in DAEMON_LIST whose work it does
    local_name: str = ""  #: NAME.X overrides X for it
    port: int = 0  #: of a manager; 0: that of COLLECTOR_HOST or COLLECTOR_PORT
    command: tuple[str, ...] = ()  #: of a program
    environment: Mapping[str, str] = {}

    @property
    def runs_jobs(self) -> bool:
        return self.kind in (POOL, EXECUTION_POINT)


class DaemonList(NamedTuple):
    """The processes of a machine, in the order of their start."""

    daemons: tuple[ListedDaemon, ...]
    warnings: tuple[str, ...]  #: about daemons, arguments and settings that are not supported

    def select(self, part: str) -> ListedDaemon | None:
        """Return the process that does the work of a daemon, or None."""
        name = part.upper()
        return next((each for each in self.daemons if name == each.name or name in each.parts), None)


def read_daemon_list(configuration: Configuration, companions: Collection[str], separate: bool) -> DaemonList:
    """Return the processes that a configuration lists; if it lists none, all roles.

    :param companions: the names of Poolbook's own companions
    :param separate: other machines join this pool, so its roles are separate processes
    :raises ConfigError: the arguments of a daemon are invalid
    """
    names = list(dict.fromkeys(configuration.get(DAEMON_LIST).upper().replace(",", " ").split()))
    if _WITHOUT_PROCESS.issuperset(names):  # the default
        names = list(_ROLES)
    names.sort(key=lambda name: name != "COLLECTOR")  # the process of the manager has the name of its collector
    helpers = list(filter(is_manager_option, names))
    named = [name for name in names if name not in _WITHOUT_PROCESS and name not in helpers]
    kinds = {name: _kind(name, configuration, companions) for name in named}
    warnings = [_unsupported(name) for name, kind in kinds.items() if not kind]
    if not separate and sorted(name for name in kinds if kinds[name] in _ROLES.values()) == sorted(_ROLES):
        kinds = {name: POOL if kind in _ROLES.values() else kind for name, kind in kinds.items()}
    groups: dict[str, list[str]] = {}
    for name, kind in kinds.items():
        if kind:
            groups.setdefault(kind if kind in (POOL, MANAGER) else name, []).append(name)
    daemons = [_daemon(kinds[parts[0]], parts, configuration, warnings) for parts in groups.values()]
    for index, daemon in enumerate(daemons):
        if daemon.kind in (POOL, MANAGER):
            daemons[index] = daemon._replace(parts=(*daemon.parts, *helpers))
            helpers = []
    warnings += [f"{DAEMON_LIST}: {name} is a part of the manager, which does not run here" for name in helpers]
    warnings += _settings_without_effect(configuration, names)
    daemons.sort(key=lambda daemon: _ORDER.index(daemon.kind))
    return DaemonList(tuple(daemons), tuple(warnings))


def _kind(name: str, configuration: Configuration, companions: Collection[str]) -> str:
    """Return the kind of a daemon, or an empty string if it is not supported or is a part of the manager."""
    if name in companions:
        return COMPANION
    program = configuration.get(name).rpartition("/")[2].removeprefix("condor_").upper()
    if role := _ROLES.get(name) or _ROLES.get(program):  # SCHEDD2 = $(SCHEDD)
        return role
    is_set = configuration.is_defined(name) and configuration.source(name).kind != "default"
    return PROGRAM if is_set else ""


def _unsupported(name: str) -> str:
    return (
        f"{DAEMON_LIST}: {name} is not supported, and is not started; Poolbook has the roles {', '.join(_ROLES)}. To "
        f"run a program of yours, set {name} to its path"
    )


def _settings_without_effect(configuration: Configuration, names: list[str]) -> list[str]:
    """Report the settings that neither the master nor a role uses. A role rejects restrictions that are unenforced."""
    used = {DAEMON_LIST, *names}
    unsupported = [each.name for each in configuration.unsupported_settings() if not each.unenforced]
    idle = [name for name in unsupported if name.upper() not in used]
    return [f"settings without an effect (docs/coverage.md): {', '.join(idle)}"] if idle else []


def _daemon(kind: str, parts: list[str], configuration: Configuration, warnings: list[str]) -> ListedDaemon:
    first = parts[0]
    environment: dict[str, str] = {}
    words: list[str] = []
    for part in parts:
        variables, arguments = configuration.get(f"{part}_ENVIRONMENT"), configuration.get(f"{part}_ARGS")
        try:
            environment |= {name: text or "" for name, text in parse_environment(variables).items()}
            words += split(strip_double_quotes(arguments)) if uses_new_syntax(arguments) else arguments.split()
        except QuotingError as error:
            raise ConfigError(f"{part}_ENVIRONMENT or {part}_ARGS: {error}") from None
    if kind == PROGRAM:
        command = (configuration.get(first), *words)
        return ListedDaemon(first, kind, tuple(parts), command=command, environment=environment)
    if kind == COMPANION:  # it reads its arguments itself
        return ListedDaemon(first, kind, tuple(parts), environment=environment)
    values = {"port": "0", "local_name": "" if first in _ROLES else first}
    while words:
        word = words.pop(0)
        if word in _OPTIONS and words:
            values[_OPTIONS[word]] = words.pop(0)
        elif word not in _FLAGS:
            warnings.append(f"{first}_ARGS: {word} has no effect; use {', '.join((*_OPTIONS, *sorted(_FLAGS)))}")
    if not values["port"].isdecimal():
        raise configuration.error(f"{first}_ARGS", f"{first}_ARGS: {values['port']!r} is not a port number")
    name = POOL if kind == POOL else first
    return ListedDaemon(name, kind, tuple(parts), values["local_name"], int(values["port"]), environment=environment)
