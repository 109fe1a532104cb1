"""Wait until a log on a server has no writer (``poolbook serve -standby``)."""

from __future__ import annotations

import time
from collections.abc import Callable

from ...domain.ports.log import LogError, LogMissing, LogUnavailable
from ..stores.location import locate
from ..stores.log_paths import WriterLock
from ..stores.opening import follow_mark

POLL = 0.5  #: seconds between two attempts to become the writer


def stand_by(url: str, warn: Callable[[str], None]) -> WriterLock:
    """Return the lock of the log at `url` as soon as no other process holds it. Meanwhile, keep the log's mark here up
    to date, which reveals if a promoted server lacks events. Raise `LogError` if the log is not on a server, or
    disagrees with its mark."""
    if locate(url).kind != "postgresql":
        raise LogError(
            f"-standby: the log {url} is a file, which only one machine can serve safely; put the log in PostgreSQL "
            "(-log postgresql://db1,db2/pool)"
        )
    from ..stores.postgres import has_synchronous_standby

    lock, last, is_checked = WriterLock(url), "", False
    while True:
        try:
            if not is_checked and not has_synchronous_standby(locate(url).place):
                warn(
                    "warning: the log's server has no synchronous standby: a promoted standby may lack events that "
                    "were acknowledged; set synchronous_standby_names on the server"
                )
            is_checked = True
            if lock.take_in_turn():
                return lock
            text = f"standing by: process {lock.holder()} writes the log"
            follow_mark(url)
        except LogMissing:
            pass  # its first writer is just creating it
        except LogUnavailable as error:
            text = f"standing by: {error}"
        if text != last:
            warn(text)
        last = text
        time.sleep(POLL)
