"""Read the StartLog: slots' transitions, claims and starters, and the startd's start and exit.

A line about a slot starts with the slot's name, ``slot1_1: `` or, with its job, ``slot1_1[12.0]: ``. The slot's full
name also contains the machine after an ``@``. The log names the machine as the alias in the startd's address.
docs/import.md explains the lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from attrs import Factory, define

from ...domain.events import Ad, DaemonReported, Event, SlotCreated, SlotDestroyed, SlotReported, SlotTransitioned
from ...domain.names import SlotName
from ...domain.state_machines import DELETED, HTCONDOR_25, INITIAL_PAIR, classify
from .daemon_log import DAEMON_LIFE_MESSAGES, DaemonLog, LogMessage, MessageRows, rules_by_first_word
from .daemon_log_lines import GAP
from .source_reader import SourceFile, State, without_secrets
from .startlog_transitions import CHANGES, TRANSITIONS, transition_of

_SOURCE_FILE = re.compile(r"\s*:?\s*\S+\.(?:cpp|cc|C|h)\(\d+\)")


@lru_cache(1_000)
def reason_of(text: str) -> str:
    """Return the reason for a transition in a line. It is cached, because most lines contain one of a few reasons."""
    return without_secrets(_SOURCE_FILE.sub(":", text.removeprefix("State change:").strip()))


REMARKS = (
    "Evicting job ",
    "max vacate time expired",
    "starter (pid ",
    "Machine Requirements check ",
    "activate_claim refused",
    "Claim lease expired",
)
"""Beginnings of messages that describe a slot without changing its state."""
MACHINE_MESSAGES = (
    "shutdown fast",
    "shutdown graceful",
    "Initiating graceful draining",
    "Initiating quick draining",
    "Initiating fast draining",
    "State change: received VACATE_ALL",
    "command_coalesce_slots(): coalescing slots",
    "command_coalesce_slots(): creating coalesced slot",
)
"""Beginnings of messages about the whole machine that can be the reason for its slots' transitions."""
EVICTION_PAIRS: Final = ("Claimed/Retiring", "Preempting/", "Owner/")
"""The state/activity pairs, or their beginnings, that a slot enters because of a message about the machine."""
CAUSE: Final = "reported"
MAX_REASONS: Final = 8  #: the maximum number of recent reasons that are remembered for the next transition
UNREADABLE_TRANSITION: Final = "a transition that cannot be read"
MACHINE_REASON_US: Final = 1_000_000  #: how long a message about the machine can be the reason for a later transition

_STEP = re.compile(r"(?:Changing|Reverting) ([a-z ]+): (\S+) -> (\S+)$")
_SLOT_MESSAGE = re.compile(r"([^\s:\[]+)(?:\[([^\]\s]*)\])?: (\s*\S+)(.*)", re.DOTALL)
_NEW_SLOT = re.compile(r"New (?:broken |backfill )*([dp]?)[Ss]lot|New machine resource")
_AMOUNT = re.compile(r"(\w+): (\d+(?:\.\d+)?)(?=,|\s|$)")
_ALIAS = re.compile(r"[?&]alias=([^&>\s]+)")
_CLAIM = re.compile(r"(<[^>]*>#\d+#\d+)")
_KIND_BY_LETTER: Final = {"": "static", "p": "partitionable", "d": "dynamic"}
_TYPES: Final = {"static": "Static", "partitionable": "Partitionable", "dynamic": "Dynamic"}
_ATTRIBUTE_NAMES: Final = {"Swap": "VirtualMemory"}
STARTD_MESSAGES: MessageRows = (
    (r'ERROR "(?P<words>.*)', "_on_error"),
    (r"DaemonCore: .*command socket at.*", "_on_address"),
    (r"Starter pid (?P<starter>\d+) (?:exited with status (?P<status>-?\d+)|died on signal (?P<signal>-?\d+)).*",
     "_on_starter_exit"),
)  # fmt: skip


@define
class _LoggedSlot:
    """What the log has shown about a slot. ``pair`` is its state and activity, "" if unknown. ``reasons`` are the
    messages (line, microseconds, text) that can explain its next transition. ``schedd`` is the address of the schedd
    that is requesting it."""

    name: str
    pair: str = ""
    reasons: list[tuple[str, int, str]] = Factory(list)
    job: str = ""
    schedd: str = ""


class _StartdBanner(NamedTuple):
    """The lines that a starting startd has written so far about its version and pid."""

    place: str
    at: int
    facts: dict[str, str]


class _NewSlot(NamedTuple):
    """A new slot. Its event waits for the next line, which lists the slot's resources."""

    place: str
    at: int
    slot: str
    kind: str


