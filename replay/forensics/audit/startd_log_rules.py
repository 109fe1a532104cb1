"""Audit StartLogs: check whether each transition was allowed, given the known state of its slot.

A chain of rotated files contains the records of successive startds. Each slot is tracked from its creation to its end,
or to its startd's end. After a gap, at the start of an incomplete log, and after a startd was killed, the slots' states
are unknown; each slot is adopted with the state in its next line. docs/import.md contains the rules, and the conditions
for a finding ("StartLogs").
"""

from __future__ import annotations

from collections import Counter, deque
from functools import cache
from typing import Any, Final

from attrs import Factory, define, field

from ....domain import events as e
from ....domain.events.handlers import handlers_of
from ....domain.state_machines import DELETED, HTCONDOR_25, INITIAL_PAIR, classify, state
from ...audit_result import Audit, AuditFinding, UnaccountedTime, count_transitions
from ..imported_log import Sources
from .doubted_records import DOUBTS
from .expected_lines import LineCensus, announced_elsewhere, announced_target
from .findings import LogParts, Misfits, finding

STORY: Final = 8  #: how many of a slot's earlier records a finding's story contains
BACKWARDS: Final = 86_400_000_000
"""How far times may go backwards (microseconds): a wrong time zone or local clock explains a day at most."""
ASIDE: Final = 5_000_000
"""A single record that is earlier than the record above it by more than this, in microseconds, has a wrong time."""

UNINITIAL_PAIR: Final = "it has records, but this startd did not log its creation"
LINGERS: Final = 60_000_000
"""How long a dynamic slot may exist without a claim, in microseconds, before its end counts as missing. This is not a
violation: a startd may keep a slot whose resources are broken."""


def _is_before(place_text: str, other_place: str) -> bool:
    """Return True if a location, such as "3:465", is before the other one in the same source."""
    source, _, line = place_text.partition(":")
    other_file, _, other_line = other_place.partition(":")
    return source == other_file and line.isdigit() and other_line.isdigit() and int(line) < int(other_line)


_PAIRS: Final = HTCONDOR_25.state_activities
_FREE: Final = ("Owner/Idle", "Unclaimed/Idle")
_BREAKDOWNS: Final = frozenset(map(str, (2, 3, 4, *range(15, 19), *range(41, 50))))
"""The statuses of a starter that lost its shadow, failed, or reports that its slot is broken (HTCondor's exit.h)."""
_EXITED: Final = "starter exited: "  #: precedes the state and activity that the slot then had


@define
class _AuditedSlot:
    """The known state of a slot: its state and activity (`pair`; "" if unknown) and since when, its job, and its last
    records."""

    pair: str = ""
    since: int = 0
    dynamic: bool = False
    job: str = ""
    announced_lines: set[str] | None = None  #: messages about it since its last transition; None if some may be missing
    starter: bool = False
    final: bool = False  #: its starter has sent the job's final report
    adopted: e.SlotEvent | None = None  #: the event at which it was adopted
    story: deque[e.Event] = Factory(lambda: deque(maxlen=STORY))


@define
class _StartdLog:
    parts: LogParts = field(factory=LogParts)
    occasions: LineCensus = field(factory=LineCensus)
    over: bool = False  #: a startd ended, and no other one has started
    above: tuple[int, str] = (0, "")  #: the last record's instant and location, compared with the next record's
    aside: tuple[int, AuditFinding] | None = None
    """For a record that is earlier than the record above it: the other's instant, and the finding if only one is
    early."""

    first: int = 0
    last: int = 0
    begun: bool = False  #: a startd has started and not ended, and there was no gap since
    logs_creations: bool = False  #: it logs the creation of its slots
    unknown_since: int = 0  #: when the states of the slots in `missing` became unknown, or 0 if there are none
    unknown_reason: str = ""
    slots: dict[str, _AuditedSlot] = field(factory=dict)
    carved: dict[str, str] = field(factory=dict)
    """The slot that was last created from each partitionable slot: the next messages are about it."""
    missing: set[str] = field(factory=set)  #: the slots without a record since their state became unknown
    exits: Misfits = field(factory=lambda: Misfits(at_once=True))
    """The exits of starters after their jobs' final reports: with status 0, or with another status (misfits)."""
    unfulfilled: list[e.SlotReported] = field(factory=list)  #: the last announcements that no transition followed


