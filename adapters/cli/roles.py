"""``poolbook serve`` and ``poolbook join``: serve a pool until stopped, or one role of a pool whose roles have separate
logs."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...domain.state.peers import ACCESS_POINT, EXECUTION_POINT, MANAGER
from ...domain.state.pool_settings import FILESYSTEM_DOMAIN, listed_names
from ...domain.state_machines import HTCONDOR_25
from ..bounded_text import read_input, read_text
from ..condor_tools.options import Arguments, ToolError, ToolSyntax, UsageError, command_table, last_number, parse
from ..machine.host import host_name, user_name
from ..runtime.standby import stand_by
from ..stores.location import locate, safe_url
from ..stores.log_paths import log_paths
from .common import selected_log
from .serve import SERVE, SeparateRole, open_server, preload_modules, serve_until_stopped

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from ...domain.ports.stimuli import RejectedRequests
    from ..files.app import Exchange
    from ..https.file_service import FileService
    from ..https.manager import ManagerServices, OtherBroker
    from ..https.membership import MemberFiles, Membership
    from ..https.memberships import Invitation
    from ..https.requests import Record
    from ..https.service import HttpsService
    from ..machine.execution.activation import LaunchRequest
    from ..runtime.pool_server import PoolServer
    from ..security.pool_security import PoolSecurity
    from ..stores.log_paths import WriterLock

JOIN = command_table("join")
_JOINING: Final = (EXECUTION_POINT, ACCESS_POINT)


@contextmanager
def _with_extra() -> Iterator[None]:
    """Explain an import that fails because the extra ``cluster`` is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ToolError(
            f"poolbook: roles on several machines need {error.name}, which is not installed: pip install "
            f"'poolbook[cluster]'"
        ) from None


def serve(argv: Sequence[str]) -> int:
    from ..https.membership import MemberFiles

    arguments = parse(SERVE, argv)
    url, role = selected_log(arguments), arguments.value("role")
    if role and role != MANAGER:
        raise UsageError(f"-role {role}: serve starts the role manager; `poolbook join` starts the other roles")
    option = arguments.last("listen", "broker-port", "nats", "credentials", "join", "token")
    if option is not None and not role:
        raise UsageError(f"{option.spelling}: use this option only with -role manager")
    preload_modules()
    if role:
        return _serve_manager(arguments, url)
    if MemberFiles(log_paths(url).base).exist():
        if arguments.has("standby"):
            raise UsageError(
                "-standby: only a manager, or a pool in one process, can have a standby; remove this option"
            )
        return _serve_member(SERVE, arguments, url)
    lock = _standby_lock(arguments, url)
    with closing(open_server(SERVE, arguments, is_measured=True, lock=lock)) as server:
        return serve_until_stopped(server, arguments, safe_url(url))


def _standby_lock(arguments: Arguments, url: str) -> WriterLock | None:
    """With -standby, wait until this process may write the log, and return its lock."""
    if not arguments.has("standby"):
        return None
    if arguments.has("lost"):
        raise UsageError(
            "-lost: with -standby, jobs could run twice, because the other machine may still run them; use -lost "
            "alone, when the other machine is off"
        )
    return stand_by(url, lambda text: print(f"poolbook: {text}", flush=True))


# The manager


def _serve_manager(arguments: Arguments, url: str) -> int:
    listen = arguments.value("listen")
    if not listen:
        raise UsageError(
            "-role manager: no address is set; other roles connect to it; use -listen, such as 0.0.0.0:9618"
        )
    with _with_extra():
        from ..https.memberships import Managers
        from ..https.service import Address, HttpsService
    dialect = arguments.value("dialect", HTCONDOR_25.name)
    try:
        address = Address.parse(listen)
    except ValueError as error:
        raise UsageError(f"-listen: {error}") from None
    broker = _other_broker(arguments) or last_number(SERVE, arguments, "broker-port", least=1) or 0
    separate = SeparateRole(MANAGER, host_name(), dialect)
    lock = _standby_lock(arguments, url)  # first, since the address may move here together with the role
    with (
        closing(HttpsService(address)) as service,
        closing(open_server(SERVE, arguments, separate=separate, lock=lock)) as server,
        closing(_services(service, server, arguments, broker)) as services,
    ):
        late = _join_others(arguments, server)
        with closing(Managers(server.paths.base, late, server.warn, services.start())) as managers:
            server.connect(managers.carrier, managers.names)
            server.start_serving()
            where = f"the manager of the pool {server.engine.state.name} in {safe_url(url)} at {services.url}"
            return serve_until_stopped(server, arguments, where, "running jobs and the broker continue")