class StartLogReader(DaemonLog):
    """Reads StartLogs. Rejects a line about a transition if the states or activities in it are unreadable."""

    PATTERNS = rules_by_first_word(DAEMON_LIFE_MESSAGES, STARTD_MESSAGES)
    DAEMON = "startd"

    def __init__(self, source: SourceFile, state: State | None, line: int) -> None:
        super().__init__(source, state, line)
        state = state or {}
        self.machine = str(state.get("machine", source.machine))
        self._since_start = bool(state.get("fresh", False))  #: whether everything since this startd's start was read
        self._slots = {
            name: _LoggedSlot(full_name, pair, [tuple(reason) for reason in reasons], job, schedd)
            for name, (full_name, pair, reasons, job, schedd) in state.get("slots", {}).items()
        }
        self._starters: dict[str, str] = dict(state.get("starters", {}))
        self._machine_reason: tuple[int, str] = tuple(state.get("general", (0, "")))
        exit_facts = {"how": state.get("how"), "parent": state.get("orphaned")}
        self._remembered = {name: text for name, text in exit_facts.items() if text}
        self._startd_banner = _StartdBanner(**state["begun"]) if "begun" in state else None
        self._pending_slot = _NewSlot(**state["birth"]) if "birth" in state else None
        self._known_steps: dict[str, tuple[str, str, str]] = {}
        """For each message about a transition that was read before: what changes, from, to. Other messages are not
        cached, so the dict stays small."""
        self._line, self._line_time = 0, 0

    def state(self) -> State:
        state: State = {
            "lines": self._lines.state(),
            "machine": self.machine,
            "fresh": self._since_start,
            "slots": {
                name: [slot.name, slot.pair, [list(reason) for reason in slot.reasons], slot.job, slot.schedd]
                for name, slot in self._slots.items()
            },
            "starters": self._starters,
            "general": list(self._machine_reason),
            "how": self._remembered.get("how", ""),
            "orphaned": self._remembered.get("parent", ""),
        }
        if self._startd_banner is not None:
            state["begun"] = self._startd_banner._asdict()
        if self._pending_slot is not None:
            state["birth"] = self._pending_slot._asdict()
        return state

    def read(self, data: bytes) -> tuple[list[Event], int]:
        events: list[Event] = []
        self._events = events
        slots, slot_moves = self._slots, self._known_steps
        for line, at, text in self._lines.split(data, events):
            self._line, self._line_time = line, at
            name, _, message = text.partition(": ")
            slot = slots.get(name)
            if slot is None or self._startd_banner is not None or self._pending_slot is not None:
                self._dispatch(text)
            # Most lines are about a known slot and contain a known message.
            elif (move_words := slot_moves.get(message)) is not None:
                self._transition(slot, move_words, text)
            elif (handler := _SLOT_HANDLERS.get(message.partition(" ")[0])) is not None:
                handler(self, name, "", message)
        self.line = self._lines.line
        return events, self._lines.consumed

    def _dispatch(self, text: str) -> None:
        if match := _SLOT_MESSAGE.match(text):
            handler = _SLOT_HANDLERS.get(match[3])
            if handler is not None:
                handler(self, match[1], match[2] or "", match[3] + match[4])
                return
        if text.startswith(MACHINE_MESSAGES):  # can be the reason for its slots' transitions
            self._machine_reason = (self._line_time, text.removeprefix("State change: ").rstrip("."))
        elif text == GAP:
            for slot in self._slots.values():
                slot.reasons.clear()
            gap = self._events.pop()
            self._forget_state()
            self._events.append(gap)
        else:
            self._handle_message(self._line, self._line_time, text.strip(), text.partition(" ")[0])

    def _place(self) -> str:
        return self.source.location_of_line(self._line)

    def _report_waiting(self) -> None:
        """Report a startd's start or a new slot whose next line was awaited but is missing."""
        if self._startd_banner is not None:
            begun, self._startd_banner = self._startd_banner, None
            facts = dict(begun.facts)
            self._events.append(DaemonReported(begun.at, CAUSE, begun.place, self.machine, self.DAEMON, "began", facts))
        if self._pending_slot is not None:
            self._report_new_slot({})

    def _slot_named(self, name: str) -> _LoggedSlot:
        """Return the slot with this name in the log. The initial state of a slot is known (Owner/Idle) only if the log
        was read since the startd's start."""
        self._report_waiting()
        if name not in self._slots:
            self._add(name, INITIAL_PAIR if self._since_start else "")
        return self._slots[name]

    def _add(self, name: str, pair: str) -> None:
        self._slots[name] = _LoggedSlot(name if "@" in name else f"{name}@{self.machine}", pair)

    def _transition_reason(self, slot: _LoggedSlot, at: int, target: str) -> str:
        """Return the reason for a transition: the preceding messages about the slot, then the one about the machine."""
        reasons, times = [text for _, _, text in slot.reasons], [at for _, at, _ in slot.reasons]
        since, machine_reason = self._machine_reason
        if not 0 <= at - since <= MACHINE_REASON_US:
            self._machine_reason = (0, "")
        elif max(times, default=0) < since and (
            target.startswith(EVICTION_PAIRS) or machine_reason.startswith("command_coalesce_slots")
        ):
            reasons.append(machine_reason)
        slot.reasons = []
        return " / ".join(reasons)

    def _report(self, slot: _LoggedSlot, report_name: str, facts: dict[str, str]) -> None:
        cleaned_facts = {name: without_secrets(value) for name, value in facts.items() if value}
        self._events.append(SlotReported(self._line_time, CAUSE, self._place(), slot.name, report_name, cleaned_facts))

    def _forget_state(self) -> None:
        """Forget the slots, because they may have changed. Report messages that no transition followed."""
        self._report_waiting()
        for slot in self._slots.values():
            for place, at, reason in slot.reasons:
                self._events.append(SlotReported(at, CAUSE, place, slot.name, "told", {"words": reason}))
        self._slots.clear()
        self._starters.clear()
        self._machine_reason = (0, "")
        self._remembered, self._since_start = {}, False

    def on_step(self, name: str, job: str, text: str) -> None:
        step = _STEP.match(text)
        if step is None or step[1] not in CHANGES:
            if text.startswith(("Changing state", "Changing activity", "Reverting state", "Reverting activity")):
                self._reject(f"{name}: {text}")
            return
        slot, move_words = self._slot_named(name), (step[1], step[2], step[3])
        pair = slot.pair
        self._transition(slot, move_words, f"{name}: {text}")
        if (pair, *move_words) in TRANSITIONS:
            self._known_steps[text] = move_words

    def _transition(self, slot: _LoggedSlot, move_words: tuple[str, str, str], text: str) -> None:
        steps = TRANSITIONS.get((slot.pair, *move_words)) or transition_of(slot.pair, *move_words)
        if steps is None:
            self._reject(text)
            return
        source, target, row, slot.pair = steps
        reason = (
            self._transition_reason(slot, self._line_time, target) if slot.reasons or self._machine_reason[0] else ""
        )
        self._events.append(
            SlotTransitioned(self._line_time, CAUSE, self._place(), slot.name, row, source, target, reason)
        )

    def _reject(self, text: str) -> None:
        self._events.append(self.source.refused(self._line, UNREADABLE_TRANSITION, text, self._line_time))

    def on_reason(self, name: str, job: str, text: str) -> None:
        reason = reason_of(text)
        slot = self._slot_named(name)
        slot.reasons.append((self._place(), self._line_time, reason))
        del slot.reasons[:-MAX_REASONS]
        if reason.startswith("claim-activation protocol successful"):
            starter = reason.rpartition("Starter ")[2]
            if not starter.isdecimal():
                starter = ""
            else:
                self._starters[starter] = name
            self._report(slot, "activated", {"job": slot.job, "starter": starter})

    def on_deactivation(self, name: str, job: str, text: str) -> None:
        if text.startswith("Called deactivate_claim"):
            self.on_reason(name, job, text)

    def on_activation_request(self, name: str, job: str, text: str) -> None:
        if text.startswith("Got activate_claim request"):
            self._slot_named(name).job = ""
            self.on_reason(name, job, text)
        elif text.startswith("Got activate claim while"):
            self._report(self._slot_named(name), "told", {"words": text})

    def on_remote_job_or_owner(self, name: str, job: str, text: str) -> None:
        slot = self._slot_named(name)
        if text.startswith("Remote job ID is "):
            slot.job = text.removeprefix("Remote job ID is ").strip()
        elif text.startswith("Remote owner is "):
            self._report(slot, "owner", {"user": text.removeprefix("Remote owner is ").strip()})

    def on_requested(self, name: str, job: str, text: str) -> None:
        slot = self._slot_named(name)
        if text.startswith("Schedd addr = "):
            slot.schedd = text.removeprefix("Schedd addr = ").strip()
        elif match := _CLAIM.search(text):
            self._report(slot, "requested", {"claim": match[1], "schedd": slot.schedd})
            slot.schedd = ""

    def on_received(self, name: str, job: str, text: str) -> None:
        if text.startswith("Received ClaimId from schedd"):
            self.on_requested(name, job, text)
        elif text.startswith("Received final job ClassAd update"):
            slot = self._slot_named(name)
            self._report(slot, "job_over", {"job": job or slot.job})

    def on_claim_answer(self, name: str, job: str, text: str) -> None:
        if text.startswith("Request accepted"):
            self._report(self._slot_named(name), "accepted", {})
        elif "refus" in text or text.startswith(("Refusing", "Claiming protocol failed")):
            self._report(self._slot_named(name), "refused", {"words": text})

    def on_remark(self, name: str, job: str, text: str) -> None:
        if text.startswith(REMARKS):
            self._report(self._slot_named(name), "told", {"job": job, "words": text})

    def on_new(self, name: str, job: str, text: str) -> None:
        if text.startswith("New claim has sufficient rank"):
            self._report(self._slot_named(name), "accepted", {})
        match = _NEW_SLOT.match(text)
        if match is None:
            return
        self._report_waiting()
        kind = _KIND_BY_LETTER[match[1] or ""]
        if kind == "static" and re.search(r"\d_\d+$", name):
            kind = "dynamic"
        self._slots.pop(name, None)
        self._add(name, INITIAL_PAIR)
        self._pending_slot = _NewSlot(self._place(), self._line_time, name, kind)

    def on_resources(self, name: str, job: str, text: str) -> None:
        if self._pending_slot is not None and self._pending_slot.slot == name:
            self._report_new_slot(
                {
                    _ATTRIBUTE_NAMES.get(what, what): _without_trailing_zeros(value)
                    for what, value in _AMOUNT.findall(text)
                }
            )

    def _report_new_slot(self, resources: Ad) -> None:
        birth, self._pending_slot = self._pending_slot, None
        assert birth is not None
        full = self._slots[birth.slot].name
        parent = str(SlotName.parse(full).parent) if birth.kind == "dynamic" else ""
        ad = {"Name": f'"{full}"', "Machine": f'"{self.machine}"', "SlotType": f'"{_TYPES[birth.kind]}"'} | resources
        self._events.append(SlotCreated(birth.at, CAUSE, birth.place, full, self.machine, birth.kind, parent, ad))

    def on_deletion(self, name: str, job: str, text: str) -> None:
        if "no longer needed" not in text:
            return
        slot = self._slot_named(name)
        source, place = slot.pair or "Unclaimed/Idle", self._place()
        if source != DELETED:
            rows = classify(HTCONDOR_25, source, DELETED)
            reason = self._transition_reason(slot, self._line_time, DELETED)
            row = rows[0].number if rows else ""
            self._events.append(
                SlotTransitioned(self._line_time, CAUSE, place, slot.name, row, source, DELETED, reason)
            )
        self._events.append(SlotDestroyed(self._line_time, CAUSE, place, slot.name))
        del self._slots[name]

    def _on_startup(self, message: LogMessage) -> None:
        self._forget_state()
        self._startd_banner, self._since_start = _StartdBanner(self._place(), message.at, {}), True

    def _on_version(self, message: LogMessage) -> None:
        if self._startd_banner is not None:
            self._startd_banner.facts.update(message.facts())

    _on_pid = _on_version

    def _on_address(self, message: LogMessage) -> None:
        if match := _ALIAS.search(message.match[0]):
            self.machine = match[1]
        if self._startd_banner is not None:
            self._report_waiting()

    def _on_error(self, message: LogMessage) -> None:
        self._forget_state()
        self._report_daemon(message, "ended", {"how": without_secrets(message.match[0])})

    def _on_reconfig(self, message: LogMessage) -> None:
        self._report_waiting()
        super()._on_reconfig(message)

    def _on_starter_exit(self, message: LogMessage) -> None:
        name = self._starters.pop(message["starter"], "")
        if name in self._slots:
            slot, status = self._slot_named(name), message["status"] or f"signal {message['signal']}"
            self._report(slot, "starter_gone", {"starter": message["starter"], "status": status, "job": slot.job})


_SLOT_HANDLERS: Final[Mapping[str, Callable[[StartLogReader, str, str, str], None]]] = {
    "Changing": StartLogReader.on_step,
    "Reverting": StartLogReader.on_step,
    "State": StartLogReader.on_reason,
    "Called": StartLogReader.on_deactivation,
    "Got": StartLogReader.on_activation_request,
    "Remote": StartLogReader.on_remote_job_or_owner,
    "Schedd": StartLogReader.on_requested,
    "Received": StartLogReader.on_received,
    "Request": StartLogReader.on_claim_answer,
    "Refusing": StartLogReader.on_claim_answer,
    "Claiming": StartLogReader.on_claim_answer,
    "Preempting": StartLogReader.on_claim_answer,
    "New": StartLogReader.on_new,
    "\tCpus:": StartLogReader.on_resources,
    "Slot": StartLogReader.on_deletion,
} | {words.split(" ")[0]: StartLogReader.on_remark for words in REMARKS}


def _without_trailing_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