@define
class StartdLogAuditor:
    """Audits StartLogs: call ``take`` with every event in log order, then ``finish``."""

    sources: Sources
    audit: Audit
    _chains: dict[int, _StartdLog] = field(factory=dict)
    _by_source: dict[str, _StartdLog | None] = field(factory=dict)
    _steps: Counter[tuple[str, str]] = field(factory=Counter)

    def process_event(self, position: int, event: e.Event) -> None:
        rule = _RULES.get(type(event))
        if rule is None or (isinstance(event, e.DaemonReported) and event.said in DOUBTS):
            return
        log = self._log_of(event.stimulus.partition(":")[0])
        if log is None:
            return
        if not isinstance(event, e.SourceEvent):
            if log.parts.note_part(int(event.stimulus.partition(":")[0])):
                log.aside, log.above = None, (0, "")
                self._begin_unknown_time(log, log.last, "a part of the log grew after the next part had been read")
            self._note_time(log, event)
            if log.over and isinstance(event, e.SlotEvent):
                log.over = False
                text = "the startd had ended, and no line shows that another one started: that line was removed"
                self._add_violation(log, log.slots.get(event.slot, _AuditedSlot()), event, "restart", text)
        rule(self, log, event)

    def finish(self) -> None:
        """Count the transitions, and report the slots without further records after their state became unknown."""
        for log in self._chains.values():
            self._report_lingering(log, log.last)
            self._end_unknown_time(log, log.last)
            self._report_missed_lines(log)
            log.parts.defer_findings(self.audit.violations, *log.exits.single_misfit())
            log.parts.report_deferred()
        count_transitions(self.audit, dict(self._steps))

    # -- Bookkeeping -------------------------------------------------------------------------------------------------

    def _log_of(self, source: str) -> _StartdLog | None:
        if source not in self._by_source:
            number = int(source) if source.isdecimal() else 0
            is_startd_log = self.sources.kind(number) == "startlog"
            self._by_source[source] = (
                self._chains.setdefault(self.sources.chain(number), _StartdLog()) if is_startd_log else None
            )
        return self._by_source[source]

    def _audited_slot(self, log: _StartdLog, event: e.SlotEvent) -> _AuditedSlot:
        slot = log.slots.get(event.slot)
        if slot is None:
            slot = log.slots[event.slot] = _AuditedSlot(INITIAL_PAIR if log.begun and not log.logs_creations else "")
            if log.logs_creations:
                self._add_violation(log, slot, event, "unborn", UNINITIAL_PAIR)
            elif log.begun:
                slot.adopted = event
            else:
                reason = log.unknown_reason or "the log begins in the middle"
                self._add_unaccounted(event.slot, log.unknown_since or log.first, event.at, reason)
        log.missing.discard(event.slot)
        return slot

    def _finding(self, slot: _AuditedSlot, event: e.SlotEvent, rule: str, text: str) -> AuditFinding:
        story = [(record.at, record.stimulus, _event_words(record)) for record in (*slot.story, event)]
        return finding(self.sources, event.slot, rule, text, story)

    def _add_violation(self, log: _StartdLog, slot: _AuditedSlot, event: e.SlotEvent, rule: str, text: str) -> None:
        log.parts.defer_findings(self.audit.violations, self._finding(slot, event, rule, text))

    def _report_missed_lines(self, log: _StartdLog) -> None:
        log.parts.defer_findings(self.audit.violations, *log.occasions.missing_lines())
        log.occasions = LineCensus()
        for slot in log.slots.values():
            slot.announced_lines = None

    def _add_unaccounted(self, slot: str, since: int, until: int, text: str) -> None:
        if since < until:
            self.audit.unaccounted.append(UnaccountedTime(slot, since, until, text))

    def _note_time(self, log: _StartdLog, event: Any) -> None:
        log.first = log.first or event.at
        if isinstance(event, e.DaemonReported):  # a machine's clock may be set before its startd starts
            return
        if event.at < log.last - BACKWARDS:
            slot = log.slots.get(getattr(event, "slot", ""), _AuditedSlot())
            self._add_violation(log, slot, event, "backwards", "times go back by more than a day")
            log.last = event.at
        log.last = max(log.last, event.at)
        self._check_moved_record(log, event)

    def _check_moved_record(self, log: _StartdLog, event: e.SlotEvent) -> None:
        """Report a record that is earlier than the record above it, if the next record is not."""
        above, place_above = log.above
        place = event.stimulus
        if above and _is_before(place, place_above):
            return  # announcements without a transition are reported late, so their line is an earlier one
        if place_above == place or not above:
            log.above = max(above, event.at), place
            return
        if log.aside is not None:
            before, moved_finding = log.aside
            if event.at >= before:
                log.parts.defer_findings(self.audit.violations, moved_finding)
            log.aside, log.above = None, (event.at, place)
        elif event.at < above - ASIDE:
            slot = log.slots.get(event.slot, _AuditedSlot())
            text = f"it is {(above - event.at) / 1e6:g} s earlier than the record above it, but the next one is not"
            log.aside = above, self._finding(slot, event, "backwards", text)
            log.above = event.at, place
        else:
            log.above = event.at, place

    def _end_unknown_time(self, log: _StartdLog, until: int) -> None:
        for name in sorted(log.missing):
            self._add_unaccounted(name, log.unknown_since, until, log.unknown_reason)
        log.missing.clear()
        log.unknown_since, log.unknown_reason = 0, ""

    # -- Rules -------------------------------------------------------------------------------------------------------

    def on_daemon(self, log: _StartdLog, event: e.DaemonReported) -> None:
        self._report_missed_lines(log)
        log.aside, log.above = None, (0, "")
        if event.said == "began":
            self._report_lingering(log, log.last)
            for name in sorted(log.slots):  # none are left if the startd logged its end
                self._add_unaccounted(name, log.last, event.at, "the startd ended without logging it")
            self._end_unknown_time(log, event.at)
            self._forget(log)
            log.begun, log.over = True, False
        elif event.said == "ended":
            if "status" in event.facts:  # otherwise it died, perhaps between the announcement and the transition
                for announcement in log.unfulfilled:
                    slot = log.slots.get(announcement.slot, _AuditedSlot())
                    text = f"the startd logged {announcement.facts['words']!r}, but no transition follows"
                    self._add_violation(log, slot, announcement, "said", text)
            self._report_lingering(log, event.at)
            self._end_unknown_time(log, event.at)
            self._forget(log)
            log.over = "status" in event.facts
        log.last = event.at

    def _report_lingering(self, log: _StartdLog, until: int) -> None:
        for name, slot in sorted(log.slots.items()):
            if slot.dynamic and slot.pair in _FREE and until - slot.since > LINGERS:
                self._add_unaccounted(name, slot.since, until, "it has no claim, and no line shows its end")

    def _forget(self, log: _StartdLog) -> None:
        log.slots.clear()
        log.carved.clear()
        log.unfulfilled.clear()
        log.begun = log.logs_creations = False

    def on_gap(self, log: _StartdLog, event: e.SourceGap) -> None:
        self._report_missed_lines(log)
        log.aside, log.above = None, (0, "")
        self._begin_unknown_time(log, event.since or log.last, event.words)
        log.last = max(log.last, event.until)

    def _begin_unknown_time(self, log: _StartdLog, since: int, reason: str) -> None:
        names = set(log.slots) | log.missing
        since = log.unknown_since or since
        self._forget(log)
        log.occasions, log.over = LineCensus(), False
        log.missing, log.unknown_since, log.unknown_reason = names, since, reason

    def on_refused(self, log: _StartdLog, event: e.SourceRefused) -> None:
        """Mark the state of every slot that an unreadable record may describe as unknown: it may be a transition."""
        log.aside, log.above = None, (0, "")
        for name, slot in log.slots.items():
            slot.announced_lines = None
            if ": " not in event.text or event.text.startswith(name.partition("@")[0]):
                slot.pair = ""

    def on_born(self, log: _StartdLog, event: e.SlotCreated) -> None:
        old = log.slots.get(event.slot)
        if old is not None:
            self._add_violation(log, old, event, "birth", "it was created, but it already existed")
        elif not log.begun and event.slot in log.missing:
            self._add_unaccounted(event.slot, log.unknown_since, event.at, log.unknown_reason)
        log.missing.discard(event.slot)
        if log.begun and not log.logs_creations:
            log.logs_creations = True
            for other_slot in log.slots.values():
                if other_slot.adopted is not None:
                    self._add_violation(log, _AuditedSlot(), other_slot.adopted, "unborn", UNINITIAL_PAIR)
        slot = log.slots[event.slot] = _AuditedSlot(
            INITIAL_PAIR, event.at, event.kind == "dynamic", announced_lines=set()
        )
        slot.story.append(event)
        log.carved[event.parent] = event.slot

    def on_died(self, log: _StartdLog, event: e.SlotDestroyed) -> None:
        log.slots.pop(event.slot, None)

    def on_moved(self, log: _StartdLog, event: e.SlotTransitioned) -> None:
        slot = log.slots.get(event.slot) or self._audited_slot(log, event)
        self._steps[event.source, event.target] += 1
        if slot.pair and slot.pair != event.source:
            text = f"it was in {slot.pair}, but this starts from {event.source}: a line was removed or changed"
            self._add_violation(log, slot, event, "chain", text)
            slot.announced_lines = None
        elif not event.row and not classify(HTCONDOR_25, event.source, event.target):
            self._add_violation(
                log, slot, event, "row", f"no rule allows a transition from {event.source} to {event.target}"
            )
        elif event.reason:
            self._compare_reason(log, slot, event)
        self._count_lines(log, slot, event)
        is_known_step = slot.pair or _is_certain(event.source, event.target)
        slot.pair, slot.since = event.target if is_known_step else "", event.at
        slot.story.append(event)

    def _count_lines(self, log: _StartdLog, slot: _AuditedSlot, event: e.SlotTransitioned) -> None:
        lines, slot.announced_lines = slot.announced_lines, set()
        if lines is None or not log.begun:
            slot.starter = False
            return
        if slot.starter:
            lines.add("starter")
        log.occasions.count_transition(
            event, slot.dynamic, lines, lambda words: self._finding(slot, event, "unsaid", words)
        )
        has_left_preempting = state(event.target) != state(event.source) == "Preempting"
        if event.source == "Claimed/Idle":
            slot.starter = "starter" in lines
        elif event.source == "Claimed/Cleaning" or event.target == "Claimed/Idle" or has_left_preempting:
            slot.starter = False

    def _compare_reason(self, log: _StartdLog, slot: _AuditedSlot, event: e.SlotTransitioned) -> None:
        *earlier_reports, last = event.reason.split(" / ")
        target = announced_target(last, event.source)
        if target and not event.target.startswith(target):
            text = f"the startd logged {last!r}, which leads to {target.rstrip('/')}, not to {event.target}"
            self._add_violation(log, slot, event, "said", text)
            return
        for line in (last, *earlier_reports):
            if elsewhere := announced_elsewhere(line, event.source, event.target):
                text = f"the startd logged {line!r}, which belongs to a transition {elsewhere}: the reason was changed"
                self._add_violation(log, slot, event, "said", text)
                return
            if line.startswith(_EXITED) and "/" in line and line.removeprefix(_EXITED) != event.source:
                text = f"it was in {line.removeprefix(_EXITED)} when its starter ended, not in {event.source}"
                self._add_violation(log, slot, event, "said", text)

    def _check_exit(self, log: _StartdLog, slot: _AuditedSlot, event: e.SlotReported) -> None:
        status = event.facts.get("status", "")
        if not slot.final or not status.isdecimal() or status in _BREAKDOWNS:
            return
        text = f"its starter had sent its final report, and exited with {status}; all others exited with 0"
        log.exits.count_record("exit", status == "0", lambda: self._finding(slot, event, "status", text))

    def on_reported(self, log: _StartdLog, event: e.SlotReported) -> None:
        slot = log.slots.get(event.slot)
        if slot is None:
            if event.said == "told" and not log.begun:
                return
            slot = self._audited_slot(log, event)
        job = event.facts.get("job", "")
        carved_slot = log.slots.get(log.carved.get(event.slot, "")) if event.said == "accepted" else None
        if carved_slot is not None and carved_slot.announced_lines is not None:
            carved_slot.announced_lines.add(event.said)
        if slot.announced_lines is not None:
            slot.announced_lines.add(event.said)
            if event.said == "activated":
                slot.announced_lines.update(name for name in ("job", "starter") if event.facts.get(name))
        if event.said == "activated":
            if slot.pair not in ("", "Claimed/Idle"):
                job_text = f" and has job {slot.job}" if slot.job else ""
                self._add_violation(
                    log, slot, event, "activation", f"a job started on it, but it is in {slot.pair}{job_text}"
                )
            slot.job = job
        elif event.said == "job_over":
            if job and slot.job and job != slot.job:
                text = f"the startd logged the end of job {job}, but the slot has job {slot.job}"
                self._add_violation(log, slot, event, "activation", text)
            slot.job, slot.final = slot.job or job, True
        elif event.said == "starter_gone":
            self._check_exit(log, slot, event)
            slot.job, slot.final = "", False
        elif event.said == "told" and announced_target(event.facts.get("words", "")):
            log.unfulfilled.append(event)
        slot.story.append(event)


