"""A constraint over many jobs, evaluated by columns.

Jobs are the rows of a table with the attributes that the constraint reads, directly or not. ClusterId, ProcId and
JobStatus come from the queue's own arrays. Shared attributes are looked up once for all jobs with the same history
(``state.cluster``). A constraint that makes names as it is evaluated may read anything: it is evaluated job by job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, groupby

import numpy as np

from ..classad import ClassAd, Context, Expression
from ..classad.columns import ABSENT, INTEGER, Integers, Kinds
from ..classad.evidence import CALL, DYNAMIC_REFERENCES, names_in
from ..classad.survey import SCOPE_LEAVERS
from ..classad.table import SlotTable
from ..state.caches import parse_cached
from ..state.cluster import Cluster
from ..state.proc_ads import unpack

Procs = Integers
Jobs = Sequence[tuple[Cluster, list[int]]]
Cell = tuple[int, int]
"""The kind of a value, and its payload in a table."""
_NOBODY = ClassAd()
_ABSENT: Cell = (ABSENT, 0)
_ROWS = 200_000
"""The maximum number of jobs in one table, unless one cluster has more."""
_DIGITS = 18
"""So many digits are a number that fits into a column."""
_FEW = 16
"""Up to this number, jobs are processed one by one."""
_FIRST = np.zeros(1, np.int64)
_BEYOND = DYNAMIC_REFERENCES | SCOPE_LEAVERS
"""Functions that may read attributes that the constraint does not name."""


def _statuses(rows: _Rows) -> Integers:
    parts = [
        bytes(map(cluster.status.__getitem__, procs))
        if len(procs) < _FEW
        else np.frombuffer(bytes(cluster.status), np.uint8)[procs].tobytes()
        for cluster, procs in rows.jobs
    ]
    return np.frombuffer(b"".join(parts), np.uint8).astype(np.int64)


_OWN: Mapping[str, Callable[[_Rows], Integers]] = {
    "clusterid": lambda rows: np.repeat(np.array([cluster.id for cluster, _ in rows.jobs], np.int64), rows.sizes),
    "procid": lambda rows: rows.procs,
    "jobstatus": _statuses,
}
"""The attributes that the queue itself has of each job."""


def select_matching(
    constraint: Expression, jobs: Sequence[tuple[Cluster, list[int]]], context: Context
) -> list[list[int]] | None:
    """Return, for each of these clusters, the processes that meet the constraint; None: it has to be evaluated job by
    job."""
    selected: list[list[int]] = []
    for _, several in groupby(_numbered(jobs), key=lambda one: one[0]):
        part = [job for _, job in several]
        rows = _Rows(part, context)
        if not rows.lead(constraint):
            return None
        values = rows.table.of_slots(constraint, _NOBODY)
        meets = ~np.isnan(values) & (values != 0)
        procs = rows.procs[meets].tolist()
        ends = np.concatenate([[0], np.cumsum(meets)])[np.cumsum(rows.sizes)].tolist()
        selected += [procs[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    return selected


def _numbered(jobs: Sequence[tuple[Cluster, list[int]]]) -> Iterator[tuple[int, tuple[Cluster, list[int]]]]:
    """Yield the clusters, each with the number of its table."""
    number = rows = 0
    for job in jobs:
        if rows and rows + len(job[1]) > _ROWS:
            number, rows = number + 1, 0
        rows += len(job[1])
        yield number, job


class _Rows:
    """Jobs as the rows of a table."""

    def __init__(self, jobs: Jobs, context: Context) -> None:
        self.table = SlotTable(context=context)
        self.jobs: Jobs = jobs
        self.sizes: list[int] = [len(procs) for _, procs in jobs]
        self.procs: Procs = np.fromiter(chain.from_iterable(procs for _, procs in jobs), np.int64, sum(self.sizes))
        self.table.extend(len(self.procs))
        self._cells: dict[str, Cell] = {"": _ABSENT}
        self._unpacked: tuple[Cluster | None, dict[str, list[str]]] = None, {}
        self._spelled: dict[tuple[str, ...], dict[str, list[str]]] = {}

    def lead(self, constraint: Expression) -> bool:
        """Add a column for each attribute that the constraint may read; false: that is not known beforehand."""
        known: set[str] = set()
        pending = [constraint]
        while pending:
            reads = names_in(pending.pop())
            if any(scope == CALL and name in _BEYOND for scope, name in reads):
                return False
            for name in sorted({name for scope, name in reads if scope != CALL} - known):
                known.add(name)
                self._fill(name)
                pending += self.table.expressions(name)
        return True

    def _fill(self, name: str) -> None:
        """Add a column for one attribute, whose name is in small letters."""
        own = _OWN.get(name)
        if own is not None:
            self.table.assign(name, INTEGER, own(self))
            return
        cells = [self._shared(cluster, procs[0], name) if procs else _ABSENT for cluster, procs in self.jobs]
        known = [_ABSENT if cell is None else cell for cell in cells]
        kinds = np.repeat(np.array([kind for kind, _ in known], np.uint8), self.sizes)
        payloads = np.repeat(np.array([payload for _, payload in known], np.int64), self.sizes)
        begin = 0
        for cell, (cluster, procs) in zip(cells, self.jobs, strict=True):
            rows = slice(begin, begin + len(procs))
            begin = rows.stop
            if cell is None:
                self._write(cluster, self.procs[rows], name, kinds[rows], payloads[rows])
        self.table.heap.strings.lowercase_codes()
        self.table.assign(name, kinds, payloads)

    def _spellings(self, cluster: Cluster, name: str) -> list[str]:
        """Return the spellings of an attribute in a cluster's submission."""
        form = (*cluster.ad, *sorted(cluster.variants.names)) if cluster.variants.names else tuple(cluster.ad)
        known = self._spelled.get(form)
        if known is None:
            known = self._spelled[form] = {}
            for each in dict.fromkeys(form):
                known.setdefault(each.lower(), []).append(each)
        return known.get(name, [])

    def _shared(self, cluster: Cluster, proc: int, name: str) -> Cell | None:
        """Return the cell of one attribute that all of a cluster's jobs share (``proc`` is one of them); None: they
        may differ."""
        if len(cluster.members) > 1 and (len(cluster.members) > _FEW or sum(map(bool, cluster.members)) != 1):
            return None
        changes = cluster.changes(proc) if len(cluster.members) > 1 else {}
        spelled = self._spelled_by(cluster, name, changes) if changes else self._spellings(cluster, name)
        if cluster.variants.names and any(each in cluster.variants.names and each not in changes for each in spelled):
            return None
        return self._last([changes.get(each, cluster.ad.get(each, "")) for each in spelled])

    def _spelled_by(self, cluster: Cluster, name: str, changes: Mapping[str, str]) -> list[str]:
        """Return the spellings of an attribute in a cluster's submission and in later changes of its jobs."""
        given = self._spellings(cluster, name)
        further = [each for each in changes if each not in given and each.lower() == name]
        return [*given, *further] if further else given

    def _write(self, cluster: Cluster, procs: Procs, name: str, kinds: Kinds, payloads: Integers) -> None:
        """Write the cells of one attribute of a cluster's jobs."""
        of = np.frombuffer(cluster.cohort_of, np.uint32)[procs]
        cohorts = of.tolist() if len(of) < _FEW else np.flatnonzero(np.bincount(of)).tolist()
        for cohort in dict.fromkeys(cohorts):
            rows = np.flatnonzero(of == cohort) if len(of) > 1 else _FIRST
            changes = cluster.changes(int(procs[rows[0]]))
            spelled = self._spelled_by(cluster, name, changes)
            varying = [each for each in spelled if each in cluster.variants.names and each not in changes]
            texts = [changes.get(each, cluster.ad.get(each, "")) for each in spelled]
            if not varying:
                kinds[rows], payloads[rows] = self._last(texts)
                continue
            columns = self._columns(cluster)
            for row in rows.tolist():
                proc = procs[row]
                own = [columns[e][proc] if e in varying else text for e, text in zip(spelled, texts, strict=True)]
                kinds[row], payloads[row] = self._last(own)

    def _columns(self, cluster: Cluster) -> dict[str, list[str]]:
        """Return the attributes that differ between a cluster's jobs since the submission."""
        if self._unpacked[0] is not cluster:
            self._unpacked = cluster, unpack(cluster.variants.chunks)
        return self._unpacked[1]

    def _last(self, texts: list[str]) -> Cell:
        """Return an ad's cell of one attribute that several spellings set, one after the other; empty ones do not."""
        for text in reversed(texts):
            cell = self._cell(text)
            if cell != _ABSENT:
                return cell
        return _ABSENT

    def _cell(self, text: str) -> Cell:
        """Return the cell of an attribute's text."""
        cell = self._cells.get(text)
        if cell is None:
            if len(text) <= _DIGITS and text.isdecimal() and text.isascii():
                return INTEGER, int(text)  # as most texts that differ from job to job
            meaning = parse_cached(text)
            cell = self._cells[text] = _ABSENT if meaning is None else self.table.heap.encode(meaning)
        return cell
