"""Property: when a cycle preempts a claimed slot, and when not."""

from __future__ import annotations

import pytest

from poolbook.domain.events import Denied

from ..together import together
from .pools import SECOND, Pool

DIALECTS = ["manual", "htcondor-25"]
NO_RANKS = {"NEGOTIATOR_PRE_JOB_RANK": "", "NEGOTIATOR_POST_JOB_RANK": ""}


def contested(
    dialect: str = "htcondor-25", slots: int = 1, rank: str = "0.0", now: float = 0.0, /, **more: str
) -> Pool:
    """Return a pool with slots of bob, whose priority is bad, while ann waits for as many."""
    pool = Pool(dialect, **{"PREEMPTION_REQUIREMENTS": "true"} | NO_RANKS | more)
    pool.slots(slots, Rank=rank)
    for number in range(1, slots + 1):
        pool.claim(f"slot{number}@h", "bob@here", now)
    pool.grant("bob", "priority", 50)
    pool.submit("ann", slots)
    return pool


def reasons(pool: Pool) -> list[str]:
    cycle = pool.hold().held
    return [] if cycle is None else [match.reason for match in cycle.matches]


def denied(pool: Pool) -> Denied | None:
    cycle = pool.hold().held
    assert cycle is not None
    return cycle.unmatched[0].denied


# The three reasons


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("rank", "now", "requirements", "reason"),
    [
        ("0.0", 0.0, "true", ["priority"]),
        ("0.0", 0.0, "", ["priority"]),
        ("0.0", 0.0, "1", ["priority"]),
        ("0.0", 0.0, "false", []),
        ("0.0", 0.0, "undefined", []),
        ("0.0", 0.0, '"yes"', []),
        ("0.0", 1.0, "true", []),  # the slot prefers the job that it has
        ('"high"', 0.0, "true", []),
        ("undefined", 0.0, "true", []),
        ("5", 1.0, "false", ["rank"]),
        ('TARGET.Owner == "ann"', 0.0, "false", ["rank"]),
        ('TARGET.Owner == "cy"', 0.0, "true", ["priority"]),
    ],
)
def test_a_slot_is_preempted_by_rank_or_by_priority(
    dialect: str, rank: str, now: float, requirements: str, reason: list[str]
) -> None:
    assert reasons(contested(dialect, 1, rank, now, PREEMPTION_REQUIREMENTS=requirements)) == reason


@pytest.mark.parametrize(("priority", "by_the_manual"), [(0.6, ["priority"]), (0.5, [])])
def test_only_the_manual_requires_that_the_submitters_priority_is_better(
    priority: float, by_the_manual: list[str]
) -> None:
    """HTCondor's negotiator leaves it to PREEMPTION_REQUIREMENTS."""
    for dialect, expected in (("manual", by_the_manual), ("htcondor-25", ["priority"])):
        pool = contested(dialect, 2)
        pool.grant("bob", "priority", priority)
        pool.grant("ann", "priority", 0.5)
        assert reasons(pool)[:1] == expected


def test_no_one_preempts_its_own_slot_by_priority_but_by_the_slots_rank() -> None:
    pool = Pool(PREEMPTION_REQUIREMENTS="true", **NO_RANKS)
    pool.slots(2, Rank="TARGET.Good =?= true")
    for name in ("slot1@h", "slot2@h"):
        pool.claim(name, "bob@here")
    pool.submit("bob", 1)
    assert reasons(pool) == []
    assert denied(pool) == Denied(own=2)
    pool.submit("bob", 1, Good="true")
    assert reasons(pool) == ["rank"]


@pytest.mark.parametrize(
    ("rank", "now", "requirements", "is_told"),
    [
        ("0.0", 0.0, "false", Denied(policy=2)),
        ("0.0", 1.0, "true", Denied(rank=2)),
    ],
)
def test_the_reason_for_not_preempting_a_slot_is_recorded(
    rank: str, now: float, requirements: str, is_told: Denied
) -> None:
    assert denied(contested("htcondor-25", 2, rank, now, PREEMPTION_REQUIREMENTS=requirements)) == is_told


def test_without_preemption_no_slot_is_preempted_for_any_reason() -> None:
    pool = contested("htcondor-25", 1, 'TARGET.Owner == "ann"', NEGOTIATOR_CONSIDER_PREEMPTION="false")
    pool.slots(1, "free")
    assert reasons(pool) == [""]
    pool.claim("slot1@free", "bob@here")
    assert reasons(pool) == []
    assert denied(pool) == Denied(never=2)


# Among slots


