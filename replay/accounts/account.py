"""The account of a time span: slot time and core time by class, badput by cause, waiting times, and shares.

A user's entitlement is its share of the available cores (in slots that are neither unknown, drained nor used by
the owner) at each moment: in proportion to the inverse of the priority factor, among the accounts that then have jobs
that want or have a slot. An accounting group's entitlement is its quota, including its subgroups. Both are summed over
time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, tzinfo
from typing import Final, NamedTuple

from attrs import define, field

from ...domain import events as e
from ...domain.names import SlotName
from ...domain.ports.log import EventStore
from ...domain.state.accounting_groups import NO_GROUP
from ...domain.units import SECOND
from ..narration.formatting import EVER
from ..usage.usage_sums import PERIODS, calendar_parts, date_of
from .demand import Demand, DemandChange, FirstStart
from .intervals import BADPUT, CLASSES, GOODPUT, SlotInterval, slot_times

_KEYS: Final[dict[str, Callable[[SlotInterval], str]]] = {
    "user": lambda part: part.user,
    "group": lambda part: part.group,
    "slot": lambda part: part.slot,
    "machine": lambda part: part.machine,
    "class": lambda part: part.kind,
}
BY: Final = (*_KEYS, *PERIODS)  #: the keys by which an account can be grouped
_UNAVAILABLE: Final = frozenset({"unknown", "drained", "owner"})
DEFAULT_FACTOR: Final = 1000.0  #: HTCondor's default of DEFAULT_PRIO_FACTOR


class Waits(NamedTuple):
    """How long jobs waited for their first start, in microseconds; zeros if there are no jobs."""

    jobs: int
    mean: float
    median: float
    p95: float
    longest: float

    @classmethod
    def of(cls, waits: Sequence[int]) -> Waits:
        """Summarize waiting times. The median and the 95th percentile are waiting times of jobs (nearest rank)."""
        if not waits:
            return cls(0, 0, 0, 0, 0)
        ranked = sorted(waits)
        median, p95 = (ranked[-(-len(ranked) * percent // 100) - 1] for percent in (50, 95))
        return cls(len(ranked), sum(ranked) / len(ranked), median, p95, ranked[-1])


@define
class AccountRow:
    """The slot time (microseconds) and core time (cores times microseconds) of a row, by class; the slot time of badput
    by cause; the waiting times of the jobs that first started then; and the core time to which the user or group was
    entitled (None: not defined for this row)."""

    time: defaultdict[str, int] = field(factory=lambda: defaultdict(int))
    core_time: defaultdict[str, float] = field(factory=lambda: defaultdict(float))
    badput: defaultdict[str, int] = field(factory=lambda: defaultdict(int))
    waits: list[int] = field(factory=list)
    entitled: float | None = None

    def add(self, part: SlotInterval) -> None:
        length = part.end - part.begin
        self.time[part.kind] += length
        self.core_time[part.kind] += length * part.cores
        if part.kind == BADPUT:
            self.badput[part.cause] += length

    @property
    def total(self) -> int:
        return sum(self.time.values())

    @property
    def total_cores(self) -> float:
        return sum(self.core_time.values())

    def as_dict(self) -> dict[str, object]:
        """Return the row as a dict for JSON, with times in seconds and core times in core seconds."""
        waits = Waits.of(self.waits)
        return {
            "slot_seconds": self.total / SECOND,
            "core_seconds": self.total_cores / SECOND,
            "classes": {kind: self.time[kind] / SECOND for kind in CLASSES if kind in self.time},
            "core_classes": {kind: self.core_time[kind] / SECOND for kind in CLASSES if kind in self.time},
            "badput": {cause: length / SECOND for cause, length in sorted(self.badput.items())},
            "jobs_started": waits.jobs,
            "waiting": {name: getattr(waits, name) / SECOND for name in ("mean", "median", "p95", "longest")},
            "entitled_core_seconds": None if self.entitled is None else self.entitled / SECOND,
        }


class Account(NamedTuple):
    """The rows of an account by the values of its keys, their total, and the time of runs that had no slot."""

    rows: dict[tuple[str, ...], AccountRow]
    total: AccountRow
    without_slot: int


def account(log: EventStore, by: Sequence[str], since: int = 0, until: int = EVER, zone: tzinfo = UTC) -> Account:
    """Return the account of the time between two instants, by keys of ``BY``. Days and months are in `zone`."""
    demand, accountant = Demand(), _Accountant()
    history = slot_times(log, lambda events: accountant.watch(demand.watch(events)))
    demand.finish(history.runs)
    rows: defaultdict[tuple[str, ...], AccountRow] = defaultdict(AccountRow)
    total = AccountRow()
    intervals = list(history.intervals(since, until))
    finest_time = max((PERIODS[name] for name in by if name in PERIODS), default=0)
    for whole in intervals:
        for begin, end in calendar_parts(whole.begin, whole.end - 1, whole.begin, whole.end, zone, finest_time):
            part = whole._replace(begin=begin, end=end)
            rows[_key(by, part, zone)].add(part)
            total.add(part)
    for start in demand.first_starts(history.runs):
        if since <= start.run.began < until:
            rows[_key(by, _interval_of(start), zone)].waits.append(start.waited)
            total.waits.append(start.waited)
    if by in (["user"], ["group"]) and intervals:
        span = min(part.begin for part in intervals), max(part.end for part in intervals)
        if by == ["user"]:
            entitled = _user_entitlements(intervals, demand.changes(), accountant.factors, *span)
        else:
            entitled = accountant.entitlements(*span)
        for name, core_time in entitled.items():
            if name not in ("", NO_GROUP) and (core_time or (name,) in rows):
                rows[name,].entitled = core_time
    without_slot = (run for run in history.runs if SlotName.parse(run.slot).slot in ("", "local"))
    outside = sum(max(0, min(run.ended, until) - max(run.began, since)) for run in without_slot)
    return Account(dict(rows), total, outside)


def _key(by: Sequence[str], part: SlotInterval, zone: tzinfo) -> tuple[str, ...]:
    day = date_of(part.begin, zone).isoformat() if any(name in PERIODS for name in by) else ""
    return tuple(_KEYS[name](part) if name in _KEYS else day[: PERIODS[name]] for name in by)


def _interval_of(start: FirstStart) -> SlotInterval:
    run = start.run
    return SlotInterval(
        run.slot, run.machine, run.began, run.ended, GOODPUT, "", "", run.job, run.user, run.group, "", 0.0
    )


class _FactorChange(NamedTuple):
    """The priority factor of an account changed."""

    at: int
    submitter: str
    factor: float


_FACTOR: Final = "PriorityFactor"


@define
class _Accountant:
    """Collects the quotas of accounting groups and the priority factors of submitters over time."""

    changes: list[e.QuotasAssigned] = field(factory=list)
    factors: list[_FactorChange] = field(factory=list)
    _current: dict[str, float] = field(factory=dict)

    def watch(self, events: Iterator[e.LoggedEvent]) -> Iterator[e.LoggedEvent]:
        """Yield a log's events, and collect the changes that they contain."""
        for position, event in events:
            match event:
                case e.QuotasAssigned():
                    self.changes.append(event)
                case e.TableWritten(kind="accountant"):
                    for _, key, name, text in event.operations:
                        if name == _FACTOR:
                            self._set(event.at, key.partition(".")[2], float(text))
                case e.SubmitterSet(name="factor"):
                    previous = self._current.get(event.submitter, DEFAULT_FACTOR)
                    self._set(event.at, event.submitter, event.value)
                    if event.until:
                        self._set(max(event.at, event.until), event.submitter, previous)
                case e.ClusterSubmitted() | e.ClaimMade() | e.SubmitterSet() | e.SubmitterDeleted() if event.factor:
                    self._set(event.at, event.submitter, event.factor)
            yield position, event

    def _set(self, at: int, submitter: str, factor: float) -> None:
        self._current[submitter] = factor
        self.factors.append(_FactorChange(at, submitter, factor))

    def entitlements(self, since: int, until: int) -> dict[str, float]:
        """Return the core time that the groups' quotas gave them between two instants."""
        core_time: defaultdict[str, float] = defaultdict(float)
        ends = [*(change.at for change in self.changes[1:]), EVER]
        for change, end in zip(self.changes, ends, strict=False):
            for group in change.groups:
                core_time[group.name] += group.subtree * max(0, min(end, until) - max(change.at, since))
        return core_time


