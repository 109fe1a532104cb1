"""Read the StartLog: slots' transitions, claims and starters, and the startd's start and exit.

The lines of a slot start with its name, ``slot1_1: `` or, with its job, ``slot1_1[12.0]: ``. The full name also
contains the machine after an ``@``; the log shows it as the alias of the startd's address. docs/import.md explains the
lines.
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
from .daemon_log import DAEMON_LIFE, DaemonLog, LogMessage, Rows, table
from .daemon_log_lines import GAP
from .source_reader import SourceFile, State, without_secrets
from .startlog_transitions import CHANGES, TRANSITIONS, transition_of

# Recognize StartLog lines that contain the reason for a transition, or describe a slot without changing it.

_SOURCE_FILE = re.compile(r"\s*:?\s*\S+\.(?:cpp|cc|C|h)\(\d+\)")


@lru_cache(1_000)
def reason_of(text: str) -> str:
    """Return the reason in a line. The result is cached, since most lines contain one of a few reasons."""
    return without_secrets(_SOURCE_FILE.sub(":", text.removeprefix("State change:").strip()))


REMARKS = (
    "Evicting job ",
    "max vacate time expired",
    "starter (pid ",
    "Machine Requirements check ",
    "activate_claim refused",
    "Claim lease expired",
)


OF_THE_MACHINE = (
    "shutdown fast",
    "shutdown graceful",
    "Initiating graceful draining",
    "Initiating quick draining",
    "Initiating fast draining",
    "State change: received VACATE_ALL",
    "command_coalesce_slots(): coalescing slots",
    "command_coalesce_slots(): creating coalesced slot",
)


LEAVING: Final = ("Claimed/Retiring", "Preempting/", "Owner/")


CAUSE: Final = "reported"
REASONS: Final = 8  #: the maximum number of recent reasons that are remembered for the next transition
UNREADABLE: Final = "a transition that cannot be read"
GENERAL: Final = 1_000_000  #: for this many microseconds, a message about the machine is the reason for its transitions

_STEP = re.compile(r"(?:Changing|Reverting) ([a-z ]+): (\S+) -> (\S+)$")
_OF_SLOT = re.compile(r"([^\s:\[]+)(?:\[([^\]\s]*)\])?: (\s*\S+)(.*)", re.DOTALL)
_NEW = re.compile(r"New (?:broken |backfill )*([dp]?)[Ss]lot|New machine resource")
_AMOUNT = re.compile(r"(\w+): (\d+(?:\.\d+)?)(?=,|\s|$)")
_ALIAS = re.compile(r"[?&]alias=([^&>\s]+)")
_CLAIM = re.compile(r"(<[^>]*>#\d+#\d+)")
_KINDS: Final = {"": "static", "p": "partitionable", "d": "dynamic"}
_TYPES: Final = {"static": "Static", "partitionable": "Partitionable", "dynamic": "Dynamic"}
_NAMED: Final = {"Swap": "VirtualMemory"}
STARTD: Rows = (
    (r'ERROR "(?P<words>.*)', "_failed"),
    (r"DaemonCore: .*command socket at.*", "_address"),
    (r"Starter pid (?P<starter>\d+) (?:exited with status (?P<status>-?\d+)|died on signal (?P<signal>-?\d+)).*",
     "_starter_gone"),
)  # fmt: skip


@define
class _LoggedSlot:
    """The known state of a slot. ``pair`` is "" if unknown; ``reasons`` (line, time, text) belong to the next
    transition; ``schedd`` requests it."""

    name: str
    pair: str = ""
    reasons: list[tuple[str, int, str]] = Factory(list)
    job: str = ""
    schedd: str = ""


class _StartdBanner(NamedTuple):
    """The banner of a starting startd, as far as it was read."""

    place: str
    at: int
    facts: dict[str, str]


class _NewSlot(NamedTuple):
    """A new slot whose line of resources has not been read yet."""

    place: str
    at: int
    slot: str
    kind: str


class StartLogReader(DaemonLog):
    """Reads StartLogs. Rejects a line about a transition from which the source and target cannot be read."""

    PATTERNS = table(DAEMON_LIFE, STARTD)
    DAEMON = "startd"

    def __init__(self, source: SourceFile, state: State | None, line: int) -> None:
        super().__init__(source, state, line)
        state = state or {}
        self.machine = str(state.get("machine", source.machine))
        self._fresh = bool(state.get("fresh", False))  #: whether everything since this startd's start was read
        self._slots = {
            name: _LoggedSlot(full_name, pair, [tuple(reason) for reason in reasons], job, schedd)
            for name, (full_name, pair, reasons, job, schedd) in state.get("slots", {}).items()
        }
        self._starters: dict[str, str] = dict(state.get("starters", {}))
        self._general: tuple[int, str] = tuple(state.get("general", (0, "")))
        exit_facts = {"how": state.get("how"), "parent": state.get("orphaned")}
        self._remembered = {name: text for name, text in exit_facts.items() if text}
        self._begun = _StartdBanner(**state["begun"]) if "begun" in state else None
        self._birth = _NewSlot(**state["birth"]) if "birth" in state else None
        self._moves: dict[str, tuple[str, str, str]] = {}
        """Message -> what changes, from, to. It contains only words in the table, so its size is limited."""
        self._line, self._at = 0, 0

    def state(self) -> State:
        state: State = {
            "lines": self._lines.state(),
            "machine": self.machine,
            "fresh": self._fresh,
            "slots": {
                name: [slot.name, slot.pair, [list(reason) for reason in slot.reasons], slot.job, slot.schedd]
                for name, slot in self._slots.items()
            },
            "starters": self._starters,
            "general": list(self._general),
            "how": self._remembered.get("how", ""),
            "orphaned": self._remembered.get("parent", ""),
        }
        if self._begun is not None:
            state["begun"] = self._begun._asdict()
        if self._birth is not None:
            state["birth"] = self._birth._asdict()
        return state

    def read(self, data: bytes) -> tuple[list[Event], int]:
        events: list[Event] = []
        self._events = events
        slots, slot_moves = self._slots, self._moves
        for line, at, text in self._lines.split(data, events):
            name, _, message = text.partition(": ")
            slot = slots.get(name)
            if slot is None or self._begun is not None or self._birth is not None:
                self._line, self._at = line, at
                self._dispatch(text)
                continue
            # Most lines are about a known slot and contain a known message.
            move_words = slot_moves.get(message)
            if move_words is None:
                handler = _ON_SLOT.get(message.partition(" ")[0])
                if handler is not None:
                    self._line, self._at = line, at
                    if handler is StartLogReader.on_step:
                        self._dispatch(text)
                    else:
                        handler(self, name, "", message)
                continue
            self._line, self._at = line, at
            self._transition(slot, move_words, text)
        self.line = self._lines.line
        return events, self._lines.consumed

    def _dispatch(self, text: str) -> None:
        if match := _OF_SLOT.match(text):
            handler = _ON_SLOT.get(match[3])
            if handler is not None:
                handler(self, match[1], match[2] or "", match[3] + match[4])
                return
        if text.startswith(OF_THE_MACHINE):  # the reason for transitions of its slots
            self._general = (self._at, text.removeprefix("State change: ").rstrip("."))
        elif text == GAP:
            self._gap()
        else:
            self._take(self._line, self._at, text.strip(), text.partition(" ")[0])

    # -- State

    def _place(self) -> str:
        return self.source.place(self._line)

    def _settle(self) -> None:
        """Report a start or a new slot that was waiting for lines that were not written."""
        if self._begun is not None:
            begun, self._begun = self._begun, None
            facts = dict(begun.facts)
            self._events.append(DaemonReported(begun.at, CAUSE, begun.place, self.machine, self.DAEMON, "began", facts))
        if self._birth is not None:
            self._born({})

    def _slot(self, name: str) -> _LoggedSlot:
        """Return the slot with this name in the log; a new slot is in Owner/Idle if the startd's start was read."""
        self._settle()
        if name not in self._slots:
            self._add(name, INITIAL_PAIR if self._fresh else "")
        return self._slots[name]

    def _add(self, name: str, pair: str) -> None:
        self._slots[name] = _LoggedSlot(name if "@" in name else f"{name}@{self.machine}", pair)

    def _reason(self, slot: _LoggedSlot, at: int, target: str) -> str:
        """Return the reason for a transition: the messages before it about the slot and then about the whole
        machine."""
        last_at = max((at for _, at, _ in slot.reasons), default=0)
        reasons, slot.reasons = [general_reason for _, _, general_reason in slot.reasons], []
        since, general_reason = self._general
        if not 0 <= at - since <= GENERAL:
            self._general = (0, "")
        elif last_at < since and (target.startswith(LEAVING) or general_reason.startswith("command_coalesce_slots")):
            reasons.append(general_reason)
        return " / ".join(reasons)

    def _report(self, slot: _LoggedSlot, report_name: str, facts: dict[str, str]) -> None:
        cleaned_facts = {name: without_secrets(value) for name, value in facts.items() if value}
        self._events.append(SlotReported(self._at, CAUSE, self._place(), slot.name, report_name, cleaned_facts))

    def _forget(self) -> None:
        """Forget the slots, since they may have changed. Report reasons that no transition followed."""
        self._settle()
        for slot in self._slots.values():
            for place, at, reason in slot.reasons:
                self._events.append(SlotReported(at, CAUSE, place, slot.name, "told", {"words": reason}))
        self._slots.clear()
        self._starters.clear()
        self._general = (0, "")
        self._remembered, self._fresh = {}, False

    # -- Slots

    def on_step(self, name: str, job: str, text: str) -> None:
        step = _STEP.match(text)
        if step is None or step[1] not in CHANGES:
            if text.startswith(("Changing state", "Changing activity", "Reverting state", "Reverting activity")):
                self._refuse(f"{name}: {text}")
            return
        slot, move_words = self._slot(name), (step[1], step[2], step[3])
        pair = slot.pair
        self._transition(slot, move_words, f"{name}: {text}")
        if (pair, *move_words) in TRANSITIONS:
            self._moves[text] = move_words

    def _transition(self, slot: _LoggedSlot, move_words: tuple[str, str, str], text: str) -> None:
        steps = TRANSITIONS.get((slot.pair, *move_words)) or transition_of(slot.pair, *move_words)
        if steps is None:
            self._refuse(text)
            return
        source, target, row, slot.pair = steps
        reason = self._reason(slot, self._at, target) if slot.reasons or self._general[0] else ""
        self._events.append(SlotTransitioned(self._at, CAUSE, self._place(), slot.name, row, source, target, reason))

    def _refuse(self, text: str) -> None:
        self._events.append(self.source.refused(self._line, UNREADABLE, text, self._at))

    def on_reason(self, name: str, job: str, text: str) -> None:
        reason = reason_of(text)
        slot = self._slot(name)
        slot.reasons.append((self._place(), self._at, reason))
        del slot.reasons[:-REASONS]
        if reason.startswith("claim-activation protocol successful"):
            starter = reason.rpartition("Starter ")[2]
            if not starter.isdecimal():
                starter = ""
            else:
                self._starters[starter] = name
            self._report(slot, "activated", {"job": slot.job, "starter": starter})

    def on_called(self, name: str, job: str, text: str) -> None:
        if text.startswith("Called deactivate_claim"):
            self.on_reason(name, job, text)

    def on_got(self, name: str, job: str, text: str) -> None:
        if text.startswith("Got activate_claim request"):
            self._slot(name).job = ""
            self.on_reason(name, job, text)
        elif text.startswith("Got activate claim while"):
            self._report(self._slot(name), "told", {"words": text})

    def on_remote(self, name: str, job: str, text: str) -> None:
        slot = self._slot(name)
        if text.startswith("Remote job ID is "):
            slot.job = text.removeprefix("Remote job ID is ").strip()
        elif text.startswith("Remote owner is "):
            self._report(slot, "owner", {"user": text.removeprefix("Remote owner is ").strip()})

    def on_requested(self, name: str, job: str, text: str) -> None:
        slot = self._slot(name)
        if text.startswith("Schedd addr = "):
            slot.schedd = text.removeprefix("Schedd addr = ").strip()
        elif match := _CLAIM.search(text):
            self._report(slot, "requested", {"claim": match[1], "schedd": slot.schedd})
            slot.schedd = ""

    def on_received(self, name: str, job: str, text: str) -> None:
        if text.startswith("Received ClaimId from schedd"):
            self.on_requested(name, job, text)
        elif text.startswith("Received final job ClassAd update"):
            slot = self._slot(name)
            self._report(slot, "job_over", {"job": job or slot.job})

    def on_answered(self, name: str, job: str, text: str) -> None:
        if text.startswith("Request accepted"):
            self._report(self._slot(name), "accepted", {})
        elif "refus" in text or text.startswith(("Refusing", "Claiming protocol failed")):
            self._report(self._slot(name), "refused", {"words": text})

    def on_told(self, name: str, job: str, text: str) -> None:
        if text.startswith(REMARKS):
            self._report(self._slot(name), "told", {"job": job, "words": text})

    def on_new(self, name: str, job: str, text: str) -> None:
        if text.startswith("New claim has sufficient rank"):
            self._report(self._slot(name), "accepted", {})
        match = _NEW.match(text)
        if match is None:
            return
        self._settle()
        kind = _KINDS[match[1] or ""]
        if kind == "static" and re.search(r"\d_\d+$", name):
            kind = "dynamic"
        self._slots.pop(name, None)
        self._add(name, INITIAL_PAIR)
        self._birth = _NewSlot(self._place(), self._at, name, kind)

    def on_resources(self, name: str, job: str, text: str) -> None:
        if self._birth is not None and self._birth.slot == name:
            self._born({_NAMED.get(what, what): _number(value) for what, value in _AMOUNT.findall(text)})

    def _born(self, resources: Ad) -> None:
        birth, self._birth = self._birth, None
        assert birth is not None
        full = self._slots[birth.slot].name
        parent = str(SlotName.parse(full).parent) if birth.kind == "dynamic" else ""
        ad = {"Name": f'"{full}"', "Machine": f'"{self.machine}"', "SlotType": f'"{_TYPES[birth.kind]}"'} | resources
        self._events.append(SlotCreated(birth.at, CAUSE, birth.place, full, self.machine, birth.kind, parent, ad))

    def on_death(self, name: str, job: str, text: str) -> None:
        if "no longer needed" not in text:
            return
        slot = self._slot(name)
        source, place = slot.pair or "Unclaimed/Idle", self._place()
        if source != DELETED:
            rows = classify(HTCONDOR_25, source, DELETED)
            reason = self._reason(slot, self._at, DELETED)
            row = rows[0].number if rows else ""
            self._events.append(SlotTransitioned(self._at, CAUSE, place, slot.name, row, source, DELETED, reason))
        self._events.append(SlotDestroyed(self._at, CAUSE, place, slot.name))
        del self._slots[name]

    # -- The startd

    def _starting(self, message: LogMessage) -> None:
        self._forget()
        self._begun, self._fresh = _StartdBanner(self._place(), message.at, {}), True

    def _version(self, message: LogMessage) -> None:
        if self._begun is not None:
            self._begun.facts.update(message.facts())

    _pid = _version

    def _address(self, message: LogMessage) -> None:
        if match := _ALIAS.search(message.match[0]):
            self.machine = match[1]
        if self._begun is not None:
            self._settle()

    def _failed(self, message: LogMessage) -> None:
        self._forget()
        self._daemon(message, "ended", {"how": without_secrets(message.match[0])})

    def _reconfigured(self, message: LogMessage) -> None:
        self._settle()
        super()._reconfigured(message)

    def _starter_gone(self, message: LogMessage) -> None:
        name = self._starters.pop(message["starter"], "")
        if name in self._slots:
            slot, status = self._slot(name), message["status"] or f"signal {message['signal']}"
            self._report(slot, "starter_gone", {"starter": message["starter"], "status": status, "job": slot.job})

    def _gap(self) -> None:
        for slot in self._slots.values():
            slot.reasons.clear()
        gap = self._events.pop()
        self._forget()
        self._events.append(gap)


_ON_SLOT: Final[Mapping[str, Callable[[StartLogReader, str, str, str], None]]] = {
    "Changing": StartLogReader.on_step,
    "Reverting": StartLogReader.on_step,
    "State": StartLogReader.on_reason,
    "Called": StartLogReader.on_called,
    "Got": StartLogReader.on_got,
    "Remote": StartLogReader.on_remote,
    "Schedd": StartLogReader.on_requested,
    "Received": StartLogReader.on_received,
    "Request": StartLogReader.on_answered,
    "Refusing": StartLogReader.on_answered,
    "Claiming": StartLogReader.on_answered,
    "Preempting": StartLogReader.on_answered,
    "New": StartLogReader.on_new,
    "\tCpus:": StartLogReader.on_resources,
    "Slot": StartLogReader.on_death,
} | {words.split(" ")[0]: StartLogReader.on_told for words in REMARKS}


def _number(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
