"""Why a job of a real pool came to where its records leave it: its life in sentences, each with the record's place.

The job's event log tells the life; the slots' logs say why a run was ended or stopped, the negotiator's what it was
matched with, ads who it was and what the logs do not tell. What no record says is not guessed: the answer says how far
the records go. A job's number that was used again is the last job of that number, unless an earlier instant is asked
for.
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
from ..narration.sentences import Answer, Sentence, UnknownThingError
from ..runs.imported_runs import job_runs
from ..runs.job_run import RUNNING as GOES_ON
from ..runs.job_run import JobRun
from ..runs.slot_records import SlotRecords
from .imported_steps import read_record, tell_gap, tell_gathered
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
    among,
    cool_downs,
    gaps_of,
    last_life,
    records_of,
)
from .match_runs import is_match, same_user
from .unknown_thing import unknown_job


def why_imported_job(log: EventStore, cluster: int, proc: int, at: int | None = None, zone: tzinfo = UTC) -> Answer:
    """Tell why the job is where its records leave it (at the instant `at`, if one is given), and its life in order of
    time. Raises ``UnknownThingError``."""
    places = PlaceNames(log)
    everything = list(single_entries(log.read_stream(f"cluster/{cluster}")))
    points = access_points(everything, (cluster, proc), places)
    if points is not None:
        everything = [one for one in everything if points.has(one[1])]
    known = [event for event in everything if at is None or event[1].at <= at]
    records = records_of(known, proc, places)
    ads = ads_of_job(log, (cluster, proc), at, records)
    if points is not None:
        ads = [ad for ad in ads if points.has_ad(ad)]
    begin = last_life(records, ads, at)
    records = [record for record in records if record.at >= begin - APART]
    logged = [record for record in records if isinstance(record.event, e.JobLogged)]
    gaps = [(position, gap) for position, gap in gaps_of(log, logged) if gap.until == 0 or gap.until >= begin]
    life = ImportedJob((cluster, proc), at, zone, places, SlotRecords(log, at))
    life.gather(known, records, ads_of_life(ads, begin))
    matched = (event for _, event in everything if is_match(event))
    life.called = next(filter(None, (event.facts.get("user", "") for event in matched)), "")
    runs = job_runs(log, cluster, proc, at, zone)
    life.runs = sorted(
        (
            run
            for run in runs
            if (points is None or points.has_run(run))
            and (not run.user or same_user(run.user, life.users()))
            and run.ended >= begin - APART
        ),
        key=lambda run: run.began,
    )
    for record in among(records, missing_steps(life, records)):
        read_record(life, record)
    tell_gathered(life)
    if life.status not in HAS_LEFT and not any(ad.has_left for ad in life.ads):
        gone = [ad for ad in ads_of_queue(log, cluster, at, proc).values() if ad.has_left]
        life.ads += ads_of_life(gone, begin)
    read_ads(life)
    for position, gap in gaps:
        tell_gap(life, position, gap)
    if not life.chain:
        raise UnknownThingError(unknown_job(log, cluster, proc, at, zone))
    return life.answer(situation(life), sorted(life.chain, key=lambda sentence: sentence.at // SECOND))


_BY_SHADOW: Final = frozenset({"terminated", "evicting", "holding", "requeuing", "removing"})
"""The records of shadows that tell the end of a run."""


def missing_steps(life: ImportedJob, records: Sequence[Record]) -> Iterator[Record]:
    """Yield records for the beginnings and ends of the job's runs that its own records do not have."""
    positions = {one.event.stimulus: one.position for record in records for one in (record, *record.others)}
    seen = [life.ended_by(one) for one in records if one.what in _BY_SHADOW]
    begun = [(one.at, one.facts.get("slot", "")) for one in records if one.what in (BEGIN, "shadow_began")]
    for run, later in zip_longest(life.runs, life.runs[1:]):
        near = range(run.began - CLOSE, max(run.began, run.ended) + CLOSE)
        if run.slot and not any(at in near and slot in ("", run.slot) for at, slot in begun):
            yield _step(life, BEGUN, run.began, run.begun, run.slot, positions)
        known = not positions.keys().isdisjoint(run.ends) or any(run is one for one in seen)
        if (run.slot or run.begun in positions) and run.outcome != GOES_ON and not known:
            place = run.stimulus if run.death is None else run.begun  # what tells the end by a death is later than it
            place = place if run.ends else later.begun if later is not None else run.begun
            yield _step(life, OVER, run.ended, place, run.slot, positions)


