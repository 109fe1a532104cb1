"""The view of the queue and the history: a row is a range of equal jobs of one cluster.

So 100,000 equal jobs take a few rows. A range is split only when an event affects a part of it, and an event that
affects many jobs merges neighbouring ranges that have become equal. ``domain/state/job_ad`` folds an event into the
changes of jobs, once for all jobs that share these changes.

A job leaves the queue as in ``domain/fold/evolve``: when an event records that it left or, in logs of format 1, when it
is Removed or Completed and its processes have exited. Events about jobs that are not in the queue are ignored.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import TYPE_CHECKING

import msgspec
from attrs import define

from ..domain import events as e
from ..domain.events.handlers import bound_handlers
from ..domain.state.cluster import MANY_RANGES, Factory
from ..domain.state.job_ad import STATUS_NUMBERS, TERMINAL, Changes, fold_job, unquoted
from ..domain.state_machines import LEFT
from .schema import insertion

if TYPE_CHECKING:
    from .bulk_ranges import BulkRanges

_RunEvent = e.JobTransferBegan | e.JobTransferEnded | e.JobExecuting | e.JobMeasured
_TERMINAL = frozenset(STATUS_NUMBERS[name] for name in TERMINAL)
_RUNNING = STATUS_NUMBERS["Running"]
_decode = msgspec.json.Decoder(Changes).decode
_encode = msgspec.json.Encoder().encode

_FACTORY = "SELECT made, mode, reason, changes FROM factories WHERE cluster=?"
_OF = "SELECT first, last, status, slot, changes FROM jobs WHERE cluster=? AND "
_AT = _OF + "first<=? ORDER BY first DESC LIMIT 1"
_BETWEEN = _OF + "first BETWEEN ? AND ?"
_MAX_UNFOLDED = 16
"""The maximum number of events of a single job that a range holds unfolded."""
_SEVERAL = 16
"""An event with at least this many ranges is folded in one pass over the cluster's rows, instead of range by range."""


@define(eq=False)
class QueuedRange:
    """A range of equal jobs of one cluster."""

    first: int
    last: int
    status: int
    slot: str  #: the slot of a running job, which has a range to itself
    _changes: Changes
    altered: bool = True
    _unfolded: tuple[tuple[Changes, e.Event], ...] = ()

    @property
    def changes(self) -> Changes:
        """The changes, shared between ranges: replace them, never modify them. The events of a single job are folded
        only when its changes are read, because views at a time do not read the changes of jobs that end."""
        if self._unfolded:
            self._changes = dict(self._changes)
            for base, event in self._unfolded:
                fold_job(self._changes, base, event)
            self._unfolded = ()
        return self._changes

    @changes.setter
    def changes(self, changes: Changes) -> None:
        self._changes, self._unfolded = changes, ()

    def fold_later(self, base: Changes, event: e.Event) -> None:
        """Fold an event of a range of one job, whose cluster has the ad `base`."""
        self._unfolded = (*self._unfolded, (base, event))
        self.altered = True
        if len(self._unfolded) > _MAX_UNFOLDED:
            _ = self.changes

    def continues(self, before: QueuedRange) -> bool:
        """Return True if this range can be appended to `before`."""
        return (
            self.first == before.last + 1
            and self.status == before.status
            and not (self.slot or before.slot)
            and (self.changes is before.changes or self.changes == before.changes)
        )


class _Texts:
    """Decodes and encodes changes, each text and each object only once, so that ranges continue to share objects."""

    __slots__ = ("_known", "_written")

    def __init__(self) -> None:
        self._known: dict[str, Changes] = {}
        self._written: dict[int, tuple[Changes, str]] = {}
        """Encoded changes, by the id of the changes; holding the changes here prevents reuse of the id."""

    def parse(self, text: str) -> Changes:
        decoded = self._known.get(text)
        if decoded is None:
            decoded = self._known[text] = _decode(text)
        return decoded

    def format(self, changes: Changes) -> str:
        encoded = self._written.get(id(changes))
        if encoded is None:
            encoded = self._written[id(changes)] = changes, _encode(changes).decode()
        return encoded[1]


