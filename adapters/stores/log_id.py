"""The id of a log: chosen when the log is created, and stored in its first event.

So the seal covers the id, every store and every backup contains it, and appends do not become slower. The first event
of an older log has no id; the id of such a log is the start of its first digest.
"""

from __future__ import annotations

import os

from ...domain.events import PoolFounded
from ...domain.ports.log import ID_LENGTH, EventStore


def new_log_id() -> str:
    return os.urandom(ID_LENGTH // 2).hex()


def chosen_id(log: EventStore) -> str:
    """Return the id in the first event of `log`, or an empty string if the event has no id or the log is empty. Raise
    the same exceptions as ``read``."""
    _, first = next(log.read(0, 1), (0, None))
    return first.log if isinstance(first, PoolFounded) else ""
