"""The policy rules of each state/activity, in order: which expression drives which transition.

The first rule whose condition holds is taken, and no other. A slot leaves a state/activity without rules only when it
is told to. ``RULES`` follow the manual ("Machine States", "State and Activity Transitions"), ``RULES_HTCONDOR_25`` the
real startd's order (its eval_policy; the traces agree). A condition in capitals is an expression of the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from .slot_policy import SlotPolicy
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


def _preempts_first(policy: SlotPolicy) -> bool:
    """Tell whether PREEMPT is true, and was not for this job before."""
    return policy.is_claimed and not policy.has_flag("preempted") and policy.true("PREEMPT")


def _preempts_first_unless_suspended(policy: SlotPolicy) -> bool:
    return policy.is_claimed and not policy.has_flag("preempted") and _preempts_unless_suspended(policy)


def _preempts_unless_suspended(policy: SlotPolicy) -> bool:
    return not policy.true("WANT_SUSPEND") and policy.true("PREEMPT")


def _runs_benchmarks(policy: SlotPolicy) -> bool:
    """Tell whether RUNBENCHMARKS is true, while no other slot of the machine runs them."""
    return not policy.is_dynamic and policy.true("RUNBENCHMARKS") and not policy.machine_benchmarks


def _runs_first_benchmarks(policy: SlotPolicy) -> bool:
    """Tell whether benchmarks must run once: RUNBENCHMARKS is not set to false (the manual, "Unclaimed State")."""
    never = policy.benchmarks_never_ran and not policy.is_dynamic
    return never and not policy.set_to_false("RUNBENCHMARKS") and not policy.machine_benchmarks


def _suspends(policy: SlotPolicy) -> bool:
    """Tell whether WANT_SUSPEND and SUSPEND are true; a job that is told to end already is left alone."""
    return not policy.job_is_ending and policy.true("WANT_SUSPEND") and policy.true("SUSPEND")


def _continues(policy: SlotPolicy) -> bool:
    """Tell whether CONTINUE is true; only a request continues a job that a request suspended."""
    return not policy.has_flag("by_command") and policy.true("CONTINUE")


def _starts_backfill(policy: SlotPolicy) -> bool:
    return policy.may_backfill and policy.true("START_BACKFILL")


Condition = Callable[[SlotPolicy], bool]

CONDITIONS: Final[Mapping[str, tuple[Condition, tuple[str, ...]]]] = {
    # name: (condition, the expressions of the policy that it reads)
    "IS_OWNER": (lambda policy: policy.true("IS_OWNER"), ("IS_OWNER",)),
    "IS_OWNER is not true": (lambda policy: not policy.true("IS_OWNER"), ("IS_OWNER",)),
    "START is locally false": (lambda policy: policy.locally_false("Start"), ("Start",)),
    "RUNBENCHMARKS": (_runs_benchmarks, ("RUNBENCHMARKS",)),
    "benchmarks never ran, and RUNBENCHMARKS is not set to false": (_runs_first_benchmarks, ("RUNBENCHMARKS",)),
    "START_BACKFILL": (_starts_backfill, ("START_BACKFILL",)),
    "EVICT_BACKFILL": (lambda policy: policy.true("EVICT_BACKFILL"), ("EVICT_BACKFILL",)),
    "the machine has no backfill any more": (lambda policy: not policy.has_backfill, ()),
    "the machine has another backfill or none": (lambda policy: not policy.backfill_stands, ()),
    "the backfill client runs": (lambda policy: policy.client_runs, ()),
    "a backfill client may be started": (lambda policy: policy.client_may_start, ()),
    "WANT_SUSPEND and SUSPEND": (_suspends, ("WANT_SUSPEND", "SUSPEND")),
    "PREEMPT without WANT_SUSPEND": (_preempts_unless_suspended, ("WANT_SUSPEND", "PREEMPT")),
    "PREEMPT for the first time": (_preempts_first, ("PREEMPT",)),
    "PREEMPT for the first time without WANT_SUSPEND": (
        _preempts_first_unless_suspended, ("WANT_SUSPEND", "PREEMPT")),
    "CONTINUE": (_continues, ("CONTINUE",)),
    "CONTINUE and it retires": (lambda policy: policy.in_retirement and _continues(policy), ("CONTINUE",)),
    "KILL": (lambda policy: policy.true("KILL"), ("KILL",)),
    "a better match waits": (lambda policy: policy.better_match_waits, ()),
    "it retires and its retirement is over": (
        lambda policy: policy.in_retirement and policy.retirement_over, ("MaxJobRetirementTime",)),
    "its retirement is over": (lambda policy: policy.retirement_over, ("MaxJobRetirementTime",)),
    "nothing makes it retire any more": (lambda policy: not policy.in_retirement, ()),
    "the claim is too old": (lambda policy: policy.worklife_over, ()),
    "the machine drains": (lambda policy: policy.machine_drains and not policy.is_dynamic, ()),
    "the machine drains and no job is on its way": (
        lambda policy: policy.machine_drains and not policy.waits_for_activation, ()),
    "the machine no longer drains": (lambda policy: not policy.machine_drains, ()),
    "all its slots are drained": (lambda policy: policy.machine_drains and policy.machine_is_drained, ()),
}  # fmt: skip


def applying(rules: Rules, policy: SlotPolicy, *, entered: bool = False) -> Rule | None:
    """Return the first of the rules that holds for the slot where it is, or None.

    :param entered: the slot has just arrived there; else it is asked in a round
    """
    for rule in rules.get(policy.state_activity, ()):
        if entered and rule.polled:
            continue
        policy.verdict = None  # the expression of another rule is no evidence for this one
        if CONDITIONS[rule.when][0](policy):
            return rule
    return None