def _step(life: ImportedJob, what: str, at: int, stimulus: str, slot: str, positions: Mapping[str, int]) -> Record:
    places = {one.stimulus: position for position, one in reversed(life.slots.records(slot))}
    places |= {ad.stimulus: ad.position for ad in reversed(life.ads)} | dict(positions)
    position = places.get(stimulus, 0)
    event = e.JobReported(at, "reported", stimulus, *life.job, what, {"slot": slot})
    return Record(position, event, what, event.facts)


STATUS_NUMBERS = HTCONDOR_25.job_status_numbers
# JobStatus -> what it is called here, and in a sentence.
SHOWN = {1: ("idle", "idle"), 2: ("running", "running"), 5: ("held", "on hold"), 7: ("suspended", "suspended")}
# Sources that list the queue as it stood -> how a sentence says so.
LISTS = {"job_ads": " when condor_q was asked", "queue": ", by the schedd's table"}


def read_ads(life: ImportedJob) -> None:
    submitted = next((ad for ad in life.ads if ad.when("QDate")), None)
    if not life.submitted and submitted is not None:
        sentence = _ad_says(life, submitted, submitted.when("QDate"), "submitted", user=life.user()[0])
        if not life.status:
            life.becomes("idle", sentence)
    if not life.began and not life.logged:
        _runs_of_ads(life)
    gone = [ad for ad in life.ads if ad.has_left]
    if gone and life.status not in HAS_LEFT:
        _left(life, gone[-1])
    shown = [ad for ad in life.ads if ad.kind in LISTS and (life.at is None or ad.at <= life.at)]
    if shown and not gone and life.last < shown[-1].at:
        _shown(life, shown[-1])
    _cool_down(life)


def _ad_says(life: ImportedJob, ad: JobAd, at: int, code: str, **facts: str) -> Sentence:
    life.last = max(life.last, at)
    return life.tell(Place(at, ad.position, ad.stimulus), code, **facts)


def _runs_of_ads(life: ImportedJob) -> None:
    """Runs of which no log tells."""
    runs: dict[int, tuple[JobAd, str]] = {}
    for ad in life.ads:
        began = ad.when("JobCurrentStartDate")
        slot = ad.text("RemoteHost") or ad.text("LastRemoteHost")
        if began and slot and (life.at is None or began <= life.at):
            runs.setdefault(began, (ad, slot))
    for began, (ad, slot) in sorted(runs.items()):
        life.slot, life.began = slot, began
        life.becomes("running", _ad_says(life, ad, began, "started", slot=slot))


def _left(life: ImportedJob, ad: JobAd) -> None:
    """How it left the queue, by the history or the schedd's table."""
    at = ad.when("CompletionDate") or ad.when("EnteredCurrentStatus") or ad.at
    if life.at is not None and at > life.at:
        return
    number = ad.number("JobStatus")
    if number == STATUS_NUMBERS["Removed"]:
        at = ad.when("EnteredCurrentStatus") or at
        reason = ad.text("RemoveReason") or "no reason given"
        code, facts = life.done_to_it("removed", reason)
        facts["slot"] = ad.text("RemoteHost")  # what begins with Last is of a run that was over
        life.becomes(REMOVED, _ad_says(life, ad, at, code, **facts))
    elif number == STATUS_NUMBERS["Completed"]:
        how = ad.ending() or "no exit code"
        life.becomes("completed", _ad_says(life, ad, at, "exited", slot=life.last_slot(), how=how))


def _shown(life: ImportedJob, ad: JobAd) -> None:
    """What a list of the queue showed after all other records."""
    status, words = SHOWN.get(ad.number("JobStatus"), ("", ""))
    if words and status != life.status:
        host, hold = ad.text("RemoteHost"), ad.text("HoldReason")
        life.slot = host or life.slot
        facts = {"words": words, "by": LISTS[ad.kind]}
        facts |= {"host": host if status == "running" else "", "hold": hold if status == "held" else ""}
        facts["hold_code"] = ad.text("HoldReasonCode")
        life.becomes(status, _ad_says(life, ad, ad.at, "shown", **facts))