class _QueuedCluster:
    """The ranges of one cluster in the queue, loaded from the table on demand and written by ``flush``."""

    __slots__ = ("_ad", "_bulk", "_connection", "_firsts", "_id", "_new", "_ranges", "_stored", "_texts")

    def __init__(self, connection: sqlite3.Connection, texts: _Texts, id: int, ad: Changes | None = None) -> None:
        """:param ad: the ad of a new cluster that is not in the table yet"""
        self._connection, self._texts, self._id, self._ad = connection, texts, id, ad
        self._new = ad is not None
        self._ranges: dict[int, QueuedRange] = {}
        self._firsts: list[int] = []
        self._stored: set[int] = set()
        self._bulk: BulkRanges | None = None
        """The ranges as arrays, after an event that affects many ranges; ``_ranges`` is then empty."""

    @property
    def ad(self) -> Changes:
        if self._ad is None:
            row = self._connection.execute("SELECT ad FROM clusters WHERE cluster=?", (self._id,)).fetchone()
            self._ad = _decode(row[0]) if row else {}
        return self._ad

    def add_range(self, job_range: QueuedRange) -> None:
        self.end_bulk()
        self._ranges[job_range.first] = job_range
        self._firsts.insert(bisect_left(self._firsts, job_range.first), job_range.first)

    def _load(self, first: int, last: int, status: int, slot: str, changes: str) -> None:
        if first not in self._stored:  # otherwise it is already loaded
            self._stored.add(first)
            self.add_range(QueuedRange(first, last, status, slot, self._texts.parse(changes), altered=False))

    def _known(self, proc: int) -> QueuedRange | None:
        index = bisect_right(self._firsts, proc) - 1
        if index < 0:
            return None
        job_range = self._ranges[self._firsts[index]]
        return job_range if proc <= job_range.last else None

    def _range_of(self, proc: int) -> QueuedRange | None:
        self.end_bulk()
        job_range = self._known(proc)
        if job_range is None and not self._new:
            row = self._connection.execute(_AT, (self._id, proc)).fetchone()
            if row is not None and proc <= row[1]:
                self._load(*row)
                job_range = self._known(proc)
        return job_range

    def _split_before(self, proc: int) -> None:
        """Split the range that contains both `proc` and the process before it, if there is one."""
        job_range = self._range_of(proc)
        if job_range is not None and job_range.first < proc:
            self.add_range(QueuedRange(proc, job_range.last, job_range.status, job_range.slot, job_range.changes))
            job_range.last, job_range.altered = proc - 1, True

    def split_off(self, proc: int) -> QueuedRange | None:
        """Split a process from the range it is in, and return its new range, or None if it is not queued."""
        self.end_bulk()
        single = self._ranges.get(proc)
        if single is not None and single.last == proc:
            return single
        if self._range_of(proc) is None:
            return None
        self._split_before(proc)
        self._split_before(proc + 1)
        return self._ranges[proc]

    def remove_proc(self, proc: int) -> None:
        """Remove the range of this process, after ``single`` has split it from its neighbours."""
        del self._ranges[proc]
        del self._firsts[bisect_left(self._firsts, proc)]

    def change(self, first: int, last: int, change: Callable[[QueuedRange], bool]) -> list[QueuedRange]:
        """Apply `change` to all jobs in a range, and merge neighbours that have become equal. Return the ranges that
        leave the queue, for which `change` returns False."""
        self._range_of(first - 1)
        self._split_before(first)
        self._split_before(last + 1)
        if not self._new:
            for row in self._connection.execute(_BETWEEN, (self._id, first, last)).fetchall():
                self._load(*row)
        begin, end = bisect_left(self._firsts, first), bisect_right(self._firsts, last)
        selected = [self._ranges[at] for at in self._firsts[begin:end]]
        stay: list[QueuedRange] = []
        leave: list[QueuedRange] = []
        for job_range in selected:
            (stay if change(job_range) else leave).append(job_range)
        begin, end = max(begin - 1, 0), end + 1
        neighbours = [self._ranges[at] for at in self._firsts[begin:end] if not first <= at <= last]
        before = [job_range for job_range in neighbours if job_range.first < first]
        merged = _merged([*before, *stay, *neighbours[len(before) :]])
        for at in self._firsts[begin:end]:
            del self._ranges[at]
        self._ranges.update((job_range.first, job_range) for job_range in merged)
        self._firsts[begin:end] = [job_range.first for job_range in merged]
        return leave

    def change_all(self, ranges: e.Procs, change: Callable[[QueuedRange], bool]) -> list[QueuedRange]:
        """Apply ``change`` to several sorted ranges in one pass over the rows."""
        first, last = ranges[0][0], ranges[-1][1]
        for proc in (first - 1, first, last, last + 1):
            self._range_of(proc)
        if not self._new:
            for row in self._connection.execute(_BETWEEN, (self._id, first, last)).fetchall():
                self._load(*row)
        begin, end = max(bisect_right(self._firsts, first) - 2, 0), bisect_right(self._firsts, last) + 1
        old_ranges = [self._ranges.pop(at) for at in self._firsts[begin:end]]
        changed_ranges: list[QueuedRange] = []
        leave: list[QueuedRange] = []
        was_selected = False
        for part, is_selected in _split(old_ranges, ranges):
            if is_selected and not change(part):
                leave.append(part)
                continue
            if changed_ranges and (is_selected or was_selected) and part.continues(changed_ranges[-1]):
                changed_ranges[-1].last, changed_ranges[-1].altered = part.last, True
            else:
                changed_ranges.append(part)
            was_selected = is_selected
        self._ranges.update((job_range.first, job_range) for job_range in changed_ranges)
        self._firsts[begin:end] = [job_range.first for job_range in changed_ranges]
        return leave

    def change_many(self, ranges: e.Procs, change: Callable[[QueuedRange], bool], position: int, at: int) -> None:
        """Apply `change` to many sorted ranges with numpy. Jobs that leave the queue are added to the history with the
        event's position and instant."""
        from .bulk_ranges import BulkRanges, RangeValues

        def apply_change(values: RangeValues) -> tuple[RangeValues, bool]:
            queued = QueuedRange(0, 0, values.status, values.slot, self._texts.parse(values.changes))
            stays = change(queued)
            return RangeValues(queued.status, queued.slot, self._texts.format(queued.changes)), stays

        if self._bulk is None:
            deleted: list[tuple[int, int]] = []
            rows: list[tuple[object, ...]] = []
            self.flush(deleted, rows)
            store(self._connection, deleted, rows)
            self._ranges, self._firsts, self._stored, self._new = {}, [], set(), False
            self._bulk = BulkRanges(
                self._connection, self._id, lambda text: tuple(sorted(self._texts.parse(text).items()))
            )
        self._bulk.change(ranges, apply_change, position, at)

    def end_bulk(self) -> None:
        """Write the ranges that are held as arrays into the table."""
        if self._bulk is not None:
            self._bulk.write()
            self._bulk = None

    def flush(self, deleted: list[tuple[int, int]], rows: list[tuple[object, ...]]) -> None:
        """Append the keys of the rows to delete to `deleted`, and the rows to store to `rows`."""
        self.end_bulk()
        for first in self._stored:
            job_range = self._ranges.get(first)
            if job_range is None or job_range.altered:
                deleted.append((self._id, first))
        for job_range in self._ranges.values():
            if job_range.altered:
                changes = self._texts.format(job_range.changes)
                rows.append((self._id, job_range.first, job_range.last, job_range.status, job_range.slot, changes))


