"""Why a job or slot is in its state, the events of the log, and the jobs that have left the queue."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta, Struct

from ...domain.events import Event
from ...replay.listing import members as listing
from ...replay.narration.formatting import EVER
from ..machine.local_time import local_time
from .ads import (
    Constraint,
    IdCursor,
    Limit,
    PageToken,
    Projection,
    as_json,
    condition_of,
    decode_cursor,
    encode_cursor,
    names_of,
)
from .endpoints import Ad, AtTime, Endpoint
from .job_actions import JobId
from .jobs import context_of, find_job
from .pool_access import Call, instant_of

if TYPE_CHECKING:
    from ...domain.classad import ClassAd

_MOST_EVENTS: Final = 10_000
_MOST_RECORDS: Final = 10_000
_TYPE: Final = "(INPUT|OUTPUT|CHECKPOINT|input|output|checkpoint)"
_TIME: Final = "a date and time (2027-01-15T08:00Z), or how long ago (10 min)"


class WhyQuery(AtTime, frozen=True, kw_only=True):
    name: Annotated[str, Meta(description="a job (12.3), cluster (12) or slot (slot1@host)", min_length=1)]
    utc: Annotated[bool, Meta(description="times in UTC, not in the time zone of the service")] = False


class Sentence(Struct, frozen=True):
    """A sentence about an event, with its evidence."""

    at: str
    position: Annotated[int, Meta(description="the position of the event in the log")]
    text: str
    full: Annotated[str, Meta(description="the text with its evidence")]
    code: Annotated[str, Meta(description="the kind of sentence, for programs")]
    facts: dict[str, str]
    places: Annotated[list[str], Meta(description="of an imported log: where the records are")]
    cause: str
    stimulus: str


class Explanation(Struct, frozen=True):
    """The state of a job, cluster or slot, and why."""

    answer: Annotated[list[Sentence], Meta(description="at most five sentences: status, reasons and advice")]
    life: Annotated[list[Sentence], Meta(description="the whole history, in chronological order")]


class LogQuery(AtTime, frozen=True, kw_only=True):
    stream: Annotated[str, Meta(description="a job, cluster, slot, or the name of a stream; empty: all events")] = ""
    since: Annotated[str, Meta(description=f"only events from this time on: {_TIME}")] = ""
    until: Annotated[str, Meta(description=f"only events before this time: {_TIME}")] = ""
    after: Annotated[int, Meta(ge=0, le=2**62, description="only events after this position")] = 0
    limit: Annotated[int, Meta(ge=1, le=_MOST_EVENTS, description="the most events in a page")] = 1000
    page_token: PageToken = ""


class LogMember(Struct, frozen=True):
    """The part of an event about one job, slot or other thing."""

    position: int
    index: int
    at: str
    stream: str
    thing: str
    what: str
    letter: str
    source: str
    target: str
    cause: str
    words: Annotated[str, Meta(description="the cause in words")]
    details: str
    stimulus: str
    place: Annotated[str, Meta(description="of an imported log: where the record is")] = ""


class LogPage(Struct, frozen=True, omit_defaults=True):
    """Events of the log, in the order in which they were recorded."""

    members: list[LogMember]
    has_more: bool
    next_page_token: str = ""


class ArchiveQuery(AtTime, frozen=True, kw_only=True):
    constraint: Constraint = ""
    projection: Projection = ""
    limit: Limit = "50"
    scan_limit: Annotated[
        str, Meta(pattern=r"^(\*|[1-9][0-9]{0,8})$", description="the most jobs to look at; *: all")
    ] = "10000"
    skip: Annotated[int, Meta(ge=0, le=2**62, description="how many results to omit, for the next page")] = 0
    backwards: Annotated[bool, Meta(description="the latest first")] = True
    stream_results: Annotated[bool, Meta(description="accepted for compatibility; ignored")] = True
    since: Annotated[str, Meta(description="stop at a job (12.3), cluster (12) or condition")] = ""
    before_cluster: Annotated[int, Meta(ge=1, le=2**31, description="only jobs with lower ids")] = 2**31 - 1
    before_proc: Annotated[int, Meta(ge=0, le=2**31, description="the process of before_cluster")] = 0


class TransfersQuery(ArchiveQuery, frozen=True, kw_only=True):
    transfer_types: Annotated[
        str,
        Meta(pattern=rf"^({_TYPE}(,{_TYPE})*)?$", description="INPUT, OUTPUT or CHECKPOINT, or several; empty: all"),
    ] = ""


class Archive(Struct, frozen=True):
    """Ads of jobs or runs. ``ads`` is the same list as ``records``, under the name that HTCondor's service sends."""

    records: list[Ad]
    ads: list[Ad]
    total_returned: int


