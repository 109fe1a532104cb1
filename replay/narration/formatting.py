"""Format instants, intervals and amounts for users."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo

EVER = 1 << 62  #: an instant after all others
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def instant(at: int, zone: tzinfo = UTC) -> str:
    """Format an instant (microseconds since the epoch) as date and time in `zone`, with milliseconds if they are not 0.
    An instant outside of the calendar is returned as a number."""
    try:
        time = (_BEGIN + timedelta(microseconds=at)).astimezone(zone)
    except (OverflowError, ValueError):
        return f"{at} us"
    return time.replace(tzinfo=None).isoformat(" ", "milliseconds" if at % 1_000_000 else "seconds")


def iso(at: int) -> str:
    """Format an instant (microseconds since the epoch) in ISO 8601 (UTC), with microseconds."""
    try:
        return (_BEGIN + timedelta(microseconds=at)).replace(tzinfo=None).isoformat("T", "microseconds") + "Z"
    except (OverflowError, ValueError):
        return str(at)


def interval(duration: int) -> str:
    """Format a duration in microseconds with its two largest units: "1 h 5 min", "30 s", "0.25 s"."""
    seconds = duration / 1_000_000
    if seconds < 60:
        return f"{seconds:.2f}".rstrip("0").rstrip(".") + " s"
    remaining, parts = round(seconds), []
    for size, name in _UNITS:
        count, remaining = divmod(remaining, size)
        if count:
            parts.append(f"{count} {name}")
    if remaining:
        parts.append(f"{remaining} s")
    return " ".join(parts[:2])


def memory(kib: int) -> str:
    """Format an amount in KiB in KiB, MiB or GiB."""
    for size, name in ((1 << 20, "GiB"), (1 << 10, "MiB")):
        if kib >= size:
            return f"{kib / size:.1f} {name}"
    return f"{kib} KiB"


def counted(count: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun: "1 job", "3 jobs"."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def excerpt(text: str, length: int = 1000) -> str:
    """Return a text, or if it is longer than `length`, its beginning and the number of characters that follow."""
    return text if len(text) <= length else f"{text[:length]}... ({counted(len(text) - length, 'more character')})"


def shorten_text(text: str, length: int = 100) -> str:
    """Return a text, cut to at most `length` characters."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


def resources(cpu: int, resident: int) -> str:
    """Format a job's CPU time (microseconds) and resident memory (KiB), without zeros."""
    usage_parts = [f"CPU {interval(cpu)}"] if cpu else []
    return ", ".join([*usage_parts, *([f"memory {memory(resident)}"] if resident else [])])


def by_row(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the rows of a transition table and their counts in the order of the rows' numbers: 9, 10, 10a."""
    return sorted(counts.items(), key=lambda item: (int("0" + re.split("[^0-9]", item[0])[0]), item[0]))
