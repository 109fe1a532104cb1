"""Warn of policy expressions that are an error for every job: a START that starts none, a RANK that prefers none."""

from __future__ import annotations

from collections.abc import Iterator

from ..classad import Expression
from ..classad.syntax_errors import cause, fault
from ..classad.tree import Binary, children
from .configuration import Configuration
from .errors import ConfigError
from .param_info import is_expression
from .values import Values

_OF_JOBS = ("system_periodic_", "system_on_", "submit_requirement_", "periodic_expr_")
_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})


def policy_errors(values: Values) -> Iterator[str]:
    """Yield a sentence for each policy expression that somebody set and that is an error for every job."""
    whole = Configuration(values, ())
    for key, definition in values.definitions.items():
        source = values.source(key)
        of_jobs = key.startswith(_OF_JOBS) and not key.endswith(("_names", "_is_warning"))
        if source.kind == "detected" or not (is_expression(key) or of_jobs):
            continue
        try:
            expression = whole.expression(key)
        except ConfigError:
            if of_jobs:
                continue  # who uses it says so
            raise
        culprit = None if expression is None else fault(expression)
        if expression is None or culprit is None:
            continue
        place = f"{source.file}:{source.line}: " if source.line else f"{source.file}: "
        hints = "".join(f". {hint}" for hint in _hints(expression, culprit))
        yield f"{place}{definition.name} is an error for every job: {cause(culprit)}{hints}"


def _hints(expression: Expression, culprit: Expression) -> Iterator[str]:
    """Yield fixes for the most common mistakes."""
    parts = list(_parts(expression))
    for part in parts:
        if isinstance(part, Binary) and part.op in _COMPARISONS and culprit in (part.left, part.right):
            if isinstance(culprit, Binary) and culprit.op in _COMPARISONS:
                yield "two comparisons are joined by &&"
            elif isinstance(culprit, Binary):
                yield f"{culprit.op} goes before {part.op}: put the comparison in parentheses"
            break
    if any(isinstance(part, Binary) and part.op == "^" for part in parts):
        yield "^ is exclusive or, and no power: write pow(10, 12), or 1e12"


def _parts(expression: Expression) -> Iterator[Expression]:
    yield expression
    for part in children(expression):
        yield from _parts(part)
