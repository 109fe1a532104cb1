"""Build the ads of jobs' runs: each job's ad as its run ended, as HTCondor's shadow writes it to the epoch history.

Such an ad is the job's ad just before the queue records the end: the job still has its slot, and its status is Running;
the vacate reason of an evicted run is in it. RunInstanceID counts a job's runs from 0. Source:
job_ad_instance_recording.cpp of HTCondor.
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
"""The changes of the exit that the shadow makes in its copy of the ad before it writes the ad."""
_LATER = ("HoldReason", "HoldReasonCode", "HoldReasonSubCode", "RemoveReason")
"""The attributes that only the queue has of a job that is ending; the shadow's copy lacks them."""


@define
class _EpochCluster:
    """A cluster's ad, the events about ranges of its jobs, and the changed ads of the jobs that have run."""

    ad: e.Ad
    variants: Variants
    events: list[e.Event] = field(factory=list)
    changes_by_proc: dict[int, Changes] = field(factory=dict)

    def base(self, proc: int) -> e.Ad:
        return {**self.ad, **self.variants.of(proc)} if self.variants.chunks else self.ad

    def changes(self, proc: int) -> Changes:
        """Return the changes by events in the ad of a job that runs for the first time, or has run."""
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
    """Yield the ads of the runs that ended, in the order of their ends.

    :param events: a log from its beginning, or the streams of some of its clusters
    """
    clusters: dict[int, _EpochCluster] = {}
    for _, event in events:
        if isinstance(event, e.ClusterSubmitted):
            clusters[event.cluster] = _EpochCluster(event.ad, Variants(event.columns))
            continue
        jobs = job_procs(event)
        epoch_cluster = None if jobs is None else clusters.get(jobs[0])
        if epoch_cluster is None or jobs is None:
            continue
        if isinstance(event, e.JobExited):
            yield _epoch(epoch_cluster, event)
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
