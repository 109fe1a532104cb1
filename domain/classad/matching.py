"""Match two ads: each must satisfy the other's Requirements."""

from __future__ import annotations

from typing import Any

from .ad import ClassAd
from .context import Context
from .values import EvaluationFailed, truth


def is_satisfied(value: Any) -> bool:
    """Check whether a value of Requirements is true or a nonzero number."""
    return truth(value) is True


def requirements_met(my: ClassAd, target: ClassAd, context: Context | None = None) -> bool:
    """Check whether ``my`` accepts ``target``. As in HTCondor, an ad without Requirements accepts nothing.

    :raises ContextError: if the context lacks an input; after any other failure, the ads do not match
    """
    cell = my._find("requirements")
    if cell is None:
        return False
    try:
        return is_satisfied(cell[1].evaluate(my, target, context))
    except EvaluationFailed:
        return False


def symmetric_match(a: ClassAd, b: ClassAd, context: Context | None = None) -> bool:
    """Check whether two ads accept each other."""
    return requirements_met(a, b, context) and requirements_met(b, a, context)
