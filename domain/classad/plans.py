"""Prepare the match of one job with a table of slots.

A condition is split into clauses, each a mask over the slots. The table caches the masks that need no more of the job,
for later jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any, NamedTuple

import numpy as np

from .ad import ClassAd
from .analysis import clauses
from .columnar import JOB, MAX_NESTING, SLOT, Active, Columnar
from .columns import ABSENT, INTEGER, OTHER, REAL, AttributeColumn, Integers
from .environment import MATCH_NAMES
from .evidence import MAKES_NAMES, mentioned
from .matching import accepts, symmetric_match
from .simplify import Known, folding_budget, rewrite
from .slot_columns import FORMS, SlotColumns
from .survey import strays, survey
from .tree import Attribute, Binary, Expression, Literal, Parentheses, scope_of, shape
from .values import UNDEFINED, ContextError, EvaluationError, EvaluationFailed
from .vectors import COMPARE, Mask, Unsupported, true_cells

# What makes the columns give up, so that each slot is evaluated on its own: unsupported nodes, and failures. Columns
# may evaluate what no slot would have asked for.
GIVES_UP = (Unsupported, EvaluationError, RecursionError)


class ClauseCount(NamedTuple):
    """The number of slots that one clause of a job's Requirements leaves: alone, and after the clauses before it."""

    clause: Expression
    matched: int
    left: int


def _nests(expression: Expression, levels: int) -> bool:
    return survey(expression).nesting > levels


class ColumnarClause:
    """A condition of one ad on the other, simplified by what is known of the job, and ready for the columns."""

    __slots__ = ("active", "comparison", "key", "names", "node", "side", "whole")

    def __init__(self, node: Expression, side: str, active: Active, *, plain: bool, whole: bool = False) -> None:
        """Prepare a clause; ``plain``: MY and TARGET mean the two ads, ``whole``: do not split it further."""
        self.whole = whole
        self.node = node
        self.side = side
        self.active = active
        self.key = (side, shape(node), active, plain)
        self.comparison = _comparison(node, side) if plain else None
        self.names: frozenset[str] | None = None  #: the names that it mentions; None: not looked for yet

    def mask(self, table: SlotColumns, job: ClassAd, among: Mask | None) -> Mask:
        """Return where the clause is true. Masks that depend on columns alone are kept for other jobs.

        :param among: the only slots that matter, where they are few and the clause is evaluated slot by slot
        """
        kept = table.masks.get(self.key)
        columns = table.columns
        if (
            kept is not None
            and len(kept[1]) == len(table)
            and all((columns[name].version if name in columns else -1) == version for name, version in kept[0].items())
        ):
            return kept[1]
        if self.whole:
            return self._slot_by_slot(table, job, among)
        if self.comparison is not None:
            mask = self._compared(table, *self.comparison)
            if mask is not None:
                return mask
        return self._evaluated(table, job, among)

    def holds_after(self, table: SlotColumns, job: ClassAd, ad: ClassAd, changed: Set[str]) -> bool:
        """Return whether a clause that was true of a slot is true of its changed ad: see `Plan.still_matches`."""
        if self.comparison is not None:
            name, test, number = self.comparison
            if name not in changed:
                return True
            cell = ad._find(name)
            if cell is not None and type(cell[1]) is Literal and type(cell[1].value) in (int, float):
                return bool(test(cell[1].value, number))
        if self.names is None:
            self.names = frozenset(name for _, name in mentioned(self.node))
        if self.names.isdisjoint(changed | MAKES_NAMES):
            cells = (ad._find(name) for name in self.names)
            if all(cell is None or type(cell[1]) is Literal for cell in cells):
                return True
        run = Columnar(table, job, table.context, self.side == JOB)
        run.steps = len(self.active)
        try:
            return accepts(run.evaluate_in_slot(self.node, self.side, ad, self.active))
        except EvaluationFailed:
            return False

    def _compared(self, table: SlotColumns, name: str, test: Callable[[Any, Any], Any], number: Any) -> Mask | None:
        """Compare a column of numbers with a number, as most clauses do. None for other columns."""
        column = table.columns.get(name)
        if column is None or type(column.kinds) is not int or column.kinds not in (INTEGER, REAL):
            return None
        data: Any = column.payload
        if type(data) is int:
            return None
        mask: Mask = test(data.view(np.float64) if column.kinds == REAL else data, number)
        table.keep_mask(self.key, {name: column.version}, mask)
        return mask

    def _evaluated(self, table: SlotColumns, job: ClassAd, among: Mask | None) -> Mask:
        run = Columnar(table, job, table.context, self.side == JOB)
        run.allow_scalar = False
        try:
            mask = true_cells(run.run(self.node, self.side, None, self.active), len(table))
        except Unsupported:
            return self._scalar_mask(table, job, among)
        except GIVES_UP:
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
            mask[rows] = true_cells(run.run(self.node, self.side, rows, self.active), len(rows))
        except GIVES_UP:
            return self._slot_by_slot(table, job, among)
        table.scalar_evaluations += run.scalar_calls
        return mask

    def _slot_by_slot(self, table: SlotColumns, job: ClassAd, among: Mask | None) -> Mask:
        """Evaluate each slot separately; a failed evaluation is not a match."""
        rows = range(len(table)) if among is None else np.flatnonzero(among).tolist()
        mask = np.zeros(len(table), bool)
        run = Columnar(table, job, table.context, self.side == JOB)
        run.steps = len(self.active)
        for place in rows:
            table.scalar_evaluations += 1
            try:
                mask[place] = accepts(run.evaluate_in_slot(self.node, self.side, table.ad(place), self.active))
            except EvaluationFailed:
                continue
        return mask


