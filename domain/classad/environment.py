"""Hold the environment of one evaluation, the two ads of a match, and look names up in it.

An ad's scope is its own attributes, then those of the ad it is nested in, outwards. As in HTCondor's MatchClassAd, each
ad of a match is placed in a small context ad that defines TARGET, OTHER and AD, and both contexts in the match itself.
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


def _context(name: str) -> ClassAd:
    return ClassAd._nested(MATCH_ROOT._cells[name][1].cells, MATCH_ROOT)  # type: ignore[attr-defined]


LEFT_CONTEXT = _context("lctx")
RIGHT_CONTEXT = _context("rctx")

# Names with a special meaning, in a match or always, where no ad has an attribute of that name.
_SPECIAL = frozenset({"toplevel", "root", "self", "my", "parent", "currenttime"})
_TIME = parse("time()")
MATCH_NAMES = _SPECIAL | {"left", "right"} | MATCH_ROOT._cells.keys() | LEFT_CONTEXT._cells.keys()


MAX_DEPTH = 400
MAX_STEPS = 4_000_000
"""The budget of one evaluation, or of one search for references: the nodes that it visits.

A user writes the expressions that the pool evaluates, and one of a few lines (``E1 = E0 + E0``, ``E2 = E1 + E1`` ...)
leads to 2^40 nodes. So every walk over expressions is linear in what was written, or pays from this budget. A walk that
overdraws it raises EvaluationFailed: its expression fails, and no other. HTCondor stops after ten million nodes; less
is needed here, since what was evaluated once is remembered (``scalar.repeated``). All evaluations for the jobs of one
user in one decision have such a budget together (``allowance``). The walks:

====================  ==================================================================================================
evaluation            ``scalar.enter`` and ``evaluate_in`` pay for an expression's nodes, and remember values
functions             ``node_compilers.bind`` pays for the members and characters that a function reads and makes; a
                      quarter of a step each, so that an evaluation makes at most 16 MB of text
regular expressions   ``functions_patterns`` pays a quarter of the budget for a match that takes long
lists made of lists   ``Environment.unfold`` pays for the nodes that the text of such a list would have
references            ``analysis._Search`` follows a name once in each ad, and pays for each reference
simplification        ``simplify.Known`` rewrites a name once, gives up after ``MOST_REWRITTEN``, folds small constants
                      only, and pays for folding
over time             ``time_evaluation`` follows a name once and pays for it; ``sees_the_clock`` looks at a name once
in columns            ``columnar`` evaluates a name once, gives up after ``MAX_FOLLOWED``; then ``scalar`` takes over,
                      with one budget for all slots (``Columnar.evaluate_in_slot``); ``plans`` inlines ``_MAX_INLINED``
