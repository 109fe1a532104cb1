"""HTCondor's numbers for the results of actions on jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ...domain.ports.action_results import ActionResult

ERROR, SUCCESS, NOT_FOUND, BAD_STATUS, ALREADY_DONE, DENIED, LIMIT_EXCEEDED = range(7)
"""HTCondor's numbers for the result of an action on one job."""

RESULT_NAMES = ("Error", "Succeeded", "NotFound", "BadStatus", "AlreadyDone", "PermissionDenied", "LimitExceeded")
_RESULTS = {"done": SUCCESS, "not found": NOT_FOUND, "permission denied": DENIED, "release limit": LIMIT_EXCEEDED}
_BY_STATUS = {
    ("Hold", "Held"): ALREADY_DONE,
    ("Hold", "Removed"): DENIED,
    ("Hold", "Completed"): DENIED,
    ("Remove", "Removed"): ALREADY_DONE,
}
"""The result in HTCondor's schedd if an action has no effect on a job with this JobStatus, by the kind of the request.
All other cases are ``BAD_STATUS``."""


def result_of(kind: str, result: str) -> int:
    """Return HTCondor's number for the result of a request of this kind."""
    known_result = _RESULTS.get(result)
    return _BY_STATUS.get((kind, result), BAD_STATUS) if known_result is None else known_result


def counts_by_result(kind: str, outcomes: Iterable[ActionResult]) -> dict[int, int]:
    """Count the jobs of a command's results by HTCondor's number for their result."""
    counts: Counter[int] = Counter()
    for outcome in outcomes:
        counts[result_of(kind, outcome.result)] += max(1, sum(last - first + 1 for first, last in outcome.procs))
    return counts
