"""The time zones of machines: ClockMin and ClockDay are local times of the slot's machine, wherever they are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from .context import Context

ZONE: Final = "TimeZone"
"""The attribute of a machine's ad with the name of its time zone. Older logs and simulated machines lack it."""
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


def machine_context(slot: Mapping[str, str], context: Context) -> Context:
    """Return a context with the local time of a slot's machine; ``context`` itself if the slot's ad has no zone."""
    return _context_of(slot.get(ZONE, "")) or context


@lru_cache(1000)
def _context_of(text: str) -> Context | None:
    try:
        return Context(now=0, timezone=zone_of(text.strip('"'))) if text else None
    except ValueError:
        return None
