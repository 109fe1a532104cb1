"""Which expression drives which transition: for each pair of state and activity its rules, in their order.

The first rule whose condition holds is taken, and no other; a pair without rules is left by nothing but what the slot
is told. ``manual`` is the text of the manual ("Machine States", "State and Activity Transitions"), ``htcondor-25`` what
the real startd asks, in its order (its eval_policy; the traces agree).

A rule's condition is a name of ``CONDITIONS``. Those in capitals are expressions of the policy: true is what fires.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import frozen

from ..classad.tree import Literal
from ..startd import time_limits
from ..startd.evaluation import Condition, Look, constant
from ..startd.slot_ad import neighbours

VACATING: Final = "Preempting/Vacating"
KILLING: Final = "Preempting/Killing"
EVICTED: Final = "evicted"
"""A target: Preempting/Killing if PREEMPT was true and WANT_VACATE is not, else Preempting/Vacating."""


@frozen
class Rule:
    """If ``when`` holds, the transition of ``row`` to ``target`` (empty: the row's only one), because of ``cause``.
    ``killing`` is the row if the target turns out to be Killing, where that is another. ``marks`` are what holds for
    the claim from then on (``events.MARKS``); a rule without a row only marks. ``polled``: it is asked in rounds alone,
    not of a slot that has just arrived."""

    when: str
    row: str
    cause: str
    target: str = ""
    killing: str = ""
    marks: tuple[str, ...] = ()
    polled: bool = False


_IRREVOCABLE = ("irrevocable", "preempted")

Rules = Mapping[str, tuple[Rule, ...]]

MANUAL: Final[Rules] = {
    "Owner/Idle": (
        # when, row, cause, target
        Rule("the machine drains", "36", "draining"),
        Rule("IS_OWNER is not true", "1", "not_owner"),
    ),
    "Unclaimed/Idle": (
        Rule("the machine drains", "37", "draining"),
        Rule("IS_OWNER", "2", "is_owner"),
        Rule("RUNBENCHMARKS", "3", "run_benchmarks"),
        Rule("benchmarks never ran, and RUNBENCHMARKS is not set to false", "3", "first_benchmarks"),
    ),
    "Matched/Idle": (
        Rule("the machine drains", "8", "draining"),
        Rule("START is locally false", "8", "start_false"),
    ),
    "Claimed/Idle": (
        Rule("a better match waits", "10", "better_match", EVICTED),
        Rule("START is locally false", "10", "start_false", EVICTED),
        Rule("the claim is too old", "10", "worklife", EVICTED),
        Rule("the machine drains and no job is on its way", "10", "draining", EVICTED),
    ),
    "Claimed/Busy": (
        Rule("WANT_SUSPEND and SUSPEND", "14", "suspend"),
        Rule("PREEMPT without WANT_SUSPEND", "13", "preempt", marks=_IRREVOCABLE),
        Rule("a better match waits", "13", "better_match"),
    ),
    "Claimed/Suspended": (
        Rule("it retires and its retirement is over", "17", "retirement_over", EVICTED),
        Rule("PREEMPT for the first time", "16", "preempt", marks=_IRREVOCABLE),
        Rule("CONTINUE and it retires", "16", "continue"),
        Rule("CONTINUE", "15", "continue"),
    ),
    "Claimed/Retiring": (
        Rule("nothing makes it retire any more", "19", "better_match_gone"),
        Rule("its retirement is over", "18", "retirement_over", EVICTED),
        Rule("WANT_SUSPEND and SUSPEND", "20", "suspend"),
        Rule("PREEMPT for the first time", "", "preempt", marks=_IRREVOCABLE),
    ),
    "Preempting/Vacating": (
        Rule("KILL", "21", "kill"),
    ),
    "Drained/Idle": (
        Rule("the machine no longer drains", "34", "drain_over"),
    ),
    "Drained/Retiring": (
        Rule("the machine no longer drains", "35", "drain_over"),
        Rule("all its slots are drained", "33", "drained"),
    ),
}  # fmt: skip

HTCONDOR_25: Final[Rules] = {
    "Owner/Idle": (
        Rule("the machine drains", "36", "draining"),
        Rule("IS_OWNER is not true", "1", "not_owner"),
    ),
    "Owner/Retiring": (
        Rule("the machine drains", "36", "draining"),
        Rule("IS_OWNER is not true", "35b", "not_owner"),
    ),
    "Unclaimed/Idle": (
        Rule("the machine drains", "37", "draining"),
        Rule("IS_OWNER", "2", "is_owner"),
        Rule("RUNBENCHMARKS", "3", "run_benchmarks", polled=True),
    ),
    "Unclaimed/Benchmarking": (
        Rule("the machine drains", "37", "draining"),
    ),
    "Claimed/Idle": (
        Rule("it retires and its retirement is over", "10", "retirement_over", EVICTED),
        Rule("a better match waits", "10", "better_match", EVICTED),
        Rule("IS_OWNER", "10", "is_owner", EVICTED),
        Rule("the claim is too old", "10", "worklife", EVICTED),
        Rule("the machine drains and no job is on its way", "10", "draining", EVICTED),
    ),
    "Claimed/Busy": (
        Rule("it retires and its retirement is over", "13a", "retirement_over", EVICTED, killing="13b"),
        Rule("PREEMPT without WANT_SUSPEND", "13", "preempt", marks=_IRREVOCABLE),
        Rule("WANT_SUSPEND and SUSPEND", "14", "suspend"),
        Rule("a better match waits", "13", "better_match"),
    ),
    "Claimed/Suspended": (
        Rule("it retires and its retirement is over", "17", "retirement_over", EVICTED),
        Rule("PREEMPT for the first time", "16", "preempt", marks=_IRREVOCABLE),
        Rule("CONTINUE and it retires", "16", "continue"),
        Rule("CONTINUE", "15", "continue"),
    ),
    "Claimed/Retiring": (
        Rule("it retires and its retirement is over", "18", "retirement_over", EVICTED),
        Rule("PREEMPT for the first time without WANT_SUSPEND", "", "preempt", marks=_IRREVOCABLE),
        Rule("nothing makes it retire any more", "19", "better_match_gone"),
        Rule("its retirement is over", "18", "retirement_over", EVICTED),
        Rule("WANT_SUSPEND and SUSPEND", "20", "suspend"),
    ),
    "Preempting/Vacating": (
        Rule("KILL", "21", "kill"),
    ),
    "Drained/Idle": (
        Rule("the machine no longer drains", "34", "drain_over"),
    ),
    "Drained/Retiring": (
        Rule("the machine no longer drains", "35a", "drain_over"),
        Rule("all its slots are drained", "33", "drained"),
    ),
}  # fmt: skip

RULES: Final[Mapping[str, Rules]] = {"manual": MANUAL, "htcondor-25": HTCONDOR_25}


def _preempts(look: Look) -> bool:
    return look.true("PREEMPT")


def _first(look: Look) -> bool:
    """Whether PREEMPT has not been true for this job before."""
    return look.slot.claim is not None and "preempted" not in look.slot.claim.marks


def _drains(look: Look) -> bool:
    return time_limits.draining(look) and look.slot.kind != "dynamic"


def _all_drained(look: Look) -> bool:
    return time_limits.draining(look) and all(slot.state == "Drained" for slot in neighbours(look.state, look.slot))


def _may_benchmark(look: Look) -> bool:
    """RUNBENCHMARKS, while no other slot of the machine runs them."""
    if look.slot.kind == "dynamic" or not look.true("RUNBENCHMARKS"):
        return False
    return _nobody_benchmarks(look)


def _nobody_benchmarks(look: Look) -> bool:
    return all(slot.activity != "Benchmarking" for slot in neighbours(look.state, look.slot))


def _first_benchmarks(look: Look) -> bool:
    """The manual: where RUNBENCHMARKS is set to something other than false, they are run once in any case ("Unclaimed
    State")."""
    machine = look.state.machines.get(look.slot.machine)
    asked = look.expression("RUNBENCHMARKS")
    set_to_false = isinstance(asked, Literal) and constant(asked) is False
    never = machine is not None and not machine.benchmarked and look.slot.kind != "dynamic"
    return never and not set_to_false and _nobody_benchmarks(look)


def _suspends(look: Look) -> bool:
    """WANT_SUSPEND and SUSPEND; a job that is told to end already is let go."""
    activation = look.slot.activation
    ending = activation is not None and bool(activation.stop)
    return not ending and look.true("WANT_SUSPEND") and look.true("SUSPEND")


def _by_command(look: Look) -> bool:
    """Whether a request suspended it: only a request lets it go on."""
    return look.slot.claim is not None and "by_command" in look.slot.claim.marks


def _continues(look: Look) -> bool:
    return not _by_command(look) and look.true("CONTINUE")


def _preempt_unless_suspended(look: Look) -> bool:
    return not look.true("WANT_SUSPEND") and look.true("PREEMPT")


CONDITIONS: Final[Mapping[str, tuple[Condition, tuple[str, ...]]]] = {
    # name: (condition, the expressions of the policy that it reads)
    "IS_OWNER": (lambda look: look.true("IS_OWNER"), ("IS_OWNER",)),
    "IS_OWNER is not true": (lambda look: not look.true("IS_OWNER"), ("IS_OWNER",)),
    "START is locally false": (lambda look: look.locally_false("Start"), ("Start",)),
    "RUNBENCHMARKS": (_may_benchmark, ("RUNBENCHMARKS",)),
    "benchmarks never ran, and RUNBENCHMARKS is not set to false": (_first_benchmarks, ("RUNBENCHMARKS",)),
    "WANT_SUSPEND and SUSPEND": (_suspends, ("WANT_SUSPEND", "SUSPEND")),
    "PREEMPT without WANT_SUSPEND": (_preempt_unless_suspended, ("WANT_SUSPEND", "PREEMPT")),
    "PREEMPT for the first time": (lambda look: _first(look) and _preempts(look), ("PREEMPT",)),
    "PREEMPT for the first time without WANT_SUSPEND": (
        lambda look: _first(look) and _preempt_unless_suspended(look), ("WANT_SUSPEND", "PREEMPT")),
    "CONTINUE": (_continues, ("CONTINUE",)),
    "CONTINUE and it retires": (lambda look: time_limits.in_retirement(look) and _continues(look), ("CONTINUE",)),
    "KILL": (lambda look: look.true("KILL"), ("KILL",)),
    "a better match waits": (lambda look: look.slot.waiting is not None, ()),
    "it retires and its retirement is over": (
        lambda look: time_limits.in_retirement(look) and time_limits.retirement_over(look), ("MaxJobRetirementTime",)),
    "its retirement is over": (time_limits.retirement_over, ("MaxJobRetirementTime",)),
    "nothing makes it retire any more": (time_limits.may_unretire, ()),
    "the claim is too old": (time_limits.worklife_over, ()),
    "the machine drains": (_drains, ()),
    "the machine drains and no job is on its way": (
        lambda look: time_limits.draining(look) and not time_limits.waits_for_activation(look), ()),
    "the machine no longer drains": (lambda look: not time_limits.draining(look), ()),
    "all its slots are drained": (_all_drained, ()),
}  # fmt: skip
"""Every condition of a rule, with the expressions of the policy that it reads."""


def applying(dialect: str, look: Look, *, arrived: bool = False) -> Rule | None:
    """The first rule of the slot's state and activity that holds, for a slot that has just ``arrived`` there or in a
    round; None: nothing changes."""
    for rule in RULES[dialect].get(look.slot.pair, ()):
        if arrived and rule.polled:
            continue
        look.verdict = None  # what another rule asked is no evidence for this one
        if CONDITIONS[rule.when][0](look):
            return rule
    return None
