"""Evaluate the ClassAd language as HTCondor's daemons do: expressions, ads, matches, and the ads of a whole pool at
once.

The package does not depend on jobs, slot states or the log. It never asks the machine: a ``Context`` contains all facts
about the outside world. ``syntax`` parses text into a ``tree``, and ``unparse`` formats a tree as text. ``scalar``,
``functions_*`` and ``*_compilers`` compile an expression so that it can be evaluated for a pair of ads. ``time_*`` and
``next_change`` compute when a value may change as time passes. ``columns``, ``columnar*``, ``plans`` and ``table``
evaluate one expression over all slots in arrays. This file does not import these modules, because they need numpy,
which is slow to import.
"""

from . import (  # noqa: F401 (each registers its evaluators of nodes, functions or operations on expressions)
    functions_environments,
    functions_expressions,
    functions_lists,
    functions_numbers,
    functions_patterns,
    functions_strings,
    functions_times,
    node_compilers,
    simplify,
    time_evaluation_functions,
)
from .ad import ClassAd
from .analysis import ValuedClause, explain
from .context import DEFAULT, Context
from .matching import symmetric_match
from .next_change import NEVER, POLL, Poll, next_change
from .syntax import ClassAdSyntaxError, parse
from .time_functions import Moving
from .tree import Expression, ListValue, References, Value
from .unparse import unparse
from .values import ERROR, UNDEFINED, AbsTime, ContextError, EvaluationError, Exceptional, RelTime

__all__ = [
    "DEFAULT", "ERROR", "NEVER", "POLL", "UNDEFINED", "AbsTime", "ClassAd", "ClassAdSyntaxError", "Context",
    "ContextError", "EvaluationError", "Exceptional", "Expression", "ListValue", "Moving", "Poll", "References",
    "RelTime", "Value", "ValuedClause", "explain", "next_change", "parse", "symmetric_match", "unparse",
]  # fmt: skip
