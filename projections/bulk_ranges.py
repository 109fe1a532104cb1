"""Fold an event about many ranges into a cluster's rows, splitting and merging ranges with numpy.

SQLite reads and writes all ranges with equal values in one statement, without a Python loop over ranges, and meanwhile
releases the GIL. This module is separate because importing numpy takes longer than folding most events
(``queue_view.MANY_RANGES``).
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
_EQUAL_RANGES = (
    "SELECT status, slot, changes, json_group_array(first << 32 | last) FROM jobs "
    "WHERE cluster=? AND first BETWEEN ? AND ? GROUP BY status, slot, changes"
)
_DELETE = "DELETE FROM jobs WHERE cluster=? AND first BETWEEN ? AND ?"
_INSERT = "INSERT INTO jobs SELECT ?, value >> 32, value & 0xFFFFFFFF, ?, ?, ? FROM json_each(?)"
_LEAVE = "INSERT INTO history SELECT NULL, ?, value >> 32, value & 0xFFFFFFFF, ?, ?, ?, ? FROM json_each(?)"
_decode_numbers = msgspec.json.Decoder(list[int]).decode
_encode = msgspec.json.Encoder().encode


class RangeValues(NamedTuple):
    """The values shared by all jobs in a range: status, slot, and changes as JSON."""

    status: int
    slot: str
    changes: str


Change = Callable[[RangeValues], tuple[RangeValues, bool]]
"""A function that returns the new values of a range, and False if its jobs leave the queue."""


class _DistinctValues:
    """The distinct values of ranges, each with a number."""

    def __init__(self, comparable: Callable[[str], object]) -> None:
        """:param comparable: converts changes to a value that does not depend on the order of attributes"""
        self.known: list[RangeValues] = []
        self._comparable = comparable
        self._numbers: dict[RangeValues, int] = {}

    def number(self, values: RangeValues) -> int:
        number = self._numbers.get(values)
        if number is None:
            number = self._numbers[values] = len(self.known)
            self.known.append(values)
        return number

    def mergeable(self) -> Numbers:
        """Return for each number the first number with equal values: neighbouring ranges with the same result can be
        merged. For running jobs, which are never merged, return -1."""
        firsts: dict[object, int] = {}
        return np.array(
            [
                -1 if values.slot else firsts.setdefault((values.status, self._comparable(values.changes)), number)
                for number, values in enumerate(self.known)
            ],
            np.int64,
        )


class BulkRanges:
    """A cluster's ranges, loaded from the table for consecutive events that affect them; ``write`` stores them."""

    def __init__(self, connection: sqlite3.Connection, cluster: int, comparable: Callable[[str], object]) -> None:
        """:param comparable: converts changes to a value that does not depend on the order of attributes"""
        self._connection, self._cluster = connection, cluster
        self._values = _DistinctValues(comparable)
        self._bounds: tuple[int, int] | None = None
        self._firsts = self._lasts = self._numbers = np.zeros(0, np.int64)

    def change(self, ranges: Procs, change: Change, position: int, at: int) -> None:
        """Apply ``change`` to all jobs in these sorted ranges, like ``change_all`` of a cluster. Jobs that leave the
        queue are added to the history with the event's position and instant ``at``, in microseconds."""
        bounds = np.array(ranges, np.int64).reshape(-1, 2)
        self._load(int(bounds[0, 0]), int(bounds[-1, 1]))
        if not len(self._firsts):
            return
        firsts, lasts, numbers, is_selected = _split(
            self._firsts, self._lasts, self._numbers, bounds[:, 0], bounds[:, 1]
        )
        stays, values = np.ones(len(firsts), bool), self._values
        new_numbers = numbers.copy()
        for number in np.flatnonzero(np.bincount(numbers[is_selected])).tolist():
            new_values, remain = change(values.known[number])
            has_number = is_selected & (numbers == number)
            new_numbers[has_number], stays[has_number] = values.number(new_values), remain
        mergeable = values.mergeable()
        self._firsts, self._lasts, self._numbers = _merged(
            firsts[stays], lasts[stays], new_numbers[stays], is_selected[stays], mergeable
        )
        leaving = _merged(firsts[~stays], lasts[~stays], new_numbers[~stays], is_selected[~stays], mergeable)
        self._write(_LEAVE, *leaving, lambda values: (self._cluster, values.status, at, position, values.changes))

    def _load(self, first: int, last: int) -> None:
        if self._bounds is not None and self._bounds[0] < first and last < self._bounds[1]:
            return
        self.write()
        begin = self._connection.execute(_BEFORE, (self._cluster, first)).fetchone()[0]
        self._bounds = first - 1 if begin is None else begin, last + 1
        all_spans, all_numbers = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for status, slot, changes, packed in self._connection.execute(_EQUAL_RANGES, (self._cluster, *self._bounds)):
            equal_spans = np.array(_decode_numbers(packed), np.int64)
            all_spans.append(equal_spans)
            number = self._values.number(RangeValues(status, slot, changes))
            all_numbers.append(np.full(len(equal_spans), number, np.int64))
        spans, numbers = np.concatenate(all_spans), np.concatenate(all_numbers)
        order = np.argsort(spans)
        self._firsts, self._lasts, self._numbers = spans[order] >> 32, spans[order] & 0xFFFFFFFF, numbers[order]

    def write(self) -> None:
        """Store all ranges in the table."""
        if self._bounds is None:
            return
        self._connection.execute(_DELETE, (self._cluster, *self._bounds))
        order = np.argsort(self._numbers, kind="stable")
        firsts, lasts, numbers = self._firsts[order], self._lasts[order], self._numbers[order]
        self._write(_INSERT, firsts, lasts, numbers, lambda values: (self._cluster, *values))
        self._bounds = None

    def _write(
        self,
        statement: str,
        firsts: Numbers,
        lasts: Numbers,
        numbers: Numbers,
        row: Callable[[RangeValues], tuple[object, ...]],
    ) -> None:
        """Store ranges in order, with one statement for consecutive ranges with equal values."""
        if not len(firsts):
            return
        spans = (firsts << 32 | lasts).tolist()
        begins = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(spans)]
        runs = zip(numbers[begins[:-1]].tolist(), begins, begins[1:], strict=False)
        self._connection.executemany(
            statement,
            [(*row(self._values.known[number]), _encode(spans[begin:end]).decode()) for number, begin, end in runs],
        )


