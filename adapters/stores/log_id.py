"""The id of a log: chosen when the log begins, and kept in its first event.

So the seal covers the id, every store and every copy has it, and no append pays for it. The first event of an older log
names none: the id of such a log is the beginning of its first digest, computed whenever it is asked for.
"""

from __future__ import annotations

import os

from ...domain.events import PoolFounded
from ...domain.ports.log import ID_LENGTH, EventStore


def new_log_id() -> str:
    """Return an id for a new log, unlike any other."""
    return os.urandom(ID_LENGTH // 2).hex()


def chosen_id(log: EventStore) -> str:
    """Return the id that was chosen when `log` began; empty if none was, or it has no events. Raise as ``read``."""
    _, first = next(log.read(0, 1), (0, None))
    return first.log if isinstance(first, PoolFounded) else ""
