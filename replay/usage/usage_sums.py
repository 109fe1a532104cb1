"""The usage of runs between two instants, totalled by user, machine, day and others, and how much of it was wasted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final

from attrs import define, field

from ...domain.units import SECOND
from ..runs.job_run import COMPLETED, EVICTED, JobRun

_OF_RUNS: Final[dict[str, Callable[[JobRun], str]]] = {
    "user": lambda run: run.user,
    "group": lambda run: run.group,
    "cluster": lambda run: run.cluster,
    "machine": lambda run: run.machine,
    "slot": lambda run: run.slot,
}
PERIODS: Final[dict[str, int]] = {"day": 10, "month": 7}
"""Calendar periods, and the length of their prefix of an ISO 8601 date."""
BY: Final = (*_OF_RUNS, *PERIODS)  #: the keys by which usage can be grouped


def names(run: JobRun) -> list[str]:
    """Return the names by which a run can be selected: its user, group, cluster, machine and slot."""
    return [name_of(run) for name_of in _OF_RUNS.values()]


@define
class Sum:
    """The usage of the runs in one row, in microseconds: in total (``used``), of runs whose job completed (``good``),
    and of other ended runs (``wasted``). Runs that have not ended, or whose outcome is unknown, count only in ``used``.
    ``evictions`` is the number of runs that the pool evicted, excluding holds and removals."""

    jobs: set[tuple[str, str]] = field(factory=set)
    runs: int = 0
    used: int = 0
    good: int = 0
    wasted: int = 0
    evictions: int = 0

    def add_run(self, run: JobRun, since: int, until: int, *, is_repeated: bool = False) -> None:
        """Add the part of a run between two instants. `is_repeated`: another part of the run was already added."""
        self.jobs.add((run.job, run.user))
        self.runs += not is_repeated
        used_time = max(0, min(run.ended, until) - max(run.began, since))
        self.used += used_time
        if run.outcome == COMPLETED:
            self.good += used_time
        elif run.outcome == EVICTED:
            self.wasted += used_time
            self.evictions += run.is_eviction_by_pool and since <= run.ended < until

    @property
    def times(self) -> tuple[int, int, int]:
        """The total usage, and the good and wasted parts of it."""
        return self.used, self.good, self.wasted

    def as_dict(self) -> dict[str, object]:
        """Return the sum as a dict for JSON, with times in seconds."""
        times = {"used": self.used, "goodput": self.good, "wasted": self.wasted}
        seconds = {name: amount / SECOND for name, amount in times.items()}
        return {"jobs": len(self.jobs), "runs": self.runs, **seconds, "evictions": self.evictions}


def sums(
    runs: Iterable[JobRun], groups: Sequence[str], since: int, until: int, zone: tzinfo = UTC
) -> tuple[dict[tuple[str, ...], Sum], Sum]:
    """Return the usage of the runs between two instants, by `groups` (keys from ``BY``), and the total. Days and months
    are in `zone`; a run across midnight counts in both days, but only once in the total."""
    rows: dict[tuple[str, ...], Sum] = {}
    total = Sum()
    finest_time = max((PERIODS[name] for name in groups if name in PERIODS), default=0)
    for run in runs:
        is_counted = False
        for begin, end in calendar_parts(run.began, run.ended, since, until, zone, finest_time):
            day = date_of(begin, zone).isoformat() if finest_time else ""
            key = tuple(_OF_RUNS[name](run) if name in _OF_RUNS else day[: PERIODS[name]] for name in groups)
            rows.setdefault(key, Sum()).add_run(run, begin, end)
            total.add_run(run, begin, end, is_repeated=is_counted)
            is_counted = True
    return rows, total


def calendar_parts(
    began: int, ended: int, since: int, until: int, zone: tzinfo, finest_time: int
) -> Iterator[tuple[int, int]]:
    """Yield the parts of the window that a run or another time span overlaps: the whole window, or its days or months
    (according to the length of their names)."""
    if not finest_time:
        yield since, until
        return
    begin = max(began, since)
    while True:
        end = min(_next_begin(date_of(begin, zone), finest_time, zone), until)
        yield begin, end
        if ended < end or end >= until:
            return
        begin = end


def date_of(at: int, zone: tzinfo) -> date:
    return datetime.fromtimestamp(at / SECOND, zone).date()


def _next_begin(day: date, finest: int, zone: tzinfo) -> int:
    next_day = day + timedelta(1) if finest == PERIODS["day"] else (day.replace(day=28) + timedelta(4)).replace(day=1)
    return round(datetime(next_day.year, next_day.month, next_day.day, tzinfo=zone).timestamp()) * SECOND
