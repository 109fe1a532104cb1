"""Define the environment of one evaluation, with the two ads of a match, and look up names in it.

A name is looked up in an ad, then in the ad that encloses it, and so on outwards. As in HTCondor's MatchClassAd, each
ad of a match is nested in a small context ad that defines TARGET, OTHER and AD, and both contexts in a match ad.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .ad import ClassAd
from .context import Context, Randomness
from .syntax import parse, parse_new_ad
from .tree import Expression, ListValue, children
from .values import ContextError, EvaluationFailed

MATCH_ROOT = ClassAd._nested(
    parse_new_ad(
        "[symmetricMatch = RIGHT.requirements && LEFT.requirements; leftMatchesRight = RIGHT.requirements;"
        " rightMatchesLeft = LEFT.requirements; leftRankValue = LEFT.rank; rightRankValue = RIGHT.rank;"
        " lCtx = [other = .RIGHT; target = .RIGHT; my = .LEFT; ad = .LEFT];"
        " rCtx = [other = .LEFT; target = .LEFT; my = .RIGHT; ad = .RIGHT]]"
    ).cells,
    None,
)


def _context(key: str) -> ClassAd:
    return ClassAd._nested(MATCH_ROOT._cells[key][1].cells, MATCH_ROOT)  # type: ignore[attr-defined]


LEFT_CONTEXT = _context("lctx")
RIGHT_CONTEXT = _context("rctx")

# Names with a special meaning unless an ad has an attribute of that name; MATCH_NAMES adds a match's names.
_SPECIAL_NAMES = frozenset({"toplevel", "root", "self", "my", "parent", "currenttime"})
_TIME_CALL = parse("time()")
MATCH_NAMES = _SPECIAL_NAMES | {"left", "right"} | MATCH_ROOT._cells.keys() | LEFT_CONTEXT._cells.keys()


MAX_DEPTH = 400
MAX_STEPS = 4_000_000
"""The budget of one evaluation, or of one search for references: the nodes that it visits.

Users write the expressions that the pool evaluates. A few lines (``E1 = E0 + E0``, ``E2 = E1 + E1`` ...) can lead to
2^40 nodes. Every walk over expressions is therefore linear in the text or pays from this budget. A walk that exceeds
the budget raises EvaluationFailed, which affects only its own expression. HTCondor's limit is ten million nodes; fewer
suffice here because values are cached. A decision's evaluations for one user share a budget (``allowance``). The walks:

====================  ==================================================================================================
evaluation            ``scalar.follow`` and ``evaluate_in`` pay for an expression's nodes, and cache values
functions             ``node_compilers.bind_call`` pays a quarter of a step for each member and character that a
                      function reads or creates, so an evaluation creates at most 16 MB of text
regular expressions   ``functions_patterns`` pays a quarter of the budget for a slow match
lists of lists        ``Environment.unfold`` pays for the nodes that the text of such a list would have
references            ``analysis._Search`` follows a name once in each ad, and pays for each reference
simplification        ``Simplifier`` rewrites a name once, gives up after ``MAX_REWRITTEN``, folds only small
                      constants, and pays for folding
over time             ``time_evaluation`` follows a name once and pays for it; ``may_depend_on_time`` visits a name once
in columns            ``columnar`` evaluates a name once and gives up after ``MAX_FOLLOWED``; ``scalar`` takes over,
                      with one budget for all slots (``Columnar.evaluate_in_slot``); ``plans`` inlines ``_MAX_INLINED``
