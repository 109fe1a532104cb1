"""The queue and the history: ranges of jobs that share everything.

The rule that keeps 100,000 like jobs a handful of rows: a row (a *stretch* of processes) is cut only where an event is
about a part of it, and an event about many jobs makes neighbours that have become equal one again. What a change does
to a job's ad is ``domain/state/job_ad``'s to say, and is computed once for all jobs that share their changes.

A job leaves the queue as in ``domain/fold/evolve``: when an event says so; in logs of format 1 when it is Removed or
Completed, and its processes, if it has any, are gone. What an event says of a job that is not in the queue changes
nothing.
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
    from .bulk_ranges import ManyStretches

_Fact = e.JobTransferBegan | e.JobTransferEnded | e.JobExecuting | e.JobMeasured
_TERMINAL = frozenset(STATUS_NUMBERS[name] for name in TERMINAL)
_RUNNING = STATUS_NUMBERS["Running"]
_decode = msgspec.json.Decoder(Changes).decode
_encode = msgspec.json.Encoder().encode

_FACTORY = "SELECT made, mode, reason, changes FROM factories WHERE cluster=?"
_OF = "SELECT first, last, status, slot, changes FROM jobs WHERE cluster=? AND "
_AT = _OF + "first<=? ORDER BY first DESC LIMIT 1"
_BETWEEN = _OF + "first BETWEEN ? AND ?"
_SEVERAL = 16
"""Ranges of one event from which on its cluster's stretches are walked through once: to change ranges one by one takes
longer, the more stretches there are."""


@define(eq=False)
class QueuedRange:
    """Jobs of one cluster that share everything. ``slot``: where the processes of the one job are, if it has any.
    ``changes`` may be shared with other stretches: it is replaced, never altered."""

    first: int
    last: int
    status: int
    slot: str
    changes: Changes
    altered: bool = True

    def continues(self, before: QueuedRange) -> bool:
        """Whether this stretch is `before`, carried on."""
        return (
            self.first == before.last + 1
            and self.status == before.status
            and not (self.slot or before.slot)
            and (self.changes is before.changes or self.changes == before.changes)
        )


class _Texts:
    """Changes and their texts in the tables: each text is read, and each set of changes written, once for all the
    stretches that share it, so that what is done with one is done for all of them."""

    __slots__ = ("_known", "_written")

    def __init__(self) -> None:
        self._known: dict[str, Changes] = {}
        self._written: dict[int, tuple[Changes, str]] = {}
        """By the identity of the changes, which are kept so that no others take it."""

    def read(self, text: str) -> Changes:
        decoded = self._known.get(text)
        if decoded is None:
            decoded = self._known[text] = _decode(text)
        return decoded

    def write(self, changes: Changes) -> str:
        encoded = self._written.get(id(changes))
        if encoded is None:
            encoded = self._written[id(changes)] = changes, _encode(changes).decode()
        return encoded[1]


class _QueuedCluster:
    """The stretches of one cluster, read from the table as they are asked for, written by ``flush``."""

    __slots__ = ("_ad", "_connection", "_firsts", "_id", "_many", "_new", "_stored", "_stretches", "_texts")

    def __init__(self, connection: sqlite3.Connection, texts: _Texts, id: int, ad: Changes | None = None) -> None:
        """`ad`: of a cluster that was submitted just now, so that nothing of it is stored."""
        self._connection, self._texts, self._id, self._ad = connection, texts, id, ad
        self._new = ad is not None
        self._stretches: dict[int, QueuedRange] = {}
        self._firsts: list[int] = []
        self._stored: set[int] = set()
        self._many: ManyStretches | None = None
        """The stretches by columns, if an event about many ranges came last: then there are none beside."""

    @property
    def ad(self) -> Changes:
        if self._ad is None:
            row = self._connection.execute("SELECT ad FROM clusters WHERE cluster=?", (self._id,)).fetchone()
            self._ad = _decode(row[0]) if row else {}
        return self._ad

    def add(self, stretch: QueuedRange) -> None:
        self.settle()
        self._stretches[stretch.first] = stretch
        self._firsts.insert(bisect_left(self._firsts, stretch.first), stretch.first)

    def _load(self, first: int, last: int, status: int, slot: str, changes: str) -> None:
        if first not in self._stored:  # else it is known, or was and has gone
            self._stored.add(first)
            self.add(QueuedRange(first, last, status, slot, self._texts.read(changes), altered=False))

    def _known(self, proc: int) -> QueuedRange | None:
        place = bisect_right(self._firsts, proc) - 1
        if place < 0:
            return None
        stretch = self._stretches[self._firsts[place]]
        return stretch if proc <= stretch.last else None

    def _at(self, proc: int) -> QueuedRange | None:
        """The stretch that holds a process."""
        self.settle()
        stretch = self._known(proc)
        if stretch is None and not self._new:
            row = self._connection.execute(_AT, (self._id, proc)).fetchone()
            if row is not None and proc <= row[1]:
                self._load(*row)
                stretch = self._known(proc)
        return stretch

    def _cut(self, proc: int) -> None:
        """See to it that no stretch holds both `proc` and the process before it."""
        stretch = self._at(proc)
        if stretch is not None and stretch.first < proc:
            self.add(QueuedRange(proc, stretch.last, stretch.status, stretch.slot, stretch.changes))
            stretch.last, stretch.altered = proc - 1, True

    def one(self, proc: int) -> QueuedRange | None:
        """The stretch of this process alone."""
        if self._at(proc) is None:
            return None
        self._cut(proc)
        self._cut(proc + 1)
        return self._stretches[proc]

    def drop(self, proc: int) -> None:
        """The stretch of this process alone leaves."""
        del self._stretches[proc]
        del self._firsts[bisect_left(self._firsts, proc)]

    def change(self, first: int, last: int, change: Callable[[QueuedRange], bool]) -> list[QueuedRange]:
        """Apply `change` to all that is there of a range; return the stretches that leave, for which it is False.
        Neighbours that are equal then become one."""
        self._at(first - 1)
        self._cut(first)
        self._cut(last + 1)
        if not self._new:
            for row in self._connection.execute(_BETWEEN, (self._id, first, last)).fetchall():
                self._load(*row)
        begin, end = bisect_left(self._firsts, first), bisect_right(self._firsts, last)
        within = [self._stretches[at] for at in self._firsts[begin:end]]
        stay: list[QueuedRange] = []
        leave: list[QueuedRange] = []
        for stretch in within:
            (stay if change(stretch) else leave).append(stretch)
        begin, end = max(begin - 1, 0), end + 1
        around = [self._stretches[at] for at in self._firsts[begin:end] if not first <= at <= last]
        before = [stretch for stretch in around if stretch.first < first]
        merged = _merged([*before, *stay, *around[len(before) :]])
        for at in self._firsts[begin:end]:
            del self._stretches[at]
        self._stretches.update((stretch.first, stretch) for stretch in merged)
        self._firsts[begin:end] = [stretch.first for stretch in merged]
        return leave

    def change_all(self, ranges: e.Procs, change: Callable[[QueuedRange], bool]) -> list[QueuedRange]:
        """Do what ``change`` does for each of these ranges, which are in order, in one walk over the stretches."""
        first, last = ranges[0][0], ranges[-1][1]
        for proc in (first - 1, first, last, last + 1):
            self._at(proc)
        if not self._new:
            for row in self._connection.execute(_BETWEEN, (self._id, first, last)).fetchall():
                self._load(*row)
        begin, end = max(bisect_right(self._firsts, first) - 2, 0), bisect_right(self._firsts, last) + 1
        walked = [self._stretches.pop(at) for at in self._firsts[begin:end]]
        changed_ranges: list[QueuedRange] = []
        leave: list[QueuedRange] = []
        meant_before = False
        for piece, meant in _cut_along(walked, ranges):
            if meant and not change(piece):
                leave.append(piece)
                continue
            if changed_ranges and (meant or meant_before) and piece.continues(changed_ranges[-1]):
                changed_ranges[-1].last, changed_ranges[-1].altered = piece.last, True
            else:
                changed_ranges.append(piece)
            meant_before = meant
        self._stretches.update((stretch.first, stretch) for stretch in changed_ranges)
        self._firsts[begin:end] = [stretch.first for stretch in changed_ranges]
        return leave

    def change_many(self, ranges: e.Procs, change: Callable[[QueuedRange], bool], at: int) -> None:
        """Do the same by columns: for so many ranges that it pays. What leaves goes into the history as of ``at``."""
        from .bulk_ranges import Alike, ManyStretches

        def changed(alike: Alike) -> tuple[Alike, bool]:
            queued = QueuedRange(0, 0, alike.status, alike.slot, self._texts.read(alike.changes))
            stays = change(queued)
            return Alike(queued.status, queued.slot, self._texts.write(queued.changes)), stays

        if self._many is None:
            gone: list[tuple[int, int]] = []
            rows: list[tuple[object, ...]] = []
            self.flush(gone, rows)
            store(self._connection, gone, rows)
            self._stretches, self._firsts, self._stored, self._new = {}, [], set(), False
            self._many = ManyStretches(
                self._connection, self._id, lambda text: tuple(sorted(self._texts.read(text).items()))
            )
        self._many.change(ranges, changed, at)

    def settle(self) -> None:
        """Have the table, and no columns any more, say what there is."""
        if self._many is not None:
            self._many.write()
            self._many = None

    def flush(self, gone: list[tuple[int, int]], rows: list[tuple[object, ...]]) -> None:
        """Add what is to be deleted and what is to be stored."""
        self.settle()
        for first in self._stored:
            stretch = self._stretches.get(first)
            if stretch is None or stretch.altered:
                gone.append((self._id, first))
        for s in self._stretches.values():
            if s.altered:
                rows.append((self._id, s.first, s.last, s.status, s.slot, self._texts.write(s.changes)))


def store(connection: sqlite3.Connection, gone: list[tuple[int, int]], rows: list[tuple[object, ...]]) -> None:
    connection.executemany("DELETE FROM jobs WHERE cluster=? AND first=?", gone)
    connection.executemany(insertion("jobs"), rows)


def _cut_along(stretches: Iterable[QueuedRange], ranges: e.Procs) -> Iterator[tuple[QueuedRange, bool]]:
    """The stretches, cut where one of the ranges begins or ends; and of each whether it is within one."""
    number = 0
    for stretch in stretches:
        while True:
            while number < len(ranges) and ranges[number][1] < stretch.first:
                number += 1
            first, last = ranges[number] if number < len(ranges) else (stretch.last + 1, stretch.last + 1)
            meant = first <= stretch.first
            until = min(stretch.last, last if meant else first - 1)
            rest = None
            if until < stretch.last:
                rest = QueuedRange(until + 1, stretch.last, stretch.status, stretch.slot, stretch.changes)
                stretch.last, stretch.altered = until, True
            yield stretch, meant
            if rest is None:
                break
            stretch = rest


def _merged(stretches: Iterable[QueuedRange]) -> list[QueuedRange]:
    """The stretches, in their order, with those made one that carry the one before on."""
    merged: list[QueuedRange] = []
    for stretch in stretches:
        if merged and stretch.continues(merged[-1]):
            merged[-1].last, merged[-1].altered = stretch.last, True
        else:
            merged.append(stretch)
    return merged


class _FoldedOnce:
    """The fold of one event over changes, computed once for all who share them."""

    def __init__(self, base: Changes, event: e.Event) -> None:
        self._base, self._event = base, event
        # With the changes that were folded, so that none of them goes and another takes its id.
        self._known: dict[int, tuple[Changes, Changes]] = {}

    def __call__(self, changes: Changes) -> Changes:
        known = self._known.get(id(changes))
        if known is None:
            folded = dict(changes)
            fold_job(folded, self._base, self._event)
            known = self._known[id(changes)] = changes, folded
        return known[1]


class QueueFold:
    """Folds a batch of events; ``flush`` writes what they changed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._texts = _Texts()
        self._clusters: dict[int, _QueuedCluster] = {}
        self._submitted: list[tuple[object, ...]] = []
        self._chunks: list[tuple[int, int, bytes]] = []
        self._ended: list[tuple[object, ...]] = []
        self._factories: dict[int, Factory] = {}
        self.handlers = bound_handlers(self)

    def _cluster(self, id: int) -> _QueuedCluster:
        known = self._clusters.get(id)
        if known is None:
            known = self._clusters[id] = _QueuedCluster(self._connection, self._texts, id)
        return known

    def on_cluster_submitted(self, position: int, event: e.ClusterSubmitted) -> None:
        ad = event.ad
        owner = unquoted(ad.get("Owner", "")) or event.submitter.partition("@")[0]
        qdate = ad.get("QDate", "")
        self._submitted.append(
            (
                event.cluster, event.submitter, owner, unquoted(ad.get("JobBatchName", "")),
                int(qdate) if qdate.isdecimal() else event.at // 1_000_000, event.count, _encode(ad).decode(),
            )
        )  # fmt: skip
        self._chunks += [(event.cluster, number, chunk) for number, chunk in enumerate(event.columns)]
        cluster = self._clusters[event.cluster] = _QueuedCluster(self._connection, self._texts, event.cluster, ad)
        if event.factory:
            self._factories[event.cluster] = Factory()
        else:
            cluster.add(QueuedRange(0, event.count - 1, STATUS_NUMBERS[event.status], "", {}))

    def _factory(self, id: int) -> Factory:
        known = self._factories.get(id)
        if known is None:
            row = self._connection.execute(_FACTORY, (id,)).fetchone()
            made, mode, reason, changes = row or (0, "Running", "", "{}")
            known = self._factories[id] = Factory(made, mode, reason, _decode(changes))
        return known

    def on_materialized(self, position: int, event: e.JobsMaterialized) -> None:
        factory, cluster = self._factory(event.cluster), self._cluster(event.cluster)
        changes = dict(factory.changes)
        fold_job(changes, cluster.ad, event)
        for first, last in event.procs:
            cluster.add(QueuedRange(first, last, STATUS_NUMBERS[event.status], "", changes))
            factory.materialized = last + 1

    def on_factory_moved(self, position: int, event: e.FactoryTransitioned) -> None:
        factory = self._factory(event.cluster)
        factory.mode, factory.reason = event.target, event.reason

    def on_moved(self, position: int, event: e.JobsTransitioned) -> None:
        leaves = event.target == LEFT
        status = STATUS_NUMBERS.get(event.target, 0)

        def move(stretch: QueuedRange, changes: Changes) -> bool:
            stretch.status, stretch.changes, stretch.altered = status or stretch.status, changes, True
            return not leaves and (not event.left or status not in _TERMINAL or bool(stretch.slot))

        self._end(event, self._change(event, move))

    def on_edited(self, position: int, event: e.JobsEdited | e.JobsDeferred) -> None:
        def edit(stretch: QueuedRange, changes: Changes) -> bool:
            stretch.changes, stretch.altered = changes, True
            return True

        self._change(event, edit)
        if isinstance(event, e.JobsEdited) and event.procs and event.procs[-1][1] >= self._made(event.cluster):
            self._factory(event.cluster).changes.update(event.changes)

    def _made(self, id: int) -> float:
        """How many jobs a cluster's factory has made; without one, more than there can be."""
        known = self._factories.get(id)
        if known is None and self._connection.execute(_FACTORY, (id,)).fetchone() is None:
            return inf
        return self._factory(id).materialized

    def _change(
        self, event: e.JobsTransitioned | e.JobsEdited | e.JobsDeferred, change: Callable[[QueuedRange, Changes], bool]
    ) -> list[QueuedRange]:
        """Change what the event is about; return what is still to be written into the history."""
        cluster = self._cluster(event.cluster)
        folded = _FoldedOnce(cluster.ad, event)

        def changed(stretch: QueuedRange) -> bool:
            return change(stretch, folded(stretch.changes))

        if len(event.procs) >= MANY_RANGES:
            self._write_ended()
            cluster.change_many(event.procs, changed, event.at)
            return []
        if len(event.procs) >= _SEVERAL:
            return cluster.change_all(event.procs, changed)
        return [queued for first, last in event.procs for queued in cluster.change(first, last, changed)]

    def _one(self, event: e.JobActivated | _Fact | e.JobExited) -> QueuedRange | None:
        """The job that an event is about, its changes folded; None if it is not in the queue."""
        cluster = self._cluster(event.cluster)
        stretch = cluster.one(event.proc)
        if stretch is not None:
            changes = dict(stretch.changes)
            fold_job(changes, cluster.ad, event)
            stretch.changes, stretch.altered = changes, True
        return stretch

    def on_activated(self, position: int, event: e.JobActivated) -> None:
        stretch = self._one(event)
        if stretch is not None:
            stretch.status, stretch.slot = _RUNNING, event.slot

    def on_run(self, position: int, event: _Fact) -> None:
        self._one(event)

    def on_exited(self, position: int, event: e.JobExited) -> None:
        stretch = self._one(event)
        if stretch is None:
            return
        stretch.slot = ""
        if event.target:
            stretch.status = STATUS_NUMBERS[event.target]
        if event.left and stretch.status in _TERMINAL:
            self._clusters[event.cluster].drop(event.proc)
            self._end(event, [stretch])

    def _end(self, event: e.JobsTransitioned | e.JobExited, stretches: list[QueuedRange]) -> None:
        self._ended += [
            (None, event.cluster, s.first, s.last, s.status, event.at, self._texts.write(s.changes))
            for s in _merged(stretches)
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
        gone: list[tuple[int, int]] = []
        rows: list[tuple[object, ...]] = []
        for cluster in self._clusters.values():
            cluster.flush(gone, rows)
        store(self._connection, gone, rows)
        self._write_ended()

    def _write_ended(self) -> None:
        self._connection.executemany(insertion("history"), self._ended)
        self._ended.clear()
