"""Units of time. Instants and durations are counted in microseconds, HTCondor's settings and attributes in seconds."""

from __future__ import annotations

from typing import Final

SECOND: Final = 1_000_000  #: microseconds

HOUR: Final = 3600  #: seconds
DAY: Final = 24 * HOUR
