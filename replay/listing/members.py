"""The members of events, each with one line, and the members of a log or a part of a log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, tzinfo
from itertools import chain

from attrs import evolve, frozen

from ...domain import events as e
from ...domain.ports.log import EventStore
from ...domain.state.job_procs import job_procs
from ...domain.state.peers import ACCESS_POINT, MANAGER, ROLES
from ..narration.formatting import EVER, instant, iso
from ..narration.sentence_tables import cause_words
from .event_lines import MANY_JOBS, OF_JOBS, Row, rows_by_subject


@frozen
class Member:
    """The part of an event about one subject. ``thing`` is a slot's name, a job's id, or similar; ``what`` is a
    transition's number or row, or else what happened; ``source`` and ``target`` are empty if there is no transition."""

    position: int
    index: int
    is_one_of_several: bool  #: whether its event has, or could have, several members
    at: int
    stream: str
    thing: str
    what: str
    letter: str
    source: str
    target: str
    cause: str
    details: str
    stimulus: str

    @property
    def number(self) -> str:
        """The member's position as displayed: "31", or "31.4" in an event with several members."""
        return f"{self.position}.{self.index}" if self.is_one_of_several else str(self.position)

    @property
    def cause_text(self) -> str:
        """A description of the cause."""
        return cause_words(self.cause, self.what)


def members(position: int, event: e.Event) -> Iterator[Member]:
    """Yield the members of the event at `position`."""
    if isinstance(event, e.JobsLogged):
        yield from _entries(position, event)
        return
    for index, (subject, row) in enumerate(rows_by_subject(event)):
        yield _member(position, index, event, subject, row)


def _member(position: int, index: int, event: e.Event, subject: str, row: Row) -> Member:
    return Member(
        position, index, isinstance(event, (*MANY_JOBS, e.CycleHeld)), event.at, event.stream, subject, row.what,
        row.letter, row.source, row.target, event.cause, row.details, event.stimulus,
    )  # fmt: skip


def _entries(position: int, event: e.JobsLogged) -> Iterator[Member]:
    for index, entry in enumerate(event.logged()):
        for member in members(position, entry):
            yield evolve(member, index=index, is_one_of_several=True)


def member_of(position: int, event: e.Event, proc: int) -> Member | None:
    """Return an event's member for one process, without creating the other members, or None if it has none."""
    jobs = job_procs(event)
    if jobs is None or type(event) not in OF_JOBS:
        return None
    cluster, procs = jobs
    index = 0
    for first, last in procs:
        if first <= proc <= last:
            row = OF_JOBS[type(event)](event)
            return _member(position, index + proc - first, event, f"{cluster}.{proc}", row)
        index += last - first + 1
    return None


def line(member: Member, zone: tzinfo = UTC, place: str = "") -> str:
    """Return the member's line in a listing, with times in `zone`. `place`: the location of the event's record."""
    move_text = f"{member.source} -> {member.target}".strip() if member.target else ""
    details = f"{member.cause_text} ({member.details})" if member.details else member.cause_text
    if member.cause == "reported":  # the record's location shows who reported it
        details = member.details
    text = (
        f"{member.number:>8}  {instant(member.at, zone)}  {member.thing:<16} {member.what:<10} {member.letter:<1} "
        f"{move_text:<40} {details} [{place or member.stimulus}]"
    )
    return text.rstrip()


def as_dict(member: Member, place: str = "") -> dict[str, object]:
    """Return a member for ``-json``: every field, with the instant in ISO 8601 (UTC), and the cause's description."""
    return ({"place": place} if place else {}) | {
        "position": member.position, "index": member.index, "at": iso(member.at), "stream": member.stream,
        "thing": member.thing, "what": member.what, "letter": member.letter, "source": member.source,
        "target": member.target, "cause": member.cause, "words": member.cause_text, "details": member.details,
        "stimulus": member.stimulus,
    }  # fmt: skip


def members_between(
    events: Iterable[tuple[int, e.Event]], begin: int = 0, proc: int | None = None, end: int = EVER
) -> Iterator[Member]:
    """Return the members of `events` from the instant `begin`, before `end` (default: of all processes)."""
    recent = ((position, event) for position, event in events if begin <= event.at < end or type(event) is e.JobsLogged)
    if proc is None:
        selected = chain.from_iterable(members(position, event) for position, event in recent)
    else:
        selected = chain.from_iterable(_of_proc(position, event, proc) for position, event in recent)
    return (member for member in selected if begin <= member.at < end)


def _of_proc(position: int, event: e.Event, proc: int) -> Iterator[Member]:
    if isinstance(event, e.JobsLogged):  # it may have several entries for one process
        subject = f"{event.cluster}.{proc}"
        return (member for member in _entries(position, event) if member.thing == subject)
    member = member_of(position, event, proc)
    return iter(() if member is None else (member,))


def entries(log: EventStore, stream: StreamFilter | None = None, begin: int = 0, end: int = EVER) -> Iterator[Member]:
    """Return the members of a log's events, from `begin`, before `end`. With `stream`, read only this stream."""
    if stream is None:
        return members_between(log.read(), begin, end=end)
    return members_between(log.read_stream(stream.stream), begin, stream.proc, end)


# Select events, and the time from which to list them, as users specify them


@frozen
class StreamFilter:
    """A stream of the log, or a single process of a cluster's stream."""

    stream: str
    proc: int | None = None


_NAMED_STREAMS = ("pool", "requests", "evidence", "negotiator", "accountant", "defrag", "daemons", "had", "schedd")
# What users may write, and the stream that it selects; the first match is used.
_STREAM_PATTERNS = (
    (re.compile(r"(?:cluster/)?(\d+)\.(\d+)", re.ASCII), "cluster/{}"),
    (re.compile(r"(?:cluster/)?(\d+)", re.ASCII), "cluster/{}"),
    (re.compile(rf"({'|'.join(_NAMED_STREAMS)})"), "{}"),
    (re.compile(r"((?:slot|machine|submitter|peer|source|ads|table)/.+)"), "{}"),
    (re.compile(rf"({MANAGER}|(?:{'|'.join(ROLES)})/.+)"), "peer/{}"),
    (re.compile(r"([^/]+@.+)"), "slot/{}"),
)


def parse_filter(text: str) -> StreamFilter:
    """Parse a filter: a slot, a cluster, a job, or the name of a stream. Raise ValueError if it is invalid."""
    for pattern, stream in _STREAM_PATTERNS:
        match = pattern.fullmatch(text)
        if match:
            stream_name, *proc = match.groups()
            number = str(int(stream_name)) if stream == "cluster/{}" else stream_name
            return StreamFilter(stream.format(number), int(proc[0]) if proc else None)
    raise ValueError(
        f"{text!r} is not the name of a stream: give a job (3.1), a cluster (3), a slot (slot1@host), "
        f"machine/NAME, submitter/NAME, a role ({MANAGER}, {ACCESS_POINT}/NAME), or one of "
        f"{', '.join(_NAMED_STREAMS)}; for an imported log also source/1, "
        "ads/history, table/queue and similar streams"
    )
