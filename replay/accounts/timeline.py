"""The rows of a timeline: the intervals of slots, or a job's statuses and its slots."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from ...domain.ports.log import EventStore
from ..forensics.imported_log import job_of
from ..narration.formatting import EVER
from .demand import LEFT, Demand
from .intervals import CLASSES, SlotInterval, slot_times

WAITING: Final = {
    "idle": "the job waited in the queue",
    "held": "the job was on hold",
    "ended": "the job had ended, but was still in the queue",
}
"""The classes of a job's time without a slot."""
ALL_CLASSES: Final = CLASSES | WAITING
POOL: Final = "POOL"
_KINDS: Final = {"Held": "held", "Completed": "ended", "Removed": "ended"}


class TimelineRow(NamedTuple):
    """A row of a timeline: its name, and disjoint intervals sorted by time."""

    name: str
    intervals: list[SlotInterval]


class UnknownSubjectError(ValueError):
    """The log contains no such job, slot or user."""


def timeline(log: EventStore, subject: str, since: int = 0, until: int = EVER) -> list[TimelineRow]:
    """Return the rows of a timeline of a job (12.3), a slot, a user or ``POOL`` between two instants.

    A job's first row shows the job, the others its slots. A user's rows show the slots that the user claimed. Raise
    `UnknownSubjectError` if the log does not contain the subject.
    """
    demand = Demand()
    history = slot_times(log, demand.watch)
    demand.finish(history.runs)
    intervals = list(history.intervals(since, until))
    job = job_of(subject)
    if job is not None:
        of_job = [part for part in intervals if part.job == subject]
        waits = list(_waiting(subject, demand.statuses(job), min(history.last, until), since, of_job))
        rows = [TimelineRow(subject, sorted([*of_job, *waits], key=lambda part: part.begin))] if of_job or waits else []
        rows += _rows(of_job)
    elif subject == POOL:
        return list(_rows(intervals))
    else:
        named = [part for part in intervals if subject in (part.slot, part.slot.partition("@")[0], part.machine)]
        named = named or [part for part in intervals if subject in (part.user, part.user.partition("@")[0])]
        rows = list(_rows(named))
    if not rows:
        raise UnknownSubjectError(f"the log shows no job, slot, machine or user {subject} at that time")
    return rows


def _rows(intervals: list[SlotInterval]) -> Iterator[TimelineRow]:
    """Yield a row for each slot, as ordered by its machine and number."""
    ordered = sorted(intervals, key=lambda part: (part.machine, len(part.slot), part.slot, part.begin))
    for slot, of_slot in groupby(ordered, key=lambda part: part.slot):
        yield TimelineRow(slot, list(of_slot))


def _waiting(
    job: str, statuses: list[tuple[int, str]], last: int, since: int, of_job: list[SlotInterval]
) -> Iterator[SlotInterval]:
    """Yield the parts of a job's time in the queue in which it had no slot."""
    runs = sorted((part.begin, part.end) for part in of_job)
    user = of_job[0].user if of_job else ""
    for (begin, status), (end, _) in pairwise([*statuses, (last, LEFT)]):
        begin, end = max(begin, since), min(end, last)
        if status == LEFT:
            continue
        for run_begin, run_end in [*runs, (end, end)]:
            free_until = min(max(run_begin, begin), end)
            if begin < free_until:
                kind = _KINDS.get(status, "idle")
                yield SlotInterval("", "", begin, free_until, kind, "", "", job, user, "", "", 0.0)
            begin = max(begin, min(run_end, end))