_RULES: Final = handlers_of(StartdLogAuditor)


@cache
def _is_certain(source: str, target: str) -> bool:
    """Return True if the transition of a slot in an unknown state is unambiguous. A record may name only the states (if
    the activity stays the same) or only the activities (if the state stays the same)."""
    (state, _, activity), (target_state, _, target_activity) = source.partition("/"), target.partition("/")
    if activity == target_activity:
        steps = {(f"{state}/{pair.partition('/')[2]}", f"{target_state}/{pair.partition('/')[2]}") for pair in _PAIRS}
    elif state == target_state:
        steps = {
            (f"{pair.partition('/')[0]}/{activity}", f"{pair.partition('/')[0]}/{target_activity}") for pair in _PAIRS
        }
    else:
        return True
    return sum(1 for possible_step in steps if classify(HTCONDOR_25, *possible_step)) == 1


def _event_words(event: e.Event) -> str:
    if isinstance(event, e.SlotTransitioned):
        row = f" ({event.row})" if event.row else ""
        end_text = "its end" if event.target == DELETED else event.target
        return f"{event.source} -> {end_text}{row}{f': {event.reason}' if event.reason else ''}"
    if isinstance(event, e.SlotReported):
        facts = ", ".join(f"{name} {value}" for name, value in event.facts.items())
        return f"{event.said}{f': {facts}' if facts else ''}"
    return "it begins"
