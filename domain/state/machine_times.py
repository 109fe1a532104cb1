"""The local times of machines: ClockMin and ClockDay use the slot's machine's clock, wherever they are read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from ..classad import Context
from ..classad.time_zones import zone_of

ZONE: Final = "TimeZone"
"""The attribute of a machine's ad with the name of its time zone. Older logs and simulated machines lack it."""


def machine_context(slot: Mapping[str, str], context: Context) -> Context:
    """Return a context with the local time of a slot's machine; ``context`` itself if the slot's ad has no zone."""
    return _context_of(slot.get(ZONE, "")) or context


@lru_cache(1000)
def _context_of(text: str) -> Context | None:
    try:
        return Context(now=0, timezone=zone_of(text.strip('"'))) if text else None
    except ValueError:
        return None
