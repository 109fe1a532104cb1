"""Why a job of a real pool came to where its records leave it: its life in sentences, each with the record's place.

The job's event log tells the life; the slots' logs say why a run was ended or stopped, the negotiator's what it was
matched with, ads who it was and what the logs do not tell. What no record says is not guessed: the answer says how far
the records go. A job's number that was used again is the last job of that number, unless an earlier instant is asked
for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
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
from ..narration.formatting import EVER, instant, memory
from ..narration.sentences import Answer, Sentence, UnknownThingError, advise, answer, cut
from ..runs.daemon_deaths import Deaths
from ..runs.imported_runs import job_runs
from ..runs.job_run import RUNNING, JobRun
from ..runs.slot_records import SlotRecords
from .imported_steps import read_record, tell_gap, tell_gathered
from .job_life import BEGUN, CLOSE, OVER, JobLife
from .job_records import (
    APART,
    BEGIN,
    COOL_DOWN,
    Job,
    JobAd,
    Record,
    ads_of_job,
    ads_of_life,
    ads_of_queue,
    among,
    cool_downs,
    ends_seen,
    gaps_of,
    last_life,
    records_of,
)
from .match_runs import Matches, MatchesOfSlots, same_user
from .unknown_thing import unknown_job


def why_imported_job(log: EventStore, cluster: int, proc: int, at: int | None = None, zone: tzinfo = UTC) -> Answer:
    """Tell why the job is where its records leave it (at the instant `at`, if one is given), and its life in order of
    time. Raises ``UnknownThingError``."""
    places = PlaceNames(log)
    everything = list(single_entries(log.read_stream(f"cluster/{cluster}")))
    points = access_points(everything, (cluster, proc), places)
    if points is not None:
        everything = [one for one in everything if points.has(one[1])]
    told = [one for one in everything if at is None or one[1].at <= at]
    records = records_of(told, proc, places)
    ads = ads_of_job(log, (cluster, proc), at, records)
    if points is not None:
        ads = [ad for ad in ads if points.has_ad(ad)]
    begin = last_life(records, ads, at)
    records = [record for record in records if record.at >= begin - APART]
    known = ads_of_life(ads, begin)
    logged = [record for record in records if isinstance(record.event, e.JobLogged)]
    gaps = [(position, gap) for position, gap in gaps_of(log, logged) if gap.until == 0 or gap.until >= begin]
    slots = SlotRecords(log, at)
    deaths = Deaths(log, places, slots, zone)
    span = min((record.at for record in records), default=begin), max((record.at for record in records), default=EVER)
    others = MatchesOfSlots(log, places, *span)
    seen, job = ends_seen(records), (cluster, proc)
    own = {one.event.stimulus for record in logged for one in (record, *record.others)}
    life = JobLife(job, places, slots, Matches(told), others, deaths, known, [], own, seen, bool(logged), at, zone)
    life.called = Matches(everything).user if at is not None else life.matches.user
    found = job_runs(log, cluster, proc, at, zone)
    found = [run for run in found if points is None or points.has_run(run)]
    own_runs = [run for run in found if not run.user or same_user(run.user, life.users())]
    life.runs = sorted((run for run in own_runs if run.ended >= begin - APART), key=lambda run: run.began)
    for record in among(records, missing_steps(life, records)):
        read_record(life, record)
    tell_gathered(life)
    if life.status not in HAS_LEFT and not any(ad.has_left for ad in known):
        gone = [ad for ad in ads_of_queue(log, cluster, at, proc).values() if ad.has_left]
        life.ads = [*known, *ads_of_life(gone, begin)]
    read_ads(life)
    for position, gap in gaps:
        tell_gap(life, position, gap)
    if not life.chain:
        raise UnknownThingError(unknown_job(log, cluster, proc, at, zone))
    return answer_of(life)


_BY_SHADOW: Final = frozenset({"terminated", "evicting", "holding", "requeuing", "removing"})
"""The records of shadows that tell the end of a run."""


def missing_steps(life: JobLife, records: Sequence[Record]) -> Iterator[Record]:
    """Yield records for the beginnings and ends of the job's runs that its own records do not have."""
    told = {one.event.stimulus for record in records for one in (record, *record.others)}
    seen = [life.ended_by(one) for one in records if one.what in _BY_SHADOW]
    begun = [(one.at, one.facts.get("slot", "")) for one in records if one.what in (BEGIN, "shadow_began")]
    for run, later in zip_longest(life.runs, life.runs[1:]):
        near = range(run.began - CLOSE, max(run.began, run.ended) + CLOSE)
        if run.slot and not any(at in near and slot in ("", run.slot) for at, slot in begun):
            yield _step(life, BEGUN, run.began, run.begun, run.slot)
        known = not told.isdisjoint(run.ends) or any(run is one for one in seen)
        if (run.slot or run.begun in told) and run.outcome != RUNNING and not known:
            place = run.stimulus if run.death is None else run.begun  # what tells the end by a death is later than it
            place = place if run.ends else later.begun if later is not None else run.begun
            yield _step(life, OVER, run.ended, place, run.slot)


