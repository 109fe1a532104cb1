"""Prepare the match of one job with a table of slots.

A condition is split into clauses, and each clause is evaluated to a mask over the slots. The table caches the masks
that do not depend on the job, so other jobs can use them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .ad import ClassAd
from .analysis import clauses
from .columnar import JOB, MAX_NESTING, SLOT, Active, Columnar
from .columns import ABSENT, OTHER, AttributeColumn, Integers
from .environment import MATCH_NAMES
from .matching import is_satisfied, symmetric_match
from .simplify import Simplifier, folding_budget, rewrite
from .slot_columns import MAX_FORMS, SlotColumns
from .survey import is_indivisible, survey
from .tree import Attribute, Binary, Expression, Literal, Parentheses, equality_key, scope_of
from .value_evidence import DYNAMIC_REFERENCES, names_in
from .values import UNDEFINED, ContextError, EvaluationError, EvaluationFailed
from .vectors import COMPARE, Mask, Unsupported, true_mask

# Exceptions after which each slot is evaluated separately: unsupported nodes, and failures. (An evaluation in columns
# may fail because of operands that no slot's own evaluation would reach.)
FALLBACK_ERRORS = (Unsupported, EvaluationError, RecursionError)


class ClauseCount(NamedTuple):
    """The number of slots that match one clause of a job's Requirements, alone and together with earlier clauses."""

    clause: Expression
    matched: int
    left: int


def _nests_deeper(expression: Expression, levels: int) -> bool:
    return survey(expression).nesting > levels


class ColumnarClause:
    """A clause of the job's or the slots' condition, simplified with the job's attributes for evaluation in columns."""

    __slots__ = ("active", "comparison", "indivisible", "key", "names", "node", "side")

    def __init__(self, node: Expression, side: str, active: Active, *, plain: bool, indivisible: bool = False) -> None:
        """Prepare a clause.

        :param plain: whether MY and TARGET mean the job's ad and the slot's ad
        :param indivisible: whether the clause must be evaluated slot by slot
        """
        self.indivisible = indivisible
        self.node = node
        self.side = side
        self.active = active
        self.key = (side, equality_key(node), active, plain)
        self.comparison = _comparison(node, side) if plain else None
        self.names: frozenset[str] | None = None  #: the names in the clause, or None if not yet computed

    def mask_of(self, table: SlotColumns, job: ClassAd, among: Mask | None) -> Mask:
        """Return the mask of the slots for which the clause is true. Masks that depend only on columns are cached.

        :param among: the slots to consider if the clause must be evaluated slot by slot
        """
        if self.indivisible:
            return self._slot_by_slot(table, job, among)
        if self.comparison is not None:
            mask = table.comparison(*self.comparison)
            if mask is not None:
                return mask
        cached = table.masks.get(self.key)
        columns = table.columns
        if (
            cached is not None
            and len(cached[1]) == len(table)
            and all(
                (columns[name].version if name in columns else -1) == version for name, version in cached[0].items()
            )
        ):
            return cached[1]
        return self._columnar_mask(table, job, among)

    def holds_after(self, table: SlotColumns, job: ClassAd, ad: ClassAd) -> bool:
        """Check whether a clause that was true for a slot is still true after attributes in ``varying`` changed."""
        if self.comparison is not None:
            name, test, number = self.comparison
            cell = ad._find(name)
            if cell is not None and type(cell[1]) is Literal and type(cell[1].value) in (int, float):
                return bool(test(cell[1].value, number))
        if self.names is None:
            self.names = frozenset(name for _, name in names_in(self.node))
        if self.names.isdisjoint(table.varying) and self.names.isdisjoint(DYNAMIC_REFERENCES):
            cells = (ad._find(name) for name in self.names)
            if all(cell is None or type(cell[1]) is Literal for cell in cells):
                return True
        run = Columnar(table, job, table.context, self.side == JOB)
        run.steps = len(self.active)
        try:
            return is_satisfied(run.evaluate_in_slot(self.node, self.side, ad, self.active))
        except EvaluationFailed:
            return False

    def _columnar_mask(self, table: SlotColumns, job: ClassAd, among: Mask | None) -> Mask:
        run = Columnar(table, job, table.context, self.side == JOB)
        run.allow_scalar = False
        try:
            mask = true_mask(run.run(self.node, self.side, None, self.active), len(table))
        except Unsupported:
            return self._scalar_mask(table, job, among)
        except FALLBACK_ERRORS:
            return self._slot_by_slot(table, job, among)
        if run.columns_only:
            table.keep_mask(self.key, run.column_versions, mask)
        return mask

    def _scalar_mask(self, table: SlotColumns, job: ClassAd, among: Mask | None) -> Mask:
        rows: Integers = np.arange(len(table)) if among is None else np.flatnonzero(among)
        mask = np.zeros(len(table), bool)
        if not len(rows):
            return mask
        run = Columnar(table, job, table.context, self.side == JOB)
        try:
            mask[rows] = true_mask(run.run(self.node, self.side, rows, self.active), len(rows))
        except FALLBACK_ERRORS:
            return self._slot_by_slot(table, job, among)
        table.scalar_evaluations += run.scalar_calls
        return mask

    def _slot_by_slot(self, table: SlotColumns, job: ClassAd, among: Mask | None) -> Mask:
        rows = range(len(table)) if among is None else np.flatnonzero(among).tolist()
        mask = np.zeros(len(table), bool)
        run = Columnar(table, job, table.context, self.side == JOB)
        run.steps = len(self.active)
        for row in rows:
            table.scalar_evaluations += 1
            try:
                mask[row] = is_satisfied(run.evaluate_in_slot(self.node, self.side, table.ad(row), self.active))
            except EvaluationFailed:
                continue
        return mask