_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def _comparison(node: Expression, side: str) -> tuple[str, Callable[[Any, Any], Any], Any] | None:
    """Return column, test and number of ``column < number`` in any form; None for all else."""
    while isinstance(node, Parentheses):
        node = node.inner
    if not isinstance(node, Binary) or node.op not in COMPARE:
        return None
    op, column, constant = node.op, node.left, node.right
    if isinstance(column, Literal):
        op, column, constant = _TURNED[op], constant, column
    if not isinstance(column, Attribute) or not isinstance(constant, Literal):
        return None
    if scope_of(column) != ("target" if side == JOB else "my") or column.key in MATCH_NAMES:
        return None
    number = constant.value
    if type(number) is int or type(number) is float:
        return column.key, COMPARE[op], number
    return None


class _Prepared:
    """A plan's clauses as of one form of the table: by groups of slots with the same Requirements, and those that are
    told of (None: not asked yet). ``plain``: a scope in an expression means what it says."""

    __slots__ = ("groups", "plain", "wanted")

    def __init__(self, groups: list[tuple[Mask | None, list[ColumnarClause]]], plain: bool) -> None:
        self.groups, self.plain = groups, plain
        self.wanted: list[tuple[Expression, list[ColumnarClause]]] | None = None


class Plan:
    """The prepared match of one job with a table's slots, renewed when the attributes common to all slots change."""

    def __init__(self, table: SlotColumns, job: ClassAd) -> None:
        self.table = table
        self.job = job
        self._known = Known(job)
        self._form: tuple[int, int] = (-1, -1)
        self._known_forms: dict[tuple[int, int], _Prepared] = {}
        self._prepared = _Prepared([], False)
        self._inlined_names = 0

    def matches(self) -> Mask:
        """Return for each slot whether it and the job match; raise ContextError where the context lacks something."""
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
        result: Mask | None = None
        outside: Mask | None = None
        for members, conditions in self._prepared.groups:
            for clause in conditions:
                among = result if members is None else members if result is None else result & members
                mask = clause.mask(table, self.job, among)
                if members is not None:
                    mask = mask | ~members
                if result is None:
                    result = mask.copy()
                else:
                    result &= mask
            if members is not None:
                outside = members if outside is None else outside | members
        if result is None:
            result = np.ones(count, bool)
        if outside is not None:
            result &= outside
        return result

    def still_matches(self, place: int, ad: ClassAd, changed: Set[str]) -> bool:
        """Return whether the job matches the changed ad of a slot that it matched before.

        :param changed: the changed attributes, in small letters
        """
        table = self.table
        try:
            if self._form[0] == table.form:
                return all(
                    clause.holds_after(table, self.job, ad, changed)
                    for members, conditions in self._prepared.groups
                    if members is None or members[place]
                    for clause in conditions
                )
        except (ContextError, RecursionError):
            pass
        return symmetric_match(self.job, ad, table.context)

    def by_clause(self, among: Mask | None = None) -> tuple[list[ClauseCount], Mask]:
        """Count the slots (of ``among``) that each clause of the Requirements leaves; also return the mask of all."""
        table = self.table
        left = np.ones(len(table), bool) if among is None else among.copy()
        cell = self.job._find("requirements")
        if cell is None or not len(table):
            wanted = [] if cell is None else list(clauses(cell[1]))
            return [ClauseCount(clause, 0, 0) for clause in wanted], left
        self._prepare()
        if self._prepared.wanted is None:
            self._prepared.wanted = [(clause, self._parts(clause)) for clause in clauses(cell[1])]
        counts = []
        for clause, parts in self._prepared.wanted:
            mask = among
            for part in parts:
                part_mask = part.mask(table, self.job, None)
                mask = part_mask if mask is None else mask & part_mask
            if mask is not None:
                left &= mask
            alone = len(table) if mask is None else int(np.count_nonzero(mask))
            counts.append(ClauseCount(clause, alone, int(np.count_nonzero(left))))
        return counts, left

    def _parts(self, clause: Expression) -> list[ColumnarClause]:
        """Return a clause of the job's Requirements, ready for the columns."""
        if strays(clause, self.job._find) or _nests(clause, MAX_NESTING):
            return [ColumnarClause(clause, JOB, frozenset(), plain=self._prepared.plain, whole=True)]
        return self._clauses(clause, JOB, frozenset())

    def _prepare(self) -> None:
        table = self.table
        column = table.columns.get("requirements")
        form = (table.form, -1 if column is None else column.version)
        if self._form == form:
            return
        known = self._known_forms.pop(form, None)
        if known is None:
            self._form = (-1, -1)  # as long as it is not done: it may fail
            self._prepared = known = _Prepared([], table.plain_scopes(self.job))
            self._prepare_groups(column)
        self._form = form
        self._prepared = self._known_forms[form] = known
        if len(self._known_forms) > FORMS:
            del self._known_forms[next(iter(self._known_forms))]

    def _prepare_groups(self, column: AttributeColumn | None) -> None:
        table, groups = self.table, self._prepared.groups
        self._inlined_names = 0
        if table.prepared_for != table.form:
            table.prepared.clear()
            table.prepared_for = table.form
        requirements = self.job._find("requirements")
        if requirements is None or column is None or not len(table):
            return  # without Requirements on both sides nothing matches, so there is no group
        groups.append((None, self._clauses(requirements[1], JOB, frozenset())))
        kinds, payloads, inverse = table.distinct(column)
        for number, (kind, payload) in enumerate(zip(kinds.tolist(), payloads.tolist(), strict=True)):
            members = None if len(kinds) == 1 else inverse == number
            # A slot without Requirements accepts nothing.
            expression = Literal(False) if kind == ABSENT else table.heap.decode(kind, payload)
            groups.append((members, self._clauses(expression, SLOT, frozenset())))
        # A part without a mask covers all slots, one with a mask its own; every slot is in some part.

    def _clauses(self, expression: Expression, side: str, active: Active) -> list[ColumnarClause]:
        """Return the clauses of a conjunction, simplified by what is known; leave out clauses that are always true."""
        if strays(expression, self.job._find if side == JOB else self.table.has):
            # Its parts depend on one another: do not split it.
            return [ColumnarClause(expression, side, active, plain=self._prepared.plain, whole=True)]
        memo = self._memo(expression, side, active)
        kept: list[ColumnarClause] | None = None if memo is None else self.table.prepared.get(memo)
        if kept is not None:
            return kept
        out: list[ColumnarClause] = []
        # Substitution adds a level at most: where the whole is shallow, so are its clauses.
        shallow = not _nests(expression, MAX_NESTING - 1)
        for clause in clauses(rewrite(expression, self._in_job if side == JOB else self._in_slot, folding_budget())):
            if isinstance(clause, Literal) and clause.value is True:
                continue
            inner = self._inlined(clause, side, active)
            if inner is None:
                unsplit = not shallow and _nests(clause, MAX_NESTING)
                out.append(ColumnarClause(clause, side, active, plain=self._prepared.plain, whole=unsplit))
            else:
                memo = None  # the substitution depends on more of the job than this expression mentions
                out.extend(self._clauses(inner[0], SLOT, active | {inner[1]}))
        if memo is not None:
            self.table.prepared[memo] = out
        return out

    def _memo(self, expression: Expression, side: str, active: Active) -> Any:
        """Return the memo key: the job's values of the attributes that a clause reads; None where one is not plain."""
        if side == JOB or isinstance(expression, Literal):
            return None
        names = self.table.names_in(expression)
        values: list[Any] = []
        for name in names:
            cell = self.job._find(name)
            if cell is not None and type(cell[1]) is not Literal:
                return None
            values.append(None if cell is None else shape(cell[1]))
        return id(expression), active, tuple(values)

    def _in_job(self, node: Attribute) -> Expression:
        """Resolve a reference in an expression of the job, as far as it is known."""
        whose = self._whose(node, JOB)
        if whose == EITHER:
            if self.job._find(node.key) is not None:
                return self._known.value(node.key) or node
            # What the job lacks can only be the slot's. With an explicit TARGET it means the same for every job.
            return self._of_all_slots(node.key) or Attribute(_TARGET, node.name)
        if whose == SLOT:
            return self._of_all_slots(node.key) or node
        return self._known.resolve(node) if whose == JOB else node

    def _in_slot(self, node: Attribute) -> Expression:
        whose = self._whose(node, SLOT)
        if whose == EITHER:
            whose = JOB if self.table.lacks(node.key) else SLOT
        if whose == SLOT:
            return self._of_all_slots(node.key) or node
        if whose != JOB:
            return node
        return Literal(UNDEFINED) if self.job._find(node.key) is None else self._known.value(node.key) or node

    def _whose(self, node: Attribute, side: str) -> str | None:
        """Return whose attribute a reference means: the job's, the slot's, EITHER (its own ad first); None: unknown."""
        if node.absolute or node.key in MATCH_NAMES or not self._prepared.plain:
            return None
        sides: dict[str | None, str] = {"": EITHER, "my": side, "target": SLOT if side == JOB else JOB}
        return sides.get(scope_of(node))

    def _of_all_slots(self, key: str) -> Literal | None:
        """Return the value of an attribute that is the same plain value in all slots."""
        column = self.table.columns.get(key)
        if column is None:
            return Literal(UNDEFINED)
        kinds, payload = column.kinds, column.payload
        if isinstance(kinds, np.ndarray) or isinstance(payload, np.ndarray) or kinds == OTHER:
            return None
        return Literal(self.table.heap.value(kinds, payload))

    def _inlined(self, node: Expression, side: str, active: Active) -> tuple[Expression, tuple[str, str]] | None:
        """Return the expression behind an attribute that all slots share, and the attribute's mark."""
        whose = self._whose(node, side) if isinstance(node, Attribute) else None
        if whose is None or whose == JOB or not isinstance(node, Attribute):
            return None
        if whose == EITHER and side == JOB and self.job._find(node.key) is not None:
            return None
        column = self.table.columns.get(node.key)
        mark = (SLOT, node.key)
        if column is None or mark in active or len(active) > 20 or self._inlined_names > _MAX_INLINED:
            return None
        if isinstance(column.kinds, np.ndarray) or isinstance(column.payload, np.ndarray):
            return None
        if column.kinds != OTHER:
            return None
        self._inlined_names += 1
        return self.table.heap.expressions[column.payload], mark


_MAX_INLINED = 1000
"""The names whose expressions a plan puts in their place; all further ones are left to the columns."""
_TARGET = Attribute(None, "TARGET")
EITHER = "either"
