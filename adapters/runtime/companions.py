"""The daemons in DAEMON_LIST that only read the log run as separate processes, so that they never delay the pool. The
master runs them, or without a master the server of the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ...domain.config import ConfigError, Configuration
from ...domain.coverage.settings import DAEMON_LIST, is_view_server, parse_daemon_list
from ...domain.master import transitions as t
from ...domain.master.supervision import Supervision
from ..machine.host import VERSION
from ..master.child_processes import ChildProcesses, DaemonCommand, poolbook_arguments
from .config_sources import VARIABLE

if TYPE_CHECKING:
    from ...domain.master.master_settings import MasterPolicy
    from .pool_server import PoolServer

COMPANIONS: Final[Mapping[str, Sequence[str]]] = {
    "METRICD": ("metrics",), "GANGLIAD": ("metrics", "-gangliad"), "ADSTASH": ("condor_adstash",),
}  # fmt: skip
"""The command of each daemon. At the end of its standard input, it ends, so it does not survive the pool."""
_HISTORY: Final = ("metrics", "-history")
_FORWARD: Final = ("metrics", "-send-ads")
_CONFIGURED: Final = ("metrics", "view")  #: commands with the option -config


def companion_commands(
    url: str, configuration: Configuration, files: Sequence[str], http: Sequence[str] = (), is_manager: bool = True
) -> dict[str, DaemonCommand]:
    """Return the commands of the companions of the log at ``url``. ``http`` are the options of the HTTP service;
    empty: there is none. ``is_manager``: whether the log has the manager's ads, which are forwarded. Raise
    `ConfigError` if the arguments of a view server are invalid."""
    listed = parse_daemon_list(configuration.get(DAEMON_LIST))
    wanted = {name: words for name, words in COMPANIONS.items() if name in listed}
    if configuration.boolean("KEEP_POOL_HISTORY", False):
        wanted["the pool's history"] = _HISTORY
    wanted |= {name: view_server(name, configuration) for name in sorted(filter(is_view_server, listed))}
    if is_manager and configuration.get("CONDOR_VIEW_HOST").strip():
        wanted["the sender to CONDOR_VIEW_HOST"] = _FORWARD
    if http:
        wanted["the HTTP service"] = ("view", *http)
    config = [word for file in files for word in ("-config", file)]
    # Its tools take the log and the configuration from the environment, as HTCondor's do.
    environment = {"POOLBOOK_LOG": url, **({VARIABLE: files[-1]} if files else {})}
    return {
        name: DaemonCommand(
            poolbook_arguments(*words, "-stdin", *(config if words[0] in _CONFIGURED else ())),
            environment,
            reads_end=True,
        )
        for name, words in wanted.items()
    }


class Companions:
    """The companions of a server, which are started again like the daemons of a master."""

    def __init__(self, commands: Mapping[str, DaemonCommand], policy: MasterPolicy, server: PoolServer) -> None:
        supervision = Supervision(policy, lambda transition: _report(transition, server.warn))
        world = server.world
        self._children = ChildProcesses(supervision, commands.__getitem__, world.watch, world.unwatch, world.now)
        if commands:
            self._children.act(supervision.begin(world.now(), VERSION, list(commands)))

    def check(self) -> int | None:
        """Start companions that are due; return when to call this again (microseconds), or None if nothing is due."""
        self._children.tick()
        return self._children.supervision.due()

    def close(self) -> None:
        self._children.close()


def _report(transition: t.Transition, warn: Callable[[str], None]) -> None:
    if isinstance(transition, t.DaemonExited | t.DaemonNotStarted | t.RestartScheduled):
        warn(f"warning: {t.line_of(transition)}")


_VIEW_OPTIONS: Final = {"-p": "-listen", "-port": "-listen", "-local-name": "-local-name"}


def view_server(name: str, configuration: Configuration) -> Sequence[str]:
    """Return the command of a view server in DAEMON_LIST, with its arguments: VIEWSERV01_ARGS = -f -p 12345 ..."""
    setting = f"{name}_ARGS"
    words = [word for word in configuration.get(setting).split() if word != "-f"]
    command = ["metrics", "-view-server"]
    while words:
        option, values = words.pop(0), words[:1]
        if option not in _VIEW_OPTIONS or not values:
            message = "a view server has the arguments -f, -p PORT and -local-name NAME"
            raise ConfigError(f"{setting}: {option} is unknown or lacks a value; {message}")
        value = words.pop(0)
        command += [_VIEW_OPTIONS[option], f":{value}" if _VIEW_OPTIONS[option] == "-listen" else value]
    return command
