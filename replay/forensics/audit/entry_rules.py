"""The table of a job event log's entries: the conditions from which each may come, and the job's condition after it.

A condition is the job's status as entries show it. "Stopping" and "Aborting" are Held and Removed while the end of the
run may still come; "Skipped" is completed without a run.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple


class EntryRule(NamedTuple):
    number: int
    sources: str  #: the conditions from which it may come; blank: any, and the condition stays
    target: str  #: the job's condition after it. With a ``rule``, the one the auditor assumes after the violation.
    rule: str = ""  #: the rule that the entry breaks; empty if it is legal
    repeats: bool = False


# fmt: off
ENTRY_RULES: Final = (
    # number, from, to
    EntryRule(1, "Submitted, Idle", "Running"),
    EntryRule(1, "Running, Suspended, Disconnected", "Running", repeats=True),
    EntryRule(1, "Held, Stopping", "Running", "held"),
    EntryRule(1, "Completed, Skipped, Removed, Aborting", "Running", "after_end"),
    EntryRule(4, "Submitted, Idle, Running, Suspended, Disconnected", "Idle"),
    EntryRule(4, "Held, Stopping", "Held"),
    EntryRule(4, "Removed, Aborting", "Removed"),  # a job removed by force is stopped afterwards
    EntryRule(4, "Completed, Skipped", "Completed", "after_end"),
    EntryRule(5, "Submitted, Idle, Running, Suspended, Disconnected, Stopping, Skipped", "Completed"),
    EntryRule(5, "Aborting", "Removed"),
    EntryRule(5, "Held", "Completed", "held"),
    EntryRule(5, "Completed, Removed", "Completed", "ended_twice"),
    EntryRule(7, "Submitted, Idle, Running, Suspended, Disconnected, Completed, Skipped", "Idle"),
    EntryRule(7, "Held, Stopping", "Held"),
    EntryRule(7, "Removed, Aborting", "Removed"),
    EntryRule(9, "Submitted, Idle, Held, Stopping, Completed, Skipped", "Removed"),
    EntryRule(9, "Running, Suspended, Disconnected", "Aborting"),
    EntryRule(9, "Removed, Aborting", "Removed", "ended_twice"),
    EntryRule(10, "Running, Disconnected", "Suspended"),
    EntryRule(10, "Suspended", "Suspended", repeats=True),
    EntryRule(10, "Submitted, Idle, Held", "Suspended", "not_running"),
    EntryRule(10, "Completed, Removed", "Suspended", "after_end"),
    EntryRule(11, "Suspended, Disconnected", "Running"),
    EntryRule(11, "Submitted, Idle, Running, Held", "Running", "not_running"),
    EntryRule(11, "Completed, Removed", "Running", "after_end"),
    EntryRule(12, "Submitted, Idle, Completed, Skipped", "Held"),
    EntryRule(12, "Running, Suspended, Disconnected", "Stopping"),
    EntryRule(12, "Held, Stopping", "Held", repeats=True),
    EntryRule(12, "Removed, Aborting", "Held", "after_end"),
    EntryRule(13, "Submitted, Held, Stopping", "Idle"),  # a job submitted on hold has no entry for the hold
    EntryRule(13, "Idle", "Idle", "not_held"),
    EntryRule(13, "Running", "Running", repeats=True),  # the schedd logs a running job's hold at its end
    EntryRule(13, "Suspended", "Suspended", repeats=True),
    EntryRule(13, "Disconnected", "Disconnected", repeats=True),
    EntryRule(13, "Completed, Skipped, Removed, Aborting", "Idle", "after_end"),
    EntryRule(14, "Submitted, Idle", "Running"),
    EntryRule(22, "Submitted, Idle, Running, Suspended, Disconnected", "Disconnected"),
    EntryRule(23, "Submitted, Idle, Running, Disconnected", "Running"),
    EntryRule(24, "Submitted, Idle, Running, Suspended, Disconnected", "Idle"),
    EntryRule(46, "Submitted, Idle, Running", "Skipped"),
)
# fmt: on
"""Held: nothing of the job runs. Stopping: on hold, but the end of its run may still be told. Aborting: the same of a
removed job. Skipped: done without running. An entry that is not listed may come at any time and changes nothing."""
_BY_CONDITION: Final = {(step.number, source): step for step in ENTRY_RULES for source in step.sources.split(", ")}
ANY_CONDITION: Final = frozenset(source for _, source in _BY_CONDITION)
TARGETS: Final = {
    0: "Submitted", 1: "Running", 4: "Idle", 5: "Completed", 7: "Idle", 9: "Removed", 10: "Suspended", 11: "Running",
    12: "Held", 13: "Idle", 14: "Running", 22: "Disconnected", 23: "Running", 24: "Idle", 46: "Skipped",
}  # fmt: skip
"""The conditions after an entry that leaves several possible."""
OVER: Final = frozenset({"Completed", "Skipped", "Removed", "Aborting"})
NOT_BEGUN: Final = frozenset({"Submitted", "Idle"})
ON_A_SLOT: Final = frozenset({"Running", "Suspended"})
ELSEWHERE: Final = frozenset({17, 18, 19, 20, 25, 26, 27, 29, 30})
OUTCOMES: Final = {
    "Submitted": "idle", "Idle": "idle", "Running": "running", "Disconnected": "running", "Suspended": "suspended",
    "Held": "held", "Stopping": "held", "Completed": "completed", "Skipped": "completed", "Removed": "removed",
    "Aborting": "removed", "": "unknown",
}  # fmt: skip


class EntryEffect(NamedTuple):
    conditions: frozenset[str]  #: the conditions in which the job may be afterwards
    rules: tuple[str, ...]  #: the rules broken, if the entry may come from none of the conditions before
    repeats: bool


@cache
def effect_of(number: int, conditions: frozenset[str]) -> EntryEffect:
    steps = [
        _BY_CONDITION.get((number, condition), EntryRule(number, "", condition)) for condition in sorted(conditions)
    ]
    legal = [step for step in steps if not step.rule]
    rules = () if legal else tuple(step.rule for step in steps)
    return EntryEffect(
        frozenset(step.target for step in legal or steps), rules, bool(legal) and all(step.repeats for step in legal)
    )


DESCRIPTIONS: Final = {
    "": "unheard of", "Submitted": "waiting", "Idle": "waiting", "Running": "running", "Suspended": "suspended",
    "Held": "on hold", "Stopping": "on hold", "Disconnected": "out of reach", "Completed": "ended",
    "Skipped": "skipped", "Removed": "removed", "Aborting": "removed",
}  # fmt: skip
