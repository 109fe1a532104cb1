"""Decide which measurements of a run's resource usage are worth an event."""

from __future__ import annotations

from collections.abc import Iterable

from ..units import SECOND

NOTABLE_SHARE, NOTABLE_KIB = 10, 1024
"""A changed size is logged if it differs by more than a tenth and by more than 1 MiB."""


def is_notable(before: Iterable[int], now: Iterable[int], elapsed: int, every: int) -> bool:
    """Return True if a measurement is to be logged: a size, in KiB, has changed, or the last logged one is too old.

    :param elapsed: the microseconds since the last logged measurement
    :param every: the seconds after which a measurement is logged even if only CPU time changed
    """
    if elapsed >= every * SECOND:
        return True
    return any(abs(new - old) > max(old // NOTABLE_SHARE, NOTABLE_KIB) for old, new in zip(before, now, strict=True))