def test_free_slots_come_before_preferred_ones_and_these_before_the_others() -> None:
    pool = contested()
    pool.slot("slot1@likes", Rank='TARGET.Owner == "ann"')
    pool.claim("slot1@likes", "bob@here")
    pool.slot("slot1@free")
    pool.submit("ann", 2)
    cycle = pool.hold().held
    assert cycle is not None
    assert [(match.slot, match.reason) for match in cycle.matches] == [
        ("slot1@free", ""),
        ("slot1@likes", "rank"),
        ("slot1@h", "priority"),
    ]


@pytest.mark.parametrize(
    ("more", "first"),
    [
        ({"NEGOTIATOR_PRE_JOB_RANK": "Memory"}, "slot1@h"),
        ({"NEGOTIATOR_POST_JOB_RANK": "Memory"}, "slot1@h"),
        ({}, "slot1@free"),
    ],
)
def test_every_rank_decides_before_the_reason(more: dict[str, str], first: str) -> None:
    pool = contested(**more)
    pool.slot("slot1@free", Memory="512")
    assert [slot for _, slot in pool.matched()] == [first]


@pytest.mark.parametrize(
    ("rank", "first"),
    [("RemoteUserPrio", "slot2@h"), ("-RemoteUserPrio", "slot1@h"), ("-TotalJobRunTime", "slot2@h"), ("", "slot1@h")],
)
def test_preemption_rank_orders_the_slots_that_may_be_preempted(rank: str, first: str) -> None:
    pool = Pool(PREEMPTION_REQUIREMENTS="true", PREEMPTION_RANK=rank, **NO_RANKS)
    pool.slots(2)
    pool.claim("slot1@h", "bob@here")
    pool.now += 60 * SECOND
    pool.claim("slot2@h", "cy@here")
    pool.grant("bob", "priority", 20)
    pool.grant("cy", "priority", 30)
    pool.submit("ann")
    assert [slot for _, slot in pool.matched()] == [first]


# Limits


def test_priority_preempts_only_enough_for_the_fair_share() -> None:
    """bob waits for more slots; a submitter that waits for nothing has no share from the second spin on."""
    pool = contested("htcondor-25", 4)
    pool.grant("ann", "priority", 10)
    pool.grant("bob", "priority", 30)
    assert len(pool.matched()) == 4
    pool.submit("bob")
    assert len(pool.matched()) == 3


def test_a_slots_rank_overrides_all_shares_but_no_ceiling() -> None:
    pool = contested("htcondor-25", 4, 'TARGET.Owner == "ann"')
    pool.grant("ann", "priority", 1000)
    assert reasons(pool) == ["rank"] * 4
    pool.grant("ann", "ceiling", 2)
    assert reasons(pool) == ["rank"] * 2


@pytest.mark.parametrize(("early", "pool_size"), [("false", 0), ("true", 1)])
def test_a_job_with_retirement_time_left_is_preempted_only_if_early_preemption_is_considered(
    early: str, pool_size: int
) -> None:
    pool = Pool(PREEMPTION_REQUIREMENTS="true", NEGOTIATOR_CONSIDER_EARLY_PREEMPTION=early, **NO_RANKS)
    pool.slot("slot1@h", MaxJobRetirementTime="100")
    pool.claim("slot1@h", "bob@here")
    pool.grant("bob", "priority", 50)
    pool.submit("ann")
    pool.now += 99 * SECOND
    assert len(pool.matched()) == pool_size
    pool.now += SECOND
    assert len(pool.matched()) == 1


# What the expressions see


@together(
    ("requirements", "pool_size"),
    [
        ("RemoteUserPrio > SubmitterUserPrio * 1.2", 1),
        ("RemoteUserPrio < SubmitterUserPrio", 0),
        ("SubmittorPrio == SubmitterUserPrio", 1),
        ("RemoteUserResourcesInUse == 1 && SubmitterUserResourcesInUse == 0", 1),
        ("slot1_RemoteUserPrio == RemoteUserPrio", 1),
        ("slot2_RemoteUserPrio =?= undefined", 1),
        ('RemoteGroup == "g" && RemoteGroupResourcesInUse == 1 && RemoteGroupQuota == 5', 1),
        ('SubmitterGroup == "<none>" && SubmitterGroupQuota == 0 && SubmitterGroupResourcesInUse == 0', 1),
        ('SubmitterNegotiatingGroup == "<none>" && RemoteNegotiatingGroup == "g"', 1),
        ("SubmitterAutoregroup || RemoteAutoregroup", 0),
        ("TotalJobRunTime >= 60", 1),
    ],
)
def test_preemption_requirements_see_the_ephemeral_attributes(requirements: str, pool_size: int) -> None:
    pool = Pool(
        PREEMPTION_REQUIREMENTS=requirements, NEGOTIATOR_CROSS_SLOT_PRIOS="true", GROUP_NAMES="g", GROUP_QUOTA_g="5",
        **NO_RANKS,
    )  # fmt: skip
    pool.slots(1)
    pool.claim("slot1@h", "g.bob@here")
    pool.grant("g.bob@here", "priority", 50)
    pool.now += 60 * SECOND
    pool.submit("ann")
    assert len(pool.matched()) == pool_size