_MIRRORED_OPERATORS = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def _comparison(node: Expression, side: str) -> tuple[str, Callable[[Any, Any], Any], Any] | None:
    """Return the column, test and number of a comparison such as ``column < number``, or None for any other node."""
    while isinstance(node, Parentheses):
        node = node.inner
    if not isinstance(node, Binary) or node.op not in COMPARE:
        return None
    op, column, constant = node.op, node.left, node.right
    if isinstance(column, Literal):
        op, column, constant = _MIRRORED_OPERATORS[op], constant, column
    if not isinstance(column, Attribute) or not isinstance(constant, Literal):
        return None
    if scope_of(column) != ("target" if side == JOB else "my") or column.key in MATCH_NAMES:
        return None
    number = constant.value
    if type(number) is int or type(number) is float:
        return column.key, COMPARE[op], number
    return None


class _PreparedClauses:
    """The clauses of a plan for one form of the table: ``groups`` for the slots with the same Requirements, and
    ``reported`` for ``count_by_clause`` (None: not computed yet)."""

    __slots__ = ("groups", "plain", "reported")

    def __init__(self, groups: list[tuple[Mask | None, list[ColumnarClause]]], plain: bool) -> None:
        self.groups, self.plain = groups, plain
        self.reported: list[tuple[Expression, list[ColumnarClause]]] | None = None


