"""Table: what cycles give to groups with quotas; the manual's examples first (CM, "Hierarchical Group Quotas")."""

from __future__ import annotations

import pytest

from poolbook.domain.events import QuotasAssigned, Unmatched

from ..negotiation.pools import Pool
from ..together import together
from .trees import MANUAL, MANUAL_DYNAMIC

TWO = {
    "GROUP_NAMES": "group_physics, group_chemistry", "GROUP_QUOTA_group_physics": "20",
    "GROUP_QUOTA_group_chemistry": "10",
}  # fmt: skip
DIALECTS = ("manual", "htcondor-25")
OVERSUBSCRIBED = {"NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION": "true"}
SCALED = {"NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION": "false"}
EINSTEIN, CURIE = "group_physics.einstein", "group_chemistry.curie"
HIGGS, PAULI = "group_physics.hep.higgs", "group_physics.lep.pauli"


def pool_of(slots: int, settings: dict[str, str], jobs: dict[str, int], dialect: str = "manual") -> Pool:
    pool = Pool(dialect, **settings)
    pool.slots(slots)
    for user, count in jobs.items():
        pool.submit(user, count)
    return pool


def settled(pool: Pool, cycles: int = 3) -> dict[str, float]:
    """Return the cores of each submitter after some cycles."""
    for _ in range(cycles):
        pool.cycle()
    return {name: cores for name, cores in pool.has().items() if cores}


def reasons(pool: Pool) -> dict[str, Unmatched]:
    cycle = pool.hold().held
    return {} if cycle is None else {rejection.submitter.partition("@")[0]: rejection for rejection in cycle.unmatched}


# The manual's examples


@together(
    ("slots", "settings", "physics", "chemistry"),
    [
        (30, TWO, 20, 10),
        (15, TWO | SCALED, 10, 5),
        (60, TWO, 20, 10),
        (30, {"GROUP_NAMES": TWO["GROUP_NAMES"], "GROUP_QUOTA_DYNAMIC_group_physics": "0.66",
              "GROUP_QUOTA_DYNAMIC_group_chemistry": "0.33"}, 19, 9),
    ],
)  # fmt: skip
def test_at_most_20_of_the_physicists_jobs_and_10_of_the_chemists_run(
    slots: int, settings: dict[str, str], physics: int, chemistry: int
) -> None:
    for dialect in DIALECTS:
        pool = pool_of(slots, settings, {EINSTEIN: 60, CURIE: 60}, dialect)
        assert settled(pool) == {EINSTEIN: physics, CURIE: chemistry}


def test_half_of_the_pool_fills_half_of_the_quotas_in_the_manuals_dialect() -> None:
    """HTCondor keeps the quotas if the setting has its default, and the smaller name comes first."""
    jobs = {EINSTEIN: 60, CURIE: 60}
    assert settled(pool_of(15, TWO, jobs)) == {EINSTEIN: 10, CURIE: 5}
    assert settled(pool_of(15, TWO, jobs, "htcondor-25")) == {EINSTEIN: 5, CURIE: 10}


def test_jobs_without_a_group_get_what_no_group_may_have() -> None:
    assert settled(pool_of(60, TWO, {EINSTEIN: 60, CURIE: 60, "ann": 60})) == {EINSTEIN: 20, CURIE: 10, "ann": 30}
    assert settled(pool_of(30, TWO, {"ann": 60})) == {"ann": 30}  # no one else wants it


@together("settings", [MANUAL, MANUAL_DYNAMIC, MANUAL | OVERSUBSCRIBED])
def test_high_and_low_energy_share_the_physicists_slots(settings: dict[str, str]) -> None:
    for dialect in DIALECTS:
        pool = pool_of(30, settings, {HIGGS: 60, PAULI: 60, CURIE: 60}, dialect)
        has = settled(pool)
        assert has[HIGGS] in (15, 14) and has[PAULI] in (5, 4) and has[CURIE] in (10, 9)
        if settings is not MANUAL_DYNAMIC:
            assert has == {HIGGS: 15, PAULI: 5, CURIE: 10}