def _split(
    firsts: Numbers, lasts: Numbers, numbers: Numbers, range_firsts: Numbers, range_lasts: Numbers
) -> tuple[Numbers, Numbers, Numbers, Flags]:
    """Split ranges at the ends of the selected ranges. Return the resulting ranges, and whether each is selected."""
    edges = np.concatenate([firsts, lasts + 1, range_firsts, range_lasts + 1])
    edges.sort(kind="stable")  # merges four sorted runs; np.unique would hash each edge
    edges = edges[np.concatenate([[True], edges[1:] != edges[:-1]])]
    begins, ends = edges[:-1], edges[1:] - 1
    sources = np.searchsorted(firsts, begins, "right") - 1
    exists = (sources >= 0) & (begins <= lasts[sources])
    begins, ends, sources = begins[exists], ends[exists], sources[exists]
    selections = np.searchsorted(range_firsts, begins, "right") - 1
    is_selected = (selections >= 0) & (begins <= range_lasts[selections])
    return begins, ends, numbers[sources], is_selected


def _merged(
    firsts: Numbers, lasts: Numbers, numbers: Numbers, is_selected: Flags, mergeable: Numbers
) -> tuple[Numbers, Numbers, Numbers]:
    """Merge neighbouring ranges with equal values if one of them was selected. Return the resulting ranges."""
    if not len(firsts):
        return firsts, lasts, numbers
    same = mergeable[numbers]
    is_adjacent = firsts[1:] == lasts[:-1] + 1
    is_equal = (same[1:] == same[:-1]) & (same[1:] >= 0)
    continues = is_adjacent & is_equal & (is_selected[1:] | is_selected[:-1])
    begins = np.concatenate([[0], np.flatnonzero(~continues) + 1])
    ends = np.concatenate([begins[1:] - 1, [len(firsts) - 1]])
    return firsts[begins], lasts[ends], numbers[begins]
