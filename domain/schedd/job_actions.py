"""Hold, release and remove jobs, for a user (``job_commands``) or a policy (``periodic_policy``)."""

from __future__ import annotations

from msgspec import Struct, field

from ..decision.draft import Draft, ranges
from ..events import Ad
from ..state.cluster import Cluster
from ..state.job_ad import HOLD_ATTRIBUTES
from ..state.state import AccessPoint
from .claims import end_job
from .crontab import ATTRIBUTES
from .waiting_claims import withdraw_better_matches

SPOOLING_HOLD_CODE = "16"
"""HoldReasonCode of jobs that wait for their input files. No policy applies to them, and users cannot release them."""
HOLDS_BY_SHADOW = 3
"""How often a shadow records a policy's hold in the job's ad: when the policy fires, and twice at the end of the run.
HTCondor also records it at each evaluation until the process has ended."""


class ActionReason(Struct, frozen=True):
    """The reason for an action: the cause, the log position of the evidence, and the vacate reason for the ads of
    running jobs if the action does not imply it."""

    cause: str
    evidence: int = 0
    vacated: Ad = field(default_factory=dict)


def hold_jobs(
    draft: Draft[AccessPoint], cluster: Cluster, procs: list[int], status: str, changes: Ad, why: ActionReason
) -> None:
    """Hold jobs, all with this status; ``changes`` contains the reason and its codes."""
    holds = HOLDS_BY_SHADOW if why.vacated else 1
    draft.move_jobs(cluster, ranges(procs), "hold", why.cause, status, changes, why.evidence, holds)
    withdraw_better_matches(draft, cluster.id, procs)
    end_running_jobs(draft, cluster, procs, why)


def release_jobs(draft: Draft[AccessPoint], cluster: Cluster, procs: list[int], reason: str, why: ActionReason) -> None:
    """Release held jobs. ``reason`` is an expression. For jobs with a schedule, set the next start time."""
    for hold_fields, group in _group_by_hold_reason(cluster, procs).items():
        changes: Ad = {f"Last{name}": text for name, text in zip(HOLD_ATTRIBUTES, hold_fields, strict=True) if text}
        changes |= dict.fromkeys(HOLD_ATTRIBUTES, "")
        changes["ReleaseReason"] = reason
        draft.move_jobs(cluster, ranges(group), "release", why.cause, "Held", changes, why.evidence)
    schedule_names = [name for name in ATTRIBUTES if cluster.is_uniform(name)]
    has_schedule = any(cluster.requested_value(procs[0], name) for name in schedule_names)
    if has_schedule or len(schedule_names) < len(ATTRIBUTES):
        from .job_deferral import is_time_past, schedule_runs

        schedule_runs(draft, cluster, [proc for proc in procs if is_time_past(draft, cluster, proc)])


def _group_by_hold_reason(cluster: Cluster, procs: list[int]) -> dict[tuple[str, ...], list[int]]:
    """Group jobs by hold reason, which jobs with the same history share unless the submission set different ones."""
    groups: dict[tuple[str, ...], list[int]] = {}
    shared: dict[int, list[int]] = {}
    is_shared = cluster.variants.names.isdisjoint(HOLD_ATTRIBUTES)
    for proc in procs:
        group = shared.get(cluster.cohort_of[proc])
        if group is None:
            group = groups.setdefault(tuple(cluster.value(proc, name) for name in HOLD_ATTRIBUTES), [])
            if is_shared:
                shared[cluster.cohort_of[proc]] = group
        group.append(proc)
    return groups


def remove_jobs(
    draft: Draft[AccessPoint], cluster: Cluster, procs: list[int], status: str, reason: str, why: ActionReason
) -> None:
    """Remove jobs, all with this status. ``reason`` is an expression."""
    draft.move_jobs(cluster, ranges(procs), "remove", why.cause, status, {"RemoveReason": reason}, why.evidence)
    withdraw_better_matches(draft, cluster.id, procs)
    end_running_jobs(draft, cluster, procs, why)


def end_running_jobs(draft: Draft[AccessPoint], cluster: Cluster, procs: list[int], why: ActionReason) -> None:
    """Stop the processes of those jobs that are running."""
    state = draft.state
    for activation in [state.by_job[cluster.id, proc] for proc in state.running_procs(cluster.id, procs)]:
        end_job(draft, activation, why.cause, why.evidence, why.vacated)
