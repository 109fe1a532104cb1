"""The ClassAd language, exactly as HTCondor's daemons have it: expressions, ads, matches, and whole pools at once."""

if __name__ != "poolbook.domain.classad":
    raise ImportError(f"import this folder as poolbook.domain.classad, not as {__name__}")

from .ad import ClassAd
from .analysis import Clause, References, explain
from .columns import Kind
from .context import DEFAULT, Context
from .match import symmetric_match
from .syntax import ClassAdSyntaxError, parse
from .table import Cells, ClauseCount, Plan, SlotTable
from .tree import Expression
from .unparse import unparse
from .values import ERROR, UNDEFINED, AbsTime, ContextError, EvaluationError, Exceptional, ListValue, RelTime, Value

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
