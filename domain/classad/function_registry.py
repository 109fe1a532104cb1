"""Register the built-in functions; the modules ``functions_*`` fill the table.

An eager function takes values; a lazy function takes the evaluators of its arguments. A call with the wrong number of
arguments returns ``ERROR`` and evaluates no argument. Source: docs/classads/classad-builtin-functions of the HTCondor
manual; where the manual is incomplete or wrong, HTCondor's behaviour.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

Eager = Callable[..., Any]  # (environment, current ad, values of the arguments)
Lazy = Callable[..., Any]  # (environment, current ad, evaluators of the arguments, node of the call)

UNLIMITED = 1 << 30
_NO_LISTS: Mapping[int, int] = MappingProxyType({})


class FunctionInputs(Enum):
    """The inputs on which the result of a function depends."""

    ARGUMENTS = "the values of its arguments"
    CONTEXT = "also the context: the time, the time zone, the user maps"
    PLACE = "also the ad of the call, or the arguments' expressions"


class ClassAdFunction(NamedTuple):
    least: int  # the minimum and maximum number of arguments
    most: int
    eager: Eager | None
    lazy: Lazy | None
    needs: FunctionInputs
    members: Mapping[int, int]  # by number of arguments, the position of the list whose members are evaluated


FUNCTIONS: dict[str, ClassAdFunction] = {}


def eager(
    names: str,
    least: int,
    most: int | None = None,
    *,
    needs: FunctionInputs = FunctionInputs.ARGUMENTS,
    members: Mapping[int, int] = _NO_LISTS,
) -> Callable[[Eager], Eager]:
    """Register an eager function under blank-separated names."""

    def register(body: Eager) -> Eager:
        for name in names.split():
            FUNCTIONS[name] = ClassAdFunction(least, least if most is None else most, body, None, needs, members)
        return body

    return register


def lazy(
    names: str, least: int, most: int | None = None, *, needs: FunctionInputs = FunctionInputs.PLACE
) -> Callable[[Lazy], Lazy]:
    def register(body: Lazy) -> Lazy:
        for name in names.split():
            FUNCTIONS[name] = ClassAdFunction(least, least if most is None else most, None, body, needs, _NO_LISTS)
        return body

    return register
