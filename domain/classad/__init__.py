"""The ClassAd language, exactly as HTCondor's daemons have it: expressions, ads, matches, and whole pools at once.

Nothing here knows of jobs, slots' states or the log, and nothing asks the machine: what an evaluation may know of the
outside world is its ``Context``. A text goes through ``syntax`` into a ``tree``; ``scalar`` evaluates it in one ad
(``ad``) against one other (``scope``, ``match``), by the rules of ``operators`` and ``functions``; ``columnar`` does so
over the ``columns`` of a ``table``, in ``vectors``, and leaves to ``scalar`` what is no operation on arrays.
``horizon`` says when a value may change by time passing: it is ``following`` an expression to the ``courses`` of its
values. ``simplify`` and ``analysis`` look at a tree; ``unparse`` and ``json_form`` write it.
"""

if __name__ != "poolbook.domain.classad":
    raise ImportError(f"import this folder as poolbook.domain.classad, not as {__name__}")

from typing import TYPE_CHECKING, Any

from .ad import ClassAd
from .analysis import Clause, References, explain
from .context import DEFAULT, Context
from .match import symmetric_match
from .next_change import NEVER, POLL, Poll, next_change
from .syntax import ClassAdSyntaxError, parse
from .time_functions import Moving
from .tree import Expression
from .unparse import unparse
from .values import ERROR, UNDEFINED, AbsTime, ContextError, EvaluationError, Exceptional, ListValue, RelTime, Value

if TYPE_CHECKING:
    from .columns import Kind
    from .plans import ClauseCount, Plan
    from .table import Cells, SlotTable

__all__ = [
    "DEFAULT",
    "ERROR",
    "NEVER",
    "POLL",
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
    "Moving",
    "Plan",
    "Poll",
    "References",
    "RelTime",
    "SlotTable",
    "Value",
    "explain",
    "next_change",
    "parse",
    "symmetric_match",
    "unparse",
]

# The columnar part needs numpy, which takes longer to import than all the rest: it is loaded when it is asked for.
_COLUMNAR = {"Kind": "columns", "Cells": "table", "ClauseCount": "plans", "Plan": "plans", "SlotTable": "table"}


def __getattr__(name: str) -> Any:
    if name not in _COLUMNAR:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_COLUMNAR[name]}", __name__), name)
