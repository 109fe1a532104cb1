"""Matches: two ads, each of whose Requirements the other must meet."""

from __future__ import annotations

from typing import Any

from .ad import ClassAd
from .context import Context
from .values import EvaluationFailed, truth


def accepts(value: Any) -> bool:
    """Whether a value of Requirements is a yes: true, or a number that is not 0; nothing else."""
    return truth(value) is True


def requirements_met(my: ClassAd, target: ClassAd, context: Context | None = None) -> bool:
    """Whether ``my`` accepts ``target``. An ad without Requirements accepts nothing, the reference's rule.

    :raises ContextError: where Requirements ask for what the context does not have; an evaluation that fails otherwise
        is no match.
    """
    cell = my._find("requirements")
    if cell is None:
        return False
    try:
        return accepts(cell[1].evaluate(my, target, context))
    except EvaluationFailed:
        return False


def symmetric_match(a: ClassAd, b: ClassAd, context: Context | None = None) -> bool:
    """Whether two ads accept each other."""
    return requirements_met(a, b, context) and requirements_met(b, a, context)
