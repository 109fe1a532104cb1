"""Match two ads: each must meet the other's Requirements."""

from __future__ import annotations

from typing import Any

from .ad import ClassAd
from .context import Context
from .values import EvaluationFailed, truth


def accepts(value: Any) -> bool:
    """Return whether a value of Requirements accepts: true, or a number other than 0."""
    return truth(value) is True


def requirements_met(my: ClassAd, target: ClassAd, context: Context | None = None) -> bool:
    """Return whether ``my`` accepts ``target``. As in HTCondor, an ad without Requirements accepts nothing.

    :raises ContextError: for what the context does not have; any other failed evaluation is no match.
    """
    cell = my._find("requirements")
    if cell is None:
        return False
    try:
        return accepts(cell[1].evaluate(my, target, context))
    except EvaluationFailed:
        return False


def symmetric_match(a: ClassAd, b: ClassAd, context: Context | None = None) -> bool:
    """Return whether two ads accept each other."""
    return requirements_met(a, b, context) and requirements_met(b, a, context)
