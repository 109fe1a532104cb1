"""The concurrency limits of a job on a slot."""

from __future__ import annotations

from ..classad import ClassAd, Context, EvaluationError
from ..concurrency_limits import LIMITS


def job_concurrency_limits(job: ClassAd, slot: ClassAd, context: Context) -> str:
    """Evaluate a job's ConcurrencyLimits with a slot. Return an empty text if the value is not a string."""
    expression = job.get(LIMITS)
    if expression is None:
        return ""
    try:
        value = expression.evaluate(job, slot, context)
    except EvaluationError:
        return ""
    return value if isinstance(value, str) else ""
