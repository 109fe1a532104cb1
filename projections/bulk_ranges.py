"""What one event about many ranges makes of a cluster's stretches, by columns: numpy cuts and joins them, and SQLite
reads and writes all that are alike by one statement each, so that nothing is done in Python for each of them.

A process that does this beside other things is not in their way: SQLite lets go of the interpreter while it works.
Kept apart, since loading numpy takes longer than most events do (``queue_view.MANY_RANGES``).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ..domain.events import Procs

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_BEFORE = "SELECT MAX(first) FROM jobs WHERE cluster=? AND first<?"
_ALIKE = (
    "SELECT status, slot, changes, json_group_array(first << 32 | last) FROM jobs "
    "WHERE cluster=? AND first BETWEEN ? AND ? GROUP BY status, slot, changes"
)
_DELETE = "DELETE FROM jobs WHERE cluster=? AND first BETWEEN ? AND ?"
_INSERT = "INSERT INTO jobs SELECT ?, value >> 32, value & 0xFFFFFFFF, ?, ?, ? FROM json_each(?)"
_LEAVE = "INSERT INTO history SELECT NULL, ?, value >> 32, value & 0xFFFFFFFF, ?, ?, ? FROM json_each(?)"
_numbers = msgspec.json.Decoder(list[int]).decode
_text = msgspec.json.Encoder().encode


class Alike(NamedTuple):
    """What stretches that are alike have: the status, where the processes are, and the changes, as JSON."""

    status: int
    slot: str
    changes: str


Change = Callable[[Alike], tuple[Alike, bool]]
"""What those become that are alike, and whether they stay in the queue."""


class _Kinds:
    """Stretches that are alike, numbered."""

    def __init__(self, meaning: Callable[[str], object]) -> None:
        """:param meaning: what changes say, equal for those that say the same in another order"""
        self.known: list[Alike] = []
        self._meaning = meaning
        self._numbers: dict[Alike, int] = {}

    def number(self, alike: Alike) -> int:
        number = self._numbers.get(alike)
        if number is None:
            number = self._numbers[alike] = len(self.known)
            self.known.append(alike)
        return number

    def joinable(self) -> Numbers:
        """Of each kind the number of the first that says the same: stretches of these are joined. Those with processes
        stay apart (-1)."""
        firsts: dict[object, int] = {}
        return np.array(
            [
                -1 if kind.slot else firsts.setdefault((kind.status, self._meaning(kind.changes)), number)
                for number, kind in enumerate(self.known)
            ],
            np.int64,
        )


class ManyStretches:
    """Those stretches of a cluster that one event after the other is about, read from the table, until ``write``."""

    def __init__(self, connection: sqlite3.Connection, cluster: int, meaning: Callable[[str], object]) -> None:
        """:param meaning: what changes say, equal for those that say the same in another order"""
        self._connection, self._cluster = connection, cluster
        self._kinds = _Kinds(meaning)
        self._around: tuple[int, int] | None = None
        self._firsts = self._lasts = self._kind = np.zeros(0, np.int64)

    def change(self, ranges: Procs, change: Change, at: int) -> None:
        """Apply ``change`` to all that is there of these ranges, which are in order, as ``change_all`` of a cluster
        does. What leaves goes into the history as of ``at``, in microseconds."""
        bounds = np.array(ranges, np.int64).reshape(-1, 2)
        self._load(int(bounds[0, 0]), int(bounds[-1, 1]))
        if not len(self._firsts):
            return
        firsts, lasts, kind, meant = _cut(self._firsts, self._lasts, self._kind, bounds[:, 0], bounds[:, 1])
        stays, kinds = np.ones(len(firsts), bool), self._kinds
        changed = kind.copy()
        for number in np.flatnonzero(np.bincount(kind[meant])).tolist():
            alike, remains = change(kinds.known[number])
            mine = meant & (kind == number)
            changed[mine], stays[mine] = kinds.number(alike), remains
        joinable = kinds.joinable()
        self._firsts, self._lasts, self._kind = _joined(
            firsts[stays], lasts[stays], changed[stays], meant[stays], joinable
        )
        left = _joined(firsts[~stays], lasts[~stays], changed[~stays], meant[~stays], joinable)
        self._write(_LEAVE, *left, lambda one: (self._cluster, one.status, at, one.changes))

    def _load(self, first: int, last: int) -> None:
        """Have all stretches that processes from ``first`` to ``last`` belong to, and their neighbours."""
        if self._around is not None and self._around[0] < first and last < self._around[1]:
            return
        self.write()
        begin = self._connection.execute(_BEFORE, (self._cluster, first)).fetchone()[0]
        self._around = first - 1 if begin is None else begin, last + 1
        spans, numbers = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for status, slot, changes, packed in self._connection.execute(_ALIKE, (self._cluster, *self._around)):
            mine = np.array(_numbers(packed), np.int64)
            spans.append(mine)
            numbers.append(np.full(len(mine), self._kinds.number(Alike(status, slot, changes)), np.int64))
        span, kind = np.concatenate(spans), np.concatenate(numbers)
        order = np.argsort(span)
        self._firsts, self._lasts, self._kind = span[order] >> 32, span[order] & 0xFFFFFFFF, kind[order]

    def write(self) -> None:
        """Let the table have all of it."""
        if self._around is None:
            return
        self._connection.execute(_DELETE, (self._cluster, *self._around))
        order = np.argsort(self._kind, kind="stable")
        firsts, lasts, kind = self._firsts[order], self._lasts[order], self._kind[order]
        self._write(_INSERT, firsts, lasts, kind, lambda one: (self._cluster, *one))
        self._around = None

    def _write(
        self,
        statement: str,
        firsts: Numbers,
        lasts: Numbers,
        kind: Numbers,
        values: Callable[[Alike], tuple[object, ...]],
    ) -> None:
        """Store stretches in their order, those at once that follow each other and are alike."""
        if not len(firsts):
            return
        spans = (firsts << 32 | lasts).tolist()
        begins = [0, *(np.flatnonzero(kind[1:] != kind[:-1]) + 1).tolist(), len(spans)]
        runs = zip(kind[begins[:-1]].tolist(), begins, begins[1:], strict=False)
        self._connection.executemany(
            statement,
            [(*values(self._kinds.known[kind]), _text(spans[begin:end]).decode()) for kind, begin, end in runs],
        )


def _cut(
    firsts: Numbers, lasts: Numbers, kind: Numbers, range_firsts: Numbers, range_lasts: Numbers
) -> tuple[Numbers, Numbers, Numbers, Flags]:
    """The stretches, cut where one of the ranges begins or ends; and of each whether it is within one."""
    edges = np.concatenate([firsts, lasts + 1, range_firsts, range_lasts + 1])
    edges.sort(kind="stable")  # four ascending runs: np.unique would look each of them up by its hash
    edges = edges[np.concatenate([[True], edges[1:] != edges[:-1]])]
    begins, ends = edges[:-1], edges[1:] - 1
    of = np.searchsorted(firsts, begins, "right") - 1
    there = (of >= 0) & (begins <= lasts[of])
    begins, ends, of = begins[there], ends[there], of[there]
    within = np.searchsorted(range_firsts, begins, "right") - 1
    meant = (within >= 0) & (begins <= range_lasts[within])
    return begins, ends, kind[of], meant


def _joined(
    firsts: Numbers, lasts: Numbers, kind: Numbers, meant: Flags, joinable: Numbers
) -> tuple[Numbers, Numbers, Numbers]:
    """The stretches, with neighbours made one that say the same, where the event was about one of them."""
    if not len(firsts):
        return firsts, lasts, kind
    same = joinable[kind]
    goes_on = (firsts[1:] == lasts[:-1] + 1) & (same[1:] == same[:-1]) & (same[1:] >= 0) & (meant[1:] | meant[:-1])
    begins = np.concatenate([[0], np.flatnonzero(~goes_on) + 1])
    ends = np.concatenate([begins[1:] - 1, [len(firsts) - 1]])
    return firsts[begins], lasts[ends], kind[begins]
