"""The policy rules of each state/activity, in order: which expression causes which transition.

Only the first rule whose condition holds is applied. A slot leaves a state/activity without rules only because of a
message. ``RULES`` follows the manual ("Machine States", "State and Activity Transitions"); ``RULES_HTCONDOR_25`` is in
HTCondor 25's order (its eval_policy, confirmed by the traces). Conditions in capitals are policy expressions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

from ..package_data import get_data, sections
from .slot_rows import SlotRow

EVICTED: Final = "evicted"
"""The target of an eviction: Preempting/Killing if PREEMPT evicts without WANT_VACATE, else Preempting/Vacating."""


class Rule(NamedTuple):
    """If the condition ``when`` holds, the slot moves along ``row`` because of ``cause``."""

    when: str
    row: str  #: empty: the slot does not move, and only ``flags`` are recorded
    cause: str
    target: str = ""  #: empty: the row has only one target
    killing: str = ""  #: the row for the target Killing, if it is a different row
    flags: tuple[str, ...] = ()  #: flags to add to the claim (``events.CLAIM_FLAGS``)
    polled: bool = False  #: whether the rule applies only in periodic evaluations, not on entry to the state/activity


_IRREVOCABLE = ("irrevocable", "preempted")

Rules = Mapping[str, tuple[Rule, ...]]

RULES: Final[Rules] = {
    # when, row, cause, target
    "Owner/Idle": (
        Rule("the machine drains", SlotRow.DRAIN_OWNER, "draining"),
        Rule("IS_OWNER is not true", SlotRow.OWNER_LEAVES, "not_owner"),
    ),
    "Unclaimed/Idle": (
        Rule("the machine drains", SlotRow.DRAIN, "draining"),
        Rule("IS_OWNER", SlotRow.OWNER_RETURNS, "is_owner"),
        Rule("RUNBENCHMARKS", SlotRow.START_BENCHMARKS, "run_benchmarks"),
        Rule("benchmarks never ran, and RUNBENCHMARKS is not set to false",
             SlotRow.START_BENCHMARKS, "first_benchmarks"),
        Rule("START_BACKFILL", SlotRow.START_BACKFILL, "start_backfill"),
    ),
    "Backfill/Idle": (
        Rule("the machine has no backfill any more", SlotRow.LEAVE_BACKFILL, "backfill_off"),
        Rule("EVICT_BACKFILL", SlotRow.LEAVE_BACKFILL, "evict_backfill", polled=True),  # otherwise, it might loop
        Rule("the backfill client runs", SlotRow.RUN_BACKFILL, "client_runs"),
        Rule("a backfill client may be started", SlotRow.RUN_BACKFILL, "client_started"),
    ),
    "Backfill/Busy": (
        Rule("the machine has another backfill or none", SlotRow.KILL_BACKFILL, "backfill_off"),
        Rule("EVICT_BACKFILL", SlotRow.KILL_BACKFILL, "evict_backfill"),
    ),
    "Matched/Idle": (
        Rule("the machine drains", SlotRow.VOID_MATCH, "draining"),
        Rule("START is locally false", SlotRow.VOID_MATCH, "start_false"),
    ),
    "Claimed/Idle": (
        Rule("a preempting claim waits", SlotRow.VACATE_IDLE, "better_match", EVICTED),
        Rule("START is locally false", SlotRow.VACATE_IDLE, "start_false", EVICTED),
        Rule("the claim is too old", SlotRow.VACATE_IDLE, "worklife", EVICTED),
        Rule("the machine drains and no job is on its way", SlotRow.VACATE_IDLE, "draining", EVICTED),
    ),
    "Claimed/Busy": (
        Rule("WANT_SUSPEND and SUSPEND", SlotRow.SUSPEND, "suspend"),
        Rule("PREEMPT without WANT_SUSPEND", SlotRow.RETIRE, "preempt", flags=_IRREVOCABLE),
        Rule("a preempting claim waits", SlotRow.RETIRE, "better_match"),
    ),
    "Claimed/Suspended": (
        Rule("it retires and its retirement is over", SlotRow.VACATE_SUSPENDED, "retirement_over", EVICTED),
        Rule("PREEMPT for the first time", SlotRow.RETIRE_SUSPENDED, "preempt", flags=_IRREVOCABLE),
        Rule("CONTINUE and it retires", SlotRow.RETIRE_SUSPENDED, "continue"),
        Rule("CONTINUE", SlotRow.CONTINUE, "continue"),
    ),
    "Claimed/Retiring": (
        Rule("nothing makes it retire any more", SlotRow.UNRETIRE, "better_match_gone"),
        Rule("its retirement is over", SlotRow.VACATE, "retirement_over", EVICTED),
        Rule("WANT_SUSPEND and SUSPEND", SlotRow.SUSPEND_RETIRING, "suspend"),
        Rule("PREEMPT for the first time", "", "preempt", flags=_IRREVOCABLE),
    ),
    "Preempting/Vacating": (
        Rule("KILL", SlotRow.KILL, "kill"),
    ),
    "Drained/Idle": (
        Rule("the machine no longer drains", SlotRow.END_DRAIN, "drain_over"),
    ),
    "Drained/Retiring": (
        Rule("the machine no longer drains", SlotRow.CANCEL_DRAIN, "drain_over"),
        Rule("all its slots are drained", SlotRow.DRAINED, "drained"),
    ),
}  # fmt: skip

RULES_HTCONDOR_25: Final[Rules] = {
    "Owner/Idle": RULES["Owner/Idle"],
    "Owner/Retiring": (
        Rule("the machine drains", SlotRow.DRAIN_OWNER, "draining"),
        Rule("IS_OWNER is not true", SlotRow.OWNER_LEAVES_RETIRING, "not_owner"),
    ),
    "Unclaimed/Idle": (
        Rule("the machine drains", SlotRow.DRAIN, "draining"),
        Rule("IS_OWNER", SlotRow.OWNER_RETURNS, "is_owner"),
        Rule("START_BACKFILL", SlotRow.START_BACKFILL, "start_backfill"),
        Rule("RUNBENCHMARKS", SlotRow.START_BENCHMARKS, "run_benchmarks", polled=True),
    ),
    "Unclaimed/Benchmarking": (
        Rule("the machine drains", SlotRow.DRAIN, "draining"),
        Rule("START_BACKFILL", SlotRow.START_BACKFILL, "start_backfill"),
    ),
    "Backfill/Idle": tuple(rule._replace(polled=True) for rule in RULES["Backfill/Idle"]),
    "Backfill/Busy": RULES["Backfill/Busy"],
    "Claimed/Idle": (
        Rule("it retires and its retirement is over", SlotRow.VACATE_IDLE, "retirement_over", EVICTED),
        Rule("a preempting claim waits", SlotRow.VACATE_IDLE, "better_match", EVICTED),
        Rule("IS_OWNER", SlotRow.VACATE_IDLE, "is_owner", EVICTED),
        Rule("the claim is too old", SlotRow.VACATE_IDLE, "worklife", EVICTED),
        Rule("the machine drains and no job is on its way", SlotRow.VACATE_IDLE, "draining", EVICTED),
    ),
    "Claimed/Busy": (
        Rule("it retires and its retirement is over", SlotRow.VACATE_BUSY, "retirement_over", EVICTED,
             killing=SlotRow.KILL_BUSY),
        Rule("PREEMPT without WANT_SUSPEND", SlotRow.RETIRE, "preempt", flags=_IRREVOCABLE),
        Rule("WANT_SUSPEND and SUSPEND", SlotRow.SUSPEND, "suspend"),
        Rule("a preempting claim waits", SlotRow.RETIRE, "better_match"),
    ),
    "Claimed/Suspended": RULES["Claimed/Suspended"],
    "Claimed/Retiring": (
        Rule("it retires and its retirement is over", SlotRow.VACATE, "retirement_over", EVICTED),
        Rule("PREEMPT for the first time without WANT_SUSPEND", "", "preempt", flags=_IRREVOCABLE),
        Rule("nothing makes it retire any more", SlotRow.UNRETIRE, "better_match_gone"),
        Rule("its retirement is over", SlotRow.VACATE, "retirement_over", EVICTED),
        Rule("WANT_SUSPEND and SUSPEND", SlotRow.SUSPEND_RETIRING, "suspend"),
    ),
    "Preempting/Vacating": RULES["Preempting/Vacating"],
    "Drained/Idle": RULES["Drained/Idle"],
    "Drained/Retiring": (
        Rule("the machine no longer drains", SlotRow.CANCEL_DRAIN_RETIRING, "drain_over"),
        Rule("all its slots are drained", SlotRow.DRAINED, "drained"),
    ),
}  # fmt: skip


class ConditionTest(NamedTuple):
    """One test within a condition. It holds if the answer is ``expected``."""

    question: str  #: an attribute or method of ``SlotPolicy``
    subject: str  #: the expression or claim flag; empty for a fact
    expected: bool


_EXPRESSION_QUESTIONS = ("is_true", "is_locally_false", "is_set_to_false")


class Condition(NamedTuple):
    """A condition, which holds if all its tests hold. The tests run in order until one fails."""

    tests: tuple[ConditionTest, ...]
    expressions: tuple[str, ...]  #: the policy expressions that the condition reads

    def holds(self, policy: SlotPolicy) -> bool:
        for question, subject, expected in self.tests:
            answer = getattr(policy, question)
            if bool(answer(subject) if subject else answer) is not expected:
                return False
        return True


def _parse_condition(text: str) -> Condition:
    """Parse a condition, whose syntax ``conditions.txt`` describes."""
    tests = []
    for part in text.split(" and "):
        *questions, subject = part.removeprefix("not ").split(" ")
        question = questions[0] if questions else subject if subject.islower() else "is_true"
        tests.append(ConditionTest(question, "" if question == subject else subject, not part.startswith("not ")))
    names = (
        subject if question in _EXPRESSION_QUESTIONS else _READ_BY_FACT.get(question) for question, subject, _ in tests
    )
    return Condition(tuple(tests), tuple(filter(None, names)))


_FILE = {section.kind: section.lines for section in sections(get_data(__package__, "conditions.txt"))}
_FACTS = [line.split(" | ") for line in _FILE["facts"]]
_READ_BY_FACT = dict(names.split(" ") for names, _ in _FACTS if " " in names)
FACTS: Final = {names.partition(" ")[0]: meaning for names, meaning in _FACTS}
CONDITIONS: Final[Mapping[str, Condition]] = {
    name: _parse_condition(text) for name, text in (line.split(" | ") for line in _FILE["conditions"])
}


def applicable_rule(rules: Rules, policy: SlotPolicy, *, entered: bool = False) -> Rule | None:
    """Return the first rule that holds for the slot in its state/activity, or None if none holds.

    :param entered: whether the slot just entered its state/activity; otherwise this is a periodic evaluation
    """
    for rule in rules.get(policy.state_activity, ()):
        if entered and rule.polled:
            continue
        policy.last_evaluation = None  # another rule's expression is not evidence for this rule
        if CONDITIONS[rule.when].holds(policy):
            return rule
    return None


class SlotPolicy(Protocol):
    """A slot's policy: the values of its expressions, and facts about its claim, job, machine and drain."""

    last_evaluation: Any
    """The last expression that was evaluated, with its value; it is the evidence for the resulting transition."""

    def is_true(self, name: str) -> bool:
        """Return True if the expression is true."""

    def is_locally_false(self, name: str) -> bool:
        """Return True if the expression is false for every job."""

    def is_set_to_false(self, name: str) -> bool:
        """Return True if the expression is the constant false."""

    def has_flag(self, flag: str) -> bool:
        """Return True if the slot's claim has this flag (``events.CLAIM_FLAGS``)."""

    @property
    def state_activity(self) -> str: ...

    @property
    def better_match_waits(self) -> bool: ...

    @property
    def in_retirement(self) -> bool: ...

    @property
    def machine_drains(self) -> bool: ...
