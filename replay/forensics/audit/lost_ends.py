"""Compare the ends of jobs in job event logs: find ends that are in one log, but missing from another that covers them.

The same daemons write the EventLog and a job's own log at the same instants. So an entry that is in only one of them
was removed from the other, or could not be written there: it is reported as lost, not as a violation. A log covers an
end if it continues after the end, and has no gap since its last record of the job. Jobs in two sources are the same if
they were submitted in the same second, or within a minute if one source is a history, whose ads have the queue's time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from attrs import define

from ....domain.events import AdsKept
from ....domain.imported.packed_ads import index_of_event
from ....domain.imported.record_sources import RecordPlace, place_of
from ....domain.state_machines import HTCONDOR_25

Job = tuple[int, int]
JobOutcome = tuple[Job, int, int, bool, str]  #: job, submission, last entry's time, ended, outcome
TWINS: Final = 2_000_000  #: how far another event log must continue after an end, in microseconds
AFTER: Final = 60_000_000  #: the same for an end in an ad, because another process writes the history
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
    covers: int  #: the time until which the log covers the job, or 0 if uncertain


class LogCoverage(NamedTuple):
    """The time that an EventLog covers without a gap, and its access points."""

    chain: int
    first: int
    last: int
    hosts: frozenset[str]


class LostEnd(NamedTuple):
    """A job whose end is missing from one log."""

    job: LoggedJob  #: its last entry there, or in its own log if the EventLog lacks the whole job
    end: str
    at: int
    absent: int = 0  #: the chain without the job


@define
class HistoryAds:
    """The job, submission, end time and location of each ad of the history."""

    _kept: bytearray

    def add_ads(self, event: AdsKept) -> None:
        place = place_of(event.stimulus)
        if event.kind != "history" or place is None:
            return
        ads = index_of_event(event)
        jobs = zip(ads.integers("cluster"), ads.integers("proc"), ads.microseconds("qdate"), strict=True)
        times = zip(
            ads.integers("status"), ads.microseconds("completed"), ads.microseconds("left"), ads.lines, strict=True
        )
        for (cluster, proc, submitted), (status, completion_time, departure_time, line) in zip(
            jobs, times, strict=True
        ):
            if status in _OVER:
                self._kept += _PACKED_AD.pack(
                    cluster, proc, submitted, completion_time or departure_time, place.source, line, status
                )

    def ends(self, jobs: Iterable[Job]) -> dict[Job, list[tuple[int, int, str]]]:
        """Return the submission, end time and location of each history ad of these jobs."""
        ends: dict[Job, list[tuple[int, int, str]]] = {job: [] for job in jobs}
        if ends:
            for cluster, proc, submitted, at, source, line, _ in _PACKED_AD.iter_unpack(bytes(self._kept)):
                if (cluster, proc) in ends:
                    ends[cluster, proc].append((submitted, at, RecordPlace(source, line).stimulus))
        return ends

    def outcomes(self, known_jobs: Collection[Job]) -> Iterator[JobOutcome]:
        """Yield the outcomes of the jobs that are in no event log, for ``count_outcomes``."""
        for cluster, proc, submitted, at, _, _, status in _PACKED_AD.iter_unpack(bytes(self._kept)):
            if (cluster, proc) not in known_jobs:
                yield (cluster, proc), submitted, at, True, _OVER[status]


def find_lost_ends(logged_jobs: list[LoggedJob], spans: list[LogCoverage], ads: HistoryAds) -> Iterator[LostEnd]:
    """Yield the jobs whose end is missing from a log that continues after it, but is in other logs."""
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
    """Count jobs by outcome. Entries in several chains with the same job number and submission time (in seconds) count
    as one job; an entry without a submission time matches any job with the same number."""
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