def _cool_down(life: ImportedJob) -> None:
    """Tell until when an idle job cools down after what put it there."""
    if life.status != "idle" or life.since is None:
        return
    instants = [(ad.when(COOL_DOWN), Place(ad.at, ad.position, ad.stimulus)) for ad in life.ads if not ad.has_left]
    instants += cool_downs(life.slots.log, life.job, life.at)
    until, place = max(instants, key=lambda one: (one[0], one[1].position), default=(0, Place(0, 0, "")))
    if until > life.since.at:
        facts = {"until": instant(until, life.zone)}
        life.cools = life.tell(place._replace(at=life.since.at), "cools_down", **facts)


_ADVICE: Final = {IDLE: "condor_analyze", HELD: "hold_advice_there", COMPLETED: "see_life", REMOVED: "see_life"}
"""Where a job is -> the code of what can be done."""


def situation(life: ImportedJob) -> Situation:
    """Return its situation by its records."""
    since = life.since or life.chain[-1]
    steps = [since]
    if life.status == IDLE:
        steps += [life.refused or life.cools or _others_refused(life, since), *_nobody_to_match(life, since)]
    if life.status == RUNNING and life.lost is not None:
        steps += [life.beside(life.lost, "unconnected", when=instant(life.lost.at, life.zone)), life.lost]
    if life.status == RUNNING and life.size is not None:
        steps += _measured(life, life.size)
    about = {"until": instant(life.last, life.zone), "thing": life.name}
    if life.status == HELD:
        words = hold_advice(since.facts.get("hold_code", ""), "condor", life.name)
        about["advice"] = words if words[:2].isupper() else words[:1].lower() + words[1:]
    advice = _ADVICE.get(life.status, "see_records") if life.at is None else "see_life"
    return Situation(f"job_{life.status or 'unknown'}", steps, advice, about)


def _others_refused(life: ImportedJob, since: Sentence) -> Sentence:
    """Tell what the negotiator said of jobs like it, where it names them alone."""
    last = life.matches.last_rejected
    if last is None or last.at < since.at:
        return life.beside(since, "not_looked_at")
    facts = {
        "other": f"{last.event.cluster}.{last.event.proc}",
        "reason": last.facts.get("words", "") or "no reason given",
        "when": instant(last.at, life.zone),
    }
    return life.cited(last, "nothing_for_others", **facts)


def _nobody_to_match(life: ImportedJob, since: Sentence) -> list[Sentence]:
    """Tell of the deaths of daemons without which it gets no slot, while it waits."""
    deaths = life.deaths.while_waiting(since.at)
    return [life.cited(death, "daemon_died", died=death.words(life.zone)) for death in deaths]


def _measured(life: ImportedJob, size: Record) -> list[Sentence]:
    resident = size.facts.get("resident", "")
    if not resident.isdecimal():
        return []
    facts = {"when": instant(size.at, life.zone), "memory": memory(int(resident))}
    return [life.cited(size, "uses", **facts)]


@define
class AccessPoints:
    """The access points to which jobs of a number were submitted, and the one whose job is asked for: the first."""

    places: PlaceNames
    chains: dict[int, str]  #: the access point of each chain of job event logs
    chosen: str
    slots: set[str]  #: where its job ran

    def has(self, event: e.Event) -> bool:
        """Return True unless an event is of another access point's job."""
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
    """Find the access points that have a job of a number; None if there is one at most."""
    submitted = [
        (event.at, host_of(job_event_log.facts(0, event.text).get("host", "")), places.chain(event.stimulus))
        for _, event in events
        if isinstance(event, e.JobLogged) and event.number == 0 and event.proc == job[1]
    ]
    chains = {chain: host for _, host, chain in submitted if host}
    if len(set(chains.values())) < 2:
        return None
    points = AccessPoints(places, chains, min(submitted)[1], set())
    for _, event in events:
        if (
            isinstance(event, e.JobReported)
            and event.proc == job[1]
            and event.said == "shadow_began"
            and points.has(event)
        ):
            points.slots.add(event.facts.get("slot", ""))
    return points
