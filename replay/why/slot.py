"""Explain the state of a slot: its last transition, and the steps since its last claim or its creation.

One class reads both a pool's own log and HTCondor records, because a startd logs the same transitions. An imported
event has the cause "reported"; its text has the startd's reason. When a startd ends or restarts, its slots end, and
later slots with the same names are different slots.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, tzinfo
from itertools import groupby
from typing import Any

from ...domain import events as e
from ...domain.events.handlers import handlers_of
from ...domain.ports.log import EventStore
from ...domain.state.job_ad import unquoted
from ...domain.state_machines import DELETED, state
from ...domain.state_machines.slot_rows import INITIAL_PAIR
from ...domain.units import SECOND
from ..forensics.imported_log import PlaceNames, host_of
from ..listing.event_lines import client_end, ending, transition
from ..narration import defrag_words
from ..narration.formatting import counted, instant, interval, shorten_text
from ..narration.sentence_tables import CLAIM_FLAGS, EXPLAINS, REPORTS, UNDOES, row_code
from ..narration.sentences import (
    Explanation,
    Sentence,
    StimulusContext,
    UnknownThingError,
    advise,
    answer,
    events_until,
    explaining_steps,
    preemption_text,
)
from ..runs.run_end_causes import cause_of_move, reason_meaning
from ..runs.slot_records import SlotRecords
from .match_runs import MatchesOfSlots, preempted_submitter
from .unknown_thing import unknown_slot

MOST, MOST_IMPORTED, BEGINNING = 500, 60, 6
"""The maximum number of sentences in the life of a slot and of an imported slot, and how many of them are from its
beginning."""
REPORTED = "reported"  #: the cause of imported events
_RELEASED = "RELEASE_CLAIM"  #: a startd's reason if the access point released the claim
_ORPHANED = "orphaned"  #: the fact of a startd that ended because its master had died
_RESOURCES = ("Cpus", "Memory", "Disk")
_FREE = ("Owner", "Unclaimed", "Backfill", "Drained")


def why_slot(events: Iterable[e.LoggedEvent], name: str, at: int | None = None, zone: tzinfo = UTC) -> Explanation:
    """Explain the state of a slot as of the instant `at` (None: the log's end). The history begins with the match of
    its last claim, or with its creation. Times in sentences are in `zone`.

    :param events: the log's events, or the events that ``slot_events`` selects
    :raises UnknownThingError: the log has no such slot
    """
    life, past = SlotLife(name, zone), list(events_until(events, at))
    for position, event in past:
        life.context.add_event(position, event)
    for position, event in past:
        life.fold_event(position, event)
    if life.since is None:
        moment = "" if at is None else f" at {instant(at, zone)}"
        raise UnknownThingError(f"the log has no slot {name}{moment}: `poolbook status` lists its slots")
    return life.answer()


def why_imported_slot(log: EventStore, name: str, at: int | None = None, zone: tzinfo = UTC) -> Explanation:
    """Explain the state of a slot in an import, like ``why_slot``."""
    places = PlaceNames(log)
    life = SlotLife(name, zone, places)
    records = [*SlotRecords(log, at).records(name)]
    if not records:
        raise UnknownThingError(unknown_slot(log, name, at, zone))
    births = (event.machine for _, event in records if isinstance(event, e.SlotCreated))
    life.machine = next(births, name.partition("@")[2])
    daemons = [
        machine_event
        for machine_event in events_until(log.read_stream(f"machine/{life.machine}"), at)
        if isinstance(machine_event[1], e.DaemonReported) and machine_event[1].daemon == "startd"
    ]
    for position, event in _in_causal_order([*records, *daemons]):
        life.fold_event(position, event)
    life.add_match(log)
    if not life.steps:
        raise UnknownThingError(f"the log has no record of the state of slot {name}")
    return life.answer("see_records" if at is None else "see_life")


_OF_ALL_SLOTS = (e.SlotCreated, e.SlotDestroyed, e.ReservationEnded)
_CONTEXT = (e.RequestAnswered, e.EvaluationRecorded)


def concerns_slot(event: e.Event, name: str) -> bool:
    """Return True if ``why_slot`` may need an event for the slot with this name."""
    if isinstance(event, _OF_ALL_SLOTS + _CONTEXT):
        return True
    return type(event) in _READERS and getattr(event, "slot", name) == name


class SlotLife:
    """A slot's state and history up to an event: ``steps`` has a sentence for each step since the last claim, by the
    step's number."""

    def __init__(self, name: str, zone: tzinfo, places: PlaceNames | None = None) -> None:
        self.name, self.zone, self.places = name, zone, places
        self.context = StimulusContext()
        self.steps: dict[int, Sentence] = {}
        self.count = 0  #: the number of the next step
        self.since: Sentence | None = None  #: the last step
        self.pair = self.kind = ""
        self.holder = self.job = ""
        self.is_gone = False
        self.begin = 0  #: the number of the match of, or request for, the next claim
        self.machine = ""
        self.parts: set[str] = set()
        self.left: dict[str, str] = {}  #: what it has left, if it is partitionable and its ad says so
        self.closed = ""  #: the code of the step since which its machine accepts no jobs, although it does not drain
        self.reservation = ""  #: the job for which its claim is reserved
        self.killed = False
        self.poll: tuple[int, e.DefragPolled] | None = None  #: the defragmentation's last poll, with its position
        self.last_change: list[Sentence] = []
        self.defects: list[Sentence] = []  #: why the slot, or a device of its machine, cannot be used
        self.is_broken = False
        self.last = 0  #: the instant of the last event
        self.claimed = 0  #: when its last claim began
        self.first_job = self.first_user = ""  #: the first job of the claim, and the claim's holder then
        self._requested = False  #: whether an access point requested it since its last transition
        self._given_back: tuple[int, str] = (0, "")

    def fold_event(self, position: int, event: e.Event) -> None:
        if isinstance(event, e.SlotCreated) and event.parent == self.name:
            self.parts.add(event.slot)
        elif isinstance(event, e.SlotDestroyed):
            self.parts.discard(event.slot)
        if isinstance(event, e.MachineEvent):
            concerns_slot = event.machine == self.machine
        else:
            concerns_slot = isinstance(event, e.ReservationEnded) or getattr(event, "slot", self.name) == self.name
        read_event = _READERS.get(type(event))
        if read_event is not None and concerns_slot:
            self.last = max(self.last, event.at)
            read_event(self, position, event)

    def narrate(self, position: int, event: e.Event, code: str, **facts: str) -> Sentence:
        """Add a sentence about an event to the chain, with the location of its record if it was imported."""
        place = self.places.name(event.stimulus) if self.places is not None else ""
        fact_texts = {name: text.rstrip(".") if place else text for name, text in facts.items()}
        places = (place,) if place else ()
        sentence = Sentence(event.at, position, code, fact_texts, event.cause, event.stimulus, places)
        self.steps[self.count] = sentence
        self.count += 1
        return sentence

    def _begin_history(self, first: int) -> None:
        """Let the history begin with the step of this number."""
        self.begin = first
        self.steps = {number: step for number, step in self.steps.items() if number >= first}

    def cause_text(self, event: e.Event) -> str:
        """Return the clause for an event's cause, or an empty string for imported events."""
        return "" if event.cause == REPORTED else self.context.cause_text(event)

    def on_cycle(self, position: int, event: e.CycleHeld) -> None:
        for match in event.matches:
            if match.slot == self.name:
                self.begin = self.count
                preempted_text = preemption_text(match, "it", self.holder)
                self.narrate(
                    position, event, "slot_matched_with", job=match.job, who=preempted_text, negotiator=event.negotiator
                )
            elif self.name in match.preempts:
                self.narrate(
                    position, event, "slot_resources_taken", job=match.job, slot=match.slot, negotiator=event.negotiator
                )

    def on_polled(self, position: int, event: e.DefragPolled) -> None:
        self.poll = position, event

    def on_reserved(self, position: int, event: e.ClaimsReserved) -> None:
        if self.name in event.claims:
            self.reservation = f"{event.cluster}.{event.proc}"
            self.narrate(position, event, "claim_reserved", job=self.reservation, why=self.cause_text(event))

    def on_reservation_ended(self, position: int, event: e.ReservationEnded) -> None:
        """Add that the slot's claim is no longer reserved, unless it was used, which the claim's end shows."""
        if self.reservation != f"{event.cluster}.{event.proc}":
            return
        if not event.slot:
            self.narrate(position, event, "claim_no_longer_reserved", job=self.reservation, why=self.cause_text(event))
        self.reservation = ""

    def on_born(self, position: int, event: e.SlotCreated) -> None:
        is_own_slot = event.kind == "dynamic" and event.cause != REPORTED
        self._begin_history(self.begin if is_own_slot else self.count)
        self.machine, self.kind = event.machine, event.kind
        self.pair, self.is_gone, self._requested = INITIAL_PAIR, False, False
        self.holder = self.job = self.first_job = ""
        self.parts, self.last_change, self.claimed, self.closed = set(), [], 0, ""
        numbers = {name: event.ad.get(name, "") for name in _RESOURCES}
        self.left = {name: text for name, text in numbers.items() if text.replace(".", "", 1).isdecimal()}
        origin = f"from {event.parent}" if event.parent else f"with machine {event.machine}"
        facts = {"origin": origin, "kind": event.kind or "new", "why": self.cause_text(event)}
        self.since = self.narrate(position, event, "slot_created", **facts)
        reason = unquoted(event.ad.get("SlotBrokenReason", ""))
        self.defects, self.is_broken = [], bool(reason)
        if reason:
            self.defects.append(self.since.restate("slot_broken", {"reason": reason}))

    def on_moved(self, position: int, event: e.SlotTransitioned) -> None:
        """Add a transition. The chain of a claim begins with its match or request."""
        source, target = state(event.source), state(event.target)
        cause, reason_text, facts = event.cause, self.cause_text(event), self.context.decision_facts(event)
        if event.cause == REPORTED:
            cause, reason_text = cause_of_move(event.reason), reason_meaning(event.reason)
            facts = {"evidence": f"its log: {event.reason.rstrip('.')}" if event.reason else ""}
            if target == "Claimed" != source:
                self._begin_history(self.begin)
                self.claimed, self.first_job = event.at, ""
        elif source in _FREE and target not in _FREE and not self._is_matched():
            self.begin = self.count  # an outside negotiator matched it
        self.pair = event.target
        move_facts = {"job": f"job {self.job}" if self.job else "its job", "why": reason_text, "source": event.source}
        move_facts |= {"target": "no more" if event.target == DELETED else event.target, "row": transition(event.row)}
        code = row_code(event.row, event.target, cause, self.job)
        if not event.row and event.cause == "claimed":
            code = "slot_shown"
        self.since = self.narrate(position, event, code, **move_facts, **facts)
        if event.cause == REPORTED:
            if target not in ("Claimed", "Preempting"):
                self.holder = self.job = ""
            if event.target in ("Claimed/Idle", "Claimed/Cleaning"):
                self.job = ""
            self.begin, self._requested = self.count, False

    def _is_matched(self) -> bool:
        """Return True if the pool's own negotiator matched the slot since its last claim."""
        return any(step.cause == "negotiated" for number, step in self.steps.items() if number >= self.begin)

    def on_changed(self, position: int, event: e.SlotAdChanged) -> None:
        self.left |= {name: text for name, text in event.changes.items() if name in self.left}
        values_text = ", ".join(f"{name} = {text}" for name, text in event.changes.items())
        facts = {"changes": values_text, "why": self.cause_text(event)}
        self.last_change = [Sentence(event.at, position, "slot_changed", facts, event.cause, event.stimulus)]
        reason = next((unquoted(text) for name, text in event.changes.items() if _OFFLINE_REASON.fullmatch(name)), "")
        if reason:
            offline = next(unquoted(text) for name, text in event.changes.items() if name.startswith("Offline"))
            facts = {"devices": offline.replace(",", ", "), "reason": reason}
            self.defects = [Sentence(event.at, position, "devices_offline", facts, event.cause, event.stimulus)]

    def on_died(self, position: int, event: e.SlotDestroyed) -> None:
        self.is_gone, self.holder, self.job = True, "", ""
        if event.cause != REPORTED or self.pair != DELETED or self.since is None:
            self.since = self.narrate(position, event, "slot_deleted", why=self.cause_text(event))

    def on_claimed(self, position: int, event: e.ClaimMade) -> None:
        self._begin_history(self.begin)
        self.holder = event.submitter
        self.narrate(position, event, "claim_made", who=claimant(event))

    def on_waits(self, position: int, event: e.ClaimQueued) -> None:
        if event.holder:
            self.begin = self.count
        self.narrate(position, event, "claim_waits", who=claimant(event))

    def on_marked(self, position: int, event: e.ClaimFlagged) -> None:
        marks = "; ".join(CLAIM_FLAGS.get(flag, flag) for flag in event.flags)
        self.narrate(position, event, "claim_marked", marks=marks, reason=event.reason)

    def on_unheard(self, position: int, event: e.ClaimHolderSilent) -> None:
        if event.until:
            self.narrate(position, event, "holder_silent", until=instant(event.until, self.zone))
        else:
            self.narrate(position, event, "holder_heard")

    def on_machine_expired(self, position: int, event: e.MachineExpired) -> None:
        self.closed = "machine_silent" if event.expired else ""
        self.narrate(position, event, self.closed or "machine_heard")

    def on_shutdown(self, position: int, event: e.ShutdownBegan) -> None:
        self.closed = "machine_ends"
        self.narrate(position, event, self.closed, how=event.how, why=self.cause_text(event))

    def on_drain(self, position: int, event: e.DrainBegan) -> None:
        facts = None if self.poll is None else defrag_words.choice_facts(self.poll[1], event, self.context.noted)
        if facts is not None:
            self.narrate(position, event, "drain_chosen", schedule=event.schedule, **facts)
            return
        self.narrate(
            position, event, "drain_began", schedule=event.schedule, reason=event.reason, why=self.cause_text(event)
        )

    def on_drain_moved(self, position: int, event: e.DrainTransitioned) -> None:
        facts = None if self.poll is None else defrag_words.cancel_facts(self.poll[1], event, self.context.noted)
        if facts is not None:
            self.narrate(position, event, "drain_canceled", **facts)
            return
        self.narrate(position, event, f"drain {event.row}", why=self.cause_text(event))

    def on_client_started(self, position: int, event: e.BackfillStarted) -> None:
        program = event.client.get("Executable", "")
        self.narrate(position, event, "client_started", program=program, system=event.system)

    def on_client_gone(self, position: int, event: e.BackfillExited) -> None:
        retry = instant(event.retry, self.zone) if event.retry else ""
        self.narrate(position, event, "client_gone", how=client_end(event), reason=event.reason, retry=retry)

    def on_claim_over(self, position: int, event: e.ClaimEnded) -> None:
        self.holder = ""
        usage = interval(event.usage // 1000)
        self.narrate(position, event, "claim_over", submitter=event.submitter, usage=usage)

    def on_job_begins(self, position: int, event: e.JobActivated | e.ClaimActivated) -> None:
        self.job = event.job if isinstance(event, e.ClaimActivated) else f"{event.cluster}.{event.proc}"
        self.killed = False
        self.narrate(position, event, "slot_job_began", job=self.job)

    def on_job_over(self, position: int, event: e.JobExited | e.ClaimDeactivated) -> None:
        facts = {"job": self.job, "why": self.cause_text(event)}
        if isinstance(event, e.JobExited):
            facts["how"] = ending(event) if event.code is not None or event.signal is not None else ""
        self.job = ""
        self.narrate(position, event, "slot_job_over", **facts)

    def on_told(self, position: int, event: e.StarterSignalled) -> None:
        if event.how == "soft":
            self.narrate(position, event, "slot_job_asked_to_exit", job=self.job, why=self.cause_text(event))
        elif not self.killed:  # it may be killed again and again
            self.killed = True
            self.narrate(position, event, "slot_job_killed", job=self.job, why=self.cause_text(event))

    def on_reported(self, position: int, event: e.SlotReported) -> None:
        facts = event.facts
        if event.said in ("requested", "owner") and not self._requested:
            self.begin, self._requested = self.count, True
        if event.said == "released":
            last_given_back, self._given_back = self._given_back, (event.at // SECOND, facts.get("user", ""))
            if last_given_back == self._given_back:
                return  # the access point logs it twice
        if event.said == "owner":
            self.holder = facts.get("user", "")
        elif event.said == "activated":
            self.job = facts.get("job", self.job)
            self.first_user = self.first_user if self.first_job else self.holder
            self.first_job = self.first_job or self.job
        text = REPORTS.get(event.said, "")
        if text and not (event.said == "requested" and self.kind == "partitionable"):  # each request is carved from it
            rest = {name: value for name, value in facts.items() if f"{{{name}}}" not in text and name != "claim"}
            more_text = ", ".join(f"{name} {host_of(value)}" for name, value in rest.items())
            words = text.format_map(defaultdict(lambda: "(unknown)", facts))
            self.narrate(position, event, "log_reported", words=words, facts=more_text)

    def on_daemon(self, position: int, event: e.DaemonReported) -> None:
        if event.said not in ("began", "ended", "died") or self.is_gone:
            return
        texts = (text if name == "how" else f"{name} {text}" for name, text in event.facts.items() if name != _ORPHANED)
        facts = {"facts": ", ".join(dict.fromkeys(texts))}
        if event.facts.get(_ORPHANED):
            facts["why"] = f"its master (pid {event.facts[_ORPHANED]}) had died"
        sentence = self.narrate(position, event, f"startd_{event.said}", **facts)
        if self.pair:
            self.is_gone, self.since = True, sentence
            self.holder = self.job = ""

    def add_match(self, log: EventStore) -> None:
        """Add the match of the last claim: the last match of a job of the same cluster as the claim's first job, or
        else of the same user."""
        job, cluster = self.first_job, self.first_job.partition(".")[0]
        if not self.claimed or not cluster.isdecimal() or self.places is None:
            return
        matches = MatchesOfSlots(log, self.places, self.claimed, self.claimed).before(self.name, self.claimed)
        own = [match for match in matches if match.event.cluster == int(cluster)]
        match = next(iter(own or [match for match in matches if match.facts.get("user") == self.first_user]), None)
        if match is None:
            return
        position, event = match.position, match.event
        alike_text = "" if job == f"{event.cluster}.{event.proc}" else ", or one like it"
        facts = {"job": f"{event.cluster}.{event.proc}", "user": match.facts.get("user", ""), "like": alike_text}
        self.narrate(position, event, "log_slot_matched", preempted=preempted_submitter(match.facts), **facts)
        number, step = self.steps.popitem()
        self.steps = {number: step, **self.steps}

    def answer(self, advice: str = "") -> Explanation:
        """Return the answer; `advice` replaces the advice for the slot's state and activity."""
        chain = list(self.steps.values())
        since = self.since or chain[-1]
        head = self._head(since)
        chosen = {step.stimulus for step in chain if step.code == "drain_chosen"}
        steps = [step for step in chain if step.code not in ("row 36", "row 37") or step.stimulus not in chosen]
        steps = [since, *explaining_steps(steps, since)]
        if self.parts and not self.is_gone:
            parts_text = counted(len(self.parts), "dynamic slot has", "dynamic slots have")
            left = ", ".join(f"{name} {text}" for name, text in self.left.items())
            steps.insert(1, since.restate("dynamic_slots", {"parts": parts_text, "left": left}))
        if not self.is_gone:
            steps[1:1] = self.defects
        if self.poll is not None and self.kind == "partitionable" and not self.is_gone:
            steps += self._poll_sentences(*self.poll)
        advice_facts = {"slot": self.name, "machine": self.machine, "job": self.job, "resource": self._missing()}
        advice_facts |= {"until": instant(self.last, self.zone), "thing": self.name} if advice else {}
        sentences = advise(advice or self._advice(since), head, **advice_facts)
        return answer(head, steps, sentences, self._shortened([*chain, *self.last_change]))

    def _missing(self) -> str:
        """Return a resource of which a partitionable slot has nothing left; empty if there is none."""
        return next((name for name, text in self.left.items() if self.parts and float(text) <= 0), "")

    def _advice(self, since: Sentence) -> str:
        is_open = self.pair == "Unclaimed/Idle"
        reasons = (
            (self.is_gone, "see_status"),
            (self.is_broken, "fix_broken_slot"),
            (since.cause == "suspend_command", "continue_slot"),
            (is_open and bool(self.closed), "see_slot_log"),
            (is_open and bool(self._missing()), "wait_for_part"),
        )
        return next((code for applies, code in reasons if applies), _ADVICE.get(self.pair, "see_slot_log"))

    def _head(self, since: Sentence) -> Sentence:
        is_over = self.is_gone or self.pair == DELETED
        is_held = self.holder and not self.job and state(self.pair or INITIAL_PAIR) in ("Claimed", "Preempting")
        code = "slot_gone" if is_over else "slot_unknown" if not self.pair else "slot_is_held" if is_held else "slot_is"
        facts = {"slot": self.name, "pair": self.pair, "since": instant(since.at, self.zone)}
        facts |= {"runs": self.job, "holder": self.holder}
        return since.restate(code, facts)

    def _shortened(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """Return the sentences in order of time, without the middle ones if they are too many."""
        most = MOST
        if self.places is not None:  # the records of an import are not in order of time
            most, sentences = MOST_IMPORTED, sorted(sentences, key=lambda sentence: sentence.at // SECOND)
        if len(sentences) <= most:
            return list(sentences)
        omission = sentences[BEGINNING - most].restate("omitted", {"slot": self.name})
        return [*sentences[:BEGINNING], omission, *sentences[BEGINNING - most :]]

    def _poll_sentences(self, position: int, poll: e.DefragPolled) -> list[Sentence]:
        """Return a sentence about the defragmentation's last poll, unless it chose the slot's machine."""
        choices: list[e.DefragDrain | e.DefragCancel] = [*poll.drains, *poll.cancels]
        if self.machine in {choice.machine for choice in choices if not choice.refused}:
            return []
        done_text = "" if poll.stopped else shorten_text(defrag_words.poll_result(poll), 60)
        facts = {"seen": defrag_words.poll_sentence(poll), "done": done_text, "at": instant(poll.at, self.zone)}
        return [Sentence(poll.at, position, "not_chosen", facts, poll.cause, poll.stimulus)]


def _in_causal_order(events: list[e.LoggedEvent]) -> Iterator[e.LoggedEvent]:
    """Yield records in chronological order. Within a second, an access point's release precedes the transition that it
    causes, or follows all records of the startd."""
    events_in_order = sorted(events, key=lambda record: (record[1].at, record[0]))
    for _, same_second in groupby(events_in_order, lambda record: record[1].at // SECOND):
        given_back: list[e.LoggedEvent] = []
        other_events: list[e.LoggedEvent] = []
        for position, event in same_second:
            is_release = isinstance(event, e.SlotReported) and event.said == "released"
            (given_back if is_release else other_events).append((position, event))
        releases = (
            number for number, (_, event) in enumerate(other_events) if _RELEASED in getattr(event, "reason", "")
        )
        at = next(releases, len(other_events))
        yield from (*other_events[:at], *given_back, *other_events[at:])


_OFFLINE_REASON = re.compile("Offline.*Reason")
_EXPLAINING_ROWS = frozenset(name.partition(" ")[0] for name in EXPLAINS | UNDOES.keys())


def may_explain(event: e.Event) -> bool:
    """Return True for an event of a slot that may explain a later state, or undoes such an explanation."""
    return is_defect(event) or (isinstance(event, e.SlotTransitioned) and event.row in _EXPLAINING_ROWS)


def is_defect(event: e.Event) -> bool:
    """Return True if an event reports devices of a slot that cannot be used."""
    return isinstance(event, e.SlotAdChanged) and any(map(_OFFLINE_REASON.fullmatch, event.changes))


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
"""A state and activity -> the code of the advice."""


def claimant(event: e.ClaimMade | e.ClaimQueued) -> str:
    """Return the submitter and holder of a claim, and the job if it does not start immediately."""
    holder_text = f" of {event.holder}" if event.holder else ""
    return f"{event.submitter}{holder_text}, for job {event.job}," if event.job else event.submitter


def _with_cause(code: str, *fields: str) -> Callable[[SlotLife, int, Any], None]:
    """Return a function that adds a sentence with some fields of an event and its cause."""

    def add_step(life: SlotLife, position: int, event: Any) -> None:
        facts = {name: getattr(event, name) for name in fields}
        life.narrate(position, event, code, **facts, why=life.cause_text(event))

    return add_step


_READERS: dict[type[e.Event], Callable[[SlotLife, int, Any], None]] = handlers_of(SlotLife) | {
    e.MatchVoided: _with_cause("slot_match_void", "job"),
    e.ClaimWithdrawn: _with_cause("claim_waits_no_more"),
    e.ClaimRequested: _with_cause("claim_requested", "job", "submitter"),
    e.ClaimGranted: _with_cause("claim_granted", "holder"),
    e.ClaimRejected: _with_cause("claim_rejected", "holder", "reason"),
    e.MatchNotified: _with_cause("match_notified"),
    e.ClaimCommanded: _with_cause("claim_commanded", "command"),
    e.MatchTaken: _with_cause("match_taken", "job"),
    e.ClaimJobEdited: _with_cause("claim_job_edited", "job", "changes"),
    e.BackfillSignalled: _with_cause("client_killed"),
    e.BackfillLeaving: _with_cause("leaves_for", "destination"),
}
SLOT_KINDS = frozenset(_READERS)  #: the kinds of events that add to a slot's life
