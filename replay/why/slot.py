"""Why a slot is where it is: by which transition, and what led there, back to its last claim or its birth."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, tzinfo
from typing import Any

from ...domain import events as e
from ...domain.state_machines import state
from ..listing import client_end, ending, transition
from ..narration import defrag_words
from ..narration.formatting import counted, instant, interval, shortened
from ..narration.sentence_tables import CLAIM_FLAGS
from ..narration.sentences import (
    Answer,
    Sentence,
    StimulusContext,
    UnknownThingError,
    advise,
    answer,
    explaining,
    until,
    who_goes,
)
from ..narration.slot_life import SlotLife


def why_slot(events: Iterable[e.LoggedEvent], name: str, at: int | None = None, zone: tzinfo = UTC) -> Answer:
    """Tell why the slot is where it is (at the instant `at`, if one is given), and what led there, in order of time,
    from the match for its last claim on, or from its birth if it had none. Times within sentences are those of `zone`.

    ``events`` are the log's, or those that ``slot_events`` selects. Raises ``UnknownThingError``.
    """
    life = _OwnSlotLife(name, zone)
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
    return life.answer()


class _OwnSlotLife(SlotLife):
    def __init__(self, name: str, zone: tzinfo) -> None:
        super().__init__(name, zone)
        self.context = StimulusContext()
        self.matched_at = 0  #: where in the chain the last match stands
        self.awaited_at: int | None = None  #: where in the chain the claim that waits for it began to wait
        self.machine = ""
        self.parts: set[str] = set()
        self.earmark = ""  #: the job for which its claim is kept
        self.killed = False
        self.poll: tuple[int, e.DefragPolled] | None = None  #: the defragmentation's last poll, with its position
        self.last_change: list[Sentence] = []

    def read(self, position: int, event: e.Event) -> None:
        if isinstance(event, e.CycleHeld):
            for match in event.matches:
                if match.slot == self.name:
                    self.matched_at = len(self.chain)
                    why = who_goes(match, "it", self.holder)
                    self.say(position, event, "slot_matched_with", job=match.job, who=why)
                elif self.name in match.preempts:
                    self.say(position, event, "slot_given_back", job=match.job, slot=match.slot)
            return
        if isinstance(event, e.ClaimsEarmarked | e.EarmarkEnded):
            self._earmarked(position, event)
            return
        if isinstance(event, e.DefragPolled):
            self.poll = position, event
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

    def _earmarked(self, position: int, event: e.ClaimsEarmarked | e.EarmarkEnded) -> None:
        """Tell for which job its claim is kept, and that it is no longer; that it was used for it tells its end."""
        job = f"{event.cluster}.{event.proc}"
        if isinstance(event, e.ClaimsEarmarked):
            if self.name in event.claims:
                self.earmark = job
                self.say(position, event, "claim_earmarked", job=job, why=self.context.words(event))
        elif job == self.earmark:
            self.earmark = ""
            if not event.slot:
                self.say(position, event, "claim_earmarked_no_more", job=job, why=self.context.words(event))

    def on_born(self, position: int, event: e.SlotCreated) -> None:
        matched = self.chain[self.matched_at :] if event.kind == "dynamic" else []
        self.chain, self.matched_at = matched, 0
        self.machine, self.awaited_at = event.machine, None
        self.parts, self.last_change = set(), []
        self.create(position, event, why=self.context.words(event))

    def on_moved(self, position: int, event: e.SlotTransitioned) -> None:
        if state(event.source) in _FREE and state(event.target) not in _FREE and not self._is_matched():
            self.matched_at = len(self.chain)  # whoever matched it is outside of this pool
        decided = self.context.decided(event)
        self.move(position, event, event.cause, self.context.words(event), transition(event.row), **decided)

    def _is_matched(self) -> bool:
        """Whether the chain has a match of this pool's for which it has not been claimed."""
        return any(sentence.cause == "negotiated" for sentence in self.chain[self.matched_at :])

    def on_changed(self, position: int, event: e.SlotAdChanged) -> None:
        has = ", ".join(f"{name} = {text}" for name, text in event.changes.items())
        facts = {"changes": has, "why": self.context.words(event)}
        self.last_change = [Sentence(event.at, position, "changed", facts, event.cause, event.stimulus)]

    def on_died(self, position: int, event: e.SlotDestroyed) -> None:
        self.is_gone = True
        self.since = self.say(position, event, "died", why=self.context.words(event))

    def on_claimed(self, position: int, event: e.ClaimMade) -> None:
        self.chain = self.chain[self.matched_at if self.awaited_at is None else self.awaited_at :]
        self.matched_at, self.awaited_at = 0, None
        self.holder = event.submitter
        self.say(position, event, "claim_made", who=claimant(event))

    def on_waits(self, position: int, event: e.ClaimQueued) -> None:
        self.awaited_at = len(self.chain) if event.holder else self.matched_at
        self.say(position, event, "claim_waits", who=claimant(event))

    def on_withdrawn(self, position: int, event: e.ClaimWithdrawn) -> None:
        self.awaited_at = None
        self.say(position, event, "claim_waits_no_more", why=self.context.words(event))

    def on_marked(self, position: int, event: e.ClaimFlagged) -> None:
        marks = "; ".join(CLAIM_FLAGS.get(flag, flag) for flag in event.flags)
        self.say(position, event, "claim_marked", marks=marks, reason=event.reason)

    def on_unheard(self, position: int, event: e.ClaimHolderSilent) -> None:
        if event.until:
            self.say(position, event, "holder_silent", until=instant(event.until, self.zone))
        else:
            self.say(position, event, "holder_heard")

    def on_drain(self, position: int, event: e.DrainBegan) -> None:
        chosen = None if self.poll is None else defrag_words.chosen(self.poll[1], event, self.context.noted)
        if chosen is not None:
            self.say(position, event, "drain_chosen", schedule=event.schedule, **chosen)
            return
        facts = {"schedule": event.schedule, "reason": event.reason, "why": self.context.words(event)}
        self.say(position, event, "drain_began", **facts)

    def on_drain_moved(self, position: int, event: e.DrainTransitioned) -> None:
        canceled = None if self.poll is None else defrag_words.canceled(self.poll[1], event, self.context.noted)
        if canceled is not None:
            self.say(position, event, "drain_canceled", **canceled)
            return
        request = self.context.requests.get(event.stimulus)
        self.say(position, event, f"drain {event.row}", user=request.user if request else "")

    def on_client_started(self, position: int, event: e.BackfillStarted) -> None:
        program = event.client.get("Executable", "")
        self.say(position, event, "client_started", program=program, system=event.system)

    def on_client_gone(self, position: int, event: e.BackfillExited) -> None:
        retry = instant(event.retry, self.zone) if event.retry else ""
        self.say(position, event, "client_gone", how=client_end(event), reason=event.reason, retry=retry)

    def on_claim_over(self, position: int, event: e.ClaimEnded) -> None:
        self.holder = ""
        usage = interval(event.usage // 1000)
        self.say(position, event, "claim_over", submitter=event.submitter, usage=usage)

    def on_activated(self, position: int, event: e.JobActivated) -> None:
        self.job = f"{event.cluster}.{event.proc}"
        self.say(position, event, "slot_job_began", job=self.job)

    def on_job_begins(self, position: int, event: e.ClaimActivated) -> None:
        self.job, self.killed = event.job, False
        self.say(position, event, "slot_job_began", job=self.job)

    def on_job_gone(self, position: int, event: e.ClaimDeactivated) -> None:
        self.job = ""
        self.say(position, event, "slot_job_over", job=event.job, why=self.context.words(event))

    def on_told(self, position: int, event: e.StarterSignalled) -> None:
        if event.how == "soft":
            self.say(position, event, "slot_job_told", job=self.job, why=self.context.words(event))
        elif not self.killed:  # it may be killed again and again
            self.killed = True
            self.say(position, event, "slot_job_killed", job=self.job, why=self.context.words(event))

    def on_exited(self, position: int, event: e.JobExited) -> None:
        self.job = ""
        facts = {"job": f"{event.cluster}.{event.proc}", "why": self.context.words(event)}
        facts["how"] = ending(event) if event.code is not None or event.signal is not None else ""
        self.say(position, event, "slot_job_over", **facts)

    def answer(self) -> Answer:
        since = self.since
        assert since is not None
        head = self.head(since)
        chosen = {step.stimulus for step in self.chain if step.code == "drain_chosen"}
        steps = [step for step in self.chain if step.code not in ("row 36", "row 37") or step.stimulus not in chosen]
        steps = [since, *explaining(steps, since)]
        if self.parts and not self.is_gone:
            parts = counted(len(self.parts), "dynamic slot has", "dynamic slots have")
            facts = {"parts": parts}
            steps.insert(1, Sentence(since.at, since.position, "parts", facts, since.cause, since.stimulus))
        if self.poll is not None and self.kind == "partitionable" and not self.is_gone:
            steps += self._not_chosen(*self.poll)
        can = _ADVICE.get(self.pair, "see_slot_log")
        if since.cause == "suspend_command":
            can = "continue_slot"
        about = {"slot": self.name, "machine": self.machine, "job": self.job}
        advice = advise("see_status" if self.is_gone else can, head, **about)
        return answer(head, steps, advice, [*self.chain, *self.last_change])

    def _not_chosen(self, position: int, poll: e.DefragPolled) -> list[Sentence]:
        """Tell what the defragmentation decided last, if it left the slot's machine alone."""
        choices: list[e.DefragDrain | e.DefragCancel] = [*poll.drains, *poll.cancels]
        if self.machine in {one.machine for one in choices if not one.refused}:
            return []
        done = "" if poll.stopped else shortened(defrag_words.done(poll), 60)
        facts = {"seen": defrag_words.poll_sentence(poll), "done": done, "at": instant(poll.at, self.zone)}
        return [Sentence(poll.at, position, "not_chosen", facts, poll.cause, poll.stimulus)]


_ADVICE = {
    "Owner/Idle": "see_owner",
    "Unclaimed/Idle": "see_waiting",
    "Backfill/Idle": "end_backfill",
    "Backfill/Busy": "end_backfill",
    "Backfill/Killing": "wait_for_client",
    "Claimed/Busy": "vacate_slot",
    "Claimed/Suspended": "wait_for_slot_continue",
    "Drained/Idle": "cancel_drain",
    "Drained/Retiring": "cancel_drain",
}
"""Where a slot is -> the code of what can be done."""
_FREE = ("Owner", "Unclaimed", "Backfill", "Drained")


def claimant(event: e.ClaimMade | e.ClaimQueued) -> str:
    """Who claims it, and for which job, if that does not begin at once."""
    of = f" of {event.holder}" if event.holder else ""
    return f"{event.submitter}{of}, for job {event.job}," if event.job else event.submitter


def _with_cause(code: str, *fields: str) -> Callable[[_OwnSlotLife, int, Any], None]:
    """Return how an event is read whose sentence needs some of its fields and its cause."""

    def read(life: _OwnSlotLife, position: int, event: Any) -> None:
        facts = {name: getattr(event, name) for name in fields}
        life.say(position, event, code, **facts, why=life.context.words(event))

    return read


_SAY: dict[type[e.Event], Callable[[_OwnSlotLife, int, Any], None]] = {
    e.SlotCreated: _OwnSlotLife.on_born,
    e.SlotTransitioned: _OwnSlotLife.on_moved,
    e.SlotAdChanged: _OwnSlotLife.on_changed,
    e.SlotDestroyed: _OwnSlotLife.on_died,
    e.ClaimMade: _OwnSlotLife.on_claimed,
    e.ClaimEnded: _OwnSlotLife.on_claim_over,
    e.MatchVoided: _with_cause("slot_match_void", "job"),
    e.ClaimQueued: _OwnSlotLife.on_waits,
    e.ClaimWithdrawn: _OwnSlotLife.on_withdrawn,
    e.ClaimFlagged: _OwnSlotLife.on_marked,
    e.ClaimHolderSilent: _OwnSlotLife.on_unheard,
    e.ClaimActivated: _OwnSlotLife.on_job_begins,
    e.ClaimDeactivated: _OwnSlotLife.on_job_gone,
    e.StarterSignalled: _OwnSlotLife.on_told,
    e.DrainBegan: _OwnSlotLife.on_drain,
    e.DrainTransitioned: _OwnSlotLife.on_drain_moved,
    e.ShutdownBegan: _with_cause("machine_ends", "how"),
    e.BackfillStarted: _OwnSlotLife.on_client_started,
    e.BackfillSignalled: _with_cause("client_told"),
    e.BackfillExited: _OwnSlotLife.on_client_gone,
    e.BackfillLeaving: _with_cause("leaves_for", "destination"),
    e.JobActivated: _OwnSlotLife.on_activated,
    e.JobExited: _OwnSlotLife.on_exited,
}
