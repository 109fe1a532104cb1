"""Opening a log for a pool: one that is new gets its first event."""

from __future__ import annotations

import time
from collections.abc import Mapping

from ..domain.decide import Tables, decide
from ..domain.decide.stimuli import Found
from ..domain.dialects import DEFAULT_DIALECT
from ..domain.lifecycle import job_machine, slot_machine
from ..domain.log import Log
from ..domain.state import State
from .facts import VERSION, host_name
from .stores import open_log


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
    """The log at `url`, begun if it is new. What a pool is called and how it works is settled in its first event:
    `dialect`, `settings` and names count for a new log only.

    :raises LogError: there is no log and `create` is not set, or it cannot be opened
    :raises Refusal: a dialect or a setting that does not exist
    """
    log = open_log(url, create=create)
    if log.head.position:
        return log
    host = name or host_name()
    found = Found("founding", host, dialect, uid_domain or host, VERSION, dict(settings or {}))
    at = time.time_ns() // 1000 if now is None else now
    try:
        tables = Tables(slot_machine(DEFAULT_DIALECT), job_machine(DEFAULT_DIALECT))
        log.append(decide(State(), found, at, tables))
    except BaseException:
        log.close()
        raise
    return log