def _step(life: JobLife, what: str, at: int, stimulus: str, slot: str) -> Record:
    places = [(position, one.stimulus) for position, one in life.slots.records(slot)]
    places += [(ad.position, ad.stimulus) for ad in life.ads]
    position = next((position for position, place in places if place == stimulus), 0)
    event = e.JobReported(at, "reported", stimulus, *life.job, what, {"slot": slot})
    return Record(position, event, what, event.facts)


STATUS_NUMBERS = HTCONDOR_25.job_status_numbers
HAS_LEFT = ("completed", "removed")
# JobStatus -> what it is called here, and in a sentence.
SHOWN = {1: ("idle", "idle"), 2: ("running", "running"), 5: ("held", "on hold"), 7: ("suspended", "suspended")}
# Sources that list the queue as it stood -> how a sentence says so.
LISTS = {"job_ads": " when condor_q was asked", "queue": ", by the schedd's table"}


def read_ads(life: JobLife) -> None:
    submitted = next((ad for ad in life.ads if ad.when("QDate")), None)
    if not life.submitted and submitted is not None:
        sentence = _ad_says(life, submitted, submitted.when("QDate"), "log_submitted", user=life.user()[0])
        if not life.status:
            life.becomes("idle", sentence)
    if not life.began and not life.logged:
        _runs_of_ads(life)
    kept = [ad for ad in life.ads if ad.has_left]
    if kept and life.status not in HAS_LEFT:
        _left(life, kept[-1])
    shown = [ad for ad in life.ads if ad.kind in LISTS and (life.at is None or ad.at <= life.at)]
    if shown and not kept and life.last < shown[-1].at:
        _shown(life, shown[-1])
    _cool_down(life)


def _ad_says(life: JobLife, ad: JobAd, at: int, code: str, **facts: str) -> Sentence:
    life.last = max(life.last, at)
    return life.tell(at, ad.position, ad.stimulus, code, **facts)


def _runs_of_ads(life: JobLife) -> None:
    """Runs of which no log tells."""
    runs: dict[int, tuple[JobAd, str]] = {}
    for ad in life.ads:
        began = ad.when("JobCurrentStartDate")
        slot = ad.text("RemoteHost") or ad.text("LastRemoteHost")
        if began and slot and (life.at is None or began <= life.at):
            runs.setdefault(began, (ad, slot))
    for began, (ad, slot) in sorted(runs.items()):
        life.slot, life.began = slot, began
        life.becomes("running", _ad_says(life, ad, began, "log_started", slot=slot))


