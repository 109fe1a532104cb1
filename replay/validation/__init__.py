"""Validate a whole log: check that the state machines allow every event in the state at that point of the log.

``validator`` reads the log and folds its events into a state (``judged_pool``). Before each event is folded, the rule
for its type compares the event with that state. The rules are in the modules ``*_checks``; ``rules.txt`` describes
them. If an expression decided something, it is evaluated again with the recorded values. Because a log may have been
edited, a rule must not raise an error for any event."""

from .judged_pool import Violation
from .transition_rules import RULES
from .validator import ValidationResult, examine, validate

__all__ = ["RULES", "ValidationResult", "Violation", "examine", "validate"]
