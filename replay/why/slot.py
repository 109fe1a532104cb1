"""Why a slot is where it is: by which transition, and what led there, back to its last claim or its birth."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, tzinfo
from typing import Any

from ...domain import events as e
from ...domain.state.evolve import BIRTH
from ...domain.state_machines import state
from ..listing import LETTERS, ending
from ..narration.causes import CLAIM_FLAGS
from ..narration.sentences import NO_GROUND, Context, Sentence, Told, UnknownThingError, capital, preferred, until
from ..narration.wording import counted, instant, interval


def why_slot(events: Iterable[Told], name: str, at: int | None = None, zone: tzinfo = UTC) -> list[Sentence]:
    """Why the slot is where it is (at the instant `at`, if one is given): the answer, then what led there, in order of
    time, from the match for its last claim on, or from its birth if it had none. Times within sentences are those of
    `zone`.

    ``events`` are the log's, or those that ``slot_events`` gathers. Raises ``UnknownThingError``.
    """
    life = _Life(name, zone)
    told = list(until(events, at))
    for position, event in told:
        life.context.note(position, event)
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
        self.awaited_at: int | None = None
        """Where in the chain the claim that waits for it began to wait."""
        self.since: Sentence | None = None
        self.decided = NO_GROUND
        """What expression put it where it is."""
        self.pair, self.number = "", ""
        self.kind = self.machine = ""
        self.parts: set[str] = set()
        self.holder = ""
        self.job = ""
        self.killed = False
        self.dead = False
        self.last_change: list[Sentence] = []

    def read(self, position: int, event: e.Event) -> None:
        if isinstance(event, e.CycleHeld):
            for match in event.matches:
                if match.slot == self.name:
                    self.matched_at = len(self.chain)
                    why = preferred(match.reason, "it", self.holder)
                    self._say(position, event, f"Matched with job {match.job}{why}.")
            return
        if isinstance(event, e.SlotCreated) and event.parent == self.name:
            self.parts.add(event.slot)
        elif isinstance(event, e.SlotDestroyed):
            self.parts.discard(event.slot)
        say = _SAY.get(type(event))
        if say is None:
            return
        of_slot = isinstance(event, e.SlotEvent | e.JobActivated | e.JobExited) and event.slot == self.name
        if of_slot or (isinstance(event, e.MachineEvent) and event.machine == self.machine):
            say(self, position, event)

    def _say(self, position: int, event: e.Event, text: str, more: str = "") -> Sentence:
        sentence = Sentence(event.at, position, text, event.cause, event.stimulus, more)
        self.chain.append(sentence)
        return sentence

    def on_born(self, position: int, event: e.SlotCreated) -> None:
        matched = self.chain[self.matched_at :] if event.kind == "dynamic" else []
        self.chain, self.matched_at = matched, 0
        self.pair, self.number, self.kind, self.dead = BIRTH, "", event.kind, False
        self.machine, self.decided, self.awaited_at = event.machine, NO_GROUND, None
        self.holder = self.job = ""
        self.parts, self.last_change = set(), []
        origin = f"from {event.parent}" if event.parent else f"with machine {event.machine}"
        self.since = self._say(
            position, event, f"It came {origin}, as a {event.kind} slot: {self.context.words(event)}."
        )

    def on_moved(self, position: int, event: e.SlotTransitioned) -> None:
        self.pair, self.number = event.target, transition(event.row)
        if state(event.source) in _FREE and state(event.target) not in _FREE and not self._is_matched():
            self.matched_at = len(self.chain)  # whoever matched it is outside of this pool
        self.decided = self.context.decided(event)
        text = f"{event.source} -> {event.target} by {self.number}: {self.context.words(event)}{self.decided.text}."
        self.since = self._say(position, event, text, self.decided.more)

    def _is_matched(self) -> bool:
        """Whether the chain has a match of this pool's for which it has not been claimed."""
        return any(sentence.cause == "negotiated" for sentence in self.chain[self.matched_at :])

    def on_changed(self, position: int, event: e.SlotAdChanged) -> None:
        has = ", ".join(f"{name} = {text}" for name, text in event.changes.items())
        text = f"It has {has}: {self.context.words(event)}."
        self.last_change = [Sentence(event.at, position, text, event.cause, event.stimulus)]

    def on_died(self, position: int, event: e.SlotDestroyed) -> None:
        self.dead = True
        self.since = self._say(position, event, f"It ceased to be: {self.context.words(event)}.")

    def on_claimed(self, position: int, event: e.ClaimMade) -> None:
        self.chain = self.chain[self.matched_at if self.awaited_at is None else self.awaited_at :]
        self.matched_at, self.awaited_at = 0, None
        self.holder = event.submitter
        self._say(position, event, f"{claimant(event)} holds it from here on.")

    def on_waits(self, position: int, event: e.ClaimQueued) -> None:
        self.awaited_at = len(self.chain) if event.holder else self.matched_at
        self._say(position, event, f"{claimant(event)} waits for it: {self.context.words(event)}.")

    def on_withdrawn(self, position: int, event: e.ClaimWithdrawn) -> None:
        self.awaited_at = None
        self._say(position, event, f"Nobody waits for it any more: {self.context.words(event)}.")

    def on_marked(self, position: int, event: e.ClaimFlagged) -> None:
        said = [CLAIM_FLAGS.get(flag, flag) for flag in event.flags] + [event.reason] * bool(event.reason)
        self._say(position, event, f"Of its claim holds from here on: {'; '.join(said)}.")

    def on_unheard(self, position: int, event: e.ClaimHolderSilent) -> None:
        if event.until:
            text = f"Nothing is heard of its claim's holder; the lease ends at {instant(event.until, self.zone)}."
        else:
            text = "Its claim's holder is heard again."
        self._say(position, event, text)

    def on_drain(self, position: int, event: e.DrainBegan) -> None:
        why = f" ({event.reason})" if event.reason else ""
        text = f"Its machine began to drain, {event.schedule}{why}: {self.context.words(event)}."
        self._say(position, event, text)

    def on_drain_moved(self, position: int, event: e.DrainTransitioned) -> None:
        text = f"The drain of its machine went from {event.source} to {event.target}: {self.context.words(event)}."
        self._say(position, event, text)

    def on_shutdown(self, position: int, event: e.ShutdownBegan) -> None:
        self._say(position, event, f"Its machine is to end, {event.how}: {self.context.words(event)}.")

    def on_claim_over(self, position: int, event: e.ClaimEnded) -> None:
        self.holder = ""
        usage = interval(event.usage // 1000)
        self._say(position, event, f"The claim of {event.submitter} ended, for a usage of {usage}.")

    def on_voided(self, position: int, event: e.MatchVoided) -> None:
        self._say(position, event, f"Its match with job {event.job} came to nothing: {self.context.words(event)}.")

    def on_activated(self, position: int, event: e.JobActivated) -> None:
        self.job = f"{event.cluster}.{event.proc}"
        self._say(position, event, f"Job {self.job} started on it.")

    def on_job_begins(self, position: int, event: e.ClaimActivated) -> None:
        self.job, self.killed = event.job, False
        self._say(position, event, f"Job {self.job} started on it.")

    def on_job_gone(self, position: int, event: e.ClaimDeactivated) -> None:
        self.job = ""
        self._say(position, event, f"Job {event.job} is over: {self.context.words(event)}.")

    def on_told(self, position: int, event: e.StarterSignalled) -> None:
        if event.how == "soft":
            self._say(position, event, f"Job {self.job} was told to end: {self.context.words(event)}.")
        elif not self.killed:  # it may be killed again and again
            self.killed = True
            self._say(position, event, f"Job {self.job} was killed: {self.context.words(event)}.")

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
        text += self.decided.text
        if self.job:
            text += f"; job {self.job} of {self.holder} runs on it"
        elif self.holder:
            text += f"; {self.holder} holds it"
        if self.parts:
            parts = counted(len(self.parts), "dynamic slot has", "dynamic slots have")
            text += f"; {parts} a part of it"
        return Sentence(since.at, since.position, f"{text}.", since.cause, since.stimulus, self.decided.more)

    def context_words(self, sentence: Sentence) -> str:
        return self.context.words(e.Event(sentence.at, sentence.cause, sentence.stimulus))


_FREE = ("Owner", "Unclaimed", "Drained")


def claimant(event: e.ClaimMade | e.ClaimQueued) -> str:
    """Who claims it, and for which job, if that does not begin at once."""
    of = f" of {event.holder}" if event.holder else ""
    return f"{event.submitter}{of}, for job {event.job}," if event.job else event.submitter


def transition(row: str) -> str:
    """A numbered transition, with its letter if it crosses from state to state."""
    letter = LETTERS.get(row, "")
    return f"transition {row} ({letter})" if letter else f"transition {row}"


_SAY: dict[type[e.Event], Callable[[_Life, int, Any], None]] = {
    e.SlotCreated: _Life.on_born,
    e.SlotTransitioned: _Life.on_moved,
    e.SlotAdChanged: _Life.on_changed,
    e.SlotDestroyed: _Life.on_died,
    e.ClaimMade: _Life.on_claimed,
    e.ClaimEnded: _Life.on_claim_over,
    e.MatchVoided: _Life.on_voided,
    e.ClaimQueued: _Life.on_waits,
    e.ClaimWithdrawn: _Life.on_withdrawn,
    e.ClaimFlagged: _Life.on_marked,
    e.ClaimHolderSilent: _Life.on_unheard,
    e.ClaimActivated: _Life.on_job_begins,
    e.ClaimDeactivated: _Life.on_job_gone,
    e.StarterSignalled: _Life.on_told,
    e.DrainBegan: _Life.on_drain,
    e.DrainTransitioned: _Life.on_drain_moved,
    e.ShutdownBegan: _Life.on_shutdown,
    e.JobActivated: _Life.on_activated,
    e.JobExited: _Life.on_exited,
}