class MatchQuery(AtTime, frozen=True, kw_only=True):
    id: JobId


class MatchAnalysis(Struct, frozen=True):
    """A job's requirements, and why it is in its state."""

    job_id: str
    requirements: str
    result: Explanation


def get_why(call: Call, query: WhyQuery) -> Explanation:
    """Explain why a job, cluster or slot is in its state, with its history."""
    answer = call.queries.why(query.name, call.at, UTC if query.utc else local_time())
    parts = {"answer": answer.lines, "life": answer.life}
    return msgspec.convert({name: [each.as_dict() for each in part] for name, part in parts.items()}, Explanation)


def match_analysis(call: Call, query: MatchQuery) -> MatchAnalysis:
    """Explain which slots a job's requirements match, clause by clause, in sentences."""
    ad = find_job(call, query.id)
    explanation = get_why(call, WhyQuery(name=query.id, at=query.at))
    return MatchAnalysis(query.id, str(ad.get("Requirements", "")), explanation)


def get_log(call: Call, query: LogQuery) -> LogPage:
    """Return the events of the log, as `poolbook log` lists them, in pages."""
    stream = listing.parse_filter(query.stream) if query.stream else None
    since, until = instant_of(query.since) or 0, instant_of(query.until) or EVER
    after = decode_cursor(query.page_token, IdCursor) or (query.after, EVER)
    selected_members = _members(call, stream, since, until, after)
    place = call.queries.places()
    page = [
        msgspec.convert(listing.as_dict(each, place(each.stimulus)), LogMember)
        for each in islice(selected_members, query.limit)
    ]
    if next(selected_members, None) is None:
        return LogPage(page, False)
    return LogPage(page, True, encode_cursor(page[-1].position, page[-1].index))


def _members(
    call: Call, stream: listing.StreamFilter | None, since: int, until: int, after: tuple[int, int]
) -> Iterator[listing.Member]:
    log, start = call.queries.log, max(0, after[0] - 1)
    if not call.queries.imported and since:
        start = max(start, log.position_at(since - 1))
    events: Iterator[tuple[int, Event]] = log.read(start) if stream is None else log.read_stream(stream.stream, start)
    selected = listing.members_between(events, since, None if stream is None else stream.proc, until)
    return (member for member in selected if (member.position, member.index) > after)


def list_archive(call: Call, query: ArchiveQuery) -> Archive:
    """Return the ads of jobs that have left the queue."""
    return _archive(call, query, call.queries.history(forwards=not query.backwards))


def list_epochs(call: Call, query: ArchiveQuery) -> Archive:
    """Return the ads of runs that have ended: one for each time that a job ran."""
    return _archive(call, query, call.queries.epochs(forwards=not query.backwards))


def list_transfers(call: Call, query: TransfersQuery) -> Archive:
    """Return the ads of file transfers that have ended: one for each protocol of a run's input, output or checkpoint
    transfer."""
    types = {name for name in query.transfer_types.upper().split(",") if name}
    ads = call.queries.transfers(forwards=not query.backwards)
    return _archive(call, query, (ad for ad in ads if not types or ad.eval("TransferClass") in types))


def _archive(call: Call, query: ArchiveQuery, ads: Iterator[ClassAd]) -> Archive:
    names, context = names_of(query.projection), context_of(call)
    condition, stops = condition_of(query.constraint, context), condition_of(_stop(query.since), context)
    limit, scan = (_MOST_RECORDS if each == "*" else int(each) for each in (query.limit, query.scan_limit))
    before = query.before_cluster, query.before_proc
    records: list[Ad] = []
    to_skip = query.skip
    for ad in ads if query.scan_limit == "*" else islice(ads, scan):
        if len(records) == min(limit, _MOST_RECORDS) or (query.since and stops(ad)):
            break
        if (ad.eval("ClusterId"), ad.eval("ProcId")) < before and condition(ad):
            records += as_json([] if to_skip else [ad], names)
            to_skip -= bool(to_skip)
    return Archive(records, records, len(records))


def _stop(since: str) -> str:
    cluster, dot, proc = since.strip().partition(".")
    if not (cluster.isdecimal() and (proc.isdecimal() or not dot)):
        return since
    return f"ClusterId == {cluster}" + (f" && ProcId == {proc}" if dot else "")


ENDPOINTS: Final = (
    Endpoint("GET", "/why/{name:path}", get_why, is_live=True),
    Endpoint("GET", "/log", get_log),
    Endpoint("GET", "/jobs/archive", list_archive),
    Endpoint("GET", "/jobs/epochs", list_epochs),
    Endpoint("GET", "/jobs/transfers", list_transfers),
    Endpoint("GET", "/jobs/{id}/match-analysis", match_analysis, is_live=True),
)
