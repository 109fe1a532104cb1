"""The events of a log, newest first and a page at a time. An event about several jobs has one row."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ...domain.state.job_procs import job_procs
from ...replay.listing.members import Member, StreamFilter, member_of, members, parse_filter
from ...replay.narration.formatting import EVER, counted, instant

if TYPE_CHECKING:
    from ...domain.events import Event
    from ..runtime.queries import Queries

_UPDATED: Final = "updated"  #: what an update of priorities is called
_CHUNK: Final = 2_000  #: events that are read at once
_OF_IMPORTING: Final = frozenset({"pool", "source"})  #: streams of an import with events of the program itself
_MOST_READ: Final = 20_000  #: events that are read for one page


class EventRow(Struct, frozen=True):
    """An event, or what an imported record says about a subject."""

    position: int
    at: int
    kind: str  #: the kind of ``thing`` if it has a page: job, cluster, slot, machine or user; else empty
    thing: str  #: a slot, job, machine or submitter; for several jobs, the cluster
    jobs: int  #: the number of jobs; 0: the event is not about several
    what: str  #: the number of a slot's transition, or what happened
    letter: str
    source: str
    target: str
    text: str  #: why, in words
    place: str  #: the location of the imported record; empty: the event was not imported


class EventPage(Struct, frozen=True):
    """Events, newest first. ``before`` continues with older events; 0: there are none."""

    sentence: str
    rows: list[EventRow]
    before: int


def event_page(
    queries: Queries, about: str = "", text: str = "", before: int = 0, limit: int = 200, priorities: bool = True
) -> EventPage:
    """Return the last events before a position, or by the time of the queries. Few events contain some texts, so a page
    with `text` can end early: then ``before`` continues.

    :param about: only events of this job, cluster, slot or stream; empty: all events
    :param text: only events whose row contains this text, in any case
    :param before: ``before`` of the previous page; 0: the first page
    :param priorities: whether to include updates of priorities, unless `about` names their stream
    :raises ValueError: `about` is invalid
    """
    stream = parse_filter(about) if about else None
    rows: list[EventRow] = []
    last, wanted = 0, text.lower()
    for position, row in _newest(queries, stream, before):
        last = position
        if row is not None and row.what == _UPDATED and not (priorities or about):
            continue
        if row is not None and (not wanted or _contains(row, wanted)):
            rows.append(row)
        if len(rows) == limit:
            break
    else:
        last = 0 if stream is not None or queries.imported else last
    return EventPage(_sentence(rows, about, text), rows, last if last > 1 else 0)


def _sentence(rows: list[EventRow], about: str, text: str) -> str:
    which = f"{f' of {about}' if about else ''}{f' that contain “{text}”' if text else ''}"
    if not rows:
        return f"No events{which} by this time."
    if len(rows) == 1:
        return f"One event{which}, at {instant(rows[0].at)}."
    return f"{counted(len(rows), 'event')}{which}, from {instant(rows[-1].at)} to {instant(rows[0].at)}."


def _contains(row: EventRow, wanted: str) -> bool:
    return wanted in f"{row.thing} {row.what} {row.source} {row.target} {row.text} {row.place}".lower()


def _newest(queries: Queries, stream: StreamFilter | None, before: int) -> Iterator[tuple[int, EventRow | None]]:
    """Yield the rows of events, newest first, each with the value of ``before`` that continues after it."""
    if queries.imported:
        yield from _newest_imported(queries, stream, before)
    elif stream is not None:
        events = queries.log.read_back(stream.stream, before or None)
        yield from ((position, _row(position, event, stream.proc)) for position, event in events)
    else:
        end, read = (before or queries.log.head.position + 1) - 1, 0
        while end > 0 and read < _MOST_READ:
            begin = max(0, end - _CHUNK)
            for position, event in reversed(list(queries.log.read(begin, end - begin))):
                yield position, _row(position, event, None)
            read, end = read + end - begin, begin


def _newest_imported(queries: Queries, stream: StreamFilter | None, before: int) -> Iterator[tuple[int, EventRow]]:
    place = queries.places()
    rows = _imported_members(queries.url, queries.log.head.position, stream)
    end = len(rows) if queries.at is None else bisect_right(rows, queries.at, key=lambda member: member.at)
    for index in range((before or end + 1) - 2, -1, -1):
        yield index + 1, _row_of(rows[index], place)


def recorded_times(queries: Queries) -> tuple[int, int]:
    """Return the times of the first and the last record of an import, in microseconds; 0 if it has none."""
    rows = [row.at for row in _imported_members(queries.url, queries.log.head.position, None) if row.at]
    return (rows[0], rows[-1]) if rows else (0, 0)


@lru_cache(maxsize=2)
def _imported_members(url: str, position: int, stream: StreamFilter | None) -> list[Member]:
    """Return the members of an import, which has `position` events, in the order of time, without the events of the
    import program."""
    from ..runtime.queries import Queries

    with Queries(url) as queries:
        members = [
            member
            for member in queries.entries(stream, 0, EVER)
            if member.stream.partition("/")[0] not in _OF_IMPORTING
        ]
    return sorted(members, key=lambda member: member.at)


_KINDS: Final = {"slot": "slot", "machine": "machine", "submitter": "user"}
_JOB: Final = re.compile(r"\d+(\.\d+)?", re.ASCII)


def kind_of(stream: str, name: str) -> str:
    """Return the kind of thing of an event's subject, if it has a page; else an empty string."""
    if _JOB.fullmatch(name):
        return "job" if "." in name else "cluster"
    return _KINDS.get(stream.partition("/")[0], "")


def _row(position: int, event: Event, proc: int | None) -> EventRow | None:
    """Return the row of an event, or None if it is not about the process."""
    if proc is not None:
        member = member_of(position, event, proc)
        return None if member is None else _row_of(member)
    member = next(members(position, event), None)
    if member is None:
        return None
    cluster, procs = job_procs(event) or (0, ())
    jobs = sum(last - first + 1 for first, last in procs)
    return _row_of(member) if jobs < 2 else _row_of(member, thing=str(cluster), jobs=jobs)


def _row_of(member: Member, place: Callable[[str], str] | None = None, thing: str = "", jobs: int = 0) -> EventRow:
    if member.cause == "reported":
        text = member.details
    else:
        text = f"{member.cause_text} ({member.details})" if member.details else member.cause_text
    where = place(member.stimulus) if place is not None else ""
    name = thing or member.thing
    return EventRow(
        member.position, member.at, kind_of(member.stream, name), name, jobs, member.what, member.letter, member.source,
        member.target, text, where,
    )  # fmt: skip
