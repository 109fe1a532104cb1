"""The policy rules of each state/activity, in order: which expression drives which transition.

The first rule whose condition holds is taken, and no other. A slot leaves a state/activity without rules only when it
is told to. ``RULES`` follow the manual ("Machine States", "State and Activity Transitions"), ``RULES_HTCONDOR_25`` the
real startd's order (its eval_policy; the traces agree). A condition in capitals is an expression of the policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from pkgutil import get_data
from typing import Any, Final, NamedTuple, Protocol

from ..package_data import sections
from .slot_rows import SlotRow

EVICTED: Final = "evicted"
"""A target: Preempting/Killing if PREEMPT was true and WANT_VACATE is not, else Preempting/Vacating."""


class Rule(NamedTuple):
    """If ``when`` holds, the transition of ``row`` because of ``cause``."""

    when: str
    row: str  #: empty: the slot stays, and only ``marks`` are recorded
    cause: str
    target: str = ""  #: empty: the row's only one
    killing: str = ""  #: the row if the target is Killing, where it differs
    marks: tuple[str, ...] = ()  #: the flags of the claim from then on (``events.CLAIM_FLAGS``)
    polled: bool = False  #: the rule is asked in rounds alone, not of a slot that has just arrived


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
        Rule("EVICT_BACKFILL", SlotRow.LEAVE_BACKFILL, "evict_backfill", polled=True),  # else it might circle
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
        Rule("a better match waits", SlotRow.VACATE_IDLE, "better_match", EVICTED),
        Rule("START is locally false", SlotRow.VACATE_IDLE, "start_false", EVICTED),
        Rule("the claim is too old", SlotRow.VACATE_IDLE, "worklife", EVICTED),
        Rule("the machine drains and no job is on its way", SlotRow.VACATE_IDLE, "draining", EVICTED),
    ),
    "Claimed/Busy": (
        Rule("WANT_SUSPEND and SUSPEND", SlotRow.SUSPEND, "suspend"),
        Rule("PREEMPT without WANT_SUSPEND", SlotRow.RETIRE, "preempt", marks=_IRREVOCABLE),
        Rule("a better match waits", SlotRow.RETIRE, "better_match"),
    ),
    "Claimed/Suspended": (
        Rule("it retires and its retirement is over", SlotRow.VACATE_SUSPENDED, "retirement_over", EVICTED),
        Rule("PREEMPT for the first time", SlotRow.RETIRE_SUSPENDED, "preempt", marks=_IRREVOCABLE),
        Rule("CONTINUE and it retires", SlotRow.RETIRE_SUSPENDED, "continue"),
        Rule("CONTINUE", SlotRow.CONTINUE, "continue"),
    ),
    "Claimed/Retiring": (
        Rule("nothing makes it retire any more", SlotRow.UNRETIRE, "better_match_gone"),
        Rule("its retirement is over", SlotRow.VACATE, "retirement_over", EVICTED),
        Rule("WANT_SUSPEND and SUSPEND", SlotRow.SUSPEND_RETIRING, "suspend"),
        Rule("PREEMPT for the first time", "", "preempt", marks=_IRREVOCABLE),
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
        Rule("a better match waits", SlotRow.VACATE_IDLE, "better_match", EVICTED),
        Rule("IS_OWNER", SlotRow.VACATE_IDLE, "is_owner", EVICTED),
        Rule("the claim is too old", SlotRow.VACATE_IDLE, "worklife", EVICTED),
        Rule("the machine drains and no job is on its way", SlotRow.VACATE_IDLE, "draining", EVICTED),
    ),
    "Claimed/Busy": (
        Rule("it retires and its retirement is over", SlotRow.VACATE_BUSY, "retirement_over", EVICTED,
             killing=SlotRow.KILL_BUSY),
        Rule("PREEMPT without WANT_SUSPEND", SlotRow.RETIRE, "preempt", marks=_IRREVOCABLE),
        Rule("WANT_SUSPEND and SUSPEND", SlotRow.SUSPEND, "suspend"),
        Rule("a better match waits", SlotRow.RETIRE, "better_match"),
    ),
    "Claimed/Suspended": RULES["Claimed/Suspended"],
    "Claimed/Retiring": (
        Rule("it retires and its retirement is over", SlotRow.VACATE, "retirement_over", EVICTED),
        Rule("PREEMPT for the first time without WANT_SUSPEND", "", "preempt", marks=_IRREVOCABLE),
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
    """One question of a condition, which holds if the answer is ``expected``."""

    question: str  #: an attribute of ``SlotPolicy``
    of: str  #: the expression or the claim's flag; empty for a fact
    expected: bool


_OF_EXPRESSIONS = ("true", "locally_false", "set_to_false")


class Condition(NamedTuple):
    """Holds if all of its tests do, which are asked in their order until one does not."""

    tests: tuple[ConditionTest, ...]
    expressions: tuple[str, ...]  #: those of the policy that it reads

    def holds(self, policy: SlotPolicy) -> bool:
        for question, of, expected in self.tests:
            answer = getattr(policy, question)
            if bool(answer(of) if of else answer) is not expected:
                return False
        return True


def _condition(text: str) -> Condition:
    """Read a condition: a fact, an expression that is to be true, or a question with what it is about; ``not`` before
    it turns it round."""
    tests = []
    for part in text.split(" and "):
        *negated, asked = part.removeprefix("not ").split(" ")
        question = negated[0] if negated else asked if asked.islower() else "true"
        tests.append(ConditionTest(question, "" if question == asked else asked, not part.startswith("not ")))
    read = (of if question in _OF_EXPRESSIONS else _READ.get(question) for question, of, _ in tests)
    return Condition(tuple(tests), tuple(filter(None, read)))


_FILE = {section.kind: section.lines for section in sections(get_data(__package__, "conditions.txt"))}
_FACTS = [line.split(" | ") for line in _FILE["facts"]]
_READ = dict(names.split(" ") for names, _ in _FACTS if " " in names)
FACTS: Final = {names.partition(" ")[0]: meaning for names, meaning in _FACTS}
"""What each fact says."""
CONDITIONS: Final[Mapping[str, Condition]] = {
    name: _condition(text) for name, text in (line.split(" | ") for line in _FILE["conditions"])
}
"""The condition of each name."""


def applying(rules: Rules, policy: SlotPolicy, *, entered: bool = False) -> Rule | None:
    """Return the first of the rules that holds for the slot where it is, or None.

    :param entered: the slot has just arrived there; else it is asked in a round
    """
    for rule in rules.get(policy.state_activity, ()):
        if entered and rule.polled:
            continue
        policy.last_evaluated = None  # the expression of another rule is no evidence for this one
        if CONDITIONS[rule.when].holds(policy):
            return rule
    return None


class SlotPolicy(Protocol):
    """A slot's expressions, and the facts of its claim, its job, its machine and the machine's drain."""

    last_evaluated: Any
    """The last expression that was asked and its value: the evidence of what follows from it."""

    def true(self, name: str) -> bool:
        """Return True if the expression is true."""

    def locally_false(self, name: str) -> bool:
        """Return True if the expression is false whatever the job."""

    def set_to_false(self, name: str) -> bool:
        """Return True if the expression is the constant false."""

    def has_flag(self, flag: str) -> bool:
        """Return True if the slot's claim has this one of ``events.CLAIM_FLAGS``."""

    @property
    def state_activity(self) -> str: ...

    @property
    def better_match_waits(self) -> bool: ...

    @property
    def in_retirement(self) -> bool: ...

    @property
    def machine_drains(self) -> bool: ...
