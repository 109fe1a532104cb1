"""Register the built-in functions; the modules ``functions_*`` fill the table.

An eager function takes values, a lazy one the evaluators of its arguments. For either, a wrong number of arguments is
an ``ERROR``, and nothing is evaluated. Source: docs/classads/classad-builtin-functions of the HTCondor manual; where it
is silent or wrong, HTCondor's behaviour.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

Eager = Callable[..., Any]  # of the environment, the ad at hand, and the values of the arguments
Lazy = Callable[..., Any]  # of the environment, the ad at hand, the arguments' evaluators, and the node of the call

MANY = 1 << 30
_NONE: Mapping[int, int] = MappingProxyType({})


class Needs(Enum):
    """The inputs of a function's value."""

    ARGUMENTS = "its arguments' values alone"
    CONTEXT = "the context too: the time, the zone, the maps"
    PLACE = "the ad where it is called, or the arguments as they are written"


class ClassAdFunction(NamedTuple):
    least: int  # arguments that it takes
    most: int
    eager: Eager | None
    lazy: Lazy | None
    needs: Needs
    members: Mapping[int, int]  # number of arguments -> the argument that is a list whose members it evaluates


FUNCTIONS: dict[str, ClassAdFunction] = {}


def eager(
    names: str,
    least: int,
    most: int | None = None,
    *,
    needs: Needs = Needs.ARGUMENTS,
    members: Mapping[int, int] = _NONE,
) -> Callable[[Eager], Eager]:
    """Register an eager function under blank-separated names, with its least and most arguments."""

    def register(body: Eager) -> Eager:
        for name in names.split():
            FUNCTIONS[name] = ClassAdFunction(least, least if most is None else most, body, None, needs, members)
        return body

    return register


def lazy(names: str, least: int, most: int | None = None, *, needs: Needs = Needs.PLACE) -> Callable[[Lazy], Lazy]:
    def register(body: Lazy) -> Lazy:
        for name in names.split():
            FUNCTIONS[name] = ClassAdFunction(least, least if most is None else most, None, body, needs, _NONE)
        return body

    return register