SURPLUS = {f"GROUP_ACCEPT_SURPLUS_group_physics.{name}": "true" for name in ("hep", "lep")}
SURPLUS |= {"GROUP_ACCEPT_SURPLUS_group_physics": "false"}


@together(
    ("settings", "jobs", "has"),
    [
        # hep and lep accept surplus, physics does not: their sum is 20
        (SURPLUS, {HIGGS: 60}, {HIGGS: 20}),
        (SURPLUS, {HIGGS: 60, PAULI: 60}, {HIGGS: 15, PAULI: 5}),
        (SURPLUS, {HIGGS: 60, PAULI: 2, CURIE: 60}, {HIGGS: 18, PAULI: 2, CURIE: 10}),
        # physics accepts it, too: neither is limited
        (SURPLUS | {"GROUP_ACCEPT_SURPLUS_group_physics": "true"}, {HIGGS: 60}, {HIGGS: 30}),
        (SURPLUS | {"GROUP_ACCEPT_SURPLUS_group_physics": "true"}, {PAULI: 60, CURIE: 4}, {PAULI: 26, CURIE: 4}),
        # no one does
        ({}, {HIGGS: 60}, {HIGGS: 15}),
        ({"GROUP_ACCEPT_SURPLUS": "true"}, {CURIE: 60, PAULI: 3}, {CURIE: 27, PAULI: 3}),
    ],
)
def test_surplus_goes_as_far_as_it_is_accepted(
    settings: dict[str, str], jobs: dict[str, int], has: dict[str, int]
) -> None:
    for dialect in DIALECTS:
        assert settled(pool_of(30, MANUAL | SCALED | settings, jobs, dialect)) == has


def test_if_quotas_may_be_oversubscribed_surplus_counts_twice_and_the_cap_holds() -> None:
    """As in the recorded traces 09b: physics' own 20 are surplus for hep and lep, whose sum is 20 nevertheless."""
    for dialect in DIALECTS:
        assert settled(pool_of(30, MANUAL | OVERSUBSCRIBED | SURPLUS, {HIGGS: 60, PAULI: 60}, dialect)) == {HIGGS: 20}


def test_strict_priority_of_three_groups() -> None:
    """The manual's recipe: quotas that no pool fills, each smaller than the one before."""
    settings = OVERSUBSCRIBED | {
        "GROUP_NAMES": "c, b, a", "GROUP_QUOTA_a": "1000000", "GROUP_QUOTA_b": "100000", "GROUP_QUOTA_c": "10000",
    }  # fmt: skip
    for dialect in DIALECTS:
        pool = pool_of(20, settings, {"c.cy": 9, "b.bob": 8, "a.ann": 15}, dialect)
        assert pool.match_counts(pool.cycle()) == {"a.ann": 15, "b.bob": 5}
    pool = pool_of(20, settings, {"c.cy": 9, "b.bob": 8, "a.ann": 12})
    assert settled(pool, 2) == {"a.ann": 12, "b.bob": 8}
    for number in range(1, 11):
        pool.end_job(f"slot{number}@h")
    assert settled(pool, 1) == {"a.ann": 12, "b.bob": 8}  # although c uses none of its quota


def test_the_order_of_names_does_not_matter_for_strict_priority() -> None:
    """In the manual's dialect physics comes before chemistry, which precedes it in the alphabet; not so in HTCondor."""
    settings = TWO | OVERSUBSCRIBED | {
        "GROUP_QUOTA_group_physics": "1000000", "GROUP_QUOTA_group_chemistry": "1000",
    }  # fmt: skip
    assert settled(pool_of(15, settings, {EINSTEIN: 10, CURIE: 10})) == {EINSTEIN: 10, CURIE: 5}
    assert settled(pool_of(15, settings, {EINSTEIN: 10, CURIE: 10}, "htcondor-25")) == {EINSTEIN: 5, CURIE: 10}


