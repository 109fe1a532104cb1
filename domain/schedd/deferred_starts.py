"""Activated jobs whose processes are waiting for their deferral time."""

from __future__ import annotations

from typing import Final

from ..decision.draft import Draft, ranges
from ..events import JobDue, JobExecuting, JobExited, JobSignalled
from ..ports.messages import EndJob, ShowSlot
from ..ports.stimuli import ActivationDue, ActivationEnded
from ..state.caches import ad_from_attributes
from ..state.deferrals import has_missed_time
from ..state.records import Activation
from ..state.state import AccessPoint
from .claims import job_ended
from .job_deferral import deferral_window
from .job_processes import continue_job, end_run

MISSED_HOLD: Final = {"HoldReason": '"Job missed deferred execution time"', "HoldReasonCode": "20"}
_NO_VACATE_REASON: Final = {"VacateReason": '""', "VacateReasonCode": "0", "VacateReasonSubCode": "0"}


def start_deferred_job(draft: Draft[AccessPoint], activation: Activation) -> None:
    """Start a job's process at its deferral time. On a suspended slot, the process is suspended immediately."""
    cluster = draft.state.clusters[activation.cluster]
    window = deferral_window(ad_from_attributes(cluster.attributes(activation.proc)), draft.context)
    if has_missed_time(activation, window, draft.state.served_since):
        _hold_late_job(draft, activation)
    else:
        _start(draft, activation)


def log_deferral(draft: Draft[AccessPoint], stimulus: ActivationDue) -> None:
    """Log that the execution point of a deferred job starts its process, or that the job has missed its time."""
    activation = draft.state.activations.get(stimulus.key)
    if activation is not None and activation.deferred:
        (_hold_late_job if stimulus.missed else _start)(draft, activation)


def _start(draft: Draft[AccessPoint], activation: Activation) -> None:
    cluster = draft.state.clusters[activation.cluster]
    draft.emit(JobDue(*draft.header("deferral_over"), activation.cluster, activation.proc))
    visible = None if cluster.is_local else draft.send(ShowSlot(activation.slot))
    if visible is not None and visible.state_activity == "Claimed/Suspended":
        cause = "suspended_early" if visible.suspended_by_request else "suspend"
        draft.move_jobs(cluster, ranges([activation.proc]), "suspend", cause, "Running", {})


def _hold_late_job(draft: Draft[AccessPoint], activation: Activation) -> None:
    """Hold a job that missed its deferral time. As with HTCondor's starter, the job's ad records a start."""
    cluster = draft.state.clusters[activation.cluster]
    if not cluster.is_local:
        draft.emit(JobExecuting(*draft.header("deferral_missed"), activation.cluster, activation.proc, 0, ""))
        draft.send(EndJob(activation.slot))
    exited = JobExited(
        *draft.header("deferral_missed"), activation.cluster, activation.proc, activation.slot, activation.key,
        "evicted", "", "", {**MISSED_HOLD, **_NO_VACATE_REASON},
    )  # fmt: skip
    draft.emit(continue_job(draft, cluster, exited, "hold"))
    if not cluster.is_local:
        job_ended(draft, activation.slot, activation.cluster, reuses=True)


def end_signalled_jobs(draft: Draft[AccessPoint]) -> None:
    """End signalled jobs that are still waiting for their deferral time and therefore have no process. A transfer of
    their input files ends first."""
    for signal in [event for event in draft.events if isinstance(event, JobSignalled)]:
        activation = draft.state.by_job.get((signal.cluster, signal.proc))
        if activation is None or not (activation.deferred and activation.ready):
            continue
        if not draft.state.runs_elsewhere(activation):
            end_run(draft, ActivationEnded(draft.stimulus, activation.key, draft.now))