def _left(life: JobLife, ad: JobAd) -> None:
    """How it left the queue, by the history or the schedd's table."""
    at = ad.when("CompletionDate") or ad.when("EnteredCurrentStatus") or ad.at
    if life.at is not None and at > life.at:
        return
    number = ad.number("JobStatus")
    if number == STATUS_NUMBERS["Removed"]:
        at = ad.when("EnteredCurrentStatus") or at
        reason = ad.text("RemoveReason") or "no reason given"
        facts = {"slot": ad.text("RemoteHost"), "reason": reason}  # what begins with Last is of a run that was over
        life.becomes("removed", _ad_says(life, ad, at, "log_removed", **facts))
    elif number == STATUS_NUMBERS["Completed"]:
        how = ad.ending() or "no exit code"
        life.becomes("completed", _ad_says(life, ad, at, "log_ended", slot=life.last_slot(), how=how))


def _shown(life: JobLife, ad: JobAd) -> None:
    """What a list of the queue showed after all other records."""
    status, words = SHOWN.get(ad.number("JobStatus"), ("", ""))
    if words and status != life.status:
        host, hold = ad.text("RemoteHost"), ad.text("HoldReason")
        life.slot = host or life.slot
        facts = {"words": words, "by": LISTS[ad.kind]}
        facts |= {"host": host if status == "running" else "", "hold": hold if status == "held" else ""}
        facts["hold_code"] = ad.text("HoldReasonCode")
        life.becomes(status, _ad_says(life, ad, ad.at, "shown", **facts))


def _cool_down(life: JobLife) -> None:
    """Tell until when an idle job cools down after what put it there."""
    if life.status != "idle" or life.since is None:
        return
    told = [(ad.when(COOL_DOWN), ad.position, ad.stimulus) for ad in life.ads if not ad.has_left]
    told += cool_downs(life.slots.log, life.job, life.at)
    until, position, stimulus = max(told, default=(0, 0, ""))
    if until > life.since.at:
        facts = {"until": instant(until, life.zone)}
        life.cools = life.tell(life.since.at, position, stimulus, "cools_down", **facts)


_ADVICE: Final = {"idle": "condor_analyze", "held": "hold_advice_there", "completed": "see_life", "removed": "see_life"}
"""Where a job is -> the code of what can be done."""
_EVICTIONS: Final = frozenset({"log_evicted", "log_requeued", "over_there", "run_over", "shadow_left"})
"""The codes of sentences that report an eviction; of a run that only its slot's log has, if it was ended there."""
_WHY: Final = ("why", "died", "log", "said")  #: the facts that have the cause of an eviction, the most telling first
_LONGEST: Final = 99  #: characters of all causes together
_LISTED: Final = 3  #: list so many evictions one by one, more of them by their causes


