"""Audit a native log: the findings of ``replay/validation``, in the form of every audit.

A finding's line is its event's position. Such a log has no gaps and no unaccounted time: whatever happens to a slot
between its creation and its end is an event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attrs import define, field

from ...domain import events as e
from ...domain.ports.log import EventStore
from ...domain.state_machines import LEFT
from ...domain.state_machines.job_rows import UNSUBMITTED
from ..audit_result import Audit, AuditFinding, count_transitions
from ..narration.causes import CAUSES
from .validator import ValidationResult, validate

LOST = "lost"  #: the rule of a finding that breaks none: a job's process vanished without a record


def audit_native_log(log: EventStore, name: str = "") -> Audit:
    """Audit a native log. The stores check its seal. `name` stands for the file in findings."""
    audit = Audit()
    census = _NativeCensus()
    verdict = ValidationResult()
    for violation in validate(census.watch(log.read()), verdict):
        position, at = violation.position, census.when(violation.position)
        found = AuditFinding(violation.thing, violation.rule, violation.words, at, name, position, violation.story)
        audit.violations.append(found)
    audit.dialect, audit.events, audit.judged = verdict.dialect, verdict.events, verdict.events > 0
    audit.began, audit.ended = census.began, census.ended
    count_transitions(audit, census.steps)
    audit.jobs = census.became()
    for position, event in census.lost:
        words = f"{CAUSES[LOST]}, on {event.slot}"
        audit.lost.append(AuditFinding(f"{event.cluster}.{event.proc}", LOST, words, event.at, name, position, ()))
    return audit


@define
class _NativeCensus:
    """Counts, while the log is validated, what an audit has beyond the validation."""

    began: int = 0
    ended: int = 0
    steps: Counter[tuple[str, str]] = field(factory=Counter)
    jobs: Counter[str] = field(factory=Counter)  #: by status: jobs that came into it less those that left it
    lost: list[tuple[int, e.JobExited]] = field(factory=list)
    _last: tuple[e.LoggedEvent | None, e.LoggedEvent | None] = (None, None)

    def watch(self, events: Iterable[e.LoggedEvent]) -> Iterator[e.LoggedEvent]:
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
        """Return the instant of an event that was read just now."""
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
        if not event.factory:
            self._move(UNSUBMITTED, event.status, event.count)

    def on_materialized(self, position: int, event: e.JobsMaterialized) -> None:
        self._move(UNSUBMITTED, event.status, sum(last - first + 1 for first, last in event.procs))

    def on_moved(self, position: int, event: e.JobsTransitioned) -> None:
        if event.target == LEFT:  # the outcome is the status before
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
    e.JobsMaterialized: _NativeCensus.on_materialized,
    e.JobsTransitioned: _NativeCensus.on_moved,
    e.JobActivated: _NativeCensus.on_activated,
    e.JobExited: _NativeCensus.on_exited,
}
