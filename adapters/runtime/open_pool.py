"""Open a log for a pool as its only writer, and write the first event of a new log."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Mapping

from ...domain.decide import Tables, decide
from ...domain.events import PoolFounded
from ...domain.ports.log import AlreadyServed, EventStore, LogError
from ...domain.ports.stimuli import FoundPool
from ...domain.state.peers import MANAGER
from ...domain.state.pool_settings import SUPER_USERS, super_users
from ...domain.state.state import State
from ...domain.state_machines import DEFAULT_DIALECT
from ...replay.forensics.imported_log import is_imported
from ..machine.host import VERSION, host_name, user_name
from ..stores.location import safe_url
from ..stores.log_id import new_log_id
from ..stores.log_paths import MemoryLock, WriterLock
from ..stores.opening import open_log


def take_in_turn(
    lock: WriterLock | MemoryLock, url: str, wait: float, hopeless: Callable[[], bool] = lambda: False
) -> None:
    """Lock the log at `url` for writing. Raise `AlreadyServed` if that takes longer than `wait` seconds or `hopeless`
    returns True, `LogError` if the lock file cannot be created."""
    until = time.monotonic() + wait
    try:
        while not lock.take_in_turn():
            remaining = until - time.monotonic()
            if remaining <= 0 or hopeless():
                raise AlreadyServed(_in_use(safe_url(url), lock.holder()))
            if lock.holder() == str(os.getpid()):
                gc.collect()  # the pool that holds the lock may be unreachable garbage in this process
            time.sleep(min(0.02, remaining))
    except BaseException as error:
        lock.give_up()
        if isinstance(error, FileNotFoundError):
            folder = os.path.dirname(error.filename)
            reason = f"its directory {folder} does not exist; create it first"
            raise LogError(f"{safe_url(url)} cannot be created: {reason}") from None
        if isinstance(error, OSError):
            raise LogError(f"{error.filename} cannot be written: {error.strerror}; a writer needs this file") from None
        raise


def _in_use(url: str, holder: str) -> str:
    if holder == str(os.getpid()):
        return (
            f"this process ({holder}) has the log {url} open in another pool, and a log can have only one writer: "
            f"use that pool, which threads can share, or close it first"
        )
    return (
        f"process {holder} already serves the log {url}, or has it open in a pool, and a log can have only one "
        f"writer. Close the log there, wait longer (`Pool.open(..., wait=60)`), or name another log (-log); commands "
        "such as `poolbook submit` send their requests to a server, and `Log.open` reads the log meanwhile"
    )


def open_pool_log(
    url: str,
    *,
    create: bool,
    dialect: str = DEFAULT_DIALECT,
    settings: Mapping[str, str] | None = None,
    name: str = "",
    uid_domain: str = "",
    role: str | None = None,
    now: int | None = None,
) -> EventStore:
    """Open the log at `url`, and write its first event if it is new. This event fixes the pool's `dialect`, `settings`
    and names, so these arguments are ignored for an existing log. `role` is the only role of the log, in a pool whose
    roles have separate logs; empty: the log has all roles; None: an existing log may have any. Raise `LogError` if the
    log was imported, has another role, cannot be opened, or is missing without `create`; `Refusal` for an unknown
    dialect or setting."""
    log = open_log(url, create=create)
    if log.head.position:
        return _checked(log, url, role)
    host = name or host_name()
    in_force = _initial_settings(settings or {})
    command = FoundPool(
        "founding", host, dialect, uid_domain or host, VERSION, in_force, new_log_id(), (role,) if role else ()
    )
    at = time.time_ns() // 1000 if now is None else now
    try:
        log.append(decide(State(), command, at, Tables()))
    except BaseException:
        log.close()
        raise
    return log


def _initial_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a new log. The user who creates it administers its pool."""
    founder = user_name()
    if SUPER_USERS in settings or founder in super_users({}):
        return dict(settings)
    return {**settings, SUPER_USERS: ", ".join((*sorted(super_users({})), founder))}


def _checked(log: EventStore, url: str, role: str | None) -> EventStore:
    """Return the log. Raise `LogError` if it was imported, or is the log of another role."""
    try:
        if is_imported(log):
            raise LogError(
                f"{safe_url(url)} was imported from an HTCondor pool: it can be audited, but not served; create "
                f"another log, or read this one (`Log.open` in a program)"
            )
        ((_, founded),) = log.read(0, 1)
        roles = founded.roles if isinstance(founded, PoolFounded) else ()
        if role is not None and roles != ((role,) if role else ()):
            raise LogError(_other_role(safe_url(url), roles))
    except BaseException:
        log.close()
        raise
    return log


def _other_role(url: str, roles: tuple[str, ...]) -> str:
    if not roles:
        return f"{url} is the log of a pool on one machine: name another log for a role of a pool on several (-log)"
    how = "`poolbook serve -role manager -listen HOST:PORT`" if roles == (MANAGER,) else "`poolbook join`"
    return f"{url} is the log of the role {roles[0]} of a pool: {how} serves it"