parsing, compiling,   linear in the text, whose length ``tokens.MAX_TOKENS`` limits
surveys, unparsing
====================  ==================================================================================================
"""
ENTERING = 20
"""The additional steps for following a name, which takes as long as evaluating this many operators."""
CACHES_BELOW = MAX_STEPS - 500
"""Values are cached once fewer steps than this are left, because most evaluations are too short to gain from it."""
MAX_CACHED = 100_000


Ad = ClassAd | None
Evaluator = Callable[["Environment", Ad], Any]


class Environment:
    """One evaluation: the two ads of the match, the context, and the limits of depth and steps."""

    # Class attributes are the defaults that few evaluations change, because each evaluation creates an instance.
    depth = MAX_DEPTH
    steps = MAX_STEPS
    # If the context has an allowance: the user who pays, and the steps left at the last charge.
    payer = ""
    charged_from = MAX_STEPS
    active: set[tuple[int, str]] | None = None
    # Values by the ids of expression and ad: (value, depth needed, ``active`` if it matters, expression, ad). The last
    # two are stored so that their ids cannot be reused.
    cached: dict[tuple[int, int], tuple[Any, int, frozenset[tuple[int, str]] | None, Any, Any]] | None = None
    # Counts results that may differ if the evaluation is repeated: random numbers, functions of the context.
    unrepeatable = 0
    # Counts circular references, whose value depends on the attributes that are being evaluated.
    circular = 0
    # The smallest remaining depth at any point so far.
    lowest = MAX_DEPTH
    randomness: Randomness | None = None
    nested: tuple[ClassAd, ClassAd] | None = None
    # The ad in which later names are looked up because of a call of ``SCOPE_LEAVERS``; None: the current ad.
    moved: ClassAd | None = None
    left: ClassAd | None
    right: ClassAd | None
    root: ClassAd | None

    def __init__(self, my: ClassAd | None, target: ClassAd | None, context: Context) -> None:
        self.context = context
        if context.allowance is not None:
            context.allowance.grant_budget(self, my, target)
        if target is None or my is None or target is my:
            self.left = self.right = None
            self.root = my
        else:
            self.left = my
            self.right = target
            self.root = MATCH_ROOT

    def deduct_steps(self, steps: int) -> None:
        """Deduct steps from the budget; raise EvaluationFailed if the budget is exceeded."""
        self.steps -= steps
        if self.steps < 0:
            raise EvaluationFailed(f"the evaluation takes more than {MAX_STEPS:,} steps")

    def charge(self) -> None:
        """Deduct the steps taken since the last charge from the allowance of the user who pays."""
        if self.context.allowance is not None:
            self.context.allowance.charge(self)

    def deduct_for_values(self, values: Sequence[Any]) -> None:
        """Deduct steps for the characters and members of a function's arguments or result."""
        for value in values:
            if (type(value) is str or type(value) is ListValue) and len(value) > 100:
                self.deduct_steps(len(value) // 4)

    def deduct_for_members(self, members: Sequence[Expression]) -> None:
        """Deduct steps for each node of a list's computed members, as often as the list's text repeats the node."""
        pending = [*members]
        while pending:
            node = pending.pop()
            value = getattr(node, "value", None)
            self.deduct_steps(5 * ENTERING)
            self.deduct_for_values((value,))
            if isinstance(value, ListValue):
                pending += value.expressions
            elif isinstance(value, ClassAd):
                pending += [expression for _, expression in value._cells.values()]
            else:
                pending += children(node)

    def random_numbers(self) -> Randomness:
        """Return the evaluation's random numbers; raise ContextError if the context has no seed."""
        self.unrepeatable += 1
        if self.randomness is None:
            if self.context.seed is None:
                raise ContextError("random() needs a seed: evaluate with Context(seed=<number>)")
            self.randomness = Randomness(self.context.seed)
        return self.randomness

    def other_ad(self, ad: ClassAd) -> ClassAd | None:
        """Return the other ad of the match if ``ad`` is one of the two, or replaces one (``nested_environment``)."""
        if ad is self.left:
            return self.right
        if ad is self.right:
            return self.left
        if self.nested is not None and ad is self.nested[0]:
            return self.nested[1]
        return None

    def nested_environment(self, ad: ClassAd) -> Environment:
        """Return an environment for ``evalInEachContext``, where an ad nested in one of the ads sees the other."""
        inner = Environment(None, None, self.context)
        inner.left, inner.right, inner.randomness = self.left, self.right, self.randomness
        # The new environment cannot use the values that this one cached, so it costs additional steps.
        inner.steps, inner.active, inner.depth = self.steps - 50 * ENTERING, self.active, self.depth - 1
        if inner.depth < 0 or inner.steps < 0:
            raise EvaluationFailed("the evaluation nests too deeply")
        inner.root = root_of(self, ad)
        outer_ad = ad._outer
        other = None if outer_ad is None else self.other_ad(outer_ad)
        if other is not None:
            inner.nested = ad, other
        return inner

    def merge_counters(self, inner: Environment) -> None:
        """Add the counters of an environment from ``nested_environment`` to this environment's counters."""
        self.steps = inner.steps
        self.unrepeatable += inner.unrepeatable
        self.circular += inner.circular
        self.lowest = min(self.lowest, inner.lowest)


def ad_around(env: Environment, ad: ClassAd) -> ClassAd | None:
    """Return the ad that encloses an ad, or None."""
    if env.left is not None:
        if ad is env.left:
            return LEFT_CONTEXT
        if ad is env.right:
            return RIGHT_CONTEXT
    return ad._outer


def root_of(env: Environment, ad: ClassAd | None) -> ClassAd | None:
    while ad is not None:
        outer = ad_around(env, ad)
        if outer is None:
            return ad
        ad = outer
    return None


def lookup(env: Environment, ad: ClassAd, key: str) -> tuple[Any, ClassAd] | None:
    """Look up a lower-case name in an ad and outwards; return its expression or ad, and the ad that contains it.

    The special names (MY and SELF, PARENT, ROOT and TOPLEVEL, CurrentTime) apply to the first ad without an attribute
    of that name.
    """
    current: ClassAd | None = ad
    while current is not None:
        cell = current._find(key)
        if cell is not None:
            return cell[1], current
        if current is MATCH_ROOT and env.left is not None:
            if key == "left":
                return env.left, current
            if key == "right":
                return env.right, current
        if key in _SPECIAL_NAMES:
            if key == "my" or key == "self":
                return current, current
            if key == "currenttime":
                return _TIME_CALL, current
            scope = ad_around(env, current) if key == "parent" else env.root
            if key == "parent" and current is env.root:
                scope = None
            return None if scope is None else (scope, current)
        if current is env.root:
            return None
        current = ad_around(env, current)
    return None
