"""What a job takes of concurrency limits, evaluated with a slot."""

from __future__ import annotations

from ..classad import ClassAd, Context, EvaluationError
from ..concurrency_limits import LIMITS


def evaluated(job: ClassAd, slot: ClassAd, context: Context) -> str:
    """Return the ConcurrencyLimits of a job with a slot. What does not come to a text takes nothing: it is empty."""
    meaning = job.get(LIMITS)
    if meaning is None:
        return ""
    try:
        value = meaning.evaluate(job, slot, context)
    except EvaluationError:
        return ""
    return value if isinstance(value, str) else ""
