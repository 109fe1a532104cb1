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
_ad = Struct("<qqqqqqq")


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
        for (cluster, proc, submitted), (status, completed, departed, line) in zip(jobs, times, strict=True):
            if status in _OVER:
                self._kept += _ad.pack(cluster, proc, submitted, completed or departed, place.source, line, status)

    def ends(self, jobs: Iterable[Job]) -> dict[Job, list[tuple[int, int, str]]]:
        """Return the submission, leaving time and place of each ad of some jobs."""
        ends: dict[Job, list[tuple[int, int, str]]] = {job: [] for job in jobs}
        if ends:
            for cluster, proc, submitted, at, source, line, _ in _ad.iter_unpack(bytes(self._kept)):
                if (cluster, proc) in ends:
                    ends[cluster, proc].append((submitted, at, RecordPlace(source, line).stimulus))
        return ends

    def became(self, known: Collection[Job]) -> Iterator[JobOutcome]:
        """Yield the outcomes of the jobs that no event log tells, for ``count_outcomes``."""
        for cluster, proc, submitted, at, _, _, status in _ad.iter_unpack(bytes(self._kept)):
            if (cluster, proc) not in known:
                yield (cluster, proc), submitted, at, True, _OVER[status]


def find_lost_ends(lives: list[LoggedJob], spans: list[LogCoverage], ads: HistoryAds) -> Iterator[LostEnd]:
    """Yield the jobs whose end a log lacks, though the log continues and other logs have it."""
    ended: dict[tuple[Job, int], list[LoggedJob]] = {}
    heard: dict[Job, set[int]] = {}
    for life in lives:
        heard.setdefault(life.job, set()).add(life.chain)
        if life.ended and life.submitted:
            ended.setdefault(_life(life), []).append(life)
    open_ = [life for life in lives if not life.ended and life.submitted and life.covers]
    ends = ads.ends(life.job for life in open_)
    for life in open_:
        twin = next((twin for twin in ended.get(_life(life), ()) if twin.last + TWINS < life.covers), None)
        if twin is not None:
            yield LostEnd(life, twin.stimulus, twin.last)
            continue
        for submitted, at, stimulus in ends[life.job]:
            if abs(submitted - life.submitted) < AFTER and life.last - TWINS <= at < life.covers - AFTER:
                yield LostEnd(life, stimulus, at)
                break
    for life in (twin for twins in ended.values() for twin in twins):
        for span in spans:
            if span.chain not in heard[life.job] and _covers(span, life):
                yield LostEnd(life, life.stimulus, life.last, span.chain)


def _life(life: LoggedJob) -> tuple[Job, int]:
    return life.job, life.submitted // 1_000_000


def _covers(span: LogCoverage, life: LoggedJob) -> bool:
    return life.host in span.hosts and span.first + TWINS < life.submitted and life.last + TWINS < span.last


def count_outcomes(became: Iterable[JobOutcome]) -> dict[str, int]:
    """Count jobs by outcome. The same number and submission (in seconds) in several chains is one job; one
    without a submission time counts as any other of its number."""
    heard: dict[Job, dict[int, tuple[int, bool, str]]] = {}
    for job, submitted, at, ended, was in became:
        this, second = (at, ended, was), submitted // 1_000_000
        known = heard.setdefault(job, {})
        known[second] = max(known.get(second, this), this)
    counts: Counter[str] = Counter()
    for known in heard.values():
        if len(known) > 1 and 0 in known:
            unsure, latest = known.pop(0), max(known)
            known[latest] = max(known[latest], unsure)
        counts.update(was for _, _, was in known.values())
    return dict(sorted(counts.items()))