def _join_others(arguments: Arguments, server: PoolServer) -> list[Invitation]:
    """Join the other managers that -join names. Return the invitations to the ones that do not answer now."""
    from ..https.memberships import Invitation, accept_all

    urls, token = arguments.value("join"), arguments.value("token")
    if not (urls or token):
        return []
    if not (urls and token):
        raise UsageError(
            "-join and -token: one is missing; another manager accepts only a token; use -join URL -token TOKEN"
        )
    tokens, log = _tokens(token, "-token"), server.paths.base
    invitations = [
        Invitation(url.strip(), tokens, MANAGER, server.engine.state.name, log, is_further=True)
        for url in urls.split(",")
    ]
    return accept_all(invitations, True, server.warn)


def _services(
    service: HttpsService, server: PoolServer, arguments: Arguments, broker: int | OtherBroker
) -> ManagerServices:
    """Return the manager's services. They read the configuration again when it may have changed."""
    from ..https.manager import ManagerServices

    return ManagerServices(
        service, lambda: server.engine.state, _security_loader(server, arguments, "COLLECTOR"), broker,
        _recorder(server), server.warn, selected_log(arguments),
    )  # fmt: skip


def _security_loader(server: PoolServer, arguments: Arguments, daemon: str) -> Callable[[], PoolSecurity]:
    """Return a function that reads the configuration, and returns the pool's security."""
    from ..runtime.config_sources import config_files
    from ..runtime.configuration import load
    from ..security.pool_security import pool_security

    files = [path.absolute() for path in config_files(arguments.values("config"))]
    uid_domain = server.engine.state.uid_domain
    return lambda: pool_security(server.paths.base, uid_domain, load(files, subsystem=daemon))


def _recorder(server: PoolServer) -> Record:
    """Return a function that records rejected requests in the log, and prints them."""
    from ..https.rejections import Rejections

    def report(rejected: RejectedRequests) -> None:
        sender = f" ({rejected.sender})" if rejected.sender else ""
        times = f" {rejected.count} times" if rejected.count > 1 else ""
        server.warn(f"rejected a request from {rejected.address}{sender}{times}: {rejected.text}")
        server.report(rejected)

    return Rejections(report).record


def _other_broker(arguments: Arguments) -> OtherBroker | None:
    from ..https.manager import OtherBroker

    if not arguments.has("nats", "credentials"):
        return None
    url, path = arguments.value("nats"), arguments.value("credentials")
    if not (url and path):
        raise UsageError(
            "-nats and -credentials: one is missing; the server needs an account; use -nats URL -credentials FILE"
        )
    return OtherBroker(url, Path(path))


# The other roles


def join(argv: Sequence[str]) -> int:
    arguments = parse(JOIN, argv)
    if len(arguments.words) not in (0, 2):
        raise UsageError(
            "poolbook join: a role joins with a manager's URL and a token; use poolbook join https://HOST:PORT TOKEN"
        )
    default = ACCESS_POINT if arguments.has("flock") else EXECUTION_POINT  # only access points flock
    roles = [role.strip() for role in arguments.value("role", default).split(",")]
    if not set(roles) <= set(_JOINING) or len(set(roles)) < len(roles):
        raise UsageError(f"-role {arguments.value('role')}: use {' or '.join(_JOINING)}, or both separated by a comma")
    logs = _logs(roles, selected_log(arguments))
    with _with_extra():
        late = {log: _join(arguments, role, log) for role, log in zip(roles, logs, strict=True)}
    if len(logs) == 1:
        return _serve_member(JOIN, arguments, logs[0], late[logs[0]])
    return _serve_each(arguments, late)


def _logs(roles: Sequence[str], url: str) -> list[str]:
    """Return each role's log: the first has the named one, and others have the role in their names."""
    if len(roles) > 1 and locate(url).kind != "sqlite":
        raise UsageError("-log: several roles need log files; start a command for each role to use other logs")
    path = Path(url)
    return [url, *(str(path.with_name(f"{path.stem}.{role}{path.suffix}")) for role in roles[1:])]


def _join(arguments: Arguments, role: str, log: str) -> list[Invitation]:
    """Join the pool for a role. A role that has joined before continues if a manager cannot be reached now, or if the
    token has expired since. Return the invitations to managers that it has to join later."""
    from ..https.memberships import Invitation, accept_all, memberships

    base = log_paths(log).base
    is_member, flocks = bool(memberships(base)), arguments.has("flock")
    if not arguments.words:
        if not is_member:
            raise UsageError(
                f"poolbook join: {log} has not joined a pool yet; use poolbook join https://HOST:PORT TOKEN"
            )
        return []
    if flocks and not (is_member and role == ACCESS_POINT):
        raise UsageError(
            "-flock: only an access point that has joined its own pool can flock; first join it without -flock"
        )
    urls, tokens = arguments.words[0].split(","), _tokens(arguments.words[1], "the second argument")
    name, is_further = arguments.value("name", host_name()), flocks or len(urls) > 1
    invitations = [Invitation(url.strip(), tokens, role, name, base, is_further, flocks) for url in urls]
    return accept_all(invitations, is_member, lambda text: print(f"poolbook: warning: {text}", file=sys.stderr))


