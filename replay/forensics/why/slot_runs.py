"""Runs of a job of which its slot's log alone tells: where the job's own records have a gap, or end before."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from ....domain import events as e
from ....domain.ports.log import Log
from ...narration.wording import EVER
from ...runs.slot_records import NEAR, Begun, Slots
from ..imported_log import PlaceNames, records_between
from .job_history import BEGIN, Record
from .match_runs import run_after, same_user

_ENDS: Final = ("4", "5")  #: the entries of the end of a run
Window = tuple[int, int]  #: two instants

BEGUN, OVER = "begun_there", "over_there"  #: what the records are called that stand for such a run's beginning and end


def begun_between(log: Log, places: PlaceNames, windows: Iterable[Window], cluster: int) -> Iterator[Begun]:
    """The jobs of a cluster that startds' logs have begun within some windows of time."""
    for since, until in _joined(windows):
        users: dict[str, str] = {}
        for position, event in records_between(log, places, "startlog", since, until):
            if not isinstance(event, e.SlotReported):
                continue
            job = event.facts.get("job", "")
            if event.said == "owner":
                users[event.slot] = event.facts.get("user", "")
            elif event.said == "activated" and job.partition(".")[0] == str(cluster):
                yield Begun(event.at, job, users.get(event.slot, ""), event.slot, position, event.stimulus)


def _joined(windows: Iterable[Window]) -> Iterator[Window]:
    """The windows, those that overlap as one."""
    last: Window | None = None
    for since, until in sorted(window for window in windows if window[0] <= window[1]):
        if last is not None and since <= last[1]:
            last = last[0], max(last[1], until)
            continue
        if last is not None:
            yield last
        last = since, until
    if last is not None:
        yield last


def dark_windows(records: Sequence[Record], gaps: Iterable[e.SourceGap], *, over: bool, begin: int) -> list[Window]:
    """When a job may have run without its own records telling: in the gaps of its logs, before the end of a run that
    did not begin there, and behind its last record unless it is over there."""
    if not any(isinstance(one.event, e.JobLogged) or one.what == "shadow_began" for one in records):
        return [(begin, EVER)]
    windows = [(max(begin, gap.since or gap.at), gap.until or EVER) for gap in gaps]
    runs, last = False, begin
    for record in records:
        if record.what in _ENDS and not runs:
            windows.append((last, record.at))
        runs = record.what == BEGIN or (runs and record.what not in _ENDS)
        last = record.at
    return windows if over else [*windows, (max((record.at for record in records), default=begin), EVER)]


def untold_runs(
    found: Iterable[Begun], records: Sequence[Record], slots: Slots, job: str, users: Collection[str] = ()
) -> Iterator[Record]:
    """The beginnings and ends of those of a job's runs that its own records do not have, as records of their own.
    `found`: what slots' logs have begun; the matches of the job tell of more. `users`: whose it is, if that is known:
    several access points may have a job of its number."""
    matched = (run_after(slots, one.facts, one.at) for one in records if one.what == "matched")
    begun = {one.position: one for one in [*found, *filter(None, matched)] if one.job == job}
    begun = {position: one for position, one in begun.items() if not one.user or same_user(one.user, users)}
    known = [(one.at, one.facts.get("slot", "")) for one in records if one.what in (BEGIN, "shadow_began")]
    for run in sorted(begun.values(), key=lambda run: (run.at, run.position)):
        end = slots.end(run.slot, job, run.at)
        last = EVER if end is None else end.at + NEAR  # its program may begin long after its slot was given to it
        if any(run.at - NEAR <= at <= last and slot in ("", run.slot) for at, slot in known):
            continue
        yield _record(BEGUN, job, (run.position, run.at, run.stimulus), slot=run.slot)
        if end is not None:
            evicted = {"evicted": "true"} if end.evicted else {}
            yield _record(OVER, job, (end.position, end.at, end.stimulus), slot=run.slot, **evicted)


def _record(what: str, job: str, told: tuple[int, int, str], **facts: str) -> Record:
    cluster, _, proc = job.partition(".")
    position, at, stimulus = told
    event = e.JobReported(at, "reported", stimulus, int(cluster), int(proc), what, facts)
    return Record(position, event, what, facts)
