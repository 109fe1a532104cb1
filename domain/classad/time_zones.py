"""Time zones by their names."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

_OFFSET = re.compile(r"(?:UTC)?[+-]\d\d:?\d\d", re.ASCII)


def zone_of(name: str) -> tzinfo:
    """Return the zone for a name like "Europe/Madrid", "UTC" or "+02:00". Raise ValueError for an unknown name."""
    if name in ("UTC", "Z"):
        return UTC
    try:
        if _OFFSET.fullmatch(name):
            return datetime.strptime(name.removeprefix("UTC"), "%z").tzinfo or UTC
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        raise ValueError(f"unknown time zone {name!r}: use a name like Europe/Madrid, UTC or +02:00") from None
