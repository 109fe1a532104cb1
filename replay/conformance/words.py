"""Words for a report."""

from __future__ import annotations

from datetime import UTC, datetime


def clock(at: int) -> str:
    """The time of day of an instant."""
    return f"{datetime.fromtimestamp(at // 1_000_000, UTC):%H:%M:%S}"


def short(name: str) -> str:
    """A slot's or submitter's name without its machine or domain."""
    return name.partition("@")[0]