def answer_of(life: JobLife) -> Answer:
    since = life.since or life.chain[-1]
    facts = {"job": life.name, "since": instant(since.at, life.zone)}
    facts |= {
        "slot": life.slot if life.status in ("running", "suspended") else "",
        "how": since.facts.get("how", ""),
    }
    head = life.like(since, f"job_{life.status or 'unknown'}", **facts)
    steps = [since]
    if life.status == "idle":
        steps += [life.refused or life.cools or _others_refused(life, since), *_nobody_to_match(life, since)]
    if life.status == "running" and life.lost is not None:
        steps += [life.like(life.lost, "unconnected", when=instant(life.lost.at, life.zone)), life.lost]
    if life.status == "running" and life.size is not None:
        steps += _measured(life, life.size)
    steps += _evictions(life, since)
    about = {"job": life.name, "until": instant(life.last, life.zone), "thing": life.name}
    if life.status == "held":
        words = hold_advice(since.facts.get("hold_code", ""), "condor", life.name)
        about["advice"] = words if words[:2].isupper() else words[:1].lower() + words[1:]
    advice = advise(_ADVICE.get(life.status, "see_records") if life.at is None else "see_life", head, **about)
    return answer(
        head,
        [step.in_hindsight for step in steps],
        advice,
        sorted(life.chain, key=lambda sentence: sentence.at // SECOND),
    )


def _evictions(life: JobLife, since: Sentence) -> list[Sentence]:
    """Report the evictions before the step that put the job where it is, each with its time and cause; of many, how
    often each cause occurred."""
    found = [one for one in life.chain if one.code in _EVICTIONS and one.facts.get("did") != "ended"]
    found = [one for one in found if since.at - one.at > APART]  # one at that instant is that step itself
    if not found:
        return []
    found = [one.in_hindsight for one in found]
    causes = [_cause(one) for one in found]
    short = _LONGEST // min(len(set(causes)), _LISTED)
    if len(found) == 1:
        listed = [f"because {cut(causes[0], _LONGEST)}"]
    elif len(found) <= _LISTED:
        listed = [
            f"at {instant(one.at, life.zone).split()[-1]} because {cut(cause, _LONGEST // len(found))}"
            for one, cause in zip(found, causes, strict=True)
        ]
    else:
        counts = Counter(causes).most_common(_LISTED)
        often = [f"{_times(count)} " if len(counts) > 1 else "" for _, count in counts]
        listed = [f"{times}because {cut(cause, short)}" for times, (cause, _) in zip(often, counts, strict=True)]
    facts = {"times": _times(len(found)), "cause" if len(listed) == 1 else "evictions": "; ".join(listed)}
    facts["last" if len(found) > 1 else "on"] = instant(found[-1].at, life.zone)
    return [life.like(found[-1], "evicted_before", **facts)]


def _cause(eviction: Sentence) -> str:
    if eviction.code == "log_requeued":
        return "it ended, and was to run again"
    return next((text for name in _WHY if (text := eviction.facts.get(name, ""))), "no record says why")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _others_refused(life: JobLife, since: Sentence) -> Sentence:
    """Tell what the negotiator said of jobs like it, where it names them alone."""
    last = life.matches.last_rejected
    if last is None or last.at < since.at:
        return life.like(since, "not_looked_at")
    facts = {
        "other": f"{last.event.cluster}.{last.event.proc}",
        "reason": last.facts.get("words", "") or "no reason given",
        "when": instant(last.at, life.zone),
    }
    return life.sentence(last.at, last.position, last.event.stimulus, "nothing_for_others", **facts)


def _nobody_to_match(life: JobLife, since: Sentence) -> list[Sentence]:
    """Tell of the deaths of daemons without which it gets no slot, while it waits."""
    deaths = life.deaths.while_waiting(since.at)
    return [
        life.sentence(death.at, death.position, death.stimulus, "daemon_died", died=death.words(life.zone))
        for death in deaths
    ]


def _measured(life: JobLife, size: Record) -> list[Sentence]:
    resident = size.facts.get("resident", "")
    if not resident.isdecimal():
        return []
    facts = {"when": instant(size.at, life.zone), "memory": memory(int(resident))}
    return [life.sentence(size.at, size.position, size.event.stimulus, "used_memory", **facts)]


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


def access_points(told: list[e.LoggedEvent], job: Job, places: PlaceNames) -> AccessPoints | None:
    """Find the access points that have a job of a number; None if there is one at most."""
    submitted = [
        (event.at, host_of(job_event_log.facts(0, event.text).get("host", "")), places.chain(event.stimulus))
        for _, event in told
        if isinstance(event, e.JobLogged) and event.number == 0 and event.proc == job[1]
    ]
    chains = {chain: host for _, host, chain in submitted if host}
    if len(set(chains.values())) < 2:
        return None
    found = AccessPoints(places, chains, min(submitted)[1], set())
    for _, event in told:
        if (
            isinstance(event, e.JobReported)
            and event.proc == job[1]
            and event.said == "shadow_began"
            and found.has(event)
        ):
            found.slots.add(event.facts.get("slot", ""))
    return found