class Plan:
    """The prepared match of one job with a table's slots, prepared again when a value that all slots share changes."""

    def __init__(self, table: SlotColumns, job: ClassAd) -> None:
        self.table = table
        self.job = job
        self._simplifier = Simplifier(job)
        self._form: tuple[int, int] = (-1, -1)
        self._prepared_forms: dict[tuple[int, int], _PreparedClauses] = {}
        self._prepared = _PreparedClauses([], False)
        self._inlined_names = 0

    def matches(self) -> Mask:
        """Return the mask of the slots that match the job. Jobs with equal clauses share a mask, so do not change it.

        :raises ContextError: if the context lacks an input
        """
        try:
            return self._matches()
        except (ContextError, RecursionError):
            table = self.table
            table.scalar_evaluations += len(table)
            answers = (symmetric_match(self.job, ad, table.context) for ad in table)
            return np.fromiter(answers, bool, len(table))

    def _matches(self) -> Mask:
        table = self.table
        count = len(table)
        self._prepare()
        if not self._prepared.groups:
            return np.zeros(count, bool)
        matched: Mask | None = None  # None: all slots
        in_any_group: Mask | None = None
        for members, group_clauses in self._prepared.groups:
            so_far = matched if members is None else table.combine(np.logical_and, matched, members)
            for clause in group_clauses:
                so_far = table.combine(np.logical_and, so_far, clause.mask_of(table, self.job, so_far))
            if members is None:
                matched = so_far
            else:
                assert so_far is not None
                in_any_group = table.combine(np.logical_or, in_any_group, so_far)
        if in_any_group is not None:
            matched = in_any_group
        return _all_if_none(matched, count)

    def still_matches(self, position: int, ad: ClassAd) -> bool:
        """Check whether the job matches a slot that it matched before, after attributes in ``varying`` changed."""
        table = self.table
        try:
            if self._form[0] == table.form_number:
                return all(
                    clause.holds_after(table, self.job, ad)
                    for members, group_clauses in self._prepared.groups
                    if members is None or members[position]
                    for clause in group_clauses
                )
        except (ContextError, RecursionError):
            pass
        return symmetric_match(self.job, ad, table.context)

    def count_by_clause(self, among: Mask | None = None) -> tuple[list[ClauseCount], Mask]:
        """Count the slots (in ``among``) that match each clause of the Requirements; also return the mask for all."""
        table = self.table
        remaining = among
        cell = self.job._find("requirements")
        if cell is None or not len(table):
            reported = [] if cell is None else list(clauses(cell[1]))
            return [ClauseCount(clause, 0, 0) for clause in reported], _all_if_none(remaining, len(table))
        self._prepare()
        if self._prepared.reported is None:
            self._prepared.reported = [(clause, self._divide(clause)) for clause in clauses(cell[1])]
        counts = []
        for clause, parts in self._prepared.reported:
            mask = among
            for part in parts:
                mask = table.combine(np.logical_and, mask, part.mask_of(table, self.job, None))
            if mask is not None:
                remaining = table.combine(np.logical_and, remaining, mask)
            counts.append(ClauseCount(clause, table.count(mask), table.count(remaining)))
        return counts, _all_if_none(remaining, len(table))

    def _divide(self, clause: Expression) -> list[ColumnarClause]:
        if is_indivisible(clause, self.job._find) or _nests_deeper(clause, MAX_NESTING):
            return [ColumnarClause(clause, JOB, frozenset(), plain=self._prepared.plain, indivisible=True)]
        return self._clauses(clause, JOB, frozenset())

    def _prepare(self) -> None:
        table = self.table
        column = table.columns.get("requirements")
        form = (table.form_number, -1 if column is None else column.version)
        if self._form == form:
            return
        prepared = self._prepared_forms.pop(form, None)
        if prepared is None:
            self._form = (-1, -1)  # invalid until the preparation, which may fail, is complete
            self._prepared = prepared = _PreparedClauses([], table.plain_scopes(self.job))
            self._prepare_groups(column)
        self._form = form
        self._prepared = self._prepared_forms[form] = prepared
        if len(self._prepared_forms) > MAX_FORMS:
            del self._prepared_forms[next(iter(self._prepared_forms))]

    def _prepare_groups(self, column: AttributeColumn | None) -> None:
        table, groups = self.table, self._prepared.groups
        self._inlined_names = 0
        if table.prepared_form != table.form_number or len(table.prepared) > _MAX_PREPARED:
            table.prepared.clear()
            table.prepared_form = table.form_number
        requirements = self.job._find("requirements")
        if requirements is None or column is None or not len(table):
            return  # without Requirements on both sides nothing matches
        groups.append((None, self._clauses(requirements[1], JOB, frozenset())))
        kinds, payloads, _ = table.distinct(column)
        for kind, payload, members in zip(kinds.tolist(), payloads.tolist(), table.members(column), strict=True):
            # A slot without Requirements accepts nothing.
            expression = Literal(False) if kind == ABSENT else table.heap.decode(kind, payload)
            groups.append((members, self._clauses(expression, SLOT, frozenset())))
        # A group without a mask contains all slots. Every slot is in a group.

    def _clauses(self, expression: Expression, side: str, active: Active) -> list[ColumnarClause]:
        if is_indivisible(expression, self.job._find if side == JOB else self.table.every_slot_has):
            # The parts of the expression depend on each other, so it cannot be split.
            return [ColumnarClause(expression, side, active, plain=self._prepared.plain, indivisible=True)]
        cache_key = self._cache_key(expression, side, active)
        cached: list[ColumnarClause] | None = None if cache_key is None else self.table.prepared.get(cache_key)
        if cached is not None:
            return cached
        if side == JOB and self._prepared.plain:
            expression = self._with_common_values(expression)
        result: list[ColumnarClause] = []
        # Substitution adds at most one level, so the clauses of a shallow expression are also shallow.
        is_shallow = not _nests_deeper(expression, MAX_NESTING - 1)
        for clause in clauses(
            rewrite(expression, self._resolve_in_job if side == JOB else self._resolve_in_slot, folding_budget())
        ):
            if isinstance(clause, Literal) and clause.value is True:
                continue
            inlined = self._inline(clause, side, active)
            if inlined is None:
                is_too_deep = not is_shallow and _nests_deeper(clause, MAX_NESTING)
                result.append(ColumnarClause(clause, side, active, plain=self._prepared.plain, indivisible=is_too_deep))
            else:
                cache_key = None  # the substituted expression may read other attributes of the job
                result.extend(self._clauses(inlined[0], SLOT, active | {inlined[1]}))
        if cache_key is not None:
            self.table.prepared[cache_key] = result
        return result

    def _with_common_values(self, expression: Expression) -> Expression:
        """Replace the explicit references to the slots whose value is equal in all slots, once for all jobs that share
        the expression. The first job does not pay for it, because each job may have a different expression."""
        prepared, key = self.table.prepared, (JOB, id(expression))
        known = prepared.get(key)
        if known is None:
            prepared[key] = expression, None  # the entry keeps the expression alive, so that no other gets its id
            return expression
        if known[1] is None:
            known = prepared[key] = expression, rewrite(expression, self._resolve_common, folding_budget())
        common: Expression = known[1]
        return common

    def _resolve_common(self, node: Attribute) -> Expression:
        return (self._common_value(node.key) if self._owner_of(node, JOB) == SLOT else None) or node

    def _cache_key(self, expression: Expression, side: str, active: Active) -> Any:
        """Return a cache key that contains the job's values of the names in a clause; None if a value is not plain."""
        if side == JOB or isinstance(expression, Literal):
            return None
        names = self.table.names_in(expression)
        values: list[Any] = []
        for name in names:
            cell = self.job._find(name)
            if cell is not None and type(cell[1]) is not Literal:
                return None
            values.append(None if cell is None else equality_key(cell[1]))
        return id(expression), active, tuple(values)

    def _resolve_in_job(self, node: Attribute) -> Expression:
        """Return the value of a reference in the job's expression if it is known, or else a reference."""
        owner = self._owner_of(node, JOB)
        if owner == EITHER:
            if self.job._find(node.key) is not None:
                return self._simplifier.value(node.key) or node
            # The job lacks the attribute, so the slot's is read. An explicit TARGET has the same meaning for every job.
            return self._common_value(node.key) or Attribute(_TARGET, node.name)
        if owner == SLOT:
            return self._common_value(node.key) or node
        return self._simplifier.resolve(node) if owner == JOB else node

    def _resolve_in_slot(self, node: Attribute) -> Expression:
        owner = self._owner_of(node, SLOT)
        if owner == EITHER:
            owner = JOB if self.table.no_slot_has(node.key) else SLOT
        if owner == SLOT:
            return self._common_value(node.key) or node
        if owner != JOB:
            return node
        return Literal(UNDEFINED) if self.job._find(node.key) is None else self._simplifier.value(node.key) or node

    def _owner_of(self, node: Attribute, side: str) -> str | None:
        """Return the ad from which a reference reads: JOB, SLOT, or EITHER (its own ad first), or None if unknown."""
        if node.absolute or node.key in MATCH_NAMES or not self._prepared.plain:
            return None
        sides: dict[str | None, str] = {"": EITHER, "my": side, "target": SLOT if side == JOB else JOB}
        return sides.get(scope_of(node))

    def _common_value(self, key: str) -> Literal | None:
        """Return the value of an attribute that has the same plain value in all slots; None for any other attribute."""
        column = self.table.columns.get(key)
        if column is None:
            return Literal(UNDEFINED)
        cell = None if key in self.table.varying else column.common
        return None if cell is None or cell[0] == OTHER else Literal(self.table.heap.value(*cell))

    def _inline(self, node: Expression, side: str, active: Active) -> tuple[Expression, tuple[str, str]] | None:
        """Return the expression of an attribute that is the same in all slots, and the attribute's side and key."""
        owner = self._owner_of(node, side) if isinstance(node, Attribute) else None
        if owner is None or owner == JOB or not isinstance(node, Attribute):
            return None
        if owner == EITHER and side == JOB and self.job._find(node.key) is not None:
            return None
        column = self.table.columns.get(node.key)
        name = (SLOT, node.key)
        if column is None or name in active or len(active) > 20 or self._inlined_names > _MAX_INLINED:
            return None
        cell = column.common
        if cell is None or cell[0] != OTHER:
            return None
        self._inlined_names += 1
        return self.table.heap.expressions[cell[1]], name


def _all_if_none(mask: Mask | None, count: int) -> Mask:
    return np.ones(count, bool) if mask is None else mask


_MAX_PREPARED = 20_000
"""The maximum number of prepared clauses of a table, which jobs with other values or expressions would never remove."""
_MAX_INLINED = 1000
"""The maximum number of names that a plan replaces with their expressions; further names are evaluated in columns."""
_TARGET = Attribute(None, "TARGET")
EITHER = "either"
