"""Parse a command's time options: a single time, or the window between the times of two options.

A time of day alone (3:00) means the most recent such time: before now or, in an imported log, before the end of its
records. As the end of a window it means the first such time after the start.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import tzinfo
from typing import TYPE_CHECKING, NamedTuple

from ...replay.listing.time_texts import is_clock, since
from ...replay.narration.formatting import EVER, instant
from ..condor_tools.options import ToolError, UsageError
from ..machine.local_time import local_time
from ..runtime.queries import LogBeginsLater, Queries

if TYPE_CHECKING:
    from ...domain.ports.log import EventStore
    from ..condor_tools.options import Arguments


class Window(NamedTuple):
    """The time from ``since`` (inclusive) to ``until`` (exclusive), in microseconds."""

    since: int
    until: int

    def words(self, zone: tzinfo) -> str:
        """Return the end of a sentence, such as " from ... until ..."; empty if the window covers all time."""
        begin = f" from {instant(self.since, zone)}" if self.since else ""
        return begin + (f" until {instant(self.until, zone)}" if self.until != EVER else "")


def instant_of(command: str, arguments: Arguments, name: str, log: EventStore, after: int | None = None) -> int | None:
    """Return the time given by an option, or None without the option. With `after`, a time of day is the first such
    time from then on. Raise `UsageError` for an invalid time."""
    option = arguments.last(name)
    return None if option is None else parse_instant(f"{command} -{name}", option.values[0], log, after)


def parse_instant(command: str, text: str, log: EventStore, after: int | None = None) -> int:
    """Parse a time as `instant_of` does."""
    now = time.time_ns() // 1000
    if is_clock(text) and after is None:
        from ...replay.forensics.imported_log import is_imported, time_span

        now = min(now, time_span(log)[1]) if is_imported(log) else now
    try:
        return since(text, now, local_time(), after)
    except ValueError as error:
        raise UsageError(f"poolbook {command}: {error}") from None


@contextmanager
def queries_at(command: str, arguments: Arguments, url: str) -> Iterator[Queries]:
    """Query a log as of the time of -at or, without this option, now. Raise `ToolError` within the context if the log
    begins later, `UsageError` if the time is invalid."""
    with Queries(url) as present:
        if not arguments.has("at"):
            yield present
            return
        at = instant_of(command, arguments, "at", present.log)
        with time_in_log(f"{command} -at"), Queries(url, present.log, at) as past:
            yield past


@contextmanager
def time_in_log(command: str) -> Iterator[None]:
    """Raise `ToolError` if the log begins after a time that is queried within the context."""
    try:
        yield
    except LogBeginsLater as error:
        began = instant(error.began, local_time())
        raise ToolError(f"poolbook {command}: the log begins at {began}: give a later time") from None


def window_of(command: str, arguments: Arguments, begin: str, end: str, log: EventStore) -> Window:
    """Return the window between two options; all time if neither was given. Raise `UsageError` if a time is invalid, or
    the window ends before it starts."""
    since = instant_of(command, arguments, begin, log)
    until = instant_of(command, arguments, end, log, since)
    window = Window(since or 0, EVER if until is None else until)
    if window.until <= window.since:
        times = f"{instant(window.since, local_time())} to {instant(window.until, local_time())}"
        raise UsageError(
            f"poolbook {command}: from {times} is an empty time span; -{end} must be later than -{begin} (a date "
            f"without a time is its midnight)"
        )
    return window
