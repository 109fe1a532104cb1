"""Why a job is where it is: its life since the submission, and what it waits for, runs on, is held for or ended by."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, tzinfo
from typing import Any

import attrs

from ...domain import events as e
from ...domain.negotiator.unmatchable import misfit
from ...domain.state.job_ad import TERMINAL, Changes, fold_job, job_procs, unquoted
from ...domain.state.proc_ads import Variants
from ...domain.state_machines import HOLD_CODES, LEFT
from ..listing import ending
from ..narration.sentences import (
    NO_GROUND,
    WANTED,
    Context,
    Sentence,
    Told,
    UnknownThingError,
    capital,
    preferred,
    ranked,
    read_values,
    until,
)
from ..narration.wording import counted, instant, interval, memory
from .rejections import Refusals, evidence_of, fits_none
from .slot import claimant, transition
from .unmatchable import WholeSlots, no_slot


def why_job(
    events: Iterable[Told], cluster: int, proc: int, at: int | None = None, zone: tzinfo = UTC
) -> list[Sentence]:
    """Why the job is where it is (at the instant `at`, if one is given): the answer, then its life in order of time.
    Times within sentences are those of `zone`.

    ``events`` are the log's, or those that ``job_events`` gathers. Raises ``UnknownThingError``.
    """
    life = _Life(cluster, proc, zone)
    told = list(until(events, at))
    for position, event in told:
        life.context.note(position, event)
    for position, event in told:
        life.read(position, event)
    if life.submitted is None:
        raise UnknownThingError(
            f"the log has no job {cluster}.{proc}{'' if at is None else f' at {instant(at, zone)}'}: "
            "`poolbook q` and `poolbook history` list those that it has"
        )
    return [*life.answer(), *life.chain]


def judged(events: Iterable[Told], cluster: int, proc: int) -> tuple[tuple[int, e.Unmatched] | None, int]:
    """The last refusal of the job or its like, with its instant, and when it was matched last (0: never).

    ``events`` are the log's, or those that ``job_events`` gathers.
    """
    life = _Life(cluster, proc, UTC)
    for position, event in events:
        life.read(position, event)
    found = life.refusals.last_of(life.name, life.ad)
    return None if found is None else (found[1].at, found[2]), life.matched_at


class _Life:
    def __init__(self, cluster: int, proc: int, zone: tzinfo) -> None:
        self.zone = zone
        self.cluster, self.proc, self.name = cluster, proc, f"{cluster}.{proc}"
        self.context = Context()
        self.refusals = Refusals()
        self.chain: list[Sentence] = []
        self.submitted: e.ClusterSubmitted | None = None
        self.base: e.Ad = {}
        self.changes: Changes = {}
        self.status = ""
        self.since: Sentence | None = None
        """What put it into its status."""
        self.gone = False
        """Whether it has left the queue."""
        self.end: Sentence | None = None
        """The end of its last run, if nothing was to follow on that but leaving the queue."""
        self.match = ""
        self.matched_at = 0
        self.run: e.JobActivated | None = None
        self.executing: e.JobExecuting | None = None
        self.measured: e.JobMeasured | None = None
        self.told: Sentence | None = None
        """What told its processes to end."""
        self.reasons: dict[str, str] = {}
        """Why slots that somebody had were matched last."""
        self.holders: dict[str, str] = {}
        """Who has each slot."""
        self.edits: list[tuple[int, e.Ad]] = []
        """What was edited of it, each with the position."""
        self.slots = WholeSlots()
        self.waits: dict[str, Sentence] = {}
        """The claims that wait for its slot to be free of it, or for a slot in its own name, as they were told of."""

    @property
    def ad(self) -> e.Ad:
        return {name: text for name, text in {**self.base, **self.changes}.items() if text}

    def read(self, position: int, event: e.Event) -> None:
        self.refusals.note(position, event)
        self.slots.note(position, event)
        if isinstance(event, e.CycleHeld):
            for match in event.matches:
                if match.reason:
                    self.reasons[match.slot] = match.reason
                if match.job == self.name:
                    self._matched(position, event, match)
            return
        if isinstance(event, e.MatchVoided):
            if event.job == self.name:
                self.match = ""
                self._say(position, event, f"Its match with {event.slot} came to nothing: {self.context.words(event)}.")
            return
        slots = _OF_SLOTS.get(type(event))
        if slots is not None:
            slots(self, position, event)
            return
        jobs = job_procs(event)
        if jobs is None or jobs[0] != self.cluster or not any(first <= self.proc <= last for first, last in jobs[1]):
            return
        if isinstance(event, e.ClusterSubmitted):
            self.base = {**event.ad, **Variants(event.columns).of(self.proc)}
        _SAY[type(event)](self, position, event)
        fold_job(self.changes, self.base, event)

    def _say(self, position: int, event: e.Event, text: str, more: str = "") -> Sentence:
        sentence = Sentence(event.at, position, text, event.cause, event.stimulus, more)
        self.chain.append(sentence)
        return sentence

    # Its life

    def _matched(self, position: int, event: e.CycleHeld, match: e.Match) -> None:
        self.match, self.matched_at = match.slot, event.at
        note = evidence_of(self.context.evidence.get(event.stimulus, []), self.ad)
        more = " ".join(filter(None, [ranked(match), read_values(note) if note else ""]))
        has = preferred(match.reason, "this job", self.holders.get(match.slot, "")) or ", which was free"
        self._say(position, event, f"Matched with {match.slot}{has}.", more)

    def _slot_moved(self, position: int, event: e.SlotTransitioned) -> None:
        """What the policy of the slot decided on which it runs is a part of its life, and who wanted the slot's claim
        to end."""
        if self.run is None or self.run.slot != event.slot:
            return
        decided, last = self.context.decided(event), self.chain[-1]
        told = event.stimulus == last.stimulus and last not in self.waits.values()
        wanted = event.cause in WANTED and not told
        if decided != NO_GROUND or wanted:
            way = f"{event.source} -> {event.target} by {transition(event.row)}"
            text = f"Its slot went {way}: {self.context.words(event)}{decided.text}."
            self._say(position, event, text, decided.more)

    def _waited_for(self, position: int, event: e.ClaimQueued) -> None:
        """Somebody is to have a slot that somebody has: the job itself, or another the slot that it runs on."""
        if event.job == self.name and not event.holder:
            text = f"It waits until {event.slot} is free of the job that it has."
        elif self.run is not None and self.run.slot == event.slot:
            reason = "" if event.holder else self.reasons.get(event.slot, "")
            text = f"{claimant(event)} waits for its slot{preferred(reason, f'job {event.job}')}."
        else:
            return
        self.waits[event.claim] = self._say(position, event, text)

    def _claimed(self, position: int, event: e.ClaimMade) -> None:
        self.holders[event.slot] = event.submitter

    def _unclaimed(self, position: int, event: e.ClaimEnded) -> None:
        self.holders.pop(event.slot, None)

    def _withdrawn(self, position: int, event: e.ClaimWithdrawn) -> None:
        if self.waits.pop(event.claim, None) is None:
            return
        if self.match == event.slot:
            self.match = ""
            self._say(position, event, f"It waits for {event.slot} no longer: {self.context.words(event)}.")
        elif self.run is not None and self.run.slot == event.slot:
            self._say(position, event, f"Nobody waits for its slot any more: {self.context.words(event)}.")

    def on_submitted(self, position: int, event: e.ClusterSubmitted) -> None:
        self.submitted, self.status = event, event.status
        one = f", one of {counted(event.count, 'job')}" if event.count > 1 else ""
        held = f", on hold: {self._hold_reason(event.ad)}" if event.status == "Held" else ""
        request = self.context.requests.get(event.stimulus)
        user = request.user if request else event.submitter
        self.since = self._say(position, event, f"{user} submitted it{one}{held}.")

    def on_moved(self, position: int, event: e.JobsTransitioned) -> None:
        if event.target == LEFT:
            self._leaves(position, event)
            return
        self.status, self.gone = event.target, event.left and event.target in TERMINAL and self.run is None
        reasons = [unquoted(event.changes.get(name, "")) for name in ("ReleaseReason", "RemoveReason")]
        if event.changes.get("HoldReason"):
            reasons.append(self._hold_reason(event.changes))
        said = "; ".join(filter(None, reasons))
        words = capital(self.context.words(event))
        asked = self.context.asked(event, "WANT_HOLD") if event.cause == "held_by_machine" else NO_GROUND
        self.since = self._say(position, event, f"{words}{': ' if said else ''}{said}{asked.text}.", asked.more)

    def _leaves(self, position: int, event: e.JobsTransitioned) -> None:
        """It left the queue: what follows at once on its end is said together with that."""
        self.gone = True
        last = self.chain[-1]
        if event.row == "remove_x":
            self._say(position, event, f"{capital(self.context.words(event))} at once.")
        elif last is self.end and last.at == event.at and not event.evidence:
            self.chain[-1] = attrs.evolve(last, text=f"{last.text.removesuffix('.')}; it left the queue.")
            if self.since is last:
                self.since = self.chain[-1]
        elif last is self.end or event.evidence:
            decided = self.context.decided(event)
            self._say(position, event, f"It left the queue{decided.text}.", decided.more)

    def _hold_reason(self, ad: e.Ad) -> str:
        number = ad.get("HoldReasonCode", "")
        code = HOLD_CODES.get(int(number)) if number.isascii() and number.isdigit() else None
        named = f"code {number}, {code.name}: {code.words}" if code else f"code {number or 'unknown'}"
        return f"{unquoted(ad.get('HoldReason', '')) or 'no reason given'} ({named})"

    def on_edited(self, position: int, event: e.JobsEdited) -> None:
        changes = ", ".join(f"{name} = {text}" for name, text in event.changes.items())
        self.edits.append((position, event.changes))
        self._say(position, event, f"{capital(self.context.words(event))}: {changes}.")

    def on_activated(self, position: int, event: e.JobActivated) -> None:
        held = "" if self.match == event.slot else ", which its submitter held since a job before it"
        if event.cause == "local":
            held = " without a slot: it is of the local universe, which the access point runs itself"
        self.run, self.status, self.match = event, "Running", ""
        self.executing = self.measured = self.told = None
        self.since = self._say(position, event, f"It started on {event.slot}{held}.")

    def on_executing(self, position: int, event: e.JobExecuting) -> None:
        self.executing = event

    def on_measured(self, position: int, event: e.JobMeasured) -> None:
        self.measured = event

    def on_signalled(self, position: int, event: e.JobSignalled) -> None:
        how = "told to end" if event.how == "soft" else "killed"
        self.told = self._say(position, event, f"Its processes were {how}: {self.context.words(event)}.")

    def on_exited(self, position: int, event: e.JobExited) -> None:
        began = self.run.at if self.run else event.at
        if self.executing is not None:
            began = self.executing.began or self.executing.at
        ran = f"after {interval(max(0, (event.ended or event.at) - began))} on {event.slot}"
        used = [f"CPU {interval(event.user_cpu + event.system_cpu)}"] if event.user_cpu or event.system_cpu else []
        if event.resident:
            used.append(f"memory {memory(event.resident)}")
        text = f"{capital(self.context.words(event))}, {ran}"
        if event.outcome != "lost" and (event.code is not None or event.signal is not None):
            text += f", with {ending(event)}"
        if used:
            text += f" ({', '.join(used)})"
        self.status = event.target or self.status
        self.gone = event.left and self.status in TERMINAL
        if event.target == "Held":
            text += f"; it is held: {self._hold_reason(event.changes)}"
        elif event.target == "Idle":
            text += "; it waits again"
        elif self.gone:
            text += "; it left the queue"
        elif self.status not in TERMINAL:
            text += f"; it stays {self.status}"
        decided = self.context.decided(event)
        if event.row == "requeue" and not decided.text:
            decided = decided._replace(text=f": {unquoted(event.changes.get('RequeueReason', ''))}")
        sentence = self._say(position, event, f"{text}{decided.text}.", decided.more)
        if event.row:
            self.since = sentence
        self.end = sentence if self.status in TERMINAL else None
        self.run = None

    # The answer

    def answer(self) -> list[Sentence]:
        assert self.since is not None
        since = self.since
        head = f"Job {self.name} {_STATUS.get(self.status, self.status)} since {instant(since.at, self.zone)}"
        if self.status in TERMINAL and self.run is None:
            head = f"Job {self.name} {_OVER[self.status]} at {instant(since.at, self.zone)}"
        more = _WHY.get(self.status, _Life._by_cause)(self)
        first = Sentence(since.at, since.position, f"{head}{more[0]}", since.cause, since.stimulus, since.more)
        return [first, *more[1]]

    def _by_cause(self) -> tuple[str, list[Sentence]]:
        assert self.since is not None
        return f": {_lower(self.since.text)}{self._still_running()}", []

    def _is_suspended(self) -> tuple[str, list[Sentence]]:
        assert self.since is not None and self.run is not None
        return f" on {self.run.slot}: {_lower(self.since.text)}", []

    def _still_running(self) -> str:
        if self.run is None:
            last, gone = self.end, ""
            if last is not None and self.since is not None and last.position != self.since.position:
                gone = f" The last of its processes was gone at {instant(last.at, self.zone)}."
            return gone + self._still_in_queue()
        when = f"; they were told to end at {instant(self.told.at, self.zone)}" if self.told else ""
        return f" Its processes on {self.run.slot} have not ended yet{when}."

    def _still_in_queue(self) -> str:
        if self.gone or self.status not in TERMINAL:
            return ""
        wanted = next((text for name, text in self.ad.items() if name.lower() == "leavejobinqueue"), "")
        return f" It stays in the queue for as long as its LeaveJobInQueue is true: {wanted or 'nobody has asked yet'}."

    def _waits(self) -> tuple[str, list[Sentence]]:
        assert self.since is not None
        if self.run is not None:
            return f".{self._still_running()} Until then it is not matched again.", []
        if self.match:
            return f": it is matched with {self.match}, and not started yet.", []
        refusal = self.refusals.of(self.name, self.ad, self.zone)
        if refusal is not None:
            short, sentence = refusal
            return f": {self._fits_nowhere(sentence.position) or short}.", [sentence]
        last = self.refusals.last
        if last is None or last.position < self.since.position:
            return ": no negotiation cycle has considered it yet.", []
        when = instant(last.at, self.zone)
        return f": the cycles since then, the last at {when}, gave what there was to jobs before it.", []

    def _fits_nowhere(self, refused: int) -> str:
        """Why no slot of those that refused it could ever have it, as it is now or, since a refusal holds until the
        next, as it was then; empty: one could."""
        found = self.refusals.last_of(self.name, self.ad)
        if found is None or not fits_none(found[2]):
            return ""
        then = dict(self.base)
        for position, changes in self.edits:
            then |= changes if position < refused else {}
        slots, at = self.slots.before(refused), found[1].at // 1_000_000
        none = misfit(self.ad, slots, at) or misfit(then, slots, at)
        return "" if none is None else no_slot(none)

    def _runs(self) -> tuple[str, list[Sentence]]:
        assert self.run is not None
        said = f" on {self.run.slot}"
        if self.executing is None:
            said += "; its process has not been seen to begin yet"
        if self.measured is not None:
            cpu = interval(self.measured.user_cpu + self.measured.system_cpu)
            when = instant(self.measured.at, self.zone)
            said += f"; at {when} it used {memory(self.measured.resident)} of memory and {cpu} of CPU"
        if self.told is not None:
            said += f"; it was told to end at {instant(self.told.at, self.zone)}"
        return f"{said}.", []


def _lower(text: str) -> str:
    """A sentence as the part of another."""
    return text[:1].lower() + text[1:] if text.startswith(("It ", "Its ", "The ", "Somebody ")) else text


_SAY: dict[type[e.Event], Callable[[_Life, int, Any], None]] = {
    e.ClusterSubmitted: _Life.on_submitted,
    e.JobsTransitioned: _Life.on_moved,
    e.JobsEdited: _Life.on_edited,
    e.JobActivated: _Life.on_activated,
    e.JobExecuting: _Life.on_executing,
    e.JobMeasured: _Life.on_measured,
    e.JobSignalled: _Life.on_signalled,
    e.JobExited: _Life.on_exited,
}
_OF_SLOTS: dict[type[e.Event], Callable[[_Life, int, Any], None]] = {
    e.SlotTransitioned: _Life._slot_moved,
    e.ClaimMade: _Life._claimed,
    e.ClaimEnded: _Life._unclaimed,
    e.ClaimQueued: _Life._waited_for,
    e.ClaimWithdrawn: _Life._withdrawn,
}
_STATUS = {
    "Idle": "waits (Idle)",
    "Running": "runs",
    "Suspended": "is suspended",
    "Held": "is held",
    "Removed": "is being removed",
}
_OVER = {"Removed": "was removed", "Completed": "ended"}
_WHY: dict[str, Callable[[_Life], tuple[str, list[Sentence]]]] = {
    "Idle": _Life._waits,
    "Running": _Life._runs,
    "Suspended": _Life._is_suspended,
}
