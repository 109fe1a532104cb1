"""Validate a whole log: is every event allowed by the tables, and does it agree with those before it?

``transition_rules`` has the rules with their words. ``slot_checks``, ``claim_checks``, ``machine_checks``,
``job_checks``, ``accounting_checks`` and ``evidence_checks`` check each kind of event, and
``validator`` reads the log: each event is compared with the state that the events before it make (``judged_pool``).
Nothing here changes a log or reads a store. Decisions that an expression took are taken again from the recorded values.
A log may have been edited, so nothing here may raise because an event makes no sense.
"""

from .judged_pool import Violation
from .transition_rules import RULES
from .validator import ValidationResult, examine, validate

__all__ = ["RULES", "ValidationResult", "Violation", "examine", "validate"]
