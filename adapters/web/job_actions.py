"""Actions on jobs: for one job, or for all jobs that satisfy a constraint, with the members of golang-htcondor's HTTP
service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, NamedTuple

from msgspec import Meta, Struct

from ...domain.ports.action_results import ActionResult
from ..condor_tools.action_results import (
    ALREADY_DONE,
    BAD_STATUS,
    DENIED,
    LIMIT_EXCEEDED,
    NOT_FOUND,
    SUCCESS,
    counts_by_result,
)
from ..https.requests import Rejected
from .commands import job_results
from .endpoints import WRITE, Endpoint, NoParameters
from .pool_access import Call
from .problems import NotFound

JobId = Annotated[
    str, Meta(pattern=r"^[1-9][0-9]{0,9}\.[0-9]{1,10}$", description="cluster.proc, such as 12.3", examples=["1.0"])
]
Reason = Annotated[str, Meta(description="the reason that is recorded; empty: the default", max_length=10_000)]


class Job(Struct, frozen=True):
    id: JobId


Bulk = NoParameters


class ActionBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Why to act on a job."""

    reason: Reason = ""


class BulkBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The jobs on which to act, and why."""

    constraint: Annotated[str, Meta(min_length=1, description="acts on the jobs for which this expression is true")]
    reason: Reason = ""


class Counts(Struct, frozen=True):
    """Numbers of jobs."""

    total: int
    success: int


class BulkCounts(Struct, frozen=True):
    """Numbers of jobs by the result of the action."""

    total: int
    success: int
    not_found: int
    permission_denied: int
    bad_status: int
    already_done: int
    error: int


class Done(Struct, frozen=True):
    """The result of an action on one job."""

    message: str
    job_id: str
    results: Counts


class BulkDone(Struct, frozen=True):
    """The result of an action on many jobs."""

    message: str
    constraint: str
    results: BulkCounts


class Action(NamedTuple):
    """An action: its path, the command, and the participle for messages."""

    name: str
    kind: str
    participle: str
    is_fast: bool = False

    @property
    def fields(self) -> dict[str, Any]:
        return {"fast": True} if self.is_fast else {}


ACTIONS: Final = (
    Action("hold", "Hold", "held"),
    Action("release", "Release", "released"),
    Action("vacate", "Vacate", "vacated"),
    Action("vacate-fast", "Vacate", "vacated", is_fast=True),
    Action("suspend", "Suspend", "suspended"),
    Action("continue", "Continue", "continued"),
    Action("delete", "Remove", "removed"),
    Action("remove-now", "RemoveNow", "removed"),
)
_COUNTED: Final = {
    "success": SUCCESS, "not_found": NOT_FOUND, "permission_denied": DENIED, "bad_status": BAD_STATUS,
    "already_done": ALREADY_DONE,
}  # fmt: skip
_FAILURES: Final = {NOT_FOUND: 404, DENIED: 403}
"""The status of the response if an action on one job has this result; otherwise it is 400, as in HTCondor's service."""


def parse_id(id: str) -> tuple[int, int]:
    cluster, _, proc = id.partition(".")
    return int(cluster), int(proc)


def check_result(kind: str, verb: str, job: str, results: Sequence[ActionResult]) -> None:
    """Raise `NotFound` or `Rejected` if an action changed no job. ``job`` is empty if a constraint selected jobs."""
    if not results:
        raise NotFound("no job satisfies the constraint; GET /jobs lists the jobs in the queue")
    counts = counts_by_result(kind, results)
    if counts.get(SUCCESS):
        return
    result, text = next(iter(counts)), results[0].result
    reasons = {
        NOT_FOUND: "it is not in the queue",
        DENIED: "only its owner and the pool's administrators may do that",
        LIMIT_EXCEEDED: "it has been released as often as SYSTEM_PERIODIC_RELEASES allows",
        ALREADY_DONE: f"it is already {text}",
    }
    reason = reasons.get(result, f"its status is {text}")
    raise Rejected(_FAILURES.get(result, 400), text, f"cannot {verb} {f'job {job}' if job else 'the jobs'}: {reason}")


def _act_on_job(action: Action) -> Callable[..., Done]:
    def act(call: Call, job: Job, body: ActionBody = ActionBody()) -> Done:  # noqa: B008 (it is immutable)
        reason = body.reason or f"{action.participle.capitalize()} via HTTP API"
        request = {"selection": {"jobs": [parse_id(job.id)]}, "reason": reason, **action.fields}
        results = job_results(call, {"kind": action.kind, **request})
        check_result(action.kind, action.name, job.id, results)
        total = sum(counts_by_result(action.kind, results).values())
        return Done(f"Job {action.participle} successfully", job.id, Counts(total, total))

    act.__name__, act.__doc__ = f"{action.name}_job".replace("-", "_"), f"{action.kind} a job."
    return act


def _act_on_jobs(action: Action) -> Callable[..., BulkDone]:
    def act(call: Call, parameters: Bulk, body: BulkBody) -> BulkDone:
        reason = body.reason or f"{action.participle.capitalize()} via HTTP API bulk operation"
        request = {"selection": {"constraint": body.constraint}, "reason": reason, **action.fields}
        counts = counts_by_result(action.kind, job_results(call, {"kind": action.kind, **request}))
        if not counts:
            check_result(action.kind, action.name, "", ())
        named = {name: counts.get(result, 0) for name, result in _COUNTED.items()}
        total = sum(counts.values())
        results = BulkCounts(total, error=total - sum(named.values()), **named)
        return BulkDone(f"Bulk job {action.name} completed", body.constraint, results)

    act.__name__ = f"{action.name}_jobs".replace("-", "_")
    act.__doc__ = f"{action.kind} all jobs that satisfy a constraint."
    return act


def _endpoints(action: Action) -> list[Endpoint]:
    if action.name == "delete":
        paths = [("DELETE", "/jobs", _act_on_jobs(action)), ("DELETE", "/jobs/{id}", _act_on_job(action))]
    else:
        paths = [
            ("POST", f"/jobs/{action.name}", _act_on_jobs(action)),
            ("POST", f"/jobs/{{id}}/{action.name}", _act_on_job(action)),
        ]
    return [Endpoint(method, path, handle, WRITE) for method, path, handle in paths]


ENDPOINTS: Final = tuple(endpoint for action in ACTIONS for endpoint in _endpoints(action))