# The order of groups, and their shares


def order(pool: Pool) -> list[str]:
    return list(dict.fromkeys(choice.cluster.submitter.partition("@")[0] for choice in pool.hold().choices))


def test_the_group_with_the_smallest_used_part_of_its_quota_comes_first_and_none_last() -> None:
    settings = {"GROUP_NAMES": "a b c", "GROUP_QUOTA_a": "4", "GROUP_QUOTA_b": "4", "GROUP_QUOTA_c": "2"}
    pool = pool_of(20, settings, {"zoe": 3, "a.ann": 3, "b.bob": 3, "c.cy": 3})
    assert order(pool) == ["a.ann", "b.bob", "c.cy", "zoe"]
    pool.claim("slot1@h", "a.x@here")
    pool.claim("slot2@h", "a.x@here")
    pool.claim("slot3@h", "c.x@here")
    assert order(pool) == ["b.bob", "a.ann", "c.cy", "zoe"]  # 0, 2 of 4, 1 of 2
    pool.claim("slot4@h", "c.y@here")
    assert order(pool) == ["b.bob", "a.ann", "zoe"]


@together(
    ("expression", "first"),
    [
        ("GroupQuota", "c.cy"), ("-GroupQuota", "zoe"), ('AccountingGroup == "b" ? 0 : 1', "b.bob"),
        ("GroupResourcesInUse", "zoe"), ("-GroupResourcesInUse", "b.bob"), ("-GroupResourcesAllocated", "a.ann"),
        ('ifThenElse(AccountingGroup == "<none>", 5, GroupResourcesInUse)', "a.ann"),
        ('AccountingGroup == "<none>" ? "last" : 7', "a.ann"), ('AccountingGroup =!= "c" ? undefined : 7', "c.cy"),
        ('AccountingGroup == "b"', "zoe"),  # false is 0
    ],
)  # fmt: skip
def test_group_sort_expr_decides_the_order(expression: str, first: str) -> None:
    settings = {
        "GROUP_NAMES": "a b c", "GROUP_QUOTA_a": "6", "GROUP_QUOTA_b": "4", "GROUP_QUOTA_c": "2",
        "GROUP_SORT_EXPR": expression,
    }  # fmt: skip
    pool = pool_of(20, settings, {"zoe": 3, "a.ann": 9, "b.bob": 9, "c.cy": 9})
    pool.claim("slot1@h", "b.x@here")
    assert order(pool)[0] == first


def test_a_groups_submitters_share_the_groups_quota() -> None:
    pool = pool_of(30, TWO, {EINSTEIN: 60, "group_physics.bohr": 60, "group_physics.dirac": 60, CURIE: 3})
    pool.grant("group_physics.bohr", "factor", 2000)
    assert pool.match_counts(pool.cycle()) == {EINSTEIN: 8, "group_physics.dirac": 8, "group_physics.bohr": 4, CURIE: 3}


def test_quotas_count_in_the_weights_of_slots() -> None:
    pool = Pool("manual", GROUP_NAMES="a", GROUP_QUOTA_a="9")
    for number in range(1, 8):
        pool.slot(f"slot{number}@h", Cpus="4")
    pool.submit("a.ann", 9, RequestCpus="4")
    assert pool.match_counts(pool.cycle()) == {"a.ann": 2}  # a third would make 12
    pool = Pool(GROUP_NAMES="a", GROUP_QUOTA_a="3", NEGOTIATOR_USE_SLOT_WEIGHTS="false")
    for number in range(1, 8):
        pool.slot(f"slot{number}@h", Cpus="4")
    pool.submit("a.ann", 9, RequestCpus="4")
    assert pool.match_counts(pool.cycle()) == {"a.ann": 3}


