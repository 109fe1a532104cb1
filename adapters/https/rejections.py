"""Collects rejected requests for the log, so that no attacker can fill it.

The first rejected request of a sender, for a reason, is recorded at once. Further ones are counted, and recorded
together at the end of the hour (if the role stops, that count is lost). Each hour only some senders are recorded
separately; the others share an event.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock, Timer
from typing import Final

from msgspec.structs import replace

from ...domain.ports.stimuli import RejectedRequests
from .requests import Rejection

_INTERVAL_S: Final = 3600
_MOST_SENDERS: Final = 50  #: senders and reasons that are recorded separately in an interval
_LONGEST_TEXT: Final = 500
_LONGEST_NAME: Final = 200

Key = tuple[str, str, str]


class Rejections:
    """The rejected requests of a service. Any thread may record some.

    :param report: called, in any thread, with what the log must record
    """

    def __init__(self, report: Callable[[RejectedRequests], None]) -> None:
        self._report = report
        self._lock = Lock()
        self._counted: dict[Key, RejectedRequests] = {}
        self._timer: Timer | None = None

    def record(self, rejection: Rejection) -> None:
        key = (rejection.address, rejection.subject[:_LONGEST_NAME], rejection.reason)
        text = rejection.message[:_LONGEST_TEXT]
        with self._lock:
            if key not in self._counted and len(self._counted) >= _MOST_SENDERS:
                key, text = ("", "", ""), "requests of further senders, for any reason"
            now = time.time_ns() // 1000
            known = self._counted.get(key)
            if known is None:
                self._report(RejectedRequests(*key, text, 1, now))
                self._counted[key] = RejectedRequests(*key, text, 0, now)
            else:
                since = known.since if known.count else now
                self._counted[key] = replace(known, count=known.count + 1, since=since)
            if self._timer is None:
                self._timer = Timer(_INTERVAL_S, self._end_interval)
                self._timer.daemon = True
                self._timer.start()

    def _end_interval(self) -> None:
        """Report what was counted."""
        with self._lock:
            for counted in self._counted.values():
                if counted.count:
                    self._report(counted)
            self._counted.clear()
            self._timer = None