def store(connection: sqlite3.Connection, deleted: list[tuple[int, int]], rows: list[tuple[object, ...]]) -> None:
    connection.executemany("DELETE FROM jobs WHERE cluster=? AND first=?", deleted)
    connection.executemany(insertion("jobs"), rows)


def _split(job_ranges: Iterable[QueuedRange], ranges: e.Procs) -> Iterator[tuple[QueuedRange, bool]]:
    """Split ranges of jobs at the ends of the selected `ranges`. Yield each resulting range, and whether it is
    selected."""
    number = 0
    for job_range in job_ranges:
        while True:
            while number < len(ranges) and ranges[number][1] < job_range.first:
                number += 1
            first, last = ranges[number] if number < len(ranges) else (job_range.last + 1, job_range.last + 1)
            is_selected = first <= job_range.first
            until = min(job_range.last, last if is_selected else first - 1)
            remainder = None
            if until < job_range.last:
                remainder = QueuedRange(until + 1, job_range.last, job_range.status, job_range.slot, job_range.changes)
                job_range.last, job_range.altered = until, True
            yield job_range, is_selected
            if remainder is None:
                break
            job_range = remainder


def _merged(job_ranges: Iterable[QueuedRange]) -> list[QueuedRange]:
    merged: list[QueuedRange] = []
    for job_range in job_ranges:
        if merged and job_range.continues(merged[-1]):
            merged[-1].last, merged[-1].altered = job_range.last, True
        else:
            merged.append(job_range)
    return merged


