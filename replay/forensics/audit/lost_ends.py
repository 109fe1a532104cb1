"""Compare job event logs about the ends of jobs: one log has an end that another log, which covers it, lacks.

The EventLog and a job's own log are written by the same daemons at the same instants. So an entry that only one of them
has was removed from the other, or could not be written there: that is reported as lost, and is not a violation. A log
covers an end if it continues behind it, and has no gap since its last record of the job. A job is the same in two
sources if it was submitted in the same second, and in the history's ads (which have the queue's time) within a minute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from attrs import define

from ....domain.events import AdsKept
from ....domain.imported.packed_ads import index
from ....domain.imported.record_sources import RecordPlace, place_of
from ....domain.state_machines import HTCONDOR_25

Job = tuple[int, int]
JobOutcome = tuple[Job, int, int, bool, str]  #: a job, submitted, last heard of, ended, outcome
TWINS: Final = 2_000_000  #: how far another job event log must continue behind an end, in microseconds
AFTER: Final = 60_000_000  #: the same for an end in an ad: another process writes the history
_OVER: Final = {HTCONDOR_25.job_status_numbers[name]: name.lower() for name in ("Removed", "Completed")}
_PACKED_AD = Struct("<qqqqqqq")


class LoggedJob(NamedTuple):
    chain: int  #: the number of its first file
    job: Job
    submitted: int
    host: str
    ended: bool
    last: int
    stimulus: str
    covers: int  #: until when it would have had more records; 0 if that is not certain


class LogCoverage(NamedTuple):
    """The time that an EventLog without a gap covers, and the access points."""

    chain: int
    first: int
    last: int
    hosts: frozenset[str]


class LostEnd(NamedTuple):
    """A job whose end one log lacks."""

    job: LoggedJob  #: its last entry there; or in its own log, for a job that an EventLog lacks
    end: str
    at: int
    absent: int = 0  #: the chain that lacks the job


@define
class HistoryAds:
    """The job, submission, leaving time and place of each ad of the history."""

    _kept: bytearray

    def take(self, event: AdsKept) -> None:
        place = place_of(event.stimulus)
        if event.kind != "history" or place is None:
            return
        ads = index(event)
        jobs = zip(ads.wholes("cluster"), ads.wholes("proc"), ads.micros("qdate"), strict=True)
        times = zip(ads.wholes("status"), ads.micros("completed"), ads.micros("left"), ads.lines, strict=True)
        for (cluster, proc, submitted), (status, completion_time, departure_time, line) in zip(
            jobs, times, strict=True
        ):
            if status in _OVER:
                self._kept += _PACKED_AD.pack(
                    cluster, proc, submitted, completion_time or departure_time, place.source, line, status
                )

    def ends(self, jobs: Iterable[Job]) -> dict[Job, list[tuple[int, int, str]]]:
        """Return the submission, leaving time and place of each ad of some jobs."""
        ends: dict[Job, list[tuple[int, int, str]]] = {job: [] for job in jobs}
        if ends:
            for cluster, proc, submitted, at, source, line, _ in _PACKED_AD.iter_unpack(bytes(self._kept)):
                if (cluster, proc) in ends:
                    ends[cluster, proc].append((submitted, at, RecordPlace(source, line).stimulus))
        return ends

    def outcomes(self, known_jobs: Collection[Job]) -> Iterator[JobOutcome]:
        """Yield the outcomes of the jobs that no event log tells, for ``count_outcomes``."""
        for cluster, proc, submitted, at, _, _, status in _PACKED_AD.iter_unpack(bytes(self._kept)):
            if (cluster, proc) not in known_jobs:
                yield (cluster, proc), submitted, at, True, _OVER[status]


def find_lost_ends(logged_jobs: list[LoggedJob], spans: list[LogCoverage], ads: HistoryAds) -> Iterator[LostEnd]:
    """Yield the jobs whose end a log lacks, though the log continues and other logs have it."""
    ended_jobs: dict[tuple[Job, int], list[LoggedJob]] = {}
    chains: dict[Job, set[int]] = {}
    for job in logged_jobs:
        chains.setdefault(job.job, set()).add(job.chain)
        if job.ended and job.submitted:
            ended_jobs.setdefault(_job_key(job), []).append(job)
    open_jobs = [job for job in logged_jobs if not job.ended and job.submitted and job.covers]
    ends = ads.ends(job.job for job in open_jobs)
    for job in open_jobs:
        twins = (twin for twin in ended_jobs.get(_job_key(job), ()) if twin.last + TWINS < job.covers)
        ended_twin = next(twins, None)
        if ended_twin is not None:
            yield LostEnd(job, ended_twin.stimulus, ended_twin.last)
            continue
        for submitted, at, stimulus in ends[job.job]:
            if abs(submitted - job.submitted) < AFTER and job.last - TWINS <= at < job.covers - AFTER:
                yield LostEnd(job, stimulus, at)
                break
    for job in (ended_twin for same_jobs in ended_jobs.values() for ended_twin in same_jobs):
        for span in spans:
            if span.chain not in chains[job.job] and _covers(span, job):
                yield LostEnd(job, job.stimulus, job.last, span.chain)


def _job_key(job: LoggedJob) -> tuple[Job, int]:
    return job.job, job.submitted // 1_000_000


def _covers(span: LogCoverage, job: LoggedJob) -> bool:
    return job.host in span.hosts and span.first + TWINS < job.submitted and job.last + TWINS < span.last


def count_outcomes(outcomes: Iterable[JobOutcome]) -> dict[str, int]:
    """Count jobs by outcome. The same number and submission (in seconds) in several chains is one job; one
    without a submission time counts as any other of its number."""
    outcomes_by_job: dict[Job, dict[int, tuple[int, bool, str]]] = {}
    for job, submitted, at, is_ended, status in outcomes:
        outcome, submit_second = (at, is_ended, status), submitted // 1_000_000
        by_second = outcomes_by_job.setdefault(job, {})
        by_second[submit_second] = max(by_second.get(submit_second, outcome), outcome)
    counts: Counter[str] = Counter()
    for by_second in outcomes_by_job.values():
        if len(by_second) > 1 and 0 in by_second:
            unsure_outcome, latest_second = by_second.pop(0), max(by_second)
            by_second[latest_second] = max(by_second[latest_second], unsure_outcome)
        counts.update(status for _, _, status in by_second.values())
    return dict(sorted(counts.items()))
