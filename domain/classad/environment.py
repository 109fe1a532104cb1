"""Hold the environment of one evaluation, the two ads of a match, and look names up in it.

An ad's scope is its own attributes, then those of the ad it is nested in, outwards. As in HTCondor's MatchClassAd, each
ad of a match is placed in a small context ad that defines TARGET, OTHER and AD, and both contexts in the match itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .ad import ClassAd
from .context import Context, Randomness
from .syntax import parse, parse_new_ad
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

# Names with a meaning of their own, in a match or always, where no ad has an attribute of that name.
_SPECIAL = frozenset({"toplevel", "root", "self", "my", "parent", "currenttime"})
_TIME = parse("time()")
MATCH_NAMES = _SPECIAL | {"left", "right"} | MATCH_ROOT._cells.keys() | LEFT_CONTEXT._cells.keys()


MAX_DEPTH = 400
# HTCondor stops after ten million evaluated nodes; here attributes are counted, which are fewer.
MAX_STEPS = 1_000_000


Ad = ClassAd | None
Evaluator = Callable[["Environment", Ad], Any]


class Environment:
    """One evaluation: the two ads of the match, the context, and the guards against endless evaluation."""

    # Defaults that few evaluations change stand on the class: one instance is made per evaluation.
    depth = MAX_DEPTH
    steps = MAX_STEPS
    active: set[tuple[int, str]] | None = None
    randomness: Randomness | None = None
    nested: tuple[ClassAd, ClassAd] | None = None
    # The ad in which a call of ``LEAVERS`` left the search; None: the ad at hand.
    moved: ClassAd | None = None
    left: ClassAd | None
    right: ClassAd | None
    root: ClassAd | None

    def __init__(self, my: ClassAd | None, target: ClassAd | None, context: Context) -> None:
        self.context = context
        if target is None or my is None or target is my:
            self.left = self.right = None
            self.root = my
        else:
            self.left = my
            self.right = target
            self.root = MATCH_ROOT

    def random(self) -> Randomness:
        """Return the evaluation's random numbers; raise ContextError where the context has no seed."""
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
        inner.steps, inner.active, inner.depth = self.steps - 1, self.active, self.depth - 1
        if inner.depth < 0 or inner.steps < 0:
            raise EvaluationFailed("the evaluation nests too deeply")
        inner.root = root_of(self, place)
        around = place._outer
        other = None if around is None else self.other(around)
        if other is not None:
            inner.nested = place, other
        return inner


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
            meant = enclosing(env, here) if key == "parent" else env.root
            if key == "parent" and here is env.root:
                meant = None
            return None if meant is None else (meant, here)
        if here is env.root:
            return None
        here = enclosing(env, here)
    return None
