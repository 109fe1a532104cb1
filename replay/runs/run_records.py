"""Collect the records of jobs' runs in an imported log, grouped by job number, in one pass over the log.

If a time window is given, ads outside the window are skipped: the ads of jobs that left the queue before the window or
entered it afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from attrs import define, field
from msgspec.structs import replace

from ...domain import events as e
from ...domain.events.handlers import handlers_of
from ...domain.imported.packed_ads import index_of_event, select, unquoted
from ...domain.imported.record_sources import NOT_STARTED, NOT_SWITCHED, RecordPlace, place_of
from ...domain.ports.log import EventStore
from ..forensics.audit.event_log_facts import JobRecord
from ..forensics.audit.tolerances import LINGERING
from ..forensics.imported_log import PlaceNames, Sources, job_of, records_between
from ..narration.formatting import EVER
from .slot_records import is_free

Job = tuple[int, int]
ENTRIES: Final = frozenset({0, 1, 4, 5, 7, 9, 12, 21, 22, 23, 24})  #: the job event log entries about runs
ATTRIBUTES: Final = (
    "AcctGroup", "ClusterId", "CompletionDate", "EnteredCurrentStatus", "EpochAdType", "EpochWriteDate", "ExitBySignal",
    "ExitCode", "ExitSignal", "GlobalJobId", "JobCurrentStartDate", "JobCurrentStartExecutingDate", "JobDuration",
    "JobMaterializeDate", "JobStatus", "JobUniverse", "LastJobStatus", "LastRemoteHost", "ProcId", "QDate",
    "RemoteHost", "RemoteWallClockTime", "User", "VacateReasonCode",
)  # fmt: skip
"""The attributes that are read from jobs' ads."""
_ADS: Final = frozenset({"history", "epochs", "startd_history"})
_OF_JOBS: Final = frozenset({"shadow_began", "shadow_gone", "matched"})
_REFUSED: Final = "1006"  #: FailedToActivateClaim; a shadow reports it only by its exit status
LEFT: Final = ("5", "9")  #: the entries logged when a job leaves the queue