parsing, compiling,   linear in the text, of which ``tokens.MAX_TOKENS`` bounds the length
surveys, unparsing
====================  ==================================================================================================
"""
ENTERING = 20
"""What following a name costs besides: it takes as long as this many operators."""
REMEMBERS_BELOW = MAX_STEPS - 500
"""An evaluation with fewer steps left remembers values. Nearly all are shorter: for them it is not worth while."""
MOST_REMEMBERED = 100_000


Ad = ClassAd | None
Evaluator = Callable[["Environment", Ad], Any]


class Environment:
    """One evaluation: the two ads of the match, the context, and the guards against endless evaluation."""

    # Defaults that few evaluations change stand on the class: one instance is made per evaluation.
    depth = MAX_DEPTH
    steps = MAX_STEPS
    # Where the context has an allowance: which user pays, and the steps that are not paid yet count from here.
    payer = ""
    charged_from = MAX_STEPS
    active: set[tuple[int, str]] | None = None
    # Values by expression and ad: (value, depth needed, ``active`` if it matters, expression, ad); the last two keep
    # the ids in use.
    remembered: dict[tuple[int, int], tuple[Any, int, frozenset[tuple[int, str]] | None, Any, Any]] | None = None
    # Counts what may differ when it is evaluated again: random numbers, embedders' functions.
    unrepeatable = 0
    # Counts circular references, which depend on what is under evaluation.
    circular = 0
    # The least depth that was left, at any point so far.
    lowest = MAX_DEPTH
    randomness: Randomness | None = None
    nested: tuple[ClassAd, ClassAd] | None = None
    # The ad in which a call of ``LEAVERS`` left the search; None: the ad at hand.
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

    def spend(self, steps: int) -> None:
        """Pay for work from the budget; raise EvaluationFailed where it is overdrawn."""
        self.steps -= steps
        if self.steps < 0:
            raise EvaluationFailed(f"the evaluation takes more than {MAX_STEPS:,} steps")

    def charge(self) -> None:
        """Let the user whose allowance is used pay for the steps that were taken."""
        if self.context.allowance is not None:
            self.context.allowance.charge(self)

    def pay(self, values: Sequence[Any]) -> None:
        """Pay for the characters and members of a function's arguments, or of its result."""
        for value in values:
            if (type(value) is str or type(value) is ListValue) and len(value) > 100:
                self.spend(len(value) // 4)

    def unfold(self, made: Sequence[Expression]) -> None:
        """Pay for each node of a list's computed members: they may share parts, which any text of it repeats."""
        pending = [*made]
        while pending:
            node = pending.pop()
            value = getattr(node, "value", None)
            self.spend(5 * ENTERING)
            self.pay((value,))
            if isinstance(value, ListValue):
                pending += value.expressions
            elif isinstance(value, ClassAd):
                pending += [expression for _, expression in value._cells.values()]
            else:
                pending += children(node)

    def random(self) -> Randomness:
        """Return the evaluation's random numbers; raise ContextError where the context has no seed."""
        self.unrepeatable += 1
        if self.randomness is None:
            if self.context.seed is None:
                raise ContextError("random() needs a seed: evaluate with Context(seed=<number>)")
            self.randomness = Randomness(self.context.seed)
        return self.randomness

    def other(self, ad: ClassAd) -> ClassAd | None:
        """Return the other ad of the match, where ``ad`` is one of the two (or stands in for one)."""
        if ad is self.left:
            return self.right
        if ad is self.right:
            return self.left
        if self.nested is not None and ad is self.nested[0]:
            return self.nested[1]
        return None

    def inside(self, place: ClassAd) -> Environment:
        """Return the environment of ``evalInEachContext``: an ad nested in one of the two, which sees the other one."""
        inner = Environment(None, None, self.context)
        inner.left, inner.right, inner.randomness = self.left, self.right, self.randomness
        # It remembers nothing of what this one did: it costs as much as what must be evaluated each time.
        inner.steps, inner.active, inner.depth = self.steps - 50 * ENTERING, self.active, self.depth - 1
        if inner.depth < 0 or inner.steps < 0:
            raise EvaluationFailed("the evaluation nests too deeply")
        inner.root = root_of(self, place)
        around = place._outer
        other = None if around is None else self.other(around)
        if other is not None:
            inner.nested = place, other
        return inner

    def leave(self, inner: Environment) -> None:
        """Go on with this environment where one from ``inside`` ended."""
        self.steps = inner.steps
        self.unrepeatable += inner.unrepeatable
        self.circular += inner.circular
        self.lowest = min(self.lowest, inner.lowest)


def enclosing(env: Environment, ad: ClassAd) -> ClassAd | None:
    """Return the ad in which an ad is nested."""
    if env.left is not None:
        if ad is env.left:
            return LEFT_CONTEXT
        if ad is env.right:
            return RIGHT_CONTEXT
    return ad._outer


def root_of(env: Environment, ad: ClassAd | None) -> ClassAd | None:
    while ad is not None:
        outer = enclosing(env, ad)
        if outer is None:
            return ad
        ad = outer
    return None


def lookup(env: Environment, ad: ClassAd, key: str) -> tuple[Any, ClassAd] | None:
    """Look a lower-case name up in an ad: return an expression or an ad, and the ad where it was found.

    The language's own names (MY and SELF, PARENT, ROOT and TOPLEVEL, CurrentTime) have their meaning in the first ad
    that has no attribute of that name.
    """
    here: ClassAd | None = ad
    while here is not None:
        cell = here._find(key)
        if cell is not None:
            return cell[1], here
        if here is MATCH_ROOT and env.left is not None:
            if key == "left":
                return env.left, here
            if key == "right":
                return env.right, here
        if key in _SPECIAL:
            if key == "my" or key == "self":
                return here, here
            if key == "currenttime":
                return _TIME, here
            scope = enclosing(env, here) if key == "parent" else env.root
            if key == "parent" and here is env.root:
                scope = None
            return None if scope is None else (scope, here)
        if here is env.root:
            return None
        here = enclosing(env, here)
    return None