@pytest.mark.parametrize(("stable", "pool_size"), [("true", 4), ("false", 2)])
def test_attributes_that_change_during_a_cycle_are_evaluated_again_unless_configured_as_stable(
    stable: str, pool_size: int
) -> None:
    pool = contested(
        "htcondor-25", 4, PREEMPTION_REQUIREMENTS="RemoteUserResourcesInUse > 2", PREEMPTION_REQUIREMENTS_STABLE=stable
    )
    assert len(pool.matched()) == pool_size


def test_a_preemption_that_becomes_allowed_during_a_cycle_happens_in_it() -> None:
    """Each match raises the submitter's usage: the first slot may be preempted only after the free one is taken."""
    pool = contested(PREEMPTION_REQUIREMENTS="SubmitterUserResourcesInUse >= 1", PREEMPTION_REQUIREMENTS_STABLE="false")
    pool.slot("slot1@free")
    pool.submit("ann")
    assert reasons(pool) == ["", "priority"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_one_preempts_a_slot_that_the_same_cycle_matched(dialect: str) -> None:
    pool = Pool(dialect, PREEMPTION_REQUIREMENTS="", **NO_RANKS)
    pool.slots(2, Rank='TARGET.Owner == "cy"')
    pool.claim("slot1@h", "bob@here")
    for user, priority in (("ann", 1), ("cy", 9), ("bob", 20)):
        pool.submit(user, 4)
        pool.grant(user, "priority", priority)
    cycle = pool.hold().held
    assert cycle is not None
    assert sorted(match.slot for match in cycle.matches) == ["slot1@h", "slot2@h"]


def test_the_reason_for_keeping_a_users_own_slot_is_found_again_when_the_slot_changes_hands() -> None:
    pool = contested()
    pool.slots(9, "other", Start="false")
    pool.grant("ann", "priority", 100)
    pool.submit("bob")  # is served first, but the slot is bob's own; then ann gets it
    cycle_event = pool.hold().held
    assert cycle_event is not None
    assert [rejection.denied for rejection in cycle_event.unmatched] == [Denied(own=1)]
    pool.append(cycle_event)
    cycle, refolded_cycle = pool.hold(), pool.hold(pool.folded())
    assert cycle.held == refolded_cycle.held
    assert cycle.held is not None
    assert [(rejection.denied, rejection.taken) for rejection in cycle.held.unmatched] == [(None, 1)]


@pytest.mark.parametrize(
    ("requirements", "configured"),
    [
        ("TARGET.RemoteUserPrio > 5000000", {}),
        ("TARGET.Bad", {}),
        ("TARGET.slot1_RemoteUserPrio > 5000000", {"NEGOTIATOR_CROSS_SLOT_PRIOS": "true"}),
    ],
)
def test_a_job_that_reads_who_has_a_slot_sees_the_current_user(requirements: str, configured: dict[str, str]) -> None:
    pool = Pool("htcondor-25", **{"PREEMPTION_REQUIREMENTS": "true"} | NO_RANKS | configured)
    pool.slots(1, Bad="RemoteUserPrio > 5000000")
    pool.claim("slot1@h", "bob@here")
    pool.submit("ann", Requirements=requirements)
    assert not pool.cycle().choices
    pool.grant("bob", "priority", 10_000)
    assert len(pool.cycle().choices) == 1


def test_an_autocluster_without_slots_is_requested_once_whatever_else_is_evaluated_again() -> None:
    pool = Pool(PREEMPTION_REQUIREMENTS="RemoteUserResourcesInUse > 9", PREEMPTION_REQUIREMENTS_STABLE="false")
    pool.slots(7)
    pool.claim("slot7@h", "dee@here")
    pool.submit("ann", Requirements="false")
    pool.cycle()
    for user in ("ann", "bob", "cy"):
        pool.submit(user, 9)
    cycle, refolded_cycle = pool.hold(), pool.hold(pool.folded())
    assert cycle.held == refolded_cycle.held
    assert cycle.held is not None
    assert cycle.held.statistics["PieSpins"] == 3
