"""Parse times as users write them. (A separate module, because most commands with times need nothing else of this
package.)"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

_SECONDS = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86_400,
            "day": 86_400, "w": 604_800, "week": 604_800}  # fmt: skip
_AGO = re.compile(r"-?(\d+(?:\.\d+)?)\s*([a-z]+?)s?(?:\s+ago)?", re.ASCII)
_CLOCK = re.compile(r"(\d\d?):(\d\d)(?::(\d\d))?", re.ASCII)
_DAYS = {"today": 0, "yesterday": 1}
_DAY = 86_400_000_000


def is_clock(text: str) -> bool:
    """Return True if a text is only a time of day."""
    return _CLOCK.fullmatch(text.strip()) is not None


def since(text: str, now: int, zone: tzinfo = UTC, after_time: int | None = None) -> int:
    """Parse an instant into microseconds: a date or time in ISO 8601 (in `zone`, unless it contains an offset); a time
    before `now`, such as "10 min" or "-2h"; "today" or "yesterday" (midnight); or a time of day such as 3:00, which is
    the last one before `now` or, with `after_time`, the first one since then. Raise ValueError if it is invalid."""
    lower = text.strip().lower()
    ago_match, clock = _AGO.fullmatch(lower), _CLOCK.fullmatch(lower)
    if ago_match and ago_match[2] in _SECONDS:
        return now - round(float(ago_match[1]) * _SECONDS[ago_match[2]] * 1_000_000)
    reference = now if after_time is None or not clock else after_time
    day = datetime.fromtimestamp(reference // 1_000_000, zone).replace(hour=0, minute=0, second=0)
    try:
        if clock:
            time = day.replace(hour=int(clock[1]), minute=int(clock[2]), second=int(clock[3] or 0))
        else:
            time = day - timedelta(_DAYS[lower]) if lower in _DAYS else datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time: give a date and time (2027-01-15T08:00), a time (3:00), today, yesterday or "
            "how long ago (10 min, 2 h, 3 days)"
        ) from None
    at = round((time if time.tzinfo else time.replace(tzinfo=zone)).timestamp() * 1_000_000)
    if not clock:
        return at
    return at - _DAY * (at > now) if after_time is None else at + _DAY * (at < after_time)
