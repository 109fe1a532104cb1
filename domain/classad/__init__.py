"""The ClassAd language, exactly as HTCondor's daemons have it: expressions, ads, matches, and whole pools at once."""

if __name__ != "poolbook.domain.classad":
    raise ImportError(f"import this folder as poolbook.domain.classad, not as {__name__}")

from typing import TYPE_CHECKING, Any

from .ad import ClassAd
from .analysis import Clause, References, explain
from .context import DEFAULT, Context
from .match import symmetric_match
from .syntax import ClassAdSyntaxError, parse
from .tree import Expression
from .unparse import unparse
from .values import ERROR, UNDEFINED, AbsTime, ContextError, EvaluationError, Exceptional, ListValue, RelTime, Value

if TYPE_CHECKING:
    from .columns import Kind
    from .table import Cells, ClauseCount, Plan, SlotTable

__all__ = [
    "DEFAULT",
    "ERROR",
    "UNDEFINED",
    "AbsTime",
    "Cells",
    "ClassAd",
    "ClassAdSyntaxError",
    "Clause",
    "ClauseCount",
    "Context",
    "ContextError",
    "EvaluationError",
    "Exceptional",
    "Expression",
    "Kind",
    "ListValue",
    "Plan",
    "References",
    "RelTime",
    "SlotTable",
    "Value",
    "explain",
    "parse",
    "symmetric_match",
    "unparse",
]

# The columnar part needs numpy, which takes longer to import than all the rest: it is loaded when it is asked for.
_COLUMNAR = {"Kind": "columns", "Cells": "table", "ClauseCount": "table", "Plan": "table", "SlotTable": "table"}


def __getattr__(name: str) -> Any:
    if name not in _COLUMNAR:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_COLUMNAR[name]}", __name__), name)