class _EventFold:
    """Folds one event into changes, once for all ranges that share the changes."""

    def __init__(self, base: Changes, event: e.Event) -> None:
        self._base, self._event = base, event
        # Holds the original changes too, to prevent reuse of their ids.
        self._known: dict[int, tuple[Changes, Changes]] = {}

    def __call__(self, changes: Changes) -> Changes:
        cached = self._known.get(id(changes))
        if cached is None:
            folded = dict(changes)
            fold_job(folded, self._base, self._event)
            cached = self._known[id(changes)] = changes, folded
        return cached[1]


class QueueFold:
    """Folds a batch of events into the queue and the history; ``flush`` writes the changed rows."""

    def __init__(self, connection: sqlite3.Connection, history: bool = True) -> None:
        """:param history: whether to add the jobs that leave the queue to the history"""
        self._connection, self._history = connection, history
        self._texts = _Texts()
        self._clusters: dict[int, _QueuedCluster] = {}
        self._submitted: list[tuple[object, ...]] = []
        self._chunks: list[tuple[int, int, bytes]] = []
        self._ended: list[tuple[object, ...]] = []
        self._factories: dict[int, Factory] = {}
        self.handlers = bound_handlers(self)

    def _cluster(self, id: int) -> _QueuedCluster:
        cluster = self._clusters.get(id)
        if cluster is None:
            cluster = self._clusters[id] = _QueuedCluster(self._connection, self._texts, id)
        return cluster

    def on_cluster_submitted(self, position: int, event: e.ClusterSubmitted) -> None:
        ad = event.ad
        owner = unquoted(ad.get("Owner", "")) or event.submitter.partition("@")[0]
        qdate = ad.get("QDate", "")
        self._submitted.append(
            (
                event.cluster, event.submitter, owner, unquoted(ad.get("JobBatchName", "")),
                int(qdate) if qdate.isdecimal() else event.at // 1_000_000, event.count, position, _encode(ad).decode(),
                _encode(event.job_set).decode() if event.job_set else "",
            )
        )  # fmt: skip
        self._chunks += [(event.cluster, number, chunk) for number, chunk in enumerate(event.columns)]
        cluster = self._clusters[event.cluster] = _QueuedCluster(self._connection, self._texts, event.cluster, ad)
        if event.factory:
            self._factories[event.cluster] = Factory()
        else:
            cluster.add_range(QueuedRange(0, event.count - 1, STATUS_NUMBERS[event.status], "", {}))

    def _factory(self, id: int) -> Factory:
        factory = self._factories.get(id)
        if factory is None:
            row = self._connection.execute(_FACTORY, (id,)).fetchone()
            materialized, mode, reason, changes = row or (0, "Running", "", "{}")
            factory = self._factories[id] = Factory(materialized, mode, reason, _decode(changes))
        return factory

    def on_materialized(self, position: int, event: e.JobsMaterialized) -> None:
        factory, cluster = self._factory(event.cluster), self._cluster(event.cluster)
        changes = dict(factory.changes)
        fold_job(changes, cluster.ad, event)
        for first, last in event.procs:
            cluster.add_range(QueuedRange(first, last, STATUS_NUMBERS[event.status], "", changes))
            factory.materialized = last + 1

    def on_factory_moved(self, position: int, event: e.FactoryTransitioned) -> None:
        factory = self._factory(event.cluster)
        factory.mode, factory.reason = event.target, event.reason

    def on_moved(self, position: int, event: e.JobsTransitioned) -> None:
        leaves = event.target == LEFT
        status = STATUS_NUMBERS.get(event.target, 0)

        def move(job_range: QueuedRange, fold: _EventFold) -> bool:
            if leaves and not self._history:
                return False
            job_range.status, job_range.changes = status or job_range.status, fold(job_range.changes)
            job_range.altered = True
            return not leaves and (not event.left or status not in _TERMINAL or bool(job_range.slot))

        self._end(position, event, self._change(position, event, move))

    def on_edited(self, position: int, event: e.JobsEdited | e.JobsDeferred) -> None:
        def edit(job_range: QueuedRange, fold: _EventFold) -> bool:
            job_range.changes, job_range.altered = fold(job_range.changes), True
            return True

        self._change(position, event, edit)
        if (
            isinstance(event, e.JobsEdited)
            and event.procs
            and event.procs[-1][1] >= self._materialized_count(event.cluster)
        ):
            self._factory(event.cluster).changes.update(event.changes)

    def _materialized_count(self, id: int) -> float:
        """Return the number of jobs that a cluster's factory has materialized, or infinity if it has no factory."""
        factory = self._factories.get(id)
        if factory is None and self._connection.execute(_FACTORY, (id,)).fetchone() is None:
            return inf
        return self._factory(id).materialized

    def _change(
        self,
        position: int,
        event: e.JobsTransitioned | e.JobsEdited | e.JobsDeferred,
        change: Callable[[QueuedRange, _EventFold], bool],
    ) -> list[QueuedRange]:
        """Apply `change` to the jobs of an event. Return the ranges that leave the queue, to write into the history."""
        cluster = self._cluster(event.cluster)
        fold = _EventFold(cluster.ad, event)

        def apply_change(job_range: QueuedRange) -> bool:
            return change(job_range, fold)

        if len(event.procs) >= MANY_RANGES:
            self._write_ended()
            cluster.change_many(event.procs, apply_change, position, event.at)
            return []
        if len(event.procs) >= _SEVERAL:
            return cluster.change_all(event.procs, apply_change)
        return [queued for first, last in event.procs for queued in cluster.change(first, last, apply_change)]

    def _fold_single(self, event: e.JobActivated | _RunEvent | e.JobExited) -> QueuedRange | None:
        cluster = self._cluster(event.cluster)
        job_range = cluster.split_off(event.proc)
        if job_range is not None:
            job_range.fold_later(cluster.ad, event)
        return job_range

    def on_activated(self, position: int, event: e.JobActivated) -> None:
        job_range = self._fold_single(event)
        if job_range is not None:
            job_range.status, job_range.slot = _RUNNING, event.slot

    def on_run(self, position: int, event: _RunEvent) -> None:
        self._fold_single(event)

    def on_exited(self, position: int, event: e.JobExited) -> None:
        job_range = self._fold_single(event)
        if job_range is None:
            return
        job_range.slot = ""
        if event.target:
            job_range.status = STATUS_NUMBERS[event.target]
        if event.left and job_range.status in _TERMINAL:
            self._clusters[event.cluster].remove_proc(event.proc)
            self._end(position, event, [job_range])

    def _end(self, position: int, event: e.JobsTransitioned | e.JobExited, job_ranges: list[QueuedRange]) -> None:
        if not self._history:
            return
        self._ended += [
            (
                None,
                event.cluster,
                ended.first,
                ended.last,
                ended.status,
                event.at,
                position,
                self._texts.format(ended.changes),
            )
            for ended in _merged(job_ranges)
        ]

    def flush(self) -> None:
        execute = self._connection.executemany
        execute(insertion("clusters", "INSERT OR REPLACE"), self._submitted)
        execute(insertion("chunks", "INSERT OR REPLACE"), self._chunks)
        factories = [
            (number, factory.materialized, factory.mode, factory.reason, _encode(factory.changes).decode())
            for number, factory in self._factories.items()
        ]
        execute(insertion("factories", "INSERT OR REPLACE"), factories)
        deleted: list[tuple[int, int]] = []
        rows: list[tuple[object, ...]] = []
        for cluster in self._clusters.values():
            cluster.flush(deleted, rows)
        store(self._connection, deleted, rows)
        self._write_ended()

    def _write_ended(self) -> None:
        self._connection.executemany(insertion("history"), self._ended)
        self._ended.clear()
