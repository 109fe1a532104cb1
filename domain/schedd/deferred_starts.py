"""Activated jobs whose processes wait for their deferral time: they start, miss it, or are evicted."""

from __future__ import annotations

from typing import Final

from ..decision.draft import Draft, ranges
from ..events import JobDue, JobExecuting, JobExited, JobSignalled
from ..ports.messages import EndJob, ShowSlot
from ..ports.stimuli import ActivationEnded
from ..state.caches import ad_of
from ..state.records import Activation
from ..state.state import AccessPoint
from ..units import SECOND
from .claims import job_ended
from .job_deferral import window
from .job_processes import continue_job, ended

MISSED: Final = {"HoldReason": '"Job missed deferred execution time"', "HoldReasonCode": "20"}
_VACATED: Final = {"VacateReason": '""', "VacateReasonCode": "0", "VacateReasonSubCode": "0"}


def deferral_over(draft: Draft[AccessPoint], activation: Activation) -> None:
    """Start a job's process at its time. On a suspended slot, it is suspended immediately."""
    if _missed(draft, activation):
        _hold(draft, activation)
        return
    cluster = draft.state.clusters[activation.cluster]
    draft.emit(JobDue(*draft.why("deferral_over"), activation.cluster, activation.proc))
    seen = None if cluster.is_local else draft.send(ShowSlot(activation.slot))
    if seen is not None and seen.state_activity == "Claimed/Suspended":
        draft.move_jobs(cluster, ranges([activation.proc]), "suspend", "suspend", "Running", {})


def _missed(draft: Draft[AccessPoint], activation: Activation) -> bool:
    """Check whether a job has missed its time: the time was past when the job was activated, or the pool was down and
    the window is past too. A running pool starts the job, however late."""
    if activation.deferred < activation.began:
        return True
    if draft.state.served_since <= activation.deferred:
        return False
    cluster = draft.state.clusters[activation.cluster]
    late = draft.now // SECOND - activation.deferred // SECOND
    return late > window(ad_of(cluster.attributes(activation.proc)), draft.context)


def _hold(draft: Draft[AccessPoint], activation: Activation) -> None:
    """Hold a job that has missed its time. As with HTCondor's starter, its ad says that it was started."""
    cluster = draft.state.clusters[activation.cluster]
    if not cluster.is_local:
        draft.emit(JobExecuting(*draft.why("deferral_missed"), activation.cluster, activation.proc, 0, ""))
        draft.send(EndJob(activation.slot))
    missed = JobExited(
        *draft.why("deferral_missed"), activation.cluster, activation.proc, activation.slot, activation.key,
        "evicted", "", "", {**MISSED, **_VACATED},
    )  # fmt: skip
    draft.emit(continue_job(draft, cluster, missed, "hold"))
    if not cluster.is_local:
        job_ended(draft, activation.slot, activation.cluster, reuses=True)


def end_told(draft: Draft[AccessPoint]) -> None:
    """End signalled jobs that wait for their time: they have no process that could end."""
    for signalled in [event for event in draft.events if isinstance(event, JobSignalled)]:
        activation = draft.state.by_job.get((signalled.cluster, signalled.proc))
        if activation is not None and activation.deferred:
            ended(draft, ActivationEnded(draft.stimulus, activation.key, draft.now))