def _user_entitlements(
    intervals: Sequence[SlotInterval],
    changes: Sequence[DemandChange],
    factor_changes: Sequence[_FactorChange],
    since: int,
    until: int,
) -> dict[str, float]:
    """Return the core time to which each user was entitled between two instants."""
    cores: defaultdict[int, float] = defaultdict(float)
    for part in intervals:
        if part.kind not in _UNAVAILABLE:
            cores[part.begin] += part.cores
            cores[part.end] -= part.cores
    factors: dict[str, float] = {}
    by_time: defaultdict[int, list[DemandChange | _FactorChange]] = defaultdict(list)
    every_change: list[DemandChange | _FactorChange] = [*changes, *factor_changes]
    for change in every_change:
        by_time[min(max(change.at, since), until)].append(change)
    jobs: defaultdict[tuple[str, str], int] = defaultdict(int)
    entitled: defaultdict[str, float] = defaultdict(float)
    available, last = 0.0, since
    for at in sorted({*cores, *by_time, until}):
        shares = {
            account: 1 / factors.get(f"{account[1]}.{account[0]}" if account[1] else account[0], DEFAULT_FACTOR)
            for account, count in jobs.items()
            if count > 0
        }
        for (user, _), share in shares.items():
            entitled[user] += available * (at - last) * share / sum(shares.values())
        available, last = available + cores.get(at, 0.0), at
        for change in by_time.get(at, ()):
            if isinstance(change, _FactorChange):
                factors[change.submitter] = change.factor
            else:
                jobs[change.user, change.group] += change.jobs
    return entitled
