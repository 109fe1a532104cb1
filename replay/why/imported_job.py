"""Explain the state of a job of an imported pool: its history in sentences, each with the locations of its records.

The job event log has the history. Slots' logs show why runs ended or were suspended, the negotiator's log has the
matches, and ads have the user and what the logs lack. Nothing is guessed: the answer names the time of the last record.
If a job number was reused, the last job with this number is explained, or the one at the given instant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, tzinfo
from itertools import zip_longest
from typing import Final

from attrs import define

from ...domain import events as e
from ...domain.imported import job_event_log
from ...domain.ports.log import EventStore
from ...domain.state_machines import HTCONDOR_25
from ...domain.state_machines.hold_codes import hold_advice
from ...domain.units import SECOND
from ..forensics.imported_log import PlaceNames, host_of, single_entries
from ..narration.formatting import instant, memory
from ..narration.sentences import Explanation, Sentence, UnknownThingError
from ..runs.imported_runs import job_runs
from ..runs.job_run import RUNNING as GOES_ON
from ..runs.job_run import JobRun
from ..runs.slot_records import SlotRecords
from .imported_steps import add_collected, add_gap, read_record
from .job_facts import COMPLETED, HAS_LEFT, HELD, IDLE, REMOVED, RUNNING, Situation
from .job_life import BEGUN, CLOSE, OVER, ImportedJob
from .job_records import (
    APART,
    BEGIN,
    COOL_DOWN,
    Job,
    JobAd,
    Place,
    Record,
    ads_of_job,
    ads_of_life,
    ads_of_queue,
    cool_downs,
    gaps_of,
    last_life,
    records_of,
    with_reports,
)
from .match_runs import is_match, same_user
from .unknown_thing import unknown_job


def why_imported_job(
    log: EventStore, cluster: int, proc: int, at: int | None = None, zone: tzinfo = UTC
) -> Explanation:
    """Explain the state of an imported job as of the instant `at` (None: the log's end).

    :raises UnknownThingError: the log has no records of such a job
    """
    places = PlaceNames(log)
    all_events = list(single_entries(log.read_stream(f"cluster/{cluster}")))
    points = access_points(all_events, (cluster, proc), places)
    if points is not None:
        all_events = [event_pair for event_pair in all_events if points.may_concern(event_pair[1])]
    events_until = [event for event in all_events if at is None or event[1].at <= at]
    records = records_of(events_until, proc, places)
    ads = ads_of_job(log, (cluster, proc), at, records)
    if points is not None:
        ads = [ad for ad in ads if points.has_ad(ad)]
    begin = last_life(records, ads, at)
    records = [record for record in records if record.at >= begin - APART]
    logged_records = [record for record in records if isinstance(record.event, e.JobLogged)]
    gaps = [(position, gap) for position, gap in gaps_of(log, logged_records) if gap.until == 0 or gap.until >= begin]
    job = ImportedJob((cluster, proc), at, zone, places, SlotRecords(log, at))
    job.prepare(events_until, records, ads_of_life(ads, begin))
    matched_events = (event for _, event in all_events if is_match(event))
    job.logged_user = next(filter(None, (event.facts.get("user", "") for event in matched_events)), "")
    runs = job_runs(log, cluster, proc, at, zone)
    job.runs = sorted(
        (
            run
            for run in runs
            if (points is None or points.has_run(run))
            and (not run.user or same_user(run.user, job.users()))
            and run.ended >= begin - APART
        ),
        key=lambda run: run.began,
    )
    for record in with_reports(records, missing_steps(job, records)):
        read_record(job, record)
    add_collected(job)
    if job.status not in HAS_LEFT and not any(ad.has_left for ad in job.ads):
        left_ads = [ad for ad in ads_of_queue(log, cluster, at, proc).values() if ad.has_left]
        job.ads += ads_of_life(left_ads, begin)
    read_ads(job)
    for position, gap in gaps:
        add_gap(job, position, gap)
    if not job.chain:
        raise UnknownThingError(unknown_job(log, cluster, proc, at, zone))
    return job.answer(situation(job), sorted(job.chain, key=lambda sentence: sentence.at // SECOND))


_BY_SHADOW: Final = frozenset({"terminated", "evicting", "holding", "requeuing", "removing"})
"""The shadows' records that report the end of a run."""


def missing_steps(job: ImportedJob, records: Sequence[Record]) -> Iterator[Record]:
    """Yield a record for each start and end of a run that is missing from the job's own records."""
    positions = {part.event.stimulus: part.position for record in records for part in (record, *record.others)}
    seen_runs = [job.ended_by(part) for part in records if part.what in _BY_SHADOW]
    begins = [(part.at, part.facts.get("slot", "")) for part in records if part.what in (BEGIN, "shadow_began")]
    for run, next_run in zip_longest(job.runs, job.runs[1:]):
        near_times = range(run.began - CLOSE, max(run.began, run.ended) + CLOSE)
        if run.slot and not any(at in near_times and slot in ("", run.slot) for at, slot in begins):
            yield _step(job, BEGUN, run.began, run.begun, run.slot, positions)
        is_known = not positions.keys().isdisjoint(run.ends) or any(run is part for part in seen_runs)
        if (run.slot or run.begun in positions) and run.outcome != GOES_ON and not is_known:
            place = run.stimulus if run.death is None else run.begun  # the record of a death is later than the end
            place = place if run.ends else next_run.begun if next_run is not None else run.begun
            yield _step(job, OVER, run.ended, place, run.slot, positions)


def _step(job: ImportedJob, what: str, at: int, stimulus: str, slot: str, positions: Mapping[str, int]) -> Record:
    places = {slot_record.stimulus: position for position, slot_record in reversed(job.slots.records(slot))}
    places |= {ad.stimulus: ad.position for ad in reversed(job.ads)} | dict(positions)
    position = places.get(stimulus, 0)
    event = e.JobReported(at, "reported", stimulus, *job.job, what, {"slot": slot})
    return Record(position, event, what, event.facts)


STATUS_NUMBERS = HTCONDOR_25.job_status_numbers
# JobStatus -> the status in sentence codes, and in a sentence
SHOWN = {1: ("idle", "idle"), 2: ("running", "running"), 5: ("held", "on hold"), 7: ("suspended", "suspended")}
# The kind of a source that lists the queue -> the end of the sentence
LISTS = {"job_ads": " when condor_q was asked", "queue": ", by the schedd's table"}


def read_ads(job: ImportedJob) -> None:
    submitted_ad = next((ad for ad in job.ads if ad.instant("QDate")), None)
    if not job.submitted and submitted_ad is not None:
        sentence = _add_from_ad(job, submitted_ad, submitted_ad.instant("QDate"), "submitted", user=job.user()[0])
        if not job.status:
            job.set_status("idle", sentence)
    if not job.began and not job.logged:
        _add_starts_of_ads(job)
    left_ads = [ad for ad in job.ads if ad.has_left]
    if left_ads and job.status not in HAS_LEFT:
        _add_departure(job, left_ads[-1])
    listed_ads = [ad for ad in job.ads if ad.kind in LISTS and (job.at is None or ad.at <= job.at)]
    if listed_ads and not left_ads and job.last < listed_ads[-1].at:
        _add_listed_status(job, listed_ads[-1])
    _note_cool_down(job)


def _add_from_ad(job: ImportedJob, ad: JobAd, at: int, code: str, **facts: str) -> Sentence:
    job.last = max(job.last, at)
    return job.add_cited(Place(at, ad.position, ad.stimulus), code, **facts)


def _add_starts_of_ads(job: ImportedJob) -> None:
    runs: dict[int, tuple[JobAd, str]] = {}
    for ad in job.ads:
        begin_time = ad.instant("JobCurrentStartDate")
        slot = ad.text("RemoteHost") or ad.text("LastRemoteHost")
        if begin_time and slot and (job.at is None or begin_time <= job.at):
            runs.setdefault(begin_time, (ad, slot))
    for begin_time, (ad, slot) in sorted(runs.items()):
        job.slot, job.began = slot, begin_time
        job.set_status("running", _add_from_ad(job, ad, begin_time, "started", slot=slot))


def _add_departure(job: ImportedJob, ad: JobAd) -> None:
    at = ad.instant("CompletionDate") or ad.instant("EnteredCurrentStatus") or ad.at
    if job.at is not None and at > job.at:
        return
    number = ad.number("JobStatus")
    if number == STATUS_NUMBERS["Removed"]:
        at = ad.instant("EnteredCurrentStatus") or at
        reason = ad.text("RemoveReason") or "no reason given"
        code, facts = job.code_with_user("removed", reason)
        facts["slot"] = ad.text("RemoteHost")  # attributes that begin with Last are about a run that had ended
        job.set_status(REMOVED, _add_from_ad(job, ad, at, code, **facts))
    elif number == STATUS_NUMBERS["Completed"]:
        ending = ad.ending() or "no exit code"
        job.set_status("completed", _add_from_ad(job, ad, at, "exited", slot=job.last_slot(), how=ending))


def _add_listed_status(job: ImportedJob, ad: JobAd) -> None:
    status, status_text = SHOWN.get(ad.number("JobStatus"), ("", ""))
    if status_text and status != job.status:
        host, hold = ad.text("RemoteHost"), ad.text("HoldReason")
        job.slot = host or job.slot
        facts = {"words": status_text, "by": LISTS[ad.kind]}
        facts |= {"host": host if status == "running" else "", "hold": hold if status == "held" else ""}
        facts["hold_code"] = ad.text("HoldReasonCode")
        job.set_status(status, _add_from_ad(job, ad, ad.at, "listed", **facts))


def _note_cool_down(job: ImportedJob) -> None:
    if job.status != "idle" or job.since is None:
        return
    times = [(ad.instant(COOL_DOWN), Place(ad.at, ad.position, ad.stimulus)) for ad in job.ads if not ad.has_left]
    times += cool_downs(job.slots.log, job.job, job.at)
    until, place = max(times, key=lambda time: (time[0], time[1].position), default=(0, Place(0, 0, "")))
    if until > job.since.at:
        facts = {"until": instant(until, job.zone)}
        job.cools = job.add_cited(place._replace(at=job.since.at), "cools_down", **facts)


_ADVICE: Final = {IDLE: "condor_analyze", HELD: "hold_advice_there", COMPLETED: "see_life", REMOVED: "see_life"}
"""A status -> the code of the advice."""


def situation(job: ImportedJob) -> Situation:
    since = job.since or job.chain[-1]
    steps = [since]
    if job.status == IDLE:
        steps += [job.refused or job.cools or _rejection_of_cluster(job, since), *_deaths_while_waiting(job, since)]
    if job.status == RUNNING and job.lost is not None:
        steps += [job.restate(job.lost, "unconnected", when=instant(job.lost.at, job.zone)), job.lost]
    if job.status == RUNNING and job.size is not None:
        steps += _size_sentences(job, job.size)
    advice_facts = {"until": instant(job.last, job.zone), "thing": job.name}
    if job.status == HELD:
        advice_text = hold_advice(since.facts.get("hold_code", ""), "condor", job.name)
        advice_facts["advice"] = advice_text if advice_text[:2].isupper() else advice_text[:1].lower() + advice_text[1:]
    advice = _ADVICE.get(job.status, "see_records") if job.at is None else "see_life"
    return Situation(f"job_{job.status or 'unknown'}", steps, advice, advice_facts)


def _rejection_of_cluster(job: ImportedJob, since: Sentence) -> Sentence:
    """Return a sentence about the negotiator's last rejection of another job of the cluster since the job became idle,
    or a sentence that there was none."""
    last_rejection = job.matches.last_rejected
    if last_rejection is None or last_rejection.at < since.at:
        return job.restate(since, "not_considered")
    facts = {
        "other": f"{last_rejection.event.cluster}.{last_rejection.event.proc}",
        "reason": last_rejection.facts.get("words", "") or "no reason given",
        "when": instant(last_rejection.at, job.zone),
    }
    return job.cited_sentence(last_rejection, "other_job_rejected", **facts)


def _deaths_while_waiting(job: ImportedJob, since: Sentence) -> list[Sentence]:
    deaths = job.deaths.while_waiting(since.at)
    return [job.cited_sentence(death, "daemon_died", died=death.clause(job.zone)) for death in deaths]


def _size_sentences(job: ImportedJob, size: Record) -> list[Sentence]:
    resident = size.facts.get("resident", "")
    if not resident.isdecimal():
        return []
    facts = {"when": instant(size.at, job.zone), "memory": memory(int(resident))}
    return [job.cited_sentence(size, "uses", **facts)]


@define
class AccessPoints:
    """Access points with jobs of the same number. The job of the ``chosen`` one, which was submitted first, is
    explained."""

    places: PlaceNames
    chains: dict[int, str]  #: the access point of each chain of job event logs
    chosen: str
    slots: set[str]  #: the slots on which its job ran

    def may_concern(self, event: e.Event) -> bool:
        """Return True unless an event is about another access point's job."""
        if isinstance(event, e.JobLogged):
            return self._is_chosen(self.chains.get(self.places.chain(event.stimulus), ""))
        if not isinstance(event, e.JobReported):
            return True
        kind = self.places.kind(event.stimulus)
        if kind == "starterlog":
            return event.facts.get("slot", "") in self.slots
        source = event.facts.get("source", "")
        return self._is_chosen(host_of(source) if source else self.places.machine(event.stimulus))

    def has_run(self, run: JobRun) -> bool:
        machines = {self.places.machine(place) for place in (run.stimulus, run.begun, *run.ends)}
        return self.chosen in machines or machines.isdisjoint(self.chains.values())

    def has_ad(self, ad: JobAd) -> bool:
        return self._is_chosen(ad.text("GlobalJobId").partition("#")[0].rpartition("@")[2])

    def _is_chosen(self, name: str) -> bool:
        return name == self.chosen or name not in self.chains.values()


def access_points(events: list[e.LoggedEvent], job: Job, places: PlaceNames) -> AccessPoints | None:
    """Return the access points that submitted a job with a number, or None if there are fewer than two."""
    submissions = [
        (event.at, host_of(job_event_log.facts(0, event.text).get("host", "")), places.chain(event.stimulus))
        for _, event in events
        if isinstance(event, e.JobLogged) and event.number == 0 and event.proc == job[1]
    ]
    chains = {chain: host for _, host, chain in submissions if host}
    if len(set(chains.values())) < 2:
        return None
    points = AccessPoints(places, chains, min(submissions)[1], set())
    for _, event in events:
        if (
            isinstance(event, e.JobReported)
            and event.proc == job[1]
            and event.said == "shadow_began"
            and points.may_concern(event)
        ):
            points.slots.add(event.facts.get("slot", ""))
    return points