def test_htcondors_negotiator_lets_a_submitter_exceed_its_groups_quota_by_a_slot() -> None:
    for dialect, jobs_by_user in (("manual", {}), ("htcondor-25", {"a.ann": 1})):
        pool = Pool(dialect, GROUP_NAMES="a", GROUP_QUOTA_a="3")
        pool.slot("slot1@h", Cpus="4")
        pool.submit("a.ann", 2, RequestCpus="4")
        assert pool.match_counts() == jobs_by_user


@together(("weighted", "matched_jobs"), [("true", 2), ("false", 1)])
def test_demand_is_counted_in_cores_or_in_jobs(weighted: str, matched_jobs: int) -> None:
    """Two jobs of four cores request eight cores of surplus, or two."""
    settings = {
        "GROUP_NAMES": "a", "GROUP_ACCEPT_SURPLUS": "true", "NEGOTIATOR_USE_WEIGHTED_DEMAND": weighted,
        "GROUP_QUOTA_MAX_ALLOCATION_ROUNDS": "1",
    }  # fmt: skip
    pool = Pool("htcondor-25", **settings)
    for number in range(1, 5):
        pool.slot(f"slot{number}@h", Cpus="4")
    pool.submit("a.ann", 2, RequestCpus="4")
    assert pool.match_counts() == {"a.ann": matched_jobs}


def test_what_a_group_cannot_use_goes_to_others_in_the_next_round() -> None:
    settings = {"GROUP_NAMES": "a b", "GROUP_QUOTA_a": "5", "GROUP_QUOTA_b": "5", "GROUP_ACCEPT_SURPLUS": "true"}
    for rounds, bob in ((1, 5), (3, 10)):
        for dialect in DIALECTS:
            pool = Pool(dialect, **settings, GROUP_QUOTA_MAX_ALLOCATION_ROUNDS=str(rounds))
            pool.slots(10)
            pool.submit("a.ann", 9, Requirements="false")
            pool.submit("b.bob", 20)
            assert pool.match_counts() == {"b.bob": bob}


def test_with_a_round_robin_rate_groups_take_turns() -> None:
    settings = {"GROUP_NAMES": "a b", "GROUP_QUOTA_a": "4", "GROUP_QUOTA_b": "4", "GROUP_QUOTA_ROUND_ROBIN_RATE": "1"}
    pool = pool_of(8, settings, {"a.ann": 9, "b.bob": 9})
    users = [choice.cluster.submitter[0] for choice in pool.hold().choices]
    assert users == ["a", "b"] * 4


def test_matches_that_are_not_claimed_yet_count() -> None:
    pool = pool_of(30, TWO, {EINSTEIN: 60})
    cycle = pool.hold()
    assert cycle.held is not None
    pool.append(cycle.held)
    assert pool.match_counts() == {}


# Floors and ceilings, preemption


def test_a_ceiling_and_a_floor_hold_within_a_group() -> None:
    pool = pool_of(30, TWO, {EINSTEIN: 60, "group_physics.bohr": 60})
    pool.grant(EINSTEIN, "ceiling", 3)
    assert pool.match_counts() == {EINSTEIN: 3, "group_physics.bohr": 17}
    pool = pool_of(30, TWO, {EINSTEIN: 60, "group_physics.bohr": 60})
    pool.grant(EINSTEIN, "priority", 1000)
    pool.grant(EINSTEIN, "floor", 7)
    jobs_by_user = pool.match_counts()
    assert jobs_by_user[EINSTEIN] == 7 and sum(jobs_by_user.values()) == 20


def test_no_slot_is_preempted_beyond_a_quota_in_the_manuals_dialect() -> None:
    """bob's slots prefer ann's jobs, and her priority is better: her group may have no more than two."""
    for own_rank, requirements in (('TARGET.Owner == "a.ann"', "false"), ("0.0", "true")):
        pool = Pool(
            "manual", GROUP_NAMES="a b", GROUP_QUOTA_a="2", GROUP_QUOTA_b="4", PREEMPTION_REQUIREMENTS=requirements
        )
        pool.slots(6, Rank=own_rank)
        for number in range(1, 5):
            pool.claim(f"slot{number}@h", "b.bob@here")
        pool.grant("b.bob", "priority", 100)
        pool.submit("a.ann", 9)
        assert pool.match_counts() == {"a.ann": 2}


