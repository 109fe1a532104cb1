"""Evaluate a constraint over many jobs by columns.

The rows of a table are jobs, and its columns are the attributes that the constraint reads, directly or indirectly.
ClusterId, ProcId and JobStatus are read from the queue's arrays; other attributes are looked up once for all jobs that
share them (``state.cluster``). A constraint that computes attribute names is evaluated job by job instead, because it
could read any attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, groupby

import numpy as np

from ..classad import ClassAd, Context, Expression
from ..classad.columns import ABSENT, INTEGER, Integers, Kinds
from ..classad.survey import SCOPE_LEAVERS
from ..classad.table import SlotTable
from ..classad.value_evidence import CALL, DYNAMIC_REFERENCES, names_in
from ..state.caches import parse_cached
from ..state.cluster import Cluster
from ..state.proc_ads import unpack

Procs = Integers
Jobs = Sequence[tuple[Cluster, list[int]]]
Cell = tuple[int, int]
"""The type of a value, and its payload in a table."""
_NO_JOB = ClassAd()
_ABSENT: Cell = (ABSENT, 0)
_MAX_ROWS = 200_000
"""The maximum number of jobs in a table, unless a single cluster has more."""
_MAX_DIGITS = 18
"""The maximum number of digits of an integer in a column."""
_FEW_JOBS = 16
"""Up to this many jobs are processed one by one."""
_FIRST_ROW = np.zeros(1, np.int64)
_UNBOUNDED_FUNCTIONS = DYNAMIC_REFERENCES | SCOPE_LEAVERS
"""Functions that may read attributes that are not in the constraint's text."""


def _statuses(rows: _JobTable) -> Integers:
    parts = [
        bytes(map(cluster.status.__getitem__, procs))
        if len(procs) < _FEW_JOBS
        else np.frombuffer(bytes(cluster.status), np.uint8)[procs].tobytes()
        for cluster, procs in rows.jobs
    ]
    return np.frombuffer(b"".join(parts), np.uint8).astype(np.int64)


_QUEUE_ATTRIBUTES: Mapping[str, Callable[[_JobTable], Integers]] = {
    "clusterid": lambda rows: np.repeat(np.array([cluster.id for cluster, _ in rows.jobs], np.int64), rows.sizes),
    "procid": lambda rows: rows.procs,
    "jobstatus": _statuses,
}
"""The attributes that are read from the queue's arrays, by lower-case name."""


