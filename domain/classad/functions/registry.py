"""The table of built-in functions, and the two ways to be one.

An eager function gets values, a lazy one the evaluators of its arguments. A wrong number of arguments is an ``ERROR``
for either, and nothing is evaluated then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..tree import Call, Evaluator

if TYPE_CHECKING:
    from ..ad import ClassAd
    from ..scalar import Environment

Eager = Callable[["Environment", "ClassAd | None", list[Any]], Any]
Lazy = Callable[["Environment", "ClassAd | None", list[Evaluator], Call], Any]

MANY = 1 << 30


class Function(NamedTuple):
    """A built-in function: its arity and its body. ``pure`` functions depend on their arguments' values alone."""

    least: int
    most: int
    eager: Eager | None
    lazy: Lazy | None
    pure: bool


FUNCTIONS: dict[str, Function] = {}


def eager(names: str, least: int, most: int | None = None, *, pure: bool = True) -> Callable[[Eager], Eager]:
    """Register an eager function under some names (separated by blanks), with its least and most arguments."""

    def register(body: Eager) -> Eager:
        for name in names.split():
            FUNCTIONS[name] = Function(least, least if most is None else most, body, None, pure)
        return body

    return register


def lazy(names: str, least: int, most: int | None = None, *, pure: bool = False) -> Callable[[Lazy], Lazy]:
    """Register a lazy function."""

    def register(body: Lazy) -> Lazy:
        for name in names.split():
            FUNCTIONS[name] = Function(least, least if most is None else most, None, body, pure)
        return body

    return register
