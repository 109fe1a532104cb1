"""Audit a native log: the findings of ``replay/validation``, in the form of every audit.

A finding's line is its event's position. Such a log has no gaps and no unaccounted time: whatever happens to a slot
between its creation and its end is an event.
"""

from __future__ import annotations

from ...domain.ports.log import EventStore
from ..audit_result import Audit, AuditFinding, count_transitions
from ..narration.sentence_tables import CAUSES
from .run_checks import LOST
from .validator import ValidationResult, validate


def audit_native_log(log: EventStore, name: str = "") -> Audit:
    """Audit a native log. The stores check its seal. `name` stands for the file in findings."""
    audit = Audit()
    verdict = ValidationResult()
    for one in validate(log.read(), verdict):
        audit.violations.append(AuditFinding(one.thing, one.rule, one.words, one.at, name, one.position, one.story))
    audit.dialect, audit.events, audit.judged = verdict.dialect, verdict.events, verdict.events > 0
    audit.began, audit.ended = verdict.began, verdict.ended
    count_transitions(audit, verdict.steps)
    audit.jobs = {status.lower(): jobs for status, jobs in sorted(verdict.became.items()) if jobs > 0}
    for position, event in verdict.lost:  # no rule is broken
        words = f"{CAUSES[LOST]}, on {event.slot}"
        audit.lost.append(AuditFinding(f"{event.cluster}.{event.proc}", LOST, words, event.at, name, position, ()))
    return audit