def select_matching(
    constraint: Expression, jobs: Sequence[tuple[Cluster, list[int]]], context: Context
) -> list[list[int]] | None:
    """Return the processes of each cluster that meet the constraint, or None if it must be evaluated job by job."""
    selected: list[list[int]] = []
    for _, group in groupby(_numbered_tables(jobs), key=lambda numbered: numbered[0]):
        table_jobs = [job for _, job in group]
        rows = _JobTable(table_jobs, context)
        if not rows.add_columns(constraint):
            return None
        values = rows.table.of_slots(constraint, _NO_JOB)
        is_selected = ~np.isnan(values) & (values != 0)
        procs = rows.procs[is_selected].tolist()
        ends = np.concatenate([[0], np.cumsum(is_selected)])[np.cumsum(rows.sizes)].tolist()
        selected += [procs[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    return selected


def _numbered_tables(jobs: Sequence[tuple[Cluster, list[int]]]) -> Iterator[tuple[int, tuple[Cluster, list[int]]]]:
    """Yield the clusters, each with its table's number."""
    number = rows = 0
    for job in jobs:
        if rows and rows + len(job[1]) > _MAX_ROWS:
            number, rows = number + 1, 0
        rows += len(job[1])
        yield number, job


class _JobTable:
    """A table with one row per job."""

    def __init__(self, jobs: Jobs, context: Context) -> None:
        self.table = SlotTable(context=context)
        self.jobs: Jobs = jobs
        self.sizes: list[int] = [len(procs) for _, procs in jobs]
        self.procs: Procs = np.fromiter(chain.from_iterable(procs for _, procs in jobs), np.int64, sum(self.sizes))
        self.table.extend(len(self.procs))
        self._cells: dict[str, Cell] = {"": _ABSENT}
        self._unpacked: tuple[Cluster | None, dict[str, list[str]]] = None, {}
        self._spellings_by_names: dict[tuple[str, ...], dict[str, list[str]]] = {}

    def add_columns(self, constraint: Expression) -> bool:
        """Add a column for each attribute that the constraint may read; return False if these cannot be determined."""
        cells_or_absent: set[str] = set()
        pending = [constraint]
        while pending:
            reads = names_in(pending.pop())
            if any(scope == CALL and name in _UNBOUNDED_FUNCTIONS for scope, name in reads):
                return False
            for name in sorted({name for scope, name in reads if scope != CALL} - cells_or_absent):
                cells_or_absent.add(name)
                self._add_column(name)
                pending += self.table.expressions(name)
        return True

    def _add_column(self, name: str) -> None:
        array_of = _QUEUE_ATTRIBUTES.get(name)
        if array_of is not None:
            self.table.assign(name, INTEGER, array_of(self))
            return
        cells = [self._shared_cell(cluster, procs[0], name) if procs else _ABSENT for cluster, procs in self.jobs]
        cells_or_absent = [_ABSENT if cell is None else cell for cell in cells]
        kinds = np.repeat(np.array([kind for kind, _ in cells_or_absent], np.uint8), self.sizes)
        payloads = np.repeat(np.array([payload for _, payload in cells_or_absent], np.int64), self.sizes)
        start = 0
        for cell, (cluster, procs) in zip(cells, self.jobs, strict=True):
            rows = slice(start, start + len(procs))
            start = rows.stop
            if cell is None:
                self._write_cells(cluster, self.procs[rows], name, kinds[rows], payloads[rows])
        self.table.heap.strings.lowercase_codes()
        self.table.assign(name, kinds, payloads)

    def _spellings(self, cluster: Cluster, name: str) -> list[str]:
        names = (*cluster.ad, *sorted(cluster.variants.names)) if cluster.variants.names else tuple(cluster.ad)
        cells_or_absent = self._spellings_by_names.get(names)
        if cells_or_absent is None:
            cells_or_absent = self._spellings_by_names[names] = {}
            for each in dict.fromkeys(names):
                cells_or_absent.setdefault(each.lower(), []).append(each)
        return cells_or_absent.get(name, [])

    def _shared_cell(self, cluster: Cluster, proc: int, name: str) -> Cell | None:
        """Return the cell that all jobs of a cluster share, or None if they may differ. ``proc`` is any of the jobs."""
        if len(cluster.members) > 1 and (len(cluster.members) > _FEW_JOBS or sum(map(bool, cluster.members)) != 1):
            return None
        changes = cluster.changes(proc) if len(cluster.members) > 1 else {}
        spellings = self._all_spellings(cluster, name, changes) if changes else self._spellings(cluster, name)
        if cluster.variants.names and any(each in cluster.variants.names and each not in changes for each in spellings):
            return None
        return self._last_cell([changes.get(each, cluster.ad.get(each, "")) for each in spellings])

    def _all_spellings(self, cluster: Cluster, name: str, changes: Mapping[str, str]) -> list[str]:
        spellings = self._spellings(cluster, name)
        additional = [each for each in changes if each not in spellings and each.lower() == name]
        return [*spellings, *additional] if additional else spellings

    def _write_cells(self, cluster: Cluster, procs: Procs, name: str, kinds: Kinds, payloads: Integers) -> None:
        cohort_of = np.frombuffer(cluster.cohort_of, np.uint32)[procs]
        cohorts = cohort_of.tolist() if len(cohort_of) < _FEW_JOBS else np.flatnonzero(np.bincount(cohort_of)).tolist()
        for cohort in dict.fromkeys(cohorts):
            rows = np.flatnonzero(cohort_of == cohort) if len(cohort_of) > 1 else _FIRST_ROW
            changes = cluster.changes(int(procs[rows[0]]))
            names = self._all_spellings(cluster, name, changes)
            varying = [key for key in names if key in cluster.variants.names and key not in changes]
            texts = [changes.get(key, cluster.ad.get(key, "")) for key in names]
            if not varying:
                kinds[rows], payloads[rows] = self._last_cell(texts)
                continue
            if self._unpacked[0] is not cluster:
                self._unpacked = cluster, unpack(cluster.variants.chunks)
            columns = self._unpacked[1]
            for row in rows.tolist():
                proc = procs[row]
                own = [columns[key][proc] if key in varying else text for key, text in zip(names, texts, strict=True)]
                kinds[row], payloads[row] = self._last_cell(own)

    def _last_cell(self, texts: list[str]) -> Cell:
        """Return the cell of an attribute that several spellings set, where the last one wins; ignore empty texts."""
        for text in reversed(texts):
            cell = self._cell(text)
            if cell != _ABSENT:
                return cell
        return _ABSENT

    def _cell(self, text: str) -> Cell:
        cell = self._cells.get(text)
        if cell is None:
            if len(text) <= _MAX_DIGITS and text.isdecimal() and text.isascii():
                return INTEGER, int(text)  # most texts that differ between jobs
            parsed = parse_cached(text)
            cell = self._cells[text] = _ABSENT if parsed is None else self.table.heap.encode(parsed)
        return cell
