"""Why a slot of a real pool is where its records leave it: by which transition, what led there.

The startd's log tells it; the negotiator's says what the slot was matched with. What the access point's log says of
the slot is told beside it. A slot whose startd ended or was started anew is no more: the next one of its name is
another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, tzinfo
from itertools import groupby
from typing import Any

from attrs import evolve

from ....domain import events as e
from ....domain.ports.log import EventStore
from ....domain.state_machines import DELETED, state
from ....domain.units import SECOND
from ...listing import transition
from ...narration.formatting import instant
from ...narration.sentences import Answer, Sentence, UnknownThingError, advise, answer, explaining
from ...narration.slot_life import SlotLife
from ...runs.run_end_causes import cause_of_move, meaning
from ...runs.slot_records import SlotRecords
from ..imported_log import PlaceNames, host_of
from .match_runs import MatchesOfSlots, preempted
from .unknown_thing import unknown_slot

RELEASED = "RELEASE_CLAIM"  #: what a startd writes of a claim that its access point gave back
MOST, BEGINNING = 60, 6
"""So many sentences are told of what led there, and so many of them of its beginning: a claim may run 1,000 jobs."""


def why_imported_slot(log: EventStore, name: str, at: int | None = None, zone: tzinfo = UTC) -> Answer:
    """Tell why the slot is where its records leave it (at the instant `at`, if one is given), and what led there, in
    order of time, since its last claim, or its birth. Raises ``UnknownThingError``."""
    places = PlaceNames(log)
    life = _ImportedSlotLife(name, zone, places, at)
    told = [*SlotRecords(log, at).records(name)]
    if not told:
        raise UnknownThingError(unknown_slot(log, name, at, zone))
    machine = next((event.machine for _, event in told if isinstance(event, e.SlotCreated)), name.partition("@")[2])
    daemons = [
        one
        for one in log.read_stream(f"machine/{machine}")
        if isinstance(one[1], e.DaemonReported) and one[1].daemon == "startd" and (at is None or one[1].at <= at)
    ]
    for position, event in _by_cause([*told, *daemons]):
        life.read(position, event)
    life.tell_match(log)
    if not life.chain:
        raise UnknownThingError(f"of slot {name} the log has no record that says where it is")
    return life.answer()


class _ImportedSlotLife(SlotLife):
    def __init__(self, name: str, zone: tzinfo, places: PlaceNames, at: int | None) -> None:
        super().__init__(name, zone)
        self.places, self.at = places, at
        self.claimed = 0  #: when its last claim began
        self.first_job = self.first_user = ""  #: the job that was started first on it, and who held the claim then
        self.last = 0
        self._moved_at = 0  #: how long the chain was when it last moved
        self._requested_at = 0  #: how long the chain was when somebody first asked for it since then
        self._given_back: tuple[int, str] = (0, "")

    def read(self, position: int, event: e.Event) -> None:
        say = _SAY.get(type(event))
        if say is not None:
            self.last = max(self.last, event.at)
            say(self, position, event)

    def say(self, position: int, event: e.Event, code: str, **facts: str) -> Sentence:
        """Add the sentence of a record, with the record's place."""
        place = self.places.name(event.stimulus)
        plain = {name: text.rstrip(".") for name, text in facts.items()}
        sentence = super().say(position, event, code, **plain)
        self.chain[-1] = evolve(sentence, places=(place,) if place else ())
        return self.chain[-1]

    def on_born(self, position: int, event: e.SlotCreated) -> None:
        self.chain, self._moved_at, self.claimed, self.first_job = [], 0, 0, ""
        self.create(position, event, kind=event.kind or "new")

    def on_moved(self, position: int, event: e.SlotTransitioned) -> None:
        if state(event.target) == "Claimed" and state(event.source) != "Claimed":
            self.chain = self.chain[max(self._moved_at, self._requested_at) :]
            self.claimed, self.first_job = event.at, ""
        evidence = f"its log: {event.reason.rstrip('.')}" if event.reason else ""
        cause, why = cause_of_move(event.reason), meaning(event.reason)
        self.move(position, event, cause, why, transition(event.row), evidence=evidence)
        if state(event.target) not in ("Claimed", "Preempting"):
            self.holder = self.job = ""
        if event.target in ("Claimed/Idle", "Claimed/Cleaning"):
            self.job = ""
        self._moved_at, self._requested_at = len(self.chain), 0

    def on_died(self, position: int, event: e.SlotDestroyed) -> None:
        self.is_gone, self.holder, self.job = True, "", ""
        if self.pair != DELETED or self.since is None:
            self.since = self.say(position, event, "died")

    def on_reported(self, position: int, event: e.SlotReported) -> None:
        facts = event.facts
        if event.said in ("requested", "owner") and not self._requested_at:
            self._requested_at = len(self.chain)
        if event.said == "released":
            again, self._given_back = self._given_back, (event.at // SECOND, facts.get("user", ""))
            if again == self._given_back:
                return  # the access point writes of it twice
        if event.said == "owner":
            self.holder = facts.get("user", "")
        elif event.said == "activated":
            self.job = facts.get("job", self.job)
            self.first_user = self.first_user if self.first_job else self.holder
            self.first_job = self.first_job or self.job
        text = _REPORTS.get(event.said, "")
        if text and not (event.said == "requested" and self.kind == "partitionable"):  # each request is carved from it
            kept = {name: value for name, value in facts.items() if f"{{{name}}}" not in text and name != "claim"}
            more = ", ".join(f"{name} {host_of(value)}" for name, value in kept.items())
            self.say(position, event, "log_reported", words=text.format_map(_Facts(facts)), facts=more)

    def on_daemon(self, position: int, event: e.DaemonReported) -> None:
        code = _DAEMON.get(event.said)
        if code is None or self.is_gone:
            return
        said = (
            value if name == "how" else f"{name} {value}" for name, value in event.facts.items() if name != ORPHANED
        )
        facts = {"facts": ", ".join(dict.fromkeys(said))}  # where nothing else says how it ended, its status does
        if event.facts.get(ORPHANED):
            facts["why"] = f"its master (pid {event.facts[ORPHANED]}) had died"
        sentence = self.say(position, event, code, **facts)
        if self.pair and not self.is_gone:
            self.is_gone, self.since = True, sentence
            self.holder = self.job = ""

    def tell_match(self, log: EventStore) -> None:
        """The match by which the last claim began, where the job that was started first on it tells: one that names a
        job of its cluster, else the last one of whoever holds the claim."""
        job, cluster = self.first_job, self.first_job.partition(".")[0]
        if not self.claimed or not cluster.isdecimal():
            return
        found = MatchesOfSlots(log, self.places, self.claimed, self.claimed).before(self.name, self.claimed)
        own = [match for match in found if match.event.cluster == int(cluster)]
        match = next(iter(own or [match for match in found if match.facts.get("user") == self.first_user]), None)
        if match is None:
            return
        position, event = match.position, match.event
        like = "" if job == f"{event.cluster}.{event.proc}" else ", or one like it"
        facts = {"job": f"{event.cluster}.{event.proc}", "user": match.facts.get("user", ""), "like": like}
        self.say(position, event, "log_slot_matched", preempted=preempted(match.facts), **facts)
        self.chain.insert(0, self.chain.pop())

    def answer(self) -> Answer:
        since = self.since or self.chain[-1]
        head = self.head(since)
        steps = [since, *explaining(self.chain, since)]
        about = {"until": instant(self.last, self.zone), "thing": self.name}
        advice = advise("see_records" if self.at is None else "see_life", head, **about)
        return answer(head, steps, advice, self._life())

    def _life(self) -> list[Sentence]:
        """Give the chain in order of time; of a long one the beginning and the end."""
        chain = sorted(self.chain, key=lambda sentence: sentence.at // SECOND)
        if len(chain) <= MOST:
            return chain
        last = chain[BEGINNING - MOST]
        facts = {"count": f"{len(chain) - MOST:,}", "slot": self.name}
        left_out = Sentence(last.at, last.position, "left_out", facts, last.cause, last.stimulus)
        return [*chain[:BEGINNING], left_out, *chain[BEGINNING - MOST :]]


def _by_cause(told: list[e.LoggedEvent]) -> Iterator[e.LoggedEvent]:
    """Records in order of time, those of one second in the order of their causes: that an access point gave the slot
    back stands before the move that says so, and else behind all that the startd did in that second."""
    in_time = sorted(told, key=lambda one: (one[1].at, one[0]))
    for _, alike in groupby(in_time, lambda one: one[1].at // SECOND):
        given_back: list[e.LoggedEvent] = []
        others: list[e.LoggedEvent] = []
        for one in alike:
            is_release = isinstance(one[1], e.SlotReported) and one[1].said == "released"
            (given_back if is_release else others).append(one)
        at = next((number for number, (_, event) in enumerate(others) if _was_released(event)), len(others))
        yield from (*others[:at], *given_back, *others[at:])


def _was_released(event: e.Event) -> bool:
    return isinstance(event, e.SlotTransitioned) and RELEASED in event.reason


class _Facts(dict[str, str]):
    """Facts in a sentence; what is missing is called unknown."""

    def __missing__(self, name: str) -> str:
        return "(unknown)"


# What a startd or schedd says of a slot -> the sentence; its other facts are told in brackets.
_REPORTS = {
    "requested": "An access point asked for it",
    "refused": "The request was refused",
    "owner": "{user} holds it from here on",
    "activated": "Job {job} is started on it",
    "job_over": "Its starter's last word on job {job} arrived",
    "starter_gone": "Its starter ended",
    "told": "{words}",
    "released": "The access point gave it back",
}


ORPHANED = "orphaned"
_DAEMON = {"began": "startd_began", "ended": "startd_ended", "died": "startd_died"}
"""What is said of a startd -> the code of its sentence."""
_SAY: dict[type[e.Event], Callable[[_ImportedSlotLife, int, Any], None]] = {
    e.SlotCreated: _ImportedSlotLife.on_born,
    e.SlotTransitioned: _ImportedSlotLife.on_moved,
    e.SlotDestroyed: _ImportedSlotLife.on_died,
    e.SlotReported: _ImportedSlotLife.on_reported,
    e.DaemonReported: _ImportedSlotLife.on_daemon,
}
