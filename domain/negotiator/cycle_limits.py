"""Concurrency limits in a cycle: the units in use, the units that jobs request, and which jobs or slots are rejected.

Logged matches and claims use units of concurrency limits, and so do the cycle's own matches. A cycle never releases
units, because a preempted job uses its limits until its claim ends. So a limit that is reached stays reached, and no
match exceeds a limit. (HTCondor treats the limits of preempted jobs as free for the rest of the cycle. It also checks
each mention of a limit separately if a job names the limit twice. So it may exceed limits.)
"""

from __future__ import annotations

from math import inf

import numpy as np
from msgspec import Struct, field

from ..classad import ClassAd, Context, Expression
from ..classad.analysis import references_or_empty
from ..classad.columnar import JOB, SLOT
from ..classad.tree import Literal
from ..concurrency_limits import LIMITS, Amount, maximum_amount, requested_amounts
from ..state.caches import ad_from_attributes, parse_cached
from ..state.cluster import Cluster
from ..state.job_limits import job_concurrency_limits
from ..state.state import Manager
from .candidates import SlotRanks
from .job_limits import ConcurrencyLimit, ConcurrencyUse, JobLimits, SlotLimits
from .slot_table import RowNumbers, SlotAdTable


class CycleLimits(Struct):
    """The concurrency limits of one cycle, each created when a job first names it."""

    state: Manager
    pool: SlotAdTable
    ranks: SlotRanks
    context: Context
    _limits: dict[str, ConcurrencyLimit] = field(default_factory=dict)
    _reserving: dict[str, ConcurrencyUse] = field(default_factory=dict)  #: the uses that may have reserved units
    _uses: dict[str, ConcurrencyUse] = field(default_factory=dict)
    _jobs: dict[int, JobLimits | None] = field(default_factory=dict)  #: by the autocluster's number
    _by_expression: dict[str, list[ConcurrencyUse | None]] = field(default_factory=dict)
    _units_held: dict[str, Amount] | None = None  #: the units in use when the cycle begins, by limit name

    @property
    def any_named(self) -> bool:
        """Check whether any job seen so far names limits."""
        return any(limits is not None for limits in self._jobs.values())

    def names_any(self, number: int) -> bool:
        """Check whether the jobs of an autocluster that the cycle considered earlier name concurrency limits."""
        return self._jobs.get(number) is not None

    def limits_of_job(self, number: int, cluster: Cluster, proc: int) -> JobLimits | None:
        """Return the concurrency limits that this job and its autocluster's other jobs use, or None without limits."""
        if number not in self._jobs:
            text = cluster.requested_value(proc, LIMITS)
            self._jobs[number] = self._read(text, cluster, proc) if text else None
        return self._jobs[number]

    def _read(self, text: str, cluster: Cluster, proc: int) -> JobLimits | None:
        if text[0] == '"' == text[-1] and text.count('"') == 2 and "\\" not in text:
            return self._constant_limits(text[1:-1])  # most texts are plain strings and need no parsing
        meaning = parse_cached(text)
        if meaning is None:
            return None
        if isinstance(meaning, Literal):
            return self._constant_limits(meaning.value)
        job = ad_from_attributes(cluster.attributes(proc))
        if not references_or_empty(meaning, job).external:
            return self._constant_limits(job_concurrency_limits(job, ClassAd(), self.context))
        name = self.ranks.name_of(LIMITS, meaning, job)
        if name not in self._by_expression:
            self._by_expression[name] = self._by_slots(meaning, job)
        return SlotLimits(self._by_expression[name])

    def _constant_limits(self, value: object) -> JobLimits | None:
        return self._use_of(value) if isinstance(value, str) and value else None

    def _by_slots(self, meaning: Expression, job: ClassAd) -> list[ConcurrencyUse | None]:
        """Return the concurrency limits that the jobs use on each slot, evaluated once per distinct slot
        (_slot_groups)."""
        table = self.pool.table
        first, groups = self._slot_groups(meaning, job)
        texts = [job_concurrency_limits(job, table.ad(row), self.context) for row in first.tolist()]
        uses: list[ConcurrencyUse | None] = [self._use_of(text) if text else None for text in texts]
        by_row: list[ConcurrencyUse | None] = np.array(uses, object)[groups].tolist()
        return by_row

    def _slot_groups(self, meaning: Expression, job: ClassAd) -> tuple[RowNumbers, RowNumbers]:
        """Group the slots that the expression cannot distinguish.

        :returns: the first row of each group, and the group number of each row
        """
        every = np.arange(len(self.pool.names))
        reached = self.ranks.names_reached(meaning, job, JOB)
        if self.pool.reads_anything or "random" in {name for _, name in reached}:
            return every, every
        columns = self.pool.table.columns
        read = [columns[name] for side, name in sorted(reached) if side == SLOT and name in columns]
        cells = [each for column in read for each in (column.kinds, column.payload)]
        arrays = [cell.astype(np.int64) for cell in cells if isinstance(cell, np.ndarray)]
        arrays = [array for array in arrays if (array != array[:1]).any()]
        if not arrays:
            return every[:1], np.zeros(len(every), np.int64)
        combined = arrays[0]
        for array in arrays[1:]:
            values, indices = np.unique(array, return_inverse=True)
            combined = np.unique(combined, return_inverse=True)[1] * len(values) + indices
        _, first, groups = np.unique(combined, return_index=True, return_inverse=True)
        return first, groups

    def _use_of(self, text: str) -> ConcurrencyUse:
        use = self._uses.get(text)
        if use is None:
            limits = [(self._limit(name), units) for name, units in requested_amounts(text)]
            ending = tuple([(limit, units) for limit, units in limits if limit.most != inf])
            use = self._uses[text] = ConcurrencyUse(text, ending, self._reserving)
        return use

    def _limit(self, name: str) -> ConcurrencyLimit:
        limit = self._limits.get(name)
        if limit is None:
            if self._units_held is None:
                self._units_held = {}
                for text, count in self.state.limits_in_use.items():
                    for used, units in requested_amounts(text):
                        self._units_held[used] = self._units_held.get(used, 0) + units * count
            maximum = maximum_amount(self.state.settings, name)
            limit = self._limits[name] = ConcurrencyLimit(name, maximum, maximum - self._units_held.get(name, 0))
        return limit
