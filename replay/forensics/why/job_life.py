"""The life of a job of a real pool while its records are read in order: where it is, and what was told of it."""

from __future__ import annotations

from datetime import tzinfo
from typing import Final

from attrs import define, field

from ...narration.sentences import Sentence, Told
from ...narration.wording import EVER, interval
from ...runs.causes import CAUSES, Cause, first, of_reason
from ...runs.daemon_deaths import Death, Deaths
from ...runs.slot_records import Slots, left_for
from ..imported_log import PlaceNames
from .job_history import JobAd, Record
from .match_runs import Matches, MatchesOfSlots
from .record_words import ad_ending, ending, preempted

RUNS: Final = ("running", "suspended")  #: where a job is while it is on a slot


@define
class JobLife:
    """What is known of a job by the records up to one of them, and the sentences that tell it (``chain``)."""

    job: tuple[int, int]
    places: PlaceNames
    slots: Slots
    matches: Matches
    others: MatchesOfSlots  #: all that name its slots, of other clusters' jobs, too
    deaths: Deaths
    ads: list[JobAd]
    ends: list[int]  #: when the job's log has a run end
    seen: list[Record]  #: the ends of its process by itself, as its shadows and starters have them
    logged: bool  #: whether there is a log of the job at all
    at: int | None
    zone: tzinfo
    chain: list[Sentence] = field(factory=list)
    status: str = ""  #: what the head of its answer says (``job_idle`` and the like), or nothing if no record says
    since: Sentence | None = None  #: what put it there
    slot: str = ""  #: where it runs, or ran last
    failed: str = ""  #: the slot of an error that ended its run, until the entry of that end
    over: str = "run_over"  #: the code of the words for the end of its run, where its slot's log alone tells it
    began: int = 0  #: when that run began (0: not known)
    attended: int = 0  #: when its shadow found it again in this run, if one did
    lost: Sentence | None = None  #: what is told of the loss of the connection to it, while that lasts
    run: list[Told] = field(factory=list)  #: what the slot's log tells of the run
    shadows: dict[str, tuple[str, list[Told]]] = field(factory=dict)
    """A shadow's pid -> the slot that it was started for, and the same of that."""
    size: Record | None = None
    rejected: list[Record] = field(factory=list)
    unled: list[Record] = field(factory=list)  #: matches in a row that led to no run of a job of its cluster
    refused: Sentence | None = None  #: what the negotiator said of it since it last changed its status
    cools: Sentence | None = None  #: until when it cools down
    given: int = 0  #: the second in which it was given a slot last
    told: set[int] = field(factory=set)  #: the matches that were told
    called: str = ""  #: whose it is, as the negotiator or the access point calls the user
    submitted: bool = False
    last: int = 0  #: the instant of the last record

    @property
    def name(self) -> str:
        return f"{self.job[0]}.{self.job[1]}"

    def say(self, record: Record, code: str, *also: str, **facts: str) -> Sentence:
        """Add the sentence of a record."""
        cause = record.event.cause
        return self.tell(record.at, record.position, record.event.stimulus, code, *also, cause=cause, **facts)

    def tell(
        self, at: int, position: int, stimulus: str, code: str, *also: str, cause: str = "reported", **facts: str
    ) -> Sentence:
        """Add a sentence; `also`: other records' places that it rests on."""
        sentence = self.sentence(at, position, stimulus, code, *also, cause=cause, **facts)
        self.chain.append(sentence)
        return sentence

    def sentence(
        self, at: int, position: int, stimulus: str, code: str, *also: str, cause: str = "reported", **facts: str
    ) -> Sentence:
        names = tuple(dict.fromkeys(filter(None, map(self.places.name, (stimulus, *also)))))
        plain = {name: text.rstrip(".") for name, text in facts.items()}
        return Sentence(at, position, code, plain, cause, stimulus, names)

    def becomes(self, status: str, sentence: Sentence) -> None:
        """Say where it is from here on, and which sentence says so."""
        self.status, self.since, self.refused, self.lost = status, sentence, None, None

    def user(self) -> str:
        """Whose it is: as the ads say, else as daemons call the user."""
        return next((user for ad in self.ads if (user := ad.text("User") or ad.text("Owner"))), self.called)

    def tell_match_of(self, slot: str, at: int) -> None:
        """Tell of the match that led to a run on a slot, unless that was told."""
        match = self.matches.before_run(slot, self.began, at, self.job[1])
        if match is None and slot and not self.slots.was_used(slot, at):
            match = self.others.before_run(self.slots, slot, self.name, self.users(), at)
        if match is not None and match.position not in self.told:
            self.told.add(match.position)
            self.tell_match(match)

    def is_checkpoint(self, end: Record) -> bool:
        """Return True if its process ended as the job does when it has written a checkpoint, and is started again."""
        how = ending(end.facts)
        return bool(how) and how in (ad_ending(ad, "SuccessCheckpointExit") for ad in self.ads)

    def users(self) -> list[str]:
        """Under which names the negotiator may know whose it is."""
        told = (ad.text(name) for ad in self.ads for name in ("User", "Owner", "AccountingGroup", "AcctGroup"))
        return list(dict.fromkeys(filter(None, [self.called, *told])))

    def tell_match(self, match: Record) -> None:
        event = match.event
        other = "it" if (event.cluster, event.proc) == self.job else f"{event.cluster}.{event.proc}, a job like it,"
        slot = match.facts.get("slot", "a slot")
        self.say(match, "log_matched", other=other, slot=slot, preempted=preempted(match.facts))

    def died(self, at: int, *named: Cause | None, known: int = 0) -> tuple[str, list[str]]:
        """The daemon that died while it ran, by an instant, and the place of that; nothing if its slot's log or what is
        `named` says why its run was ended. `known`: when its death had to be known, if that is later."""
        if not self.began:
            return "", []
        cause = first([*named, *(of_reason(event.reason) for _, event in left_for(self.run, at))])
        if cause is CAUSES["shutdown"]:
            return self.named(self.deaths.of_master(self.slot, at))
        if not cause.weak:
            return "", []
        return self.named(self.deaths.of_run(self.slot, self.name, self.began, known or at, self.run, self.attended))

    def schedd_died(self, at: int) -> tuple[str, list[str]]:
        """The same of the schedd, which was there again by an instant."""
        since = max(self.began, self.attended)
        return self.named(self.deaths.of_schedd(self.name, since, at) if since else None)

    def named(self, death: Death | None) -> tuple[str, list[str]]:
        return (death.words(self.zone), [death.stimulus]) if death is not None else ("", [])

    def after(self, at: int) -> str:
        """How long it had run at an instant; empty if it did not run, or that is not known."""
        return interval(max(0, at - self.began)) if self.began and self.status in RUNS else ""

    def run_ended(self, at: int) -> dict[str, str]:
        """Give the facts of the run that a step of the job ends; none if it does not run."""
        return {"slot": self.slot, "ran": self.after(at)} if self.status == "running" else {}

    def last_slot(self) -> str:
        """The slot of its last run: where it runs, else what its ad says; empty if that is not known."""
        if self.status in RUNS:
            return self.slot
        left = (ad.text("RemoteHost") or ad.text("LastRemoteHost") for ad in reversed(self.ads) if ad.has_left)
        return next(filter(None, left), "")

    def end_run(self, until: int) -> bool:
        """Tell of the end of its run that its slot's log alone has, if it came by an instant."""
        end = self.slots.end(self.slot, self.name, self.began) if self.status in RUNS else None
        if end is None or end.at > until:
            return False
        self.last = max(self.last, end.at)
        why, also = self.slots.eviction(self.slot, self.name, end.at, self.run)
        died, place = self.died(end.at, known=until if until < EVER else 0)
        facts = {"ran": interval(max(0, end.at - self.began)), "did": "was ended" if end.evicted else "ended"}
        facts |= {"slot": self.slot, "died": died, **why}
        sentence = self.tell(end.at, end.position, end.stimulus, self.over, *also, *place, **facts)
        self.becomes("idle" if end.evicted else "", sentence)
        return True

    def begin_run(self, slot: str, at: int, over: str = "run_over") -> None:
        """Begin a run on a slot; `over`: the words for its end, if its slot's log alone tells that."""
        self.slot, self.began, self.attended, self.size, self.over, self.failed = slot, at, 0, None, over, ""
        self.run = self.slots.run(slot, self.name, at)

    def like(self, other: Sentence, code: str, **facts: str) -> Sentence:
        """Say something else on the strength of the same record."""
        return Sentence(other.at, other.position, code, facts, other.cause, other.stimulus)