def _tokens(word: str, argument: str) -> list[str]:
    """Return the tokens: the word itself, or those in the file (`-`: standard input) or directory that it names. A file
    has one token in a line."""
    from ..security.user_tokens import tokens_in

    if os.path.isdir(word):
        lines = [token.text for path in sorted(Path(word).iterdir()) for token in tokens_in(path)]
    else:
        text = read_input() if word == "-" else read_text(word) if os.path.exists(word) else word
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    tokens = [line for line in lines if line.count(".") == 2]
    if not lines or lines[0] not in tokens:
        raise UsageError(f"poolbook join: {argument} must be a token, a file or directory with tokens, or -")
    return tokens


def _serve_member(command: ToolSyntax, arguments: Arguments, url: str, late: Sequence[Invitation] = ()) -> int:
    with _with_extra():
        from ..fabric.second_path import AccessPointPaths, ExecutionPointPaths
        from ..https.membership import MemberFiles
        from ..https.memberships import Managers
    files = MemberFiles(log_paths(url).base)
    membership = files.read()
    terms, is_measured = membership.terms, membership.role == EXECUTION_POINT
    settings = {**terms.settings, FILESYSTEM_DOMAIN: host_name()}  # roles on several machines share no files
    separate = SeparateRole(membership.role, membership.name, terms.dialect, terms.uid_domain, settings)
    server = open_server(command, arguments, is_measured=is_measured, url=url, separate=separate)
    with closing(server):
        flock_to = listed_names(server.engine.state.settings, "FLOCK_TO")
        managers = Managers(files.log, late, server.warn, flock_to=flock_to)
        if membership.role == ACCESS_POINT:
            record = _recorder(server)
            commands = _commands(server, arguments, url, record)
            carrier = AccessPointPaths(managers.carrier)
            server.connect(carrier, managers.names).offer_files(
                lambda request_of: _file_service(files, membership, request_of, carrier.exchange, commands, record)
            )
        else:
            if os.geteuid():
                server.warn(
                    f"warning: the jobs of all users run as {user_name()}, since only root can run them as others"
                )
            elif not arguments.has("users"):
                server.warn("warning: jobs of the user root run as root here; -users refuses them")
            paths = ExecutionPointPaths(managers.carrier, membership.name, files.folder / "access-points.json")
            server.connect(paths, managers.names).learn_paths(paths.learn)
        server.start_serving()
        with closing(managers):
            where = f"{membership.peer} of the pool {terms.pool} ({membership.url}) in {safe_url(url)}"
            return serve_until_stopped(server, arguments, where)


def _commands(server: PoolServer, arguments: Arguments, url: str, record: Record) -> Callable[[FileService], Starlette]:
    """Return a function that returns the application for commands from other machines."""
    from ..https.commands import RoleCommands, commands_application
    from ..https.spooling import SpoolTransfers

    security = _security_loader(server, arguments, "SCHEDD")
    uid_domain = server.engine.state.uid_domain
    return lambda files: commands_application(
        RoleCommands(url, "SCHEDD", uid_domain, security, SpoolTransfers(url, files)), record
    )


def _file_service(
    files: MemberFiles,
    membership: Membership,
    request_of: Callable[[str], LaunchRequest | None],
    exchange: Exchange,
    commands: Callable[[FileService], Starlette],
    record: Record,
) -> FileService:
    from ..https.file_service import FileService
    from ..https.memberships import memberships

    managers = memberships(files.log)
    return FileService(files.folder / "files", membership.name, request_of, managers, exchange, commands, record)


def _serve_each(arguments: Arguments, logs: Mapping[str, Sequence[Invitation]]) -> int:
    """Serve each log in a process; when one of them ends, or at a signal, end the others. Return the first exit code
    that is not 0."""
    pids: list[int] = []
    for log, late in logs.items():
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)  # Ctrl-C reaches only the parent, which ends each child once
            return _serve_member(JOIN, arguments, log, late)
        pids.append(pid)

    are_ending = False

    def end_all(*_: object) -> None:
        nonlocal are_ending
        are_ending = True
        for pid in pids:
            os.kill(pid, signal.SIGTERM)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end_all)
    codes = []
    while pids:
        pid, status = os.wait()
        pids.remove(pid)
        codes.append(os.waitstatus_to_exitcode(status))
        if not are_ending:  # a second signal would end them without waiting for their jobs
            end_all()
    return next((abs(code) for code in codes if code), 0)
