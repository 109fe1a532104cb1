"""Hold a pool of slots as a table: evaluate conditions and ranks of one job over all slots at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import columnar_operators  # noqa: F401 (it registers its handlers)
from .ad import ClassAd
from .columnar import JOB, SLOT, Columnar
from .columns import BOOLEAN, INTEGER, OTHER, REAL, STRING, CellType, Integers
from .plans import GIVES_UP, ClauseCount, Plan
from .simplify import Known
from .slot_columns import SlotColumns
from .tree import Expression
from .values import ERROR, UNDEFINED, EvaluationError, EvaluationFailed
from .vectors import Mask, Vector, natural

Numbers = npt.NDArray[np.float64]


class Cells(NamedTuple):
    """An expression's values in each slot.

    ``values`` is a typed array where all are of one plain type, else an array of Python values. ``kinds`` has a
    ``CellType`` for each: UNDEFINED, ERROR, BOOLEAN, INTEGER, REAL, STRING or OTHER.
    """

    values: npt.NDArray[Any]
    kinds: npt.NDArray[np.uint8]


class SlotTable(SlotColumns):
    """The ads of a pool's slots, held by column.

    A slot is known by its place (0, 1 ...), as in a list, or by its Name. All results are arrays with one element per
    slot, in this order. Ads are copied in; ``table.ad(place)`` makes a new one.

    :ivar context: the surroundings of all evaluations; set it again as time passes
    :ivar scalar_evaluations: how many slots were evaluated one by one so far, for want of an array operation
    """

    def matches(self, job: ClassAd) -> Mask:
        """Return for each slot whether it and the job accept each other: HTCondor's symmetricMatch."""
        return self.plan(job).matches()

    def rank(self, job: ClassAd, among: Integers | None = None) -> Numbers:
        """Return the job's Rank of each slot (of ``among``, by their places); 0.0 if it is not a number."""
        cell, ranks = job._find("rank"), np.zeros(self._rows if among is None else len(among))
        if cell is None or not len(ranks):
            return ranks
        run = Columnar(self, job, self.context)
        try:
            vector = run.evaluate(Known(job).rewrite(cell[1]), JOB, among)
            self.scalar_evaluations += run.scalar_calls
        except GIVES_UP:
            expression = cell[1]
            rank = partial(expression.evaluate, job, context=self.context)
            return self._one_by_one(rank, EvaluationFailed, among, ranks)
        return _as_numbers(vector, ranks)

    def of_slots(self, expression: Expression, job: ClassAd, among: Integers | None = None) -> Numbers:
        """Evaluate an expression of each slot (or of those at places ``among``), with a job as TARGET.

        Return NaN if it is not a number, 1 and 0 for true and false.
        """
        count = self._rows if among is None else len(among)
        numbers = np.full(count, np.nan)
        if not count:
            return numbers
        run = Columnar(self, job, self.context, job_is_left=False)
        try:
            vector = run.evaluate(expression, SLOT, among)
            self.scalar_evaluations += run.scalar_calls
        except GIVES_UP:
            value_in = partial(expression.evaluate, target=job, context=self.context)
            return self._one_by_one(value_in, EvaluationError, among, numbers)
        return _as_numbers(vector, numbers)

    def _one_by_one(
        self, value_of: Callable[[ClassAd], Any], failure: type[Exception], among: Integers | None, numbers: Numbers
    ) -> Numbers:
        """Return ``found`` with the numbers that slots' ads yield; one that fails keeps its old value."""
        places = range(self._rows) if among is None else among.tolist()
        self.scalar_evaluations += len(places)
        for number, place in enumerate(places):
            try:
                value = value_of(self.ad(place))
            except failure:
                continue
            if isinstance(value, int | float):
                numbers[number] = value
        return numbers

    def evaluate(self, expression: Expression, my: ClassAd | None = None) -> Cells:
        """Evaluate an expression of ``my`` with each slot as TARGET; raise EvaluationError where one fails."""
        job = ClassAd() if my is None else my
        run = Columnar(self, job, self.context)
        try:
            vector = run.evaluate(Known(job).rewrite(expression)) if self._rows else Vector(int(CellType.UNDEFINED), 0)
            values = None
            if vector.mixed or vector.kind == OTHER or vector.constant:
                values = run.arena.values(vector, self._rows)
            self.scalar_evaluations += run.scalar_calls
        except GIVES_UP:
            return self._evaluate_each(expression, job)
        kinds = vector.kind if vector.mixed else np.full(self._rows, vector.kind, np.uint8)
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
        """Count the slots that each clause of the job's Requirements leaves, as ``condor_q -better-analyze`` does."""
        return self.plan(job).by_clause()[0]

    def plan(self, job: ClassAd) -> Plan:
        """Prepare ``matches(job)`` for a job that is matched again and again."""
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
    """Return values as a typed array where they are of one plain type."""
    dtype: Any = object
    if len(kinds) and (kinds == kinds[0]).all():
        dtype = {int(CellType.BOOLEAN): bool, int(CellType.INTEGER): np.int64, int(CellType.REAL): float}.get(
            int(kinds[0]), object
        )
    out = np.empty(len(values), dtype)
    for place, value in enumerate(values):
        out[place] = value
    return out


def _as_numbers(vector: Vector, numbers: Numbers) -> Numbers:
    """Return ``found`` with the vector's numbers and booleans filled in."""
    if not vector.mixed:
        if vector.kind in (BOOLEAN, INTEGER, REAL):
            numbers[:] = vector.data
        return numbers
    for kind in (BOOLEAN, INTEGER, REAL):
        here = vector.kind == kind
        numbers[here] = natural(kind, vector.data)[here]
    return numbers
