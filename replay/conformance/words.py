"""Format instants and names for a report."""

from __future__ import annotations

from datetime import UTC, datetime


def clock(at: int) -> str:
    """Return the time of day of an instant."""
    return f"{datetime.fromtimestamp(at // 1_000_000, UTC):%H:%M:%S}"


def short(name: str) -> str:
    """Return a slot's or submitter's name without its machine or domain."""
    return name.partition("@")[0]
