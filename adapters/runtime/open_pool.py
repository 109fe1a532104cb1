"""Open a log for a pool; a new log gets its first event."""

from __future__ import annotations

import time
from collections.abc import Mapping

from ...domain.decide import Tables, decide
from ...domain.ports.log import Log, LogError
from ...domain.ports.stimuli import FoundPool
from ...domain.state.settings import SUPER_USERS, super_users
from ...domain.state.state import State
from ...domain.state_machines import DEFAULT_DIALECT
from ...replay.forensics.imported_log import is_imported
from ..machine.host import VERSION, host_name, user_name
from ..stores import open_log
from ..stores.location import shown


def open_pool_log(
    url: str,
    *,
    create: bool,
    dialect: str = DEFAULT_DIALECT,
    settings: Mapping[str, str] | None = None,
    name: str = "",
    uid_domain: str = "",
    now: int | None = None,
) -> Log:
    """Open the log at `url`, and begin it if it is new. Its first event fixes the pool's `dialect`, `settings` and
    names; for an existing log these arguments are ignored. Raise `LogError` if there is no log and `create` is not set,
    it cannot be opened, or it was imported, `Refusal` for a dialect or a
    setting that does not exist."""
    log = open_log(url, create=create)
    if log.head.position:
        return _of_a_pool(log, url)
    host = name or host_name()
    found = FoundPool("founding", host, dialect, uid_domain or host, VERSION, _in_force(settings or {}))
    at = time.time_ns() // 1000 if now is None else now
    try:
        log.append(decide(State(), found, at, Tables()))
    except BaseException:
        log.close()
        raise
    return log


def _in_force(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a new log. The user who begins it administers its pool."""
    founder = user_name()
    if SUPER_USERS in settings or founder in super_users({}):
        return dict(settings)
    return {**settings, SUPER_USERS: ", ".join((*sorted(super_users({})), founder))}


def _of_a_pool(log: Log, url: str) -> Log:
    """Return the log unless it was imported: its events are another pool's."""
    imported = True
    try:
        imported = is_imported(log)
    finally:
        if imported:
            log.close()
    if imported:
        raise LogError(
            f"{shown(url)} was imported from a real pool's records: it can be audited, not served; begin another "
            "log, or read this one (`Log.open` in a program)"
        )
    return log