@define
class Records:
    """Collects the records of runs in a log between two instants (microseconds)."""

    since: int = 0
    until: int = EVER
    only: tuple[int, int | None] | None = None  #: the cluster or job whose records to collect
    at: int = EVER  #: records after this instant are skipped
    records_by_job: dict[Job, list[JobRecord]] = field(factory=dict)
    gaps: dict[int, list[int]] = field(factory=dict)  #: the positions at which records of each chain are missing
    holes: dict[int, list[int]] = field(factory=dict)  #: the start times of the gaps in each chain of logs, where known
    groups: dict[RecordPlace, str] = field(factory=dict)  #: the accounting groups in ads, by the ads' locations
    codes: dict[RecordPlace, str] = field(factory=dict)
    """The vacate codes, by the locations of the ads that contain them, and of the starts of shadows that a slot
    refused."""
    left: dict[RecordPlace, int] = field(factory=dict)  #: when jobs left the queue, by the locations of history ads
    users: dict[int, str] = field(factory=dict)  #: each cluster's user, by the negotiator's name
    last: int = 0  #: the instant of the last record
    is_past: bool = False  #: whether ads of jobs outside the window were skipped
    sources: Sources = field(factory=Sources)
    _jobs: dict[str, tuple[Job, int]] = field(factory=dict)
    """The job that each slot runs according to its startd, and the chain of the startd's log."""
    _last_events: dict[int, int] = field(factory=dict)  #: the time of the last record in each chain of StartLogs
    _owners: dict[str, str] = field(factory=dict)
    _begun: dict[tuple[int, str], RecordPlace] = field(factory=dict)
    """The starts of shadows that have not exited, by the chain of their schedd's log and their pid."""

    def fold_records(self, records: Iterable[tuple[int, e.Event]]) -> Records:
        for position, event in records:
            take_event = _TAKE.get(type(event))
            if take_event is not None and (event.at <= self.at or isinstance(event, e.SourceEvent | e.AdsKept)):
                take_event(self, position, event)
        return self

    def read_job(self, log: EventStore) -> Records:
        """Read a log's records of the requested cluster or job, and of StartLogs only those from its time in the
        queue."""
        assert self.only is not None
        places = PlaceNames(log)
        streams = [*(p.stream for p in places.all()), f"cluster/{self.only[0]}", *(f"ads/{kind}" for kind in _ADS)]
        self.fold_records(
            sorted((pair for stream in streams for pair in log.read_stream(stream)), key=lambda pair: pair[0])
        )
        records = (record for records in self.records_by_job.values() for record in records)
        first_entry = min((record.at for record in records if record.letter not in "HPS"), default=0)
        return self.fold_records(
            records_between(log, places, "startlog", first_entry - LINGERING, min(self._end_of_jobs(), self.at))
        )

    def _end_of_jobs(self) -> int:
        """Return when all jobs had left the queue and their slots were free; EVER if any job is still in the queue."""
        last_times = []
        for records_of_job in self.records_by_job.values():
            last_entry = next((record for record in reversed(records_of_job) if record.letter in "UE"), None)
            last_times.append(last_entry.at if last_entry is not None and last_entry.what in LEFT else EVER)
        return min(max(last_times, default=EVER) + LINGERING, EVER)

    def _add_record(self, job: Job, record: JobRecord) -> None:
        is_wanted = self.only is None or (job[0] == self.only[0] and self.only[1] in (None, job[1]))
        if is_wanted and job[0] > 0 and job[1] >= 0:
            self.records_by_job.setdefault(job, []).append(record)

    def on_source(self, position: int, event: e.SourceFound) -> None:
        self.sources.fold_event(event)

    def on_gap(self, position: int, event: e.SourceGap | e.SourceRefused) -> None:
        chain = self.chain_of(event.source)
        self.gaps.setdefault(chain, []).append(position)
        if isinstance(event, e.SourceGap) and event.since:
            self.holes.setdefault(chain, []).append(event.since)

    def chain_of(self, source: int) -> int:
        """Return a source's chain: the first of its log's rotated files."""
        return self.sources.letter(source)[1]

    def on_entries(self, position: int, event: e.JobsLogged) -> None:
        letter, chain = self.sources.letter(event.source)
        source, cluster = event.source, event.cluster
        for at, line, proc, _, number, text in event.entries:
            self.last = max(self.last, at)
            if number in ENTRIES and at <= self.at:
                record = JobRecord(position, letter, chain, source, line, at, str(number), text)
                self._add_record((cluster, proc), record)

    def on_ads(self, position: int, event: e.AdsKept) -> None:
        place = place_of(event.stimulus)
        if event.kind not in _ADS or place is None:
            return
        letter, _ = self.sources.letter(place.source)
        columns = index_of_event(event)
        lines, departures, queue_times = columns.lines, columns.microseconds("left"), columns.microseconds("qdate")
        clusters, procs = columns.integers("cluster"), columns.integers("proc")
        chosen_ads = [
            number
            for number in range(event.count)
            if queue_times[number] <= self.until
            and departures[number] <= self.at
            and (letter != "H" or not 0 < departures[number] < self.since)
            and (self.only is None or (clusters[number] == self.only[0] and self.only[1] in (None, procs[number])))
        ]
        self.is_past = self.is_past or len(chosen_ads) < event.count
        if not chosen_ads:
            return
        ads = select(event, ATTRIBUTES)
        for number in chosen_ads:
            ad, at = ads[number], RecordPlace(place.source, lines[number])
            if letter == "H":
                self.left[at] = departures[number]
            for name, values in (("AcctGroup", self.groups), ("VacateReasonCode", self.codes)):
                if name in ad:
                    values[at] = unquoted(ad[name])
            body = json.dumps(ad)
            record = JobRecord(position, letter, place.source, place.source, lines[number], event.at, "ad", body)
            self._add_record((clusters[number], procs[number]), record)
            self.last = max(self.last, departures[number])

    def on_job(self, position: int, event: e.JobReported) -> None:
        self.last = max(self.last, event.at)
        if event.said not in _OF_JOBS:
            return
        if event.said == "matched" and event.facts.get("user"):
            self.users.setdefault(event.cluster, event.facts["user"])
        self._note_refusal(event)
        self._add_report((event.cluster, event.proc), position, event, event.said, event.facts)

    def _note_refusal(self, event: e.JobReported) -> None:
        place, shadow = place_of(event.stimulus), (self._chain(event), event.facts.get("shadow", ""))
        if event.said == "shadow_began" and place is not None:
            self._begun[shadow] = place
        elif event.said == "shadow_gone":
            begun_place = self._begun.pop(shadow, None)
            never_started = event.facts.get("status") == NOT_STARTED or event.facts.get("reason") == NOT_SWITCHED
            if begun_place is not None and never_started:
                self.codes[begun_place] = _REFUSED

    def on_slot(self, position: int, event: e.SlotReported) -> None:
        self.last = max(self.last, event.at)
        facts, slot = event.facts, event.slot
        if event.said == "owner":
            self._owners[slot] = facts.get("user", "")
        elif event.said == "activated":
            job = job_of(facts.get("job", ""))
            if job is not None:
                self._jobs[slot] = job, self._chain(event)
                self._add_report(job, position, event, "activated", {"slot": slot, "user": self._owners.get(slot, "")})
        elif event.said in ("job_over", "starter_gone") and slot in self._jobs:
            self._add_report(self._jobs.pop(slot)[0], position, event, "over", {"slot": slot})
        self._last_events[self._chain(event)] = event.at

    def on_moved(self, position: int, event: e.SlotTransitioned) -> None:
        self.last = max(self.last, event.at)
        if is_free(event) and event.source != "Claimed/Idle" and event.slot in self._jobs:
            self._add_report(self._jobs.pop(event.slot)[0], position, event, "over", {"slot": event.slot})
        self._last_events[self._chain(event)] = event.at

    def on_daemon(self, position: int, event: e.DaemonReported) -> None:
        """End the jobs of a startd that starts or exits, as of its last previous record."""
        if event.daemon != "startd" or event.said not in ("began", "ended"):
            return
        chain = self._chain(event)
        last_event = replace(event, at=self._last_events.get(chain, event.at))
        for slot in [slot for slot, (_, job_chain) in self._jobs.items() if job_chain == chain]:
            self._add_report(self._jobs.pop(slot)[0], position, last_event, "over", {"slot": slot})

    def _chain(self, event: e.Event) -> int:
        place = place_of(event.stimulus)
        return 0 if place is None else self.chain_of(place.source)

    def _add_report(self, job: Job, position: int, event: e.Event, what_happened: str, facts: dict[str, str]) -> None:
        place = place_of(event.stimulus)
        if place is not None:
            letter, chain = self.sources.letter(place.source)
            body = json.dumps(facts)
            self._add_record(
                job, JobRecord(position, letter, chain, place.source, place.line, event.at, what_happened, body)
            )


_TAKE: Final = handlers_of(Records)