def test_within_a_group_slots_are_preempted_at_its_quota() -> None:
    pool = Pool("manual", GROUP_NAMES="a", GROUP_QUOTA_a="2", PREEMPTION_REQUIREMENTS="true")
    pool.slots(2)
    for number in (1, 2):
        pool.claim(f"slot{number}@h", "a.bob@here")
    pool.grant("a.bob", "priority", 100)
    pool.submit("a.ann", 9)
    assert len(pool.hold().choices) >= 1


@together(
    ("requirements", "dedicated"),
    [
        ('SubmitterGroup == "a" && RemoteGroup == "b"', 1),
        ("SubmitterGroupQuota == 2 && RemoteGroupQuota == 3", 1),
        ("SubmitterGroupResourcesInUse == 0 && RemoteGroupResourcesInUse == 4", 1),
        ("RemoteGroupResourcesInUse > RemoteGroupQuota && SubmitterGroupResourcesInUse < SubmitterGroupQuota", 1),
        ("RemoteGroupResourcesInUse < RemoteGroupQuota", 0),
        ('SubmitterNegotiatingGroup == "a" && RemoteNegotiatingGroup == "b"', 1),
        ("SubmitterNegotiatingGroup =?= RemoteNegotiatingGroup", 0),
        ("SubmitterAutoregroup || RemoteAutoregroup", 0),
    ],
)
def test_preemption_requirements_may_read_groups_and_quotas(requirements: str, dedicated: int) -> None:
    """The manual's use: a group over its quota makes room for one below it."""
    for dialect in DIALECTS:
        pool = Pool(
            dialect, GROUP_NAMES="a b", GROUP_QUOTA_a="2", GROUP_QUOTA_b="3", PREEMPTION_REQUIREMENTS=requirements,
            **OVERSUBSCRIBED,
        )  # fmt: skip
        pool.slots(4)
        for number in range(1, 5):
            pool.claim(f"slot{number}@h", "b.bob@here")
        pool.grant("b.bob", "priority", 100)
        pool.submit("a.ann", 1)
        assert len(pool.matched()) == dedicated


# Autoregroup

REGROUPED = 'RemoteNegotiatingGroup == "<none>" && RemoteAutoregroup =?= false'
"""HTCondor's negotiator never reports that a slot was negotiated for by autoregroup."""
REGROUPS = {"GROUP_NAMES": "a b", "GROUP_QUOTA_a": "2", "GROUP_QUOTA_b": "3", "GROUP_AUTOREGROUP_a": "true"}


def test_submitters_of_a_group_with_autoregroup_also_negotiate_without_a_group() -> None:
    for dialect in DIALECTS:
        pool = pool_of(10, REGROUPS, {"a.ann": 20}, dialect)
        assert pool.match_counts() == {"a.ann": 10}
        assert pool_of(10, REGROUPS, {"b.bob": 20}, dialect).match_counts() == {"b.bob": 3}
        jobs_by_user = pool_of(10, REGROUPS, {"a.ann": 20, "b.bob": 20, "cy": 20}, dialect).match_counts()
        assert jobs_by_user["b.bob"] == 3 and jobs_by_user["a.ann"] >= 2 and sum(jobs_by_user.values()) == 10


def test_the_log_records_which_jobs_negotiated_by_autoregroup_and_so_do_the_claims() -> None:
    pool = pool_of(5, REGROUPS | {"PREEMPTION_REQUIREMENTS": REGROUPED}, {"a.ann": 5})
    cycle = pool.cycle()
    assert cycle.held is not None
    assert cycle.held.regrouped == ("1.2", "1.3", "1.4")
    claims = [slot.claim for slot in pool.state.slots.values()]
    assert [claim is not None and claim.regrouped for claim in claims] == [False, False, True, True, True]
    pool.grant("a.ann", "priority", 1000)
    pool.submit("b.bob", 4)
    assert {choice.slot for choice in pool.hold().choices} == {"slot3@h", "slot4@h", "slot5@h"}


