"""Collect the history of an imported job: its status, and the sentences about its records so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import Final

from attrs import evolve

from ...domain import events as e
from ...domain.units import SECOND
from ..forensics.imported_log import PlaceNames
from ..narration.formatting import EVER, interval
from ..narration.sentences import Sentence
from ..runs.daemon_deaths import Deaths
from ..runs.job_run import COMPLETED, EVICTED, Death, JobRun
from ..runs.run_end_causes import UNKNOWN
from ..runs.slot_records import NextJob, SlotRecords, ended_by_request
from .job_facts import ON_SLOT, JobLife
from .job_records import Job, JobAd, Place, Record, ends_seen
from .match_runs import Matches, MatchesOfSlots, preempted_submitter

Placed = Record | JobAd | Place | Death | NextJob  #: the record of a sentence
Fact = str | Death | NextJob | None  #: a fact in a sentence; a death or the next job may be recorded only later
_LATER: Final = {"died": "later_died", "next": "later_next"}
"""The name of a fact from a later record -> the code of the fact's own sentence."""
BEGUN, OVER = "begun_there", "over_there"
"""The names of records for a run's start and end that are missing from the job's own records."""
CLOSE: Final = 5 * SECOND  #: the maximum time between two daemons' records of the same end


class ImportedJob(JobLife):
    def __init__(self, job: Job, at: int | None, zone: tzinfo, places: PlaceNames, slots: SlotRecords) -> None:
        super().__init__(*job, zone)
        self.job, self.at, self.places, self.slots = job, at, places, slots
        self.deaths = Deaths(slots.log, places, slots, zone)
        self.ads: list[JobAd] = []
        self.runs: list[JobRun] = []  #: all of its runs, with their outcomes
        self.own: set[str] = set()  #: the locations of its job event log entries
        self.seen: list[Record] = []  #: the exits of its process in the logs of shadows and starters
        self.failed = ""  #: the slot of an error that ended its run, until the entry for that end
        self.over = "run_over"  #: the code for the end of a run that is missing from its own records
        self.began = 0  #: when its current run started (0: unknown)
        self.attended = 0  #: when its shadow reconnected during that run (0: never)
        self.lost: Sentence | None = None  #: the sentence about a lost connection, until it is restored
        self.run: list[e.LoggedEvent] = []  #: the slot's records of the run
        self.size: Record | None = None
        self.rejected: list[Record] = []
        self.fruitless_matches: list[Record] = []  #: consecutive matches without a run of its cluster
        self.refused: Sentence | None = None  #: its last rejection since its status changed
        self.cools: Sentence | None = None  #: the sentence about its cool-down
        self.given = 0  #: the second of its last match
        self.reported_positions: set[int] = set()  #: the positions of matches, deaths and next jobs in the chain
        self.logged_user = ""  #: its user, in the logs of the negotiator or the access point
        self.submitted = False
        self.last = 0  #: the instant of the last record

    def prepare(self, events: Sequence[e.LoggedEvent], records: Sequence[Record], ads: list[JobAd]) -> None:
        """Store the job's ads and the matches of its cluster, before its records are read."""
        self.matches, self.ads, self.seen = Matches(events), ads, ends_seen(records)
        first_time = min((part.at for part in records), default=0)
        last_time = max((part.at for part in records), default=EVER)
        self.others = MatchesOfSlots(self.slots.log, self.places, first_time, last_time)
        logged_records = [record for record in records if isinstance(record.event, e.JobLogged)]
        self.own = {part.event.stimulus for record in logged_records for part in (record, *record.others)}

    @property
    def logged(self) -> bool:
        """Whether the job has entries in a job event log."""
        return bool(self.own)

    def add_cited(self, placed: Placed, code: str, *sources: str, cause: str = "reported", **facts: Fact) -> Sentence:
        """Add the sentence of a record, and return it. It also cites the records at `sources`. A death or next job in a
        later record gets its own sentence, which is added after it."""
        text_facts = {name: fact for name, fact in facts.items() if isinstance(fact, str)}
        later_facts: dict[str, str] = {}
        other_sentences: list[Sentence] = []
        for name, fact in facts.items():
            if fact is None or isinstance(fact, str):
                continue
            known_facts = {name: fact.clause(self.zone)}
            if "reason" in text_facts:  # a daemon's death explains more
                known_facts |= {"said": text_facts["reason"], "reason": ""}
            if fact.at // SECOND <= placed.at // SECOND:
                text_facts, sources = text_facts | known_facts, (*sources, *fact.stimuli)
                continue
            later_facts |= known_facts
            if fact.position not in self.reported_positions:
                self.reported_positions.add(fact.position)
                values = {"slot": text_facts.get("slot", self.slot), name: known_facts[name]}
                other_sentences.append(self.cited_sentence(fact, _LATER[name], *fact.stimuli, **values))
        sentence = evolve(self.cited_sentence(placed, code, *sources, **text_facts), cause=cause, later=later_facts)
        self.chain += [sentence, *other_sentences]
        return sentence

    def cited_sentence(self, placed: Placed, code: str, *sources: str, **facts: str) -> Sentence:
        names = tuple(dict.fromkeys(filter(None, map(self.places.name, (placed.stimulus, *sources)))))
        plain_facts = {"job": self.name} | {name: text.rstrip(".") for name, text in facts.items()}
        return Sentence(placed.at, placed.position, code, plain_facts, "reported", placed.stimulus, names)

    def set_status(self, status: str, sentence: Sentence) -> None:
        """Set the job's status and the sentence that explains it, and forget rejections and lost connections."""
        self.status, self.since, self.refused, self.lost = status, sentence, None, None

    def user(self) -> tuple[str, list[str]]:
        """Return the job's user and the location of the ad that names it, or else the user in daemons' logs."""
        users = ((user, [ad.stimulus]) for ad in self.ads if (user := ad.text("User") or ad.text("Owner")))
        return next(users, (self.logged_user or "A user", []))

    def add_match_before(self, slot: str, at: int) -> None:
        """Add the match that led to a run on a slot, unless it was already added."""
        match = self.matches.before_run(slot, self.began, at, self.job[1])
        if match is None and slot and not self.slots.was_used(slot, at):
            match = self.others.before_run(self.slots, slot, self.name, self.users(), at)
        if match is not None and match.position not in self.reported_positions:
            self.reported_positions.add(match.position)
            self.add_match(match)

    def is_checkpoint(self, end: Record) -> bool:
        """Return True if the process exited as SuccessCheckpointExit* specifies, so it will be restarted."""
        return bool(end.ending) and end.ending in (ad.ending("SuccessCheckpointExit") for ad in self.ads)

    def users(self) -> list[str]:
        """Return the names that the negotiator may use for the job's user."""
        names = (ad.text(name) for ad in self.ads for name in ("User", "Owner", "AccountingGroup", "AcctGroup"))
        return list(dict.fromkeys(filter(None, [self.logged_user, *names])))

    def add_match(self, match: Record) -> None:
        event = match.event
        other_job = "" if (event.cluster, event.proc) == self.job else f"{event.cluster}.{event.proc}"
        slot = match.facts.get("slot", "a slot")
        self.add_cited(match, "matched", other=other_job, slot=slot, preempted=preempted_submitter(match.facts))

    def ended_by(self, record: Record) -> JobRun | None:
        """Return the run whose end a record reports, or None if there is none."""
        places = {record_part.event.stimulus for record_part in (record, *record.others)}
        named = next((run for run in self.runs if not places.isdisjoint(run.ends)), None)
        runs = [run for run in self.runs if abs(run.ended - record.at) <= CLOSE and self.slot in ("", run.slot)]
        return named or min(runs, key=lambda run: (run.began >= record.at, abs(run.ended - record.at)), default=None)

    def is_logged(self, run: JobRun | None) -> bool:
        """Return True if the job's own log has the end of a run."""
        return run is not None and not self.own.isdisjoint(run.ends)

    def end_facts(self, run: JobRun | None, at: int) -> tuple[dict[str, Fact], list[str]]:
        """Return the facts about the cause of a run's end by an instant, and the locations of the records with them."""
        if run is None or run.outcome == COMPLETED:
            return {}, []
        slot_moves = self.slots.run(run.slot, self.name, run.began) if run.slot else []
        eviction, sources = self.slots.eviction_facts(min(run.ended, at), slot_moves)
        facts: dict[str, Fact] = {**eviction, "next": self.slots.next_job(run.slot, self.name, run.ended, slot_moves)}
        if not run.cause.is_weak and run.death is None and ended_by_request(slot_moves, run.ended):
            facts.pop("why", None)  # the job's log has the cause; the slot's only shows the access point's request
        facts["died"] = run.death
        return {name: fact for name, fact in facts.items() if fact is not None}, sources

    def cause_facts(self, run: JobRun | None, facts: Mapping[str, Fact]) -> dict[str, str]:
        """Return the cause of a run's end as a fact, unless other facts already explain the end."""
        if run is None or run.cause is UNKNOWN or run.reason_text or facts.keys() & {"why", "next", "died"}:
            return {}
        return {"why": run.cause.clause}

    def disconnecting_death(self, at: int) -> Death | None:
        """Return the death of a daemon that broke the connection to the job, or None if there was none."""
        if not self.began:
            return None
        return self.deaths.in_run(self.slot, self.name, self.began, at, self.run, self.attended)

    def schedd_death(self, at: int) -> Death | None:
        """Return the last death of the schedd during the run, before it restarted by an instant, or None if there is
        none."""
        since = max(self.began, self.attended)
        return self.deaths.last_schedd_death(self.name, since, at) if since else None

    def run_time(self, at: int) -> str:
        """Return how long the job had run at an instant; empty if it did not run, or its start is unknown."""
        return interval(max(0, at - self.began)) if self.began and self.status in ON_SLOT else ""

    def add_run_end(self, run: JobRun | None, record: Record, code: str, *sources: str, **facts: Fact) -> Sentence:
        """Add the sentence of a record that reports a run's end, with the cause of the run's end."""
        cause = run.cause.name if run is not None and run.outcome == EVICTED else record.event.cause
        return self.add_cited(record, code, *sources, cause=cause, **facts)

    def add_step(self, record: Record, code: str, **facts: str) -> Sentence:
        """Add the sentence of a step that ends the job's run if the job is on a slot."""
        run = self.ended_by(record) if self.status in ON_SLOT else None
        facts |= {"slot": run.slot, "ran": self.run_time(record.at)} if run is not None else {}
        return self.add_run_end(run, record, code, **facts)

    def last_slot(self) -> str:
        """Return the slot of the job's current run, or the last slot in the job's ad, or an empty string if unknown."""
        if self.status in ON_SLOT:
            return self.slot
        hosts = (ad.text("RemoteHost") or ad.text("LastRemoteHost") for ad in reversed(self.ads) if ad.has_left)
        return next(filter(None, hosts), "")

    def begin_run(self, slot: str, at: int, over_code: str = "run_over") -> None:
        """Begin a run on a slot. `over_code`: the code for its end, if that is missing from the job's own records."""
        self.slot, self.began, self.attended, self.size, self.over, self.failed = slot, at, 0, None, over_code, ""
        self.run = self.slots.run(slot, self.name, at)
