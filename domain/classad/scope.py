"""Scopes: which attribute a name means.

An ad's scope is its own attributes, then those of the ad it is written in, outwards. In a match each of the two ads
is placed, as in the reference's MatchClassAd, in a small context ad that says what TARGET, OTHER and AD are, and both
contexts in the match itself, whose attributes are LEFT and RIGHT. That the match's names can be seen from everywhere
inside is thereby no rule of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .ad import ClassAd
from .syntax import parse, parse_new_ad

if TYPE_CHECKING:
    from .scalar import Environment

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

# Names that mean something in a match, or of themselves, where no ad has an attribute of that name.
_SPECIAL = frozenset({"toplevel", "root", "self", "my", "parent", "currenttime"})
_TIME = parse("time()")
MATCH_NAMES = _SPECIAL | {"left", "right"} | MATCH_ROOT._cells.keys() | LEFT_CONTEXT._cells.keys()


def enclosing(env: Environment, ad: ClassAd) -> ClassAd | None:
    """The ad in which an ad stands."""
    if env.left is not None:
        if ad is env.left:
            return LEFT_CONTEXT
        if ad is env.right:
            return RIGHT_CONTEXT
    return ad._outer


def root_of(env: Environment, ad: ClassAd | None) -> ClassAd | None:
    """The outermost ad around an ad."""
    while ad is not None:
        outer = enclosing(env, ad)
        if outer is None:
            return ad
        ad = outer
    return None


def lookup(env: Environment, ad: ClassAd, key: str) -> tuple[Any, ClassAd] | None:
    """What a name (in lower case) means in an ad: an expression or an ad, and the ad where it was found.

    The language's own names (MY and SELF, PARENT, ROOT and TOPLEVEL, CurrentTime) mean themselves in the first ad
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
