"""The audit of a log of Poolbook's own: the judge of such logs (``replay/validation``) in the words of every audit.

A finding's line is its event's position. Such a log has no gaps and no time that it does not account for: whatever
happens to a slot between its birth and its death is an event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attrs import define, field

from ....domain import events as e
from ....domain.ports.log import Log
from ....domain.state_machines import DIALECTS, LEFT, MANUAL, SlotRow, classify
from ....domain.state_machines.job import UNSUBMITTED
from ...listing import LETTERS
from ...validation import Verdict, Violation, validate
from .verdict import Audit, AuditFinding

LOST = "lost"
"""The rule of a finding that breaks none: a job's process vanished without a record."""

_MANUAL = tuple(row.number for row in MANUAL.slot_rows)
_HALVES = {SlotRow.CANCEL_DRAIN_RETIRING: SlotRow.CANCEL_DRAIN, SlotRow.OWNER_LEAVES_RETIRING: SlotRow.OWNER_LEAVES}
"""Rows of the dialect that are halves of what the manual numbers."""
_DRAWN = frozenset({SlotRow.END_JOB, SlotRow.END_CLEANING, *_HALVES})
"""Rows of the dialect alone that have a number all the same: the diagram of HTCondor 25's manual draws Cleaning between
the two parts of 12."""

PositionedEvent = tuple[int, e.Event]


def audit_native_log(log: Log, audit: Audit, file: str = "") -> None:
    """Fill `audit` with what a log of Poolbook's own tells of; what its seal says is for others. `file` is what the
    log is called."""
    census = _NativeCensus()
    verdict = Verdict()
    for violation in validate(census.watch(log.read()), verdict):
        audit.violations.append(_finding(violation, census.when(violation.position), file))
    audit.dialect, audit.events, audit.judged = verdict.dialect, verdict.events, verdict.events > 0
    audit.began, audit.ended = census.began, census.ended
    count_transitions(audit, census.steps)
    audit.jobs = census.became()
    for position, event in census.lost:
        words = f"{e.CAUSES[LOST]}, on {event.slot}"
        audit.lost.append(AuditFinding(f"{event.cluster}.{event.proc}", LOST, words, event.at, file, position, ()))


def count_transitions(audit: Audit, steps: dict[tuple[str, str], int]) -> None:
    """Count steps of slots from pair to pair by the manual's numbers, letters, and the rows of the dialect alone. What
    no row allows counts nowhere."""
    audit.transitions = dict.fromkeys(_MANUAL, 0) | audit.transitions
    for (source, target), times in steps.items():
        rows = classify(MANUAL, source, target)
        if not rows:
            rows = classify(DIALECTS[audit.dialect], source, target) if audit.dialect in DIALECTS else ()
            if rows:
                number = rows[0].number
                audit.beyond[number] = audit.beyond.get(number, 0) + times
                if number not in _DRAWN:
                    audit.undocumented[number] = audit.undocumented.get(number, 0) + times
        if rows:
            number = _HALVES.get(rows[0].number, rows[0].number)
            audit.transitions[number] = audit.transitions.get(number, 0) + times
            letter = LETTERS.get(rows[0].number, "")
            if letter:
                audit.letters[letter] = audit.letters.get(letter, 0) + times
    audit.letters = dict(sorted(audit.letters.items()))


def _finding(violation: Violation, at: int, file: str) -> AuditFinding:
    return AuditFinding(violation.thing, violation.rule, violation.words, at, file, violation.position, violation.story)


@define
class _NativeCensus:
    """What an audit counts that the judge does not, as the judge reads."""

    began: int = 0
    ended: int = 0
    steps: Counter[tuple[str, str]] = field(factory=Counter)
    jobs: Counter[str] = field(factory=Counter)
    """Jobs by status: what came into it less what left it."""
    lost: list[tuple[int, e.JobExited]] = field(factory=list)
    _last: tuple[PositionedEvent | None, PositionedEvent | None] = (None, None)

    def watch(self, events: Iterable[PositionedEvent]) -> Iterator[PositionedEvent]:
        for told in events:
            position, event = told
            self._last = self._last[1], told
            self.began = self.began or event.at
            self.ended = max(self.ended, event.at)
            note = _NOTES.get(type(event))
            if note is not None:
                note(self, position, event)
            yield told

    def when(self, position: int) -> int:
        """The instant of an event that was read just now."""
        return next((told[1].at for told in self._last if told is not None and told[0] == position), self.ended)

    def became(self) -> dict[str, int]:
        return {status.lower(): jobs for status, jobs in sorted(self.jobs.items()) if jobs > 0}

    def _move(self, source: str, target: str, jobs: int) -> None:
        if source != target:
            self.jobs[source] -= jobs
            self.jobs[target] += jobs

    def on_slot(self, position: int, event: e.SlotTransitioned) -> None:
        self.steps[event.source, event.target] += 1

    def on_submitted(self, position: int, event: e.ClusterSubmitted) -> None:
        self._move(UNSUBMITTED, event.status, event.count)

    def on_moved(self, position: int, event: e.JobsTransitioned) -> None:
        if event.target == LEFT:  # what became of it is what it was then
            return
        self._move(event.source, event.target, sum(last - first + 1 for first, last in event.procs))

    def on_activated(self, position: int, event: e.JobActivated) -> None:
        self._move("Idle", "Running", 1)

    def on_exited(self, position: int, event: e.JobExited) -> None:
        if event.row:
            self._move(event.source, event.target, 1)
        if event.outcome == LOST:
            self.lost.append((position, event))


_NOTES: dict[type[e.Event], Callable[[_NativeCensus, int, Any], None]] = {
    e.SlotTransitioned: _NativeCensus.on_slot,
    e.ClusterSubmitted: _NativeCensus.on_submitted,
    e.JobsTransitioned: _NativeCensus.on_moved,
    e.JobActivated: _NativeCensus.on_activated,
    e.JobExited: _NativeCensus.on_exited,
}
