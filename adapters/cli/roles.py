"""``poolbook serve`` and ``poolbook join``: serve a pool until stopped, or one role of a pool whose roles have separate
logs."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...domain.state.peers import ACCESS_POINT, EXECUTION_POINT, MANAGER
from ...domain.state.pool_settings import FILESYSTEM_DOMAIN
from ...domain.state_machines import HTCONDOR_25
from ..bounded_text import read_input, read_text
from ..condor_tools.options import Arguments, ToolError, ToolSyntax, UsageError, command_table, last_number, parse
from ..machine.host import host_name, user_name
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
    from ..https.requests import Record
    from ..https.service import HttpsService
    from ..machine.execution.activation import LaunchRequest
    from ..runtime.pool_server import PoolServer
    from ..security.pool_security import PoolSecurity

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
    option = arguments.last("listen", "broker-port", "nats", "credentials")
    if option is not None and not role:
        raise UsageError(f"{option.spelling}: use this option only with -role manager")
    preload_modules()
    if role:
        return _serve_manager(arguments, url)
    if MemberFiles(log_paths(url).base).exist():
        return _serve_member(SERVE, arguments, url)
    with closing(open_server(SERVE, arguments, is_measured=True)) as server:
        return serve_until_stopped(server, arguments, safe_url(url))


# The manager


def _serve_manager(arguments: Arguments, url: str) -> int:
    listen = arguments.value("listen")
    if not listen:
        raise UsageError("-role manager: name the address for the other roles, such as -listen 0.0.0.0:9618")
    with _with_extra():
        from ..https.service import Address, HttpsService
    dialect = arguments.value("dialect", HTCONDOR_25.name)
    try:
        address = Address.parse(listen)
    except ValueError as error:
        raise UsageError(f"-listen: {error}") from None
    broker = _other_broker(arguments) or last_number(SERVE, arguments, "broker-port", least=1) or 0
    separate = SeparateRole(MANAGER, host_name(), dialect)
    with (
        closing(HttpsService(address)) as service,
        closing(open_server(SERVE, arguments, separate=separate)) as server,
        closing(_services(service, server, arguments, broker)) as services,
    ):
        server.connect(services.start())
        server.start_serving()
        where = f"the manager of the pool {server.engine.state.name} in {safe_url(url)} at {services.url}"
        return serve_until_stopped(server, arguments, where, "running jobs and the broker continue")


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
            "-nats and -credentials belong together: the NATS server, and the account in which roles use it"
        )
    return OtherBroker(url, Path(path))


# The other roles


def join(argv: Sequence[str]) -> int:
    arguments = parse(JOIN, argv)
    if len(arguments.words) not in (0, 2):
        raise UsageError("poolbook join: name the manager's URL and a token: poolbook join https://HOST:PORT TOKEN")
    roles = [role.strip() for role in arguments.value("role", EXECUTION_POINT).split(",")]
    if not set(roles) <= set(_JOINING) or len(set(roles)) < len(roles):
        raise UsageError(f"-role {arguments.value('role')}: use {' or '.join(_JOINING)}, or both separated by a comma")
    logs = _logs(roles, selected_log(arguments))
    with _with_extra():
        for role, log in zip(roles, logs, strict=True):
            _join(arguments, role, log)
    if len(logs) == 1:
        return _serve_member(JOIN, arguments, logs[0])
    return _serve_each(arguments, logs)


def _logs(roles: Sequence[str], url: str) -> list[str]:
    """Return each role's log: the first has the named one, and others have the role in their names."""
    if len(roles) > 1 and locate(url).kind != "sqlite":
        raise UsageError("-log: several roles need log files; start a command for each role to use other logs")
    path = Path(url)
    return [url, *(str(path.with_name(f"{path.stem}.{role}{path.suffix}")) for role in roles[1:])]


def _join(arguments: Arguments, role: str, log: str) -> None:
    """Join the pool for a role. A role that has joined before continues if the manager cannot be reached now, or if the
    token has expired since."""
    from ..https.client import ManagerError
    from ..https.joining import join as join_pool
    from ..https.membership import MemberFiles

    files = MemberFiles(log_paths(log).base)
    if not arguments.words:
        if not files.exist():
            raise UsageError(
                f"poolbook join: {log} has not joined a pool yet; use poolbook join https://HOST:PORT TOKEN"
            )
        return
    url, token = arguments.words[0], _token(arguments.words[1])
    try:
        join_pool(url, token, role, arguments.value("name", host_name()), files)
    except ManagerError as error:
        if error.status not in (0, 401, 429) or not files.exist():
            raise
        print(f"poolbook: warning: {error}; continuing as the member that joined before", file=sys.stderr)


def _token(word: str) -> str:
    """Return the token: the word itself, or the first in the file that it names (`-`: standard input)."""
    text = read_input() if word == "-" else read_text(word) if os.path.exists(word) else word
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines or lines[0].count(".") != 2:
        raise UsageError("poolbook join: the second argument must be a token, the name of a file with one, or -")
    return lines[0]


def _serve_member(command: ToolSyntax, arguments: Arguments, url: str) -> int:
    with _with_extra():
        from ..fabric.second_path import AccessPointPaths, ExecutionPointPaths
        from ..https.joining import Renewal
        from ..https.membership import MemberFiles
    files = MemberFiles(log_paths(url).base)
    membership = files.read()
    terms, is_measured = membership.terms, membership.role == EXECUTION_POINT
    settings = {**terms.settings, FILESYSTEM_DOMAIN: host_name()}  # roles on several machines share no files
    separate = SeparateRole(membership.role, membership.name, terms.dialect, terms.uid_domain, settings)
    server = open_server(command, arguments, is_measured=is_measured, url=url, separate=separate)
    with closing(server):
        broker = files.carrier()
        if membership.role == ACCESS_POINT:
            record = _recorder(server)
            commands = _commands(server, arguments, url, record)
            carrier = AccessPointPaths(broker)
            server.connect(carrier).offer_files(
                lambda request_of: _file_service(files, membership, request_of, carrier.exchange, commands, record)
            )
        else:
            if os.geteuid():
                server.warn(
                    f"warning: the jobs of all users run as {user_name()}, since only root can run them as others"
                )
            elif not arguments.has("users"):
                server.warn("warning: jobs of the user root run as root here; -users refuses them")
            paths = ExecutionPointPaths(broker, membership.name, files.folder / "access-points.json")
            server.connect(paths).learn_paths(paths.learn)
        server.start_serving()
        with closing(Renewal(files, broker, server.warn)):
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

    folder = files.folder / "files"
    return FileService(
        folder, membership.name, request_of, membership.url, files.authority, files.proof, exchange, commands, record
    )


def _serve_each(arguments: Arguments, logs: Sequence[str]) -> int:
    """Serve each log in a process; when one of them ends, or at a signal, end the others. Return the first exit code
    that is not 0."""
    pids: list[int] = []
    for log in logs:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)  # Ctrl-C reaches only the parent, which ends each child once
            return _serve_member(JOIN, arguments, log)
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