def test_expressions_see_under_which_group_a_job_negotiates() -> None:
    """ann may have the larger slots only as a submitter without a group."""
    start = 'TARGET.SubmitterNegotiatingGroup == "<none>" && TARGET.SubmitterAutoregroup'
    pool = Pool(**REGROUPS)
    pool.slots(3)
    pool.slots(3, "big", Start=start)
    pool.submit("a.ann", 9)
    pool.submit("b.bob", 9)
    slots_by_user = {
        user: [c.slot for c in pool.hold().choices if c.cluster.submitter.startswith(user)] for user in "ab"
    }
    assert {slot for slot in slots_by_user["a"] if slot.endswith("big")} == {"slot1@big", "slot2@big", "slot3@big"}
    assert not any(slot.endswith("big") for slot in slots_by_user["b"])


# Reports


@together(
    ("settings", "jobs", "user", "expected"),
    [
        (TWO, {EINSTEIN: 60}, EINSTEIN, ("group_physics", 20, 20)),
        (MANUAL, {HIGGS: 60}, HIGGS, ("group_physics.hep", 15, 15)),
        (MANUAL | SURPLUS, {HIGGS: 60}, HIGGS, ("group_physics", 20, 20)),
        ({"GROUP_NAMES": "group_physics"}, {EINSTEIN: 1}, EINSTEIN, ("group_physics", 0, 0)),
    ],
)
def test_the_rejection_names_the_group_whose_quota_is_used_up(
    settings: dict[str, str], jobs: dict[str, int], user: str, expected: tuple[str, float, float]
) -> None:
    for dialect in DIALECTS:
        pool = pool_of(40, settings, jobs, dialect)
        rejection = reasons(pool)[user]
        assert (rejection.limit, rejection.group, rejection.allowed, rejection.used) == ("quota", *expected)
        pool.cycle()
        cycle = pool.hold().held
        assert cycle is None or not cycle.unmatched  # it was reported before


def test_if_no_slot_is_left_the_quota_is_not_the_reason() -> None:
    pool = pool_of(15, TWO, {EINSTEIN: 60})
    assert reasons(pool)[EINSTEIN].limit == "quota"  # 10 of 15, by the manual
    pool = pool_of(15, TWO | OVERSUBSCRIBED, {EINSTEIN: 60})
    assert reasons(pool)[EINSTEIN].limit == ""


def test_a_change_of_quotas_is_an_event() -> None:
    pool = pool_of(30, TWO, {EINSTEIN: 60})

    def assigned() -> QuotasAssigned | None:
        cycle = pool.hold()
        if cycle.quotas is not None:
            pool.append(cycle.quotas)
        return cycle.quotas

    first = assigned()
    assert first is not None and first.total == 30
    assert [(group.name, group.quota, group.subtree) for group in first.groups] == [
        ("<none>", 0, 30), ("group_chemistry", 10, 10), ("group_physics", 20, 20),
    ]  # fmt: skip
    assert assigned() is None
    pool.slots(30, "more")
    second = assigned()
    assert second is not None and (second.total, second.groups[0].quota) == (60, 30)
    assert assigned() is None


@pytest.mark.parametrize("settings", [{}, {"GROUP_NAMES": ""}, {"GROUP_QUOTA_a": "3"}])
def test_without_groups_quotas_are_not_reported(settings: dict[str, str]) -> None:
    cycle = pool_of(4, settings, {"a.ann": 9}).hold()
    assert cycle.quotas is None
    assert cycle.held is not None and cycle.held.rules == 8 and len(cycle.choices) == 4


def test_cycles_with_groups_have_their_own_rules_number() -> None:
    cycle = pool_of(4, TWO, {EINSTEIN: 9}).hold().held
    assert cycle is not None and cycle.rules == 12
