"""Build the epoch ads of jobs: each job's ad at the end of a run, as HTCondor's shadow writes it to the epoch history.

An epoch ad is the job's ad just before the queue records the end: the job still has its slot, its status is Running,
and the ad of an evicted run contains the vacate reason. RunInstanceID counts a job's runs from 0. Source: HTCondor's
job_ad_instance_recording.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, takewhile
from operator import itemgetter
from typing import Any, Final

from attrs import define, field

from ...domain import events as e
from ...domain.ports.log import EventStore
from ...domain.state.job_ad import STATUS_NUMBERS, Changes, ad_at_exit, fold_job, parse_int, quoted, seconds
from ...domain.state.job_procs import job_procs
from ...domain.state.proc_ads import Variants
from ...domain.state_machines import LEFT
from ..narration.formatting import EVER

_KEPT = ("VacateReason", "VacateReasonCode", "VacateReasonSubCode")
"""The attributes changed at the exit that the shadow sets in its copy of the ad before it writes the epoch ad."""
_LATER = ("HoldReason", "HoldReasonCode", "HoldReasonSubCode", "RemoveReason")
"""The attributes of an ending job that only the queue's ad has; the shadow's copy lacks them."""
_CONTEXT = ("QDate", "Owner", "ProjectName", "NumShadowStarts", "RemoteHost")
"""The attributes of the job that the ad of a transfer contains."""
_PART: Final = 20_000  #: the events of a log that are read at once


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


Builders = Mapping[type[e.Event], Callable[[_EpochCluster, Any], Iterator[e.Ad]]]


def _is_about(event: e.Event, proc: int) -> bool:
    jobs = job_procs(event)
    return jobs is not None and any(first <= proc <= last for first, last in jobs[1])


def ads_of_clusters(
    log: EventStore, clusters: Iterable[int], builders: Builders, after: int = 0, end: int = EVER
) -> list[tuple[int, e.Ad]]:
    """Return the ads that ``builders`` make of the events of some clusters after one position and up to another, in
    order."""
    streams = (log.read_stream(f"cluster/{cluster}") for cluster in clusters)
    past = (takewhile(lambda pair: pair[0] <= end, stream) for stream in streams)
    ads = chain.from_iterable(ads_with_positions(events, builders, after) for events in past)
    return sorted(ads, key=itemgetter(0))


def latest_ads(log: EventStore, builders: Builders) -> Iterator[tuple[int, e.Ad]]:
    """Yield the ads that ``builders`` make of a log, the latest first. It reads the log in parts, each with the streams
    of the clusters that have ads there."""
    kinds = tuple(builders)
    for end in range(log.head.position, 0, -_PART):
        begin = max(0, end - _PART)
        events = (event for _, event in log.read(begin, end - begin) if isinstance(event, kinds))
        clusters = {event.cluster for event in events if isinstance(event, e.ClusterEvent)}
        yield from reversed(ads_of_clusters(log, clusters, builders, begin, end))


def ads_with_positions(
    events: Iterable[tuple[int, e.Event]], builders: Builders, after: int = 0
) -> Iterator[tuple[int, e.Ad]]:
    """Yield the ads that ``builders`` make of the events after a position, each with the position of its event.

    :param events: a log from its beginning, or the stream of a cluster
    """
    clusters: dict[int, _EpochCluster] = {}
    for position, event in events:
        if isinstance(event, e.ClusterSubmitted):
            clusters[event.cluster] = _EpochCluster(event.ad, Variants(event.columns))
            continue
        jobs = job_procs(event)
        epoch_cluster = None if jobs is None else clusters.get(jobs[0])
        if epoch_cluster is None or jobs is None:
            continue
        for ad in builders[type(event)](epoch_cluster, event) if position > after and type(event) in builders else ():
            yield position, ad
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


def _epochs(epoch_cluster: _EpochCluster, event: Any) -> Iterator[e.Ad]:
    """Yield the ad of a run that ended with the `JobExited` event."""
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
    yield {name: text for name, text in {**ad_at_exit(ad_before, event), **values, **epoch_attributes}.items() if text}


def _startd_epochs(epoch_cluster: _EpochCluster, event: Any) -> Iterator[e.Ad]:
    """Yield the ad of a run as a startd writes it to its history: without the attributes of the epoch history. The
    starter calls each run completed, also if the job was evicted."""
    for ad in _epochs(epoch_cluster, event):
        completed = str(STATUS_NUMBERS["Completed"])
        ended = {"CompletionDate": ad["EpochWriteDate"], "JobState": quoted("Exited"), "JobStatus": completed}
        of_epochs = ("EpochAdType", "EpochWriteDate", "RunInstanceID")
        yield {name: text for name, text in {**ad, **ended}.items() if name not in of_epochs}


def _transfers(epoch_cluster: _EpochCluster, event: Any) -> Iterator[e.Ad]:
    """Yield an ad for each protocol of the transfer that ended with the `JobTransferEnded` event. HTCondor writes one
    for each file."""
    job = {**epoch_cluster.base(event.proc), **epoch_cluster.changes(event.proc)}
    began = job.get("TransferInStarted" if event.way == "input" else "TransferOutStarted", "")
    kind, ended = quoted(event.way.upper()), seconds(event.ended or event.at)
    ad = {
        **{name: job[name] for name in _CONTEXT if name in job}, "ClusterId": str(event.cluster),
        "ProcId": str(event.proc), "RunInstanceID": str(parse_int(job.get("NumShadowStarts", "1")) - 1),
        "EpochAdType": kind, "TransferClass": kind, "EpochWriteDate": ended, "TransferEndTime": ended,
        "TransferType": quoted("download" if event.way == "input" else "upload"),
        "TransferSuccess": str(not event.failed).lower(), **({"TransferStartTime": began} if began else {}),
    }  # fmt: skip
    by_url = [(protocol, files, size) for protocol, _, files, size in event.urls]
    for protocol, files, size in [("cedar", event.files, event.size), *by_url]:
        if files or not by_url:
            counts = {"TransferTries": str(files), "TransferTotalBytes": str(size), "TransferFileBytes": str(size)}
            yield {**ad, "TransferProtocol": quoted(protocol), **counts}


EPOCHS: Final[Builders] = {e.JobExited: _epochs}
STARTD_EPOCHS: Final[Builders] = {e.JobExited: _startd_epochs}
TRANSFERS: Final[Builders] = {e.JobTransferEnded: _transfers}
