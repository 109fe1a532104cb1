"""Why a slot is where it is: by which transition, and what led there, back to its last claim or its birth."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, tzinfo
from typing import Any

from ...domain import events as e
from ...domain.evolve import BIRTH
from ..listing import LETTERS, ending
from ..wording import counted, instant, interval
from .sentences import Context, Sentence, Told, UnknownThingError, capital, until


def why_slot(events: Iterable[Told], name: str, at: int | None = None, zone: tzinfo = UTC) -> list[Sentence]:
    """Why the slot is where it is (at the instant `at`, if one is given): the answer, then what led there, in order of
    time, from the match for its last claim on, or from its birth if it had none. Times within sentences are those of
    `zone`.

    ``events`` are the log's, or those that ``slot_events`` gathers. Raises ``UnknownThingError``.
    """
    life = _Life(name, zone)
    told = list(until(events, at))
    for _, event in told:
        life.context.note(event)
    for position, event in told:
        life.read(position, event)
    if life.since is None:
        raise UnknownThingError(
            f"the log has no slot {name}{'' if at is None else f' at {instant(at, zone)}'}: "
            "`poolbook status` lists those that there are"
        )
    return [life.answer(), *life.chain, *life.last_change]


class _Life:
    def __init__(self, name: str, zone: tzinfo) -> None:
        self.name, self.zone = name, zone
        self.context = Context()
        self.chain: list[Sentence] = []
        self.matched_at = 0
        """Where in the chain the last match stands."""
        self.since: Sentence | None = None
        self.pair, self.number = "", ""
        self.kind = ""
        self.parts: set[str] = set()
        self.holder = ""
        self.job = ""
        self.dead = False
        self.last_change: list[Sentence] = []

    def read(self, position: int, event: e.Event) -> None:
        if isinstance(event, e.CycleHeld):
            for match in event.matches:
                if match.slot == self.name:
                    self.matched_at = len(self.chain)
                    self._say(position, event, f"A negotiation cycle matched it with job {match.job}.")
            return
        if isinstance(event, e.SlotBorn) and event.parent == self.name:
            self.parts.add(event.slot)
        elif isinstance(event, e.SlotDied):
            self.parts.discard(event.slot)
        say = _SAY.get(type(event))
        if say is not None and getattr(event, "slot", "") == self.name:
            say(self, position, event)

    def _say(self, position: int, event: e.Event, text: str) -> Sentence:
        sentence = Sentence(event.at, position, text, event.cause, event.stimulus)
        self.chain.append(sentence)
        return sentence

    def on_born(self, position: int, event: e.SlotBorn) -> None:
        matched = self.chain[self.matched_at :] if event.kind == "dynamic" else []
        self.chain, self.matched_at = matched, 0
        self.pair, self.number, self.kind, self.dead = BIRTH, "", event.kind, False
        self.holder = self.job = ""
        self.parts, self.last_change = set(), []
        origin = f"from {event.parent}" if event.parent else f"with machine {event.machine}"
        self.since = self._say(
            position, event, f"It came {origin}, as a {event.kind} slot: {self.context.words(event)}."
        )

    def on_moved(self, position: int, event: e.SlotMoved) -> None:
        self.pair, self.number = event.target, transition(event.row)
        text = f"{event.source} -> {event.target} by {self.number}: {self.context.words(event)}."
        self.since = self._say(position, event, text)

    def on_changed(self, position: int, event: e.SlotChanged) -> None:
        has = ", ".join(f"{name} = {text}" for name, text in event.changes.items())
        text = f"It has {has}: {self.context.words(event)}."
        self.last_change = [Sentence(event.at, position, text, event.cause, event.stimulus)]

    def on_died(self, position: int, event: e.SlotDied) -> None:
        self.dead = True
        self.since = self._say(position, event, f"It ceased to be: {self.context.words(event)}.")

    def on_claimed(self, position: int, event: e.ClaimMade) -> None:
        self.chain, self.matched_at = self.chain[self.matched_at :], 0
        self.holder = event.submitter
        self._say(position, event, f"{event.submitter} holds it from here on.")

    def on_claim_over(self, position: int, event: e.ClaimEnded) -> None:
        self.holder = ""
        usage = interval(event.usage // 1000)
        self._say(position, event, f"The claim of {event.submitter} ended, for a usage of {usage}.")

    def on_voided(self, position: int, event: e.MatchVoided) -> None:
        self._say(position, event, f"Its match with job {event.job} came to nothing: {self.context.words(event)}.")

    def on_activated(self, position: int, event: e.JobActivated) -> None:
        self.job = f"{event.cluster}.{event.proc}"
        self._say(position, event, f"Job {self.job} started on it.")

    def on_exited(self, position: int, event: e.JobExited) -> None:
        self.job = ""
        how = f" ({ending(event)})" if event.code is not None or event.signal is not None else ""
        self._say(position, event, f"Job {event.cluster}.{event.proc} is over{how}: {self.context.words(event)}.")

    def answer(self) -> Sentence:
        since = self.since
        assert since is not None
        if self.dead:
            words = capital(self.context_words(since))
            text = f"Slot {self.name} is no more since {instant(since.at, self.zone)}. {words}."
            return Sentence(since.at, since.position, text, since.cause, since.stimulus)
        by = f" by {self.number}" if self.number else " by its birth"
        text = f"Slot {self.name} is {self.pair} since {instant(since.at, self.zone)}{by}: {self.context_words(since)}"
        if self.job:
            text += f"; job {self.job} of {self.holder} runs on it"
        elif self.holder:
            text += f"; {self.holder} holds it"
        if self.parts:
            parts = counted(len(self.parts), "dynamic slot has", "dynamic slots have")
            text += f"; {parts} a part of it"
        return Sentence(since.at, since.position, f"{text}.", since.cause, since.stimulus)

    def context_words(self, sentence: Sentence) -> str:
        return self.context.words(e.Event(sentence.at, sentence.cause, sentence.stimulus))


def transition(row: str) -> str:
    """A numbered transition, with its letter if it crosses from state to state."""
    letter = LETTERS.get(row, "")
    return f"transition {row} ({letter})" if letter else f"transition {row}"


_SAY: dict[type[e.Event], Callable[[_Life, int, Any], None]] = {
    e.SlotBorn: _Life.on_born,
    e.SlotMoved: _Life.on_moved,
    e.SlotChanged: _Life.on_changed,
    e.SlotDied: _Life.on_died,
    e.ClaimMade: _Life.on_claimed,
    e.ClaimEnded: _Life.on_claim_over,
    e.MatchVoided: _Life.on_voided,
    e.JobActivated: _Life.on_activated,
    e.JobExited: _Life.on_exited,
}
