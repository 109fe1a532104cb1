"""Store a pool's slots as a table, in which a job's conditions and ranks are evaluated for all slots together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import columnar_operators  # noqa: F401 (imported to register its handlers)
from .ad import ClassAd
from .columnar import JOB, SLOT, Columnar
from .columns import BOOLEAN, INTEGER, OTHER, REAL, STRING, CellType, Integers
from .plans import FALLBACK_ERRORS, ClauseCount, Plan
from .simplify import Simplifier
from .slot_columns import SlotColumns
from .tree import Expression
from .values import ERROR, UNDEFINED, EvaluationError, EvaluationFailed
from .vectors import Mask, Vector, to_natural

Numbers = npt.NDArray[np.float64]


class Cells(NamedTuple):
    """The values of an expression for each slot. ``values`` is a typed array if all values have the same plain type, or
    else an array of Python objects. ``kinds`` is the ``CellType`` of each value: UNDEFINED, ERROR, BOOLEAN, INTEGER,
    REAL, STRING or OTHER."""

    values: npt.NDArray[Any]
    kinds: npt.NDArray[np.uint8]


class SlotTable(SlotColumns):
    """The ads of a pool's slots, stored by column.

    A slot is identified by its position (0, 1 ...), as in a list, or by its Name. All results are arrays with one
    element per slot, in this order. The table copies the ads; ``table.ad(position)`` builds a new one.

    :ivar context: the context of all evaluations; replace it as time passes
    :ivar scalar_evaluations: how many slots were evaluated separately so far, because an array operation was missing
    """

    def matches(self, job: ClassAd) -> Mask:
        """Return the mask of slots that match the job in both directions, like HTCondor's symmetricMatch."""
        return self.plan(job).matches().copy()

    def rank(self, job: ClassAd, among: Integers | None = None) -> Numbers:
        """Return the job's Rank of each slot, or only of those at positions ``among``; 0.0 where it is not a number."""
        cell, ranks = job._find("rank"), np.zeros(self._rows if among is None else len(among))
        if cell is None or not len(ranks):
            return ranks
        run = Columnar(self, job, self.context)
        try:
            vector = run.evaluate(Simplifier(job).rewrite(cell[1]), JOB, among)
            self.scalar_evaluations += run.scalar_calls
        except FALLBACK_ERRORS:
            expression = cell[1]
            rank = partial(expression.evaluate, job, context=self.context)
            return self._evaluate_separately(rank, EvaluationFailed, among, ranks)
        return _as_numbers(vector, ranks)

    def of_slots(self, expression: Expression, job: ClassAd, among: Integers | None = None) -> Numbers:
        """Evaluate an expression in each slot, or only in those at positions ``among``, with a job as TARGET.

        True and false become 1 and 0, and values that are not numbers become NaN.
        """
        count = self._rows if among is None else len(among)
        numbers = np.full(count, np.nan)
        if not count:
            return numbers
        run = Columnar(self, job, self.context, job_is_left=False)
        try:
            vector = run.evaluate(expression, SLOT, among)
            self.scalar_evaluations += run.scalar_calls
        except FALLBACK_ERRORS:
            evaluate_slot = partial(expression.evaluate, target=job, context=self.context)
            return self._evaluate_separately(evaluate_slot, EvaluationError, among, numbers)
        return _as_numbers(vector, numbers)

    def _evaluate_separately(
        self, evaluate_ad: Callable[[ClassAd], Any], failure: type[Exception], among: Integers | None, numbers: Numbers
    ) -> Numbers:
        places = range(self._rows) if among is None else among.tolist()
        self.scalar_evaluations += len(places)
        for index, position in enumerate(places):
            try:
                value = evaluate_ad(self.ad(position))
            except failure:
                continue
            if isinstance(value, int | float):
                numbers[index] = value
        return numbers

    def evaluate(self, expression: Expression, my: ClassAd | None = None) -> Cells:
        """Evaluate an expression of ``my`` with each slot as TARGET; raise EvaluationError if any fails."""
        job = ClassAd() if my is None else my
        run = Columnar(self, job, self.context)
        try:
            vector = (
                run.evaluate(Simplifier(job).rewrite(expression)) if self._rows else Vector(int(CellType.UNDEFINED), 0)
            )
            values = None
            if vector.has_mixed_kinds or vector.kind == OTHER or vector.is_constant:
                values = run.arena.values(vector, self._rows)
            self.scalar_evaluations += run.scalar_calls
        except FALLBACK_ERRORS:
            return self._evaluate_each(expression, job)
        kinds = vector.kind if vector.has_mixed_kinds else np.full(self._rows, vector.kind, np.uint8)
        if values is None:
            if vector.kind == STRING:
                values = run.arena.values(vector, self._rows)
            else:
                return Cells(vector.data.copy(), kinds.copy())
        return Cells(_array(values, kinds), kinds.copy())

    def _evaluate_each(self, expression: Expression, job: ClassAd) -> Cells:
        values = [expression.evaluate(job, ad, self.context) for ad in self]
        self.scalar_evaluations += self._rows
        kinds = np.array([_kind_of(value) for value in values], np.uint8)
        return Cells(_array(values, kinds), kinds)

    def count_by_clause(self, job: ClassAd) -> list[ClauseCount]:
        """Count the slots that match each clause of the job's Requirements, like ``condor_q -better-analyze``."""
        return self.plan(job).count_by_clause()[0]

    def plan(self, job: ClassAd) -> Plan:
        """Return a prepared match of a job, which is faster than ``matches`` if the job is matched repeatedly."""
        return Plan(self, job)


def _kind_of(value: Any) -> int:
    kinds: dict[type, CellType] = {
        bool: CellType.BOOLEAN,
        int: CellType.INTEGER,
        float: CellType.REAL,
        str: CellType.STRING,
    }
    if value is UNDEFINED:
        return CellType.UNDEFINED
    return CellType.ERROR if value is ERROR else kinds.get(type(value), CellType.OTHER)


def _array(values: Sequence[Any], kinds: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    dtype: Any = object
    if len(kinds) and (kinds == kinds[0]).all():
        dtype = {int(CellType.BOOLEAN): bool, int(CellType.INTEGER): np.int64, int(CellType.REAL): float}.get(
            int(kinds[0]), object
        )
    array = np.empty(len(values), dtype)
    for position, value in enumerate(values):
        array[position] = value
    return array


def _as_numbers(vector: Vector, numbers: Numbers) -> Numbers:
    if not vector.has_mixed_kinds:
        if vector.kind in (BOOLEAN, INTEGER, REAL):
            numbers[:] = vector.data
        return numbers
    for kind in (BOOLEAN, INTEGER, REAL):
        mask = vector.kind == kind
        numbers[mask] = to_natural(kind, vector.data)[mask]
    return numbers
