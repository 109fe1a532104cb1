"""The timeline of a job or slot: lanes with states, and transitions as ticks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import UTC
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Final

from attrs import define, field
from msgspec import Struct
from msgspec.structs import replace

from ...domain.events import JobActivated, JobExited
from ...replay.listing.members import Member, StreamFilter, members_between, parse_filter
from .records import JOB_STYLES, slot_style

if TYPE_CHECKING:
    from ..runtime.queries import Queries

_MOST_RUNS: Final = 20  #: the number of a job's runs, the last ones, whose slots have lanes
_MOST_TICKS: Final = 400  #: the number of ticks in a lane, the last ones
_FINAL: Final = frozenset({"Left", "deleted"})


class Stretch(Struct, frozen=True):
    """A time in one state."""

    begin: int
    end: int
    state: str
    letter: str


class Tick(Struct, frozen=True):
    """A change: the number and letter of a slot's transition, or what happened."""

    at: int
    position: int
    label: str
    source: str
    target: str
    text: str  #: why
    place: str  #: the location of the imported record; empty: the event was not imported


class Lane(Struct, frozen=True):
    name: str
    subject: str  #: the job or slot; empty: none
    stretches: list[Stretch]
    ticks: list[Tick]


class Timeline(Struct, frozen=True):
    begin: int
    end: int
    lanes: list[Lane]


@define
class _LaneBuilder:
    """Collects the changes of a job or slot in the order of time."""

    name: str
    subject: str
    is_job: bool
    stretches: list[Stretch] = field(factory=list)
    ticks: list[Tick] = field(factory=list)
    _state: str = ""
    _since: int = 0

    def add(self, member: Member, place: str) -> None:
        if member.target:
            self._close(member.at)
            self._state, self._since = member.target, member.at
        elif member.what in _FINAL:
            self._close(member.at)
        text = f"{member.cause_text} ({member.details})" if member.details else member.cause_text
        text = member.details if member.cause == "reported" else text
        label = f"{member.what} {member.letter}".rstrip()
        self.ticks.append(Tick(member.at, member.position, label, member.source, member.target, text, place))

    def _close(self, at: int) -> None:
        if self._state and self._state not in _FINAL and at > self._since:
            self.stretches.append(Stretch(self._since, at, self._state, self._letter()))
        self._state = ""

    def _letter(self) -> str:
        if self.is_job:
            style = JOB_STYLES.get("running" if self._state == "TransferringOutput" else self._state.lower())
            return style.letter if style is not None else ""
        state, _, activity = self._state.partition("/")
        return slot_style(state, activity).letter

    def lane(self, until: int) -> Lane:
        self._close(until)
        return Lane(self.name, self.subject, self.stretches, self.ticks)


def timeline(queries: Queries, name: str, until: int) -> Timeline:
    """Return the timeline of a job (12.3) or slot, up to an instant in microseconds. Raise `ValueError` if the name is
    neither."""
    stream = parse_filter(name)
    kind, _, subject = stream.stream.partition("/")
    if kind == "cluster" and stream.proc is not None:
        lanes = _job_lanes(queries, stream, until)
    elif kind == "slot":
        lanes = [_lane(queries, "slot", subject, _members(queries, stream, until), False, until)]
    else:
        raise ValueError(f"{name} is not a job or slot; name a job (12.3) or slot (slot1@host)")
    instants = [tick.at for lane in lanes for tick in lane.ticks]
    begin = min(instants, default=until)
    is_over = all(not lane.stretches or lane.stretches[-1].end < until for lane in lanes)
    end = max(instants, default=until) if is_over else until
    return Timeline(begin, max(end, begin + 1), [lane for lane in lanes if lane.ticks])


def _members(queries: Queries, stream: StreamFilter, until: int, since: int = 0) -> list[Member]:
    """Return the last members of a stream between two instants. The times of a pool's log never decrease, so only this
    part of its stream is read."""
    if queries.imported:
        return [*deque(queries.entries(stream, since, until + 1), maxlen=_MOST_TICKS)]
    newest_first = queries.log.read_back(stream.stream, queries.log.position_at(until) + 1)
    events = takewhile(lambda pair: pair[1].at >= since, newest_first)
    return [*islice(members_between(events, since, stream.proc), _MOST_TICKS)][::-1]


def _lane(queries: Queries, name: str, subject: str, members: Iterable[Member], is_job: bool, until: int) -> Lane:
    builder, place = _LaneBuilder(name, subject, is_job), queries.places()
    for member in members:
        builder.add(member, place(member.stimulus))
    return builder.lane(until)


def _job_lanes(queries: Queries, stream: StreamFilter, until: int) -> list[Lane]:
    """Return the lanes of a job: its status, its file transfers, and the slots of its last runs."""
    cluster, proc = int(stream.stream.partition("/")[2]), stream.proc or 0
    members = _members(queries, stream, until)
    transfers = [member for member in members if "transfer" in member.what]
    own = [member for member in members if "transfer" not in member.what]
    runs = _imported_runs(queries, cluster, proc, until) if queries.imported else _runs(queries, cluster, proc)
    job = _lane(queries, "job", f"{cluster}.{proc}", own, True, until)
    if not job.stretches:  # imported records of jobs have no states
        letter = JOB_STYLES["running"].letter
        job = replace(job, stretches=[Stretch(began, ended or until, "Running", letter) for _, began, ended in runs])
    lanes = [job]
    if transfers:
        lanes.append(_lane(queries, "transfers", "", transfers, True, until))
    times: dict[str, tuple[int, int]] = {}
    for slot, began, ended in runs[-_MOST_RUNS:]:
        times[slot] = times.get(slot, (began, 0))[0], min(ended or until, until)
    for slot, (began, ended) in times.items():
        near = _members(queries, StreamFilter(f"slot/{slot}"), ended, began)
        lanes.append(_lane(queries, slot, slot, near, False, ended))
    return lanes


def _runs(queries: Queries, cluster: int, proc: int) -> list[tuple[str, int, int]]:
    """Return the slot, start and end of each run of a job, in order; the end of a run that continues is 0."""
    runs: list[tuple[str, int, int]] = []
    for _, event in queries.log.read_stream(f"cluster/{cluster}"):
        if isinstance(event, JobActivated) and event.proc == proc:
            runs.append((event.slot, event.at, 0))
        elif isinstance(event, JobExited) and event.proc == proc and runs:
            runs[-1] = (*runs[-1][:2], event.at)
    return runs


def _imported_runs(queries: Queries, cluster: int, proc: int, until: int) -> list[tuple[str, int, int]]:
    runs = sorted(queries.runs(0, until + 1, UTC).runs, key=lambda run: run.began)
    return [(run.slot, run.began, run.ended) for run in runs if run.job == f"{cluster}.{proc}" and run.slot]
