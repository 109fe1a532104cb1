"""The table of built-in functions, and the two ways to be one.

An eager function gets values, a lazy one the evaluators of its arguments. A wrong number of arguments is an ``ERROR``
for either, and nothing is evaluated then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ..tree import Call, Evaluator

if TYPE_CHECKING:
    from ..ad import ClassAd
    from ..scalar import Environment

Eager = Callable[["Environment", "ClassAd | None", list[Any]], Any]
Lazy = Callable[["Environment", "ClassAd | None", list[Evaluator], Call], Any]

MANY = 1 << 30
_NONE: Mapping[int, int] = MappingProxyType({})


class Needs(Enum):
    """What a function's value depends on."""

    ARGUMENTS = "its arguments' values alone"
    CONTEXT = "the context too: the time, the zone, the maps"
    PLACE = "the ad where it is called, or the arguments as they are written"


class Function(NamedTuple):
    """A built-in function: its arity, its body, what it needs, and which argument is a list of which it evaluates the
    members, by the number of arguments. Any other list it takes as it is written.
    """

    least: int
    most: int
    eager: Eager | None
    lazy: Lazy | None
    needs: Needs
    members: Mapping[int, int]


FUNCTIONS: dict[str, Function] = {}


def eager(
    names: str,
    least: int,
    most: int | None = None,
    *,
    needs: Needs = Needs.ARGUMENTS,
    members: Mapping[int, int] = _NONE,
) -> Callable[[Eager], Eager]:
    """Register an eager function under some names (separated by blanks), with its least and most arguments."""

    def register(body: Eager) -> Eager:
        for name in names.split():
            FUNCTIONS[name] = Function(least, least if most is None else most, body, None, needs, members)
        return body

    return register


def lazy(names: str, least: int, most: int | None = None, *, needs: Needs = Needs.PLACE) -> Callable[[Lazy], Lazy]:
    """Register a lazy function."""

    def register(body: Lazy) -> Lazy:
        for name in names.split():
            FUNCTIONS[name] = Function(least, least if most is None else most, None, body, needs, _NONE)
        return body

    return register
