"""How the daemons of a machine are started: the commands of their roles, companions and programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ...domain.coverage.settings import DAEMON_LIST, is_manager_option
from ...domain.errors import PoolbookError
from ...domain.master.daemon_list import COMPANION, POOL, PROGRAM, DaemonList, ListedDaemon
from ...domain.state.peers import MANAGER
from ..machine.host import host_addresses, host_name
from ..stores.location import locate
from ..stores.log_paths import log_paths
from .child_processes import DaemonCommand, poolbook_arguments

if TYPE_CHECKING:
    from ...domain.config import Configuration

_DEFAULT_PORT: Final = 9618


class CannotStart(PoolbookError):
    """A daemon cannot be started."""


class MasterOptions(NamedTuple):
    """The options of a master that concern its daemons."""

    url: str  #: the log
    files: tuple[str, ...] = ()  #: of the configuration
    listen: str = ""  #: where the manager listens
    dialect: str = ""
    http: str = ""
    role_options: tuple[str, ...] = ()  #: passed on to all roles
    member_options: tuple[str, ...] = ()  #: passed on to roles that accept or run jobs
    broker_options: tuple[str, ...] = ()  #: passed on to a manager

    @property
    def folder(self) -> Path:
        return log_paths(self.url).master_folder

    def output_of(self, daemon: str) -> Path:
        return self.folder / f"{daemon}.log"


class DaemonCommands:
    """The commands of the daemons in a list, by name."""

    def __init__(
        self, options: MasterOptions, listed: DaemonList, configuration: Configuration,
        companions: Callable[[str], Mapping[str, DaemonCommand]],
    ) -> None:  # fmt: skip
        """``companions`` returns the commands of companions that read a log."""
        self._options, self._configuration, self._companions = options, configuration, companions
        self.daemons = {daemon.name: daemon for daemon in listed.daemons}
        self.logs = self._logs([daemon for daemon in listed.daemons if daemon.kind not in (COMPANION, PROGRAM)])
        self._config = [word for file in options.files for word in ("-config", file)]

    def _logs(self, roles: list[ListedDaemon]) -> dict[str, str]:
        """Return the log of each role: the first has the master's, and others have the role in their names."""
        url = self._options.url
        if len(roles) > 1 and locate(url).kind != "sqlite":
            raise CannotStart("-log: several roles need log files; use a file name, such as -log pool.db")
        path, logs = Path(url), {}
        for index, daemon in enumerate(roles):
            suffixes = ".".join(filter(None, (daemon.kind, daemon.local_name.lower())))
            logs[daemon.name] = str(path.with_name(f"{path.stem}.{suffixes}{path.suffix}")) if index else url
        return logs

    def command(self, name: str) -> DaemonCommand:
        """Return the command of a daemon. Raise `CannotStart` or `ConfigError` if it cannot be started."""
        daemon = self.daemons[name]
        output, environment = self._options.output_of(name), dict(daemon.environment)
        if daemon.kind == PROGRAM:
            return DaemonCommand(daemon.command, environment, output, is_program=True)
        if daemon.kind == COMPANION:
            log = next(iter(self.logs.values()), self._options.url)
            command = self._companions(log)[name]
            return command._replace(environment={**command.environment, **environment}, log=output)
        environment["_CONDOR_MASTER_LOG"] = ""  # this master writes it
        if self._configuration.source(DAEMON_LIST).kind != "default":  # the others in the list are the master's
            environment["_CONDOR_DAEMON_LIST"] = " ".join(("MASTER", *filter(is_manager_option, daemon.parts)))
        words = [*self._role_words(daemon), *self._config, "-log", self.logs[name], *self._options.role_options]
        if daemon.local_name:
            words += ["-local-name", daemon.local_name]
        return DaemonCommand(poolbook_arguments(*words), environment, output)

    def _role_words(self, daemon: ListedDaemon) -> list[str]:
        options = self._options
        dialect = ["-dialect", options.dialect] if options.dialect else []
        http = ["-http", options.http] if options.http else []
        if daemon.kind == POOL:
            return ["serve", *dialect, *http, *options.member_options]
        if daemon.kind == MANAGER:
            managers = self._managers()
            own = next((place for place, (host, _) in enumerate(managers) if _is_here(host)), 0)
            listen = options.listen or f":{daemon.port or managers[own][1]}"
            words = ["serve", "-role", MANAGER, "-listen", listen, *dialect, *http, *options.broker_options]
            invitation = self._invitation(daemon, managers[:own])
            return [*words, "-join", invitation[0], "-token", invitation[1]] if invitation else words
        name = "@".join(filter(None, (daemon.local_name, host_name())))
        return [
            "join",
            *self._invitation(daemon, self._managers()),
            "-role",
            daemon.kind,
            "-name",
            name,
            *options.member_options,
        ]

    def _managers(self) -> list[tuple[str, int]]:
        """Return the hosts and ports of the pool's managers, in the order of COLLECTOR_HOST, which is by default
        CONDOR_HOST. The host of the manager on this machine may be empty."""
        default = self._configuration.integer("COLLECTOR_PORT", _DEFAULT_PORT)
        managers = []
        for text in self._configuration.get("COLLECTOR_HOST").replace(",", " ").split():
            host, colon, port = text.rpartition(":")
            managers.append((host if colon else text, int(port) if colon and port.isdecimal() else default))
        has_manager = any(each.kind == MANAGER for each in self.daemons.values())
        listen = self._options.listen.rpartition(":")[2]
        if has_manager and listen.isdecimal():
            return [(host, int(listen) if _is_here(host) else port) for host, port in managers or [("", default)]]
        if not (managers or has_manager):
            raise CannotStart("CONDOR_HOST is not set; set it to the host of the pool's manager")
        return managers or [("", default)]

    def _invitation(self, daemon: ListedDaemon, managers: list[tuple[str, int]]) -> list[str]:
        """Return the URLs of managers and the directory with this machine's tokens, unless the role has joined all of
        them before."""
        from ..https.memberships import memberships
        from ..security.user_tokens import token_files, tokens_folder, tokens_in

        urls = [f"https://{host or host_name()}:{port}" for host, port in managers]
        joined = {files.read().url for files in memberships(log_paths(self.logs[daemon.name]).base)}
        if joined.issuperset(urls):
            return []
        system = Path(self._configuration.get("SEC_TOKEN_SYSTEM_DIRECTORY"))
        folders = list(dict.fromkeys((system, tokens_folder(self._configuration))))
        useful = (
            folder for folder in folders if any(tokens_in(file) for file in token_files(folder, self._configuration))
        )
        folder = next(useful, None)
        if folder is not None:
            return [",".join(urls), str(folder)]
        if joined:  # it continues with the managers that it has joined
            return []
        raise CannotStart(
            f"no token in {' or '.join(map(str, folders))}; create one on the manager's machine with "
            f"`poolbook token create -identity condor@DOMAIN`, and store it there"
        )


def _is_here(host: str) -> bool:
    """Return True if a host in the configuration is this machine."""
    names = host_name(), host_name().partition(".")[0], "localhost"
    return host in ("", *names) or host in host_addresses()
