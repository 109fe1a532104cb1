"""Build the epoch ads of jobs: each job's ad at the end of a run, as HTCondor's shadow writes it to the epoch history.

An epoch ad is the job's ad just before the queue records the end: the job still has its slot, its status is Running,
and the ad of an evicted run contains the vacate reason. RunInstanceID counts a job's runs from 0. Source: HTCondor's
job_ad_instance_recording.cpp.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import define, field

from ...domain import events as e
from ...domain.state.job_ad import STATUS_NUMBERS, Changes, ad_at_exit, fold_job, parse_int, quoted, seconds
from ...domain.state.job_procs import job_procs
from ...domain.state.proc_ads import Variants
from ...domain.state_machines import LEFT

_KEPT = ("VacateReason", "VacateReasonCode", "VacateReasonSubCode")
"""The attributes changed at the exit that the shadow sets in its copy of the ad before it writes the epoch ad."""
_LATER = ("HoldReason", "HoldReasonCode", "HoldReasonSubCode", "RemoveReason")
"""The attributes of an ending job that only the queue's ad has; the shadow's copy lacks them."""


@define
class _EpochCluster:
    """A cluster's ad, the events about ranges of its jobs, and the changed attributes of the jobs that have run."""

    ad: e.Ad
    variants: Variants
    events: list[e.Event] = field(factory=list)
    changes_by_proc: dict[int, Changes] = field(factory=dict)

    def base(self, proc: int) -> e.Ad:
        return {**self.ad, **self.variants.of_proc(proc)} if self.variants.chunks else self.ad

    def changes(self, proc: int) -> Changes:
        """Return the attributes that events have changed in the ad of a job that runs or has run."""
        changes = self.changes_by_proc.get(proc)
        if changes is None:
            changes = self.changes_by_proc[proc] = {}
            base = self.base(proc)
            for event in self.events:
                if _is_about(event, proc):
                    fold_job(changes, base, event)
        return changes


def _is_about(event: e.Event, proc: int) -> bool:
    jobs = job_procs(event)
    return jobs is not None and any(first <= proc <= last for first, last in jobs[1])


def epochs(events: Iterable[tuple[int, e.Event]]) -> Iterator[e.Ad]:
    """Yield the epoch ads of the runs that have ended, in the order of their ends.

    :param events: a log from its beginning, or the streams of some of its clusters
    """
    return (ad for _, ad in epochs_with_positions(events))


def epochs_with_positions(events: Iterable[tuple[int, e.Event]]) -> Iterator[tuple[int, e.Ad]]:
    """Yield the same ads, each with the position of the `JobExited` event."""
    clusters: dict[int, _EpochCluster] = {}
    for position, event in events:
        if isinstance(event, e.ClusterSubmitted):
            clusters[event.cluster] = _EpochCluster(event.ad, Variants(event.columns))
            continue
        jobs = job_procs(event)
        epoch_cluster = None if jobs is None else clusters.get(jobs[0])
        if epoch_cluster is None or jobs is None:
            continue
        if isinstance(event, e.JobExited):
            yield position, _epoch(epoch_cluster, event)
        if hasattr(event, "proc"):
            fold_job(epoch_cluster.changes(event.proc), epoch_cluster.base(event.proc), event)
            if isinstance(event, e.JobExited) and event.left:
                del epoch_cluster.changes_by_proc[event.proc]
            continue
        epoch_cluster.events.append(event)
        ran_procs = [proc for proc in epoch_cluster.changes_by_proc if _is_about(event, proc)]
        for proc in ran_procs:
            if isinstance(event, e.JobsTransitioned) and event.target == LEFT:
                del epoch_cluster.changes_by_proc[proc]
            else:
                fold_job(epoch_cluster.changes_by_proc[proc], epoch_cluster.base(proc), event)


def _epoch(epoch_cluster: _EpochCluster, event: e.JobExited) -> e.Ad:
    ad_before = {**epoch_cluster.base(event.proc), **epoch_cluster.changes(event.proc)}
    end_time = seconds(event.ended or event.at)
    epoch_attributes = {
        "ClusterId": str(event.cluster),
        "ProcId": str(event.proc),
        "JobStatus": str(STATUS_NUMBERS["Running"]),
        "RunInstanceID": str(parse_int(ad_before.get("NumShadowStarts", "1")) - 1),
        "EpochAdType": quoted("EPOCH"),
        "EpochWriteDate": end_time,
        **dict.fromkeys(_LATER, ""),
    }
    values = {name: event.changes[name] for name in _KEPT if name in event.changes}
    return {name: text for name, text in {**ad_at_exit(ad_before, event), **values, **epoch_attributes}.items() if text}
