"""Property: the negotiator preempts dynamic slots for a job on their partitionable slot by the manual's rules, and no
others."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.domain.classad import ClassAd, symmetric_match
from poolbook.domain.events import Match
from poolbook.domain.negotiator.cycle import CycleResult
from poolbook.domain.state.caches import ad_from_attributes

from ..together import together
from .pools import SECOND, Pool

FITS = (
    "TARGET.RequestCpus <= MY.Cpus && TARGET.RequestMemory <= MY.Memory && TARGET.RequestDisk <= MY.Disk"
    " && (TARGET.RequestGadgets ?: 0) <= (MY.Gadgets ?: 0)"
)
ALLOWED = {"ALLOW_PSLOT_PREEMPTION": "true", "PREEMPTION_REQUIREMENTS": "true"}
NO_RANKS = {"NEGOTIATOR_PRE_JOB_RANK": "", "NEGOTIATOR_POST_JOB_RANK": "", "PREEMPTION_RANK": ""}
PARENT = {"PartitionableSlot": "true", "WithinResourceLimits": FITS, "MachineResources": '"Cpus Memory Disk Gadgets"'}
DIALECTS = ("manual", "htcondor-25")


def machine(pool: Pool, name: str = "h", /, rank: str = "0.0", **free: str) -> str:
    """A machine whose one slot is cut; ``left`` is what is left of it."""
    have = {"Cpus": "0", "Memory": "0", "Disk": "100000", "Gadgets": "0"} | free
    return pool.slot(f"slot1@{name}", "partitionable", Rank=rank, **PARENT | have)


def part(
    pool: Pool, number: int, user: str = "bob", rank: float = 0.0, machine: str = "h", pair: str = "Claimed/Busy",
    **more: str,
) -> str:  # fmt: skip
    have = {"Cpus": "1", "Memory": "1000", "Disk": "2000", "Gadgets": "0", "DynamicSlot": "true"}
    parent = pool.state.slots[f"slot1@{machine}"]
    attributes = {"Rank": parent.ad["Rank"], **PARENT, "PartitionableSlot": ""} | have | more
    name = pool.slot(f"slot1_{number}@{machine}", "dynamic", parent.name, **attributes)
    pool.claim(name, f"{user}@here", rank, pair, float(attributes["Cpus"]))
    return name


def given_back(cycle: CycleResult) -> list[tuple[str, str, list[str]]]:
    """Return the matches of a cycle: the job, the reason, and the numbers of the slots that are preempted for it."""
    matches = () if cycle.held is None else cycle.held.matches
    return [(match.job, match.reason, [name.split("@")[0] for name in match.preempts]) for match in matches]


def contested(dialect: str = "htcondor-25", /, **more: str) -> Pool:
    pool = Pool(dialect, **ALLOWED | NO_RANKS | more)
    machine(pool, rank="TARGET.Importance")
    return pool


# Which slots are preempted


@pytest.mark.parametrize("dialect", DIALECTS)
def test_slots_of_the_lowest_rank_are_preempted_first_until_the_resources_suffice(dialect: str) -> None:
    pool = contested(dialect)
    for number, rank in enumerate((3.0, 1.0, 2.0, 0.0), 1):
        part(pool, number, rank=rank)
    pool.submit("ann", RequestCpus="2", Importance="5")
    assert given_back(pool.hold()) == [("1.0", "rank", ["slot1_4", "slot1_2"])]


@together(
    ("free", "sizes", "job", "preempted"),
    [
        # the remainder counts; the resources are added up one by one
        ({}, [{}, {}], {"RequestCpus": "1"}, ["slot1_1"]),
        ({"Cpus": "1", "Memory": "500"}, [{}, {}], {"RequestCpus": "2"}, ["slot1_1"]),
        ({"Cpus": "5"}, [{}, {}], {"RequestMemory": "1500"}, ["slot1_1", "slot1_2"]),
        ({"Cpus": "5", "Memory": "5000", "Disk": "0"}, [{}, {}], {"RequestDisk": "2001"}, ["slot1_1", "slot1_2"]),
        ({"Cpus": "5", "Memory": "5000"}, [{}, {"Gadgets": "1"}], {"RequestGadgets": "1"}, ["slot1_1", "slot1_2"]),
        # slots of equal rank by their numbers: the tenth comes after the second
        ({}, [{"Cpus": "1"}] * 11, {"RequestCpus": "10", "RequestMemory": "1"}, [f"slot1_{n}" for n in range(1, 11)]),
        # all of them are too little, or none is needed
        ({}, [{}, {}], {"RequestCpus": "3"}, None),
        ({"Cpus": "2", "Memory": "500"}, [{}, {}], {"RequestCpus": "2"}, []),
    ],
)
def test_the_remainder_and_the_preempted_parts_add_up(
    free: dict[str, str], sizes: list[dict[str, str]], job: dict[str, str], preempted: list[str] | None
) -> None:
    pool = Pool(**ALLOWED | NO_RANKS)
    machine(pool, rank="TARGET.Importance", **free)
    for number, size in enumerate(sizes, 1):
        part(pool, number, "bob", 0.0, "h", "Claimed/Busy", **size)
    pool.submit("ann", Importance="1", **job)
    evictions = given_back(pool.hold())
    assert [names for _, _, names in evictions] == ([] if preempted is None else [preempted])


def test_the_remainder_of_a_slot_with_preempted_parts_has_no_user() -> None:
    pool = Pool(**ALLOWED | NO_RANKS | {"NEGOTIATOR_PRE_JOB_RANK": "RemoteUser =?= undefined"})
    machine(pool, rank="TARGET.Importance", Cpus="4", Memory="500")
    part(pool, 1)
    pool.submit("ann", RequestMemory="1200", Importance="1", JobPrio="1")
    pool.submit("ann", Importance="1")
    held = pool.hold().held
    assert held is not None
    assert [(match.reason, match.pre) for match in held.matches] == [("rank", 0.0), ("", 1.0)]


@together(
    ("rank", "now", "user", "requirements", "reason"),
    [
        ("5", 4.0, "bob", "false", "rank"),
        ("5", 4.0, "ann", "false", "rank"),  # also of the same user
        ("5", 6.0, "bob", "true", ""),
        ("5", 5.0, "bob", "true", "priority"),
        ("5", 5.0, "ann", "true", ""),
        ("5", 5.0, "bob", "false", ""),
        ("5", 5.0, "bob", "undefined", ""),
        ("5", 5.0, "bob", "", ""),  # HTCondor requires PREEMPTION_REQUIREMENTS that are true
        ("5", 5.0, "bob", "RemoteUserPrio > SubmitterUserPrio * 1.2", "priority"),
        ("undefined", -1.0, "bob", "false", "rank"),  # a rank that is not a number counts as 0
        ("undefined", 0.0, "bob", "true", "priority"),
    ],
)
def test_a_dynamic_slot_is_preempted_by_rank_or_by_priority(
    rank: str, now: float, user: str, requirements: str, reason: str
) -> None:
    pool = Pool("htcondor-25", **ALLOWED | NO_RANKS | {"PREEMPTION_REQUIREMENTS": requirements})
    machine(pool, rank=rank)
    part(pool, 1, user, now)
    pool.grant("bob", "priority", 50)
    pool.submit("ann")
    assert [evicted for _, evicted, _ in given_back(pool.hold())] == ([reason] if reason else [])


def test_only_the_manual_requires_a_user_of_worse_priority_than_the_submitter() -> None:
    for dialect, count in (("manual", 0), ("htcondor-25", 1)):
        pool = Pool(dialect, **ALLOWED | NO_RANKS)
        machine(pool)
        part(pool, 1)
        pool.grant("ann", "priority", 50)
        pool.submit("ann")
        assert len(given_back(pool.hold())) == count


def test_preemption_by_rank_and_by_priority_together_counts_as_by_priority() -> None:
    pool = contested()
    part(pool, 1, rank=0.0)
    part(pool, 2, rank=1.0)
    pool.submit("ann", RequestCpus="2", Importance="1")
    assert given_back(pool.hold()) == [("1.0", "priority", ["slot1_1", "slot1_2"])]


def test_no_retiring_slot_is_preempted_however_early_preemption_is_considered() -> None:
    for early in ("true", "false"):
        pool = contested(NEGOTIATOR_CONSIDER_EARLY_PREEMPTION=early)
        part(pool, 1, rank=0.0, MaxJobRetirementTime="100")
        part(pool, 2, rank=1.0)
        pool.submit("ann", Importance="5")
        assert given_back(pool.hold()) == [("1.0", "rank", ["slot1_2"])]
        pool.now += 100 * SECOND
        assert given_back(pool.hold()) == [("1.0", "rank", ["slot1_1"])]


def test_no_slot_that_is_already_ending_is_preempted() -> None:
    pool = contested()
    part(pool, 1, pair="Preempting/Killing")
    part(pool, 2, rank=1.0)
    pool.submit("ann", Importance="5")
    assert given_back(pool.hold()) == [("1.0", "rank", ["slot1_2"])]


def test_no_dynamic_slot_is_preempted_alone_even_if_it_would_suffice() -> None:
    """Without the rolled up attributes no one knows what it would give back: then it is preempted like any other
    slot."""
    for rolled_up, slot, names in (("true", "slot1@h", ["slot1_1"]), ("false", "slot1_1@h", [])):
        pool = Pool(**ALLOWED | NO_RANKS)
        pool.machine("h", ADVERTISE_PSLOT_ROLLUP_INFORMATION=rolled_up)
        machine(pool, rank="TARGET.Importance")
        part(pool, 1)
        pool.submit("ann", Importance="5")
        cycle = pool.hold().held
        assert cycle is not None
        assert [
            (match.slot, [preempted_slot.split("@")[0] for preempted_slot in match.preempts]) for match in cycle.matches
        ] == [(slot, names)]


@together(
    ("more", "expected"),
    [
        ({"ALLOW_PSLOT_PREEMPTION": "false"}, ("slot1_1@h", ())),
        ({"NEGOTIATOR_CONSIDER_PREEMPTION": "false"}, None),
        ({"NEGOTIATOR_SLOT_CONSTRAINT": "PartitionableSlot =!= true"}, None),
    ],
)
def test_dynamic_slots_are_preempted_only_if_allowed(
    more: dict[str, str], expected: tuple[str, tuple[str, ...]] | None
) -> None:
    pool = contested(**more)
    part(pool, 1)
    pool.submit("ann", Importance="5")
    cycle = pool.hold().held
    preemptions = [] if cycle is None else [(match.slot, match.preempts) for match in cycle.matches]
    assert preemptions == ([] if expected is None else [expected])


# Among slots


def test_the_partitionable_slots_ad_is_ranked_with_the_resources_it_gets_back() -> None:
    """A free slot comes first by its reason alone: no partitionable slot's ad has RemoteOwner."""
    for rank, slot in (("", "slot1@free"), ("Cpus", "slot1@h"), ("-Cpus", "slot1@free"),
                       ('(RemoteUser =?= "various_dSlot_users") * 5', "slot1@h"),
                       ("RemoteOwner =?= undefined", "slot1@free")):  # fmt: skip
        pool = contested(NEGOTIATOR_PRE_JOB_RANK=rank)
        part(pool, 1, Cpus="2")
        part(pool, 2, Cpus="2")
        machine(pool, "free", Cpus="3", Memory="5000")
        pool.submit("ann", RequestCpus="3", Importance="5")
        cycle = pool.hold().held
        assert cycle is not None
        assert [match.slot for match in cycle.matches] == [slot], rank


def test_a_partitionable_slot_gets_resources_back_once_a_cycle() -> None:
    pool = contested()
    for number in range(1, 5):
        part(pool, number)
    machine(pool, "i", rank="TARGET.Importance")
    part(pool, 1, machine="i")
    pool.submit("ann", 4, Importance="5")
    assert len(given_back(pool.hold())) == 2


def test_a_ceiling_counts_the_part_that_the_job_takes() -> None:
    for importance in ("0", "5"):
        for ceiling, count in ((1, 0), (2, 1), (4, 2)):
            pool = Pool(**ALLOWED | NO_RANKS)
            for name in ("h", "i"):
                machine(pool, name, rank="TARGET.Importance", Cpus="1")
                part(pool, 1, machine=name)
            pool.grant("ann", "ceiling", ceiling)
            pool.submit("ann", 3, RequestCpus="2", Importance=importance)
            assert len(given_back(pool.hold())) == count


# Random pools


def random_pool(dice: random.Random) -> Pool:
    ranks = ("0.0", "TARGET.Importance", "undefined")
    rules = {"PREEMPTION_REQUIREMENTS": dice.choice(("true", "", "RemoteUserPrio > 600"))}
    pool = Pool(dice.choice(DIALECTS), **ALLOWED | (NO_RANKS if dice.random() < 0.5 else {}) | rules)
    for name in ("h", "i", "j")[: dice.randint(1, 3)]:
        machine(pool, name, dice.choice(ranks), Cpus=str(dice.randint(0, 2)), Memory=str(dice.choice((0, 1000))))
        for number in range(1, dice.randint(2, 6)):
            pair = dice.choice(("Claimed/Busy", "Claimed/Busy", "Claimed/Busy", "Claimed/Idle", "Preempting/Vacating"))
            part(
                pool, number, dice.choice(("bob", "cy", "ann")), float(dice.randint(0, 3)), name, pair,
                Cpus=str(dice.randint(1, 3)), MaxJobRetirementTime=dice.choice(("0", "0", "0", "100")),
            )  # fmt: skip
    for user in ("bob", "cy", "ann"):
        pool.grant(user, "priority", dice.choice((0.5, 1, 20)))
    for _ in range(dice.randint(1, 4)):
        pool.submit(
            dice.choice(("ann", "bob")), dice.randint(1, 3), RequestCpus=str(dice.randint(1, 6)),
            RequestMemory=str(dice.choice((1, 1000, 2000))), Importance=str(dice.randint(0, 4)),
        )  # fmt: skip
    return pool


@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 2**32))
def test_preempted_slots_suffice_and_are_needed_and_none_of_them_is_retiring(seed: int) -> None:
    pool = random_pool(random.Random(seed))
    preempted: list[str] = []
    cycle = pool.hold().held
    for match in () if cycle is None else cycle.matches:
        if match.preempts:
            _is_right(pool, match)
        preempted += match.preempts
        claimed = pool.state.slots.get(match.slot)
        assert claimed is None or claimed.kind != "dynamic"
    assert len(preempted) == len(set(preempted))


def _is_right(pool: Pool, match: Match) -> None:
    slots = pool.state.slots
    parent = slots[slots[match.preempts[0]].parent]
    cluster = pool.state.clusters[int(match.job.split(".")[0])]
    job = ad_from_attributes(cluster.attributes(int(match.job.split(".")[1])))
    ad = ad_from_attributes(parent.ad)
    try:
        value = float(ad.eval("Rank", job))
    except (TypeError, ValueError):
        value = 0.0
    ranks = []
    have = {name: int(parent.ad[name]) for name in ("Cpus", "Memory", "Disk", "Gadgets")}
    for name in match.preempts:
        slot = slots[name]
        assert not symmetric_match(job, ClassAd(have, ad)), "it matched before: nothing more was needed"
        assert slot.parent == parent.name and slot.state == "Claimed" and slot.claim is not None
        assert slot.ad["MaxJobRetirementTime"] == "0" or slot.activation is None
        have = {resource: amount + int(slot.ad[resource]) for resource, amount in have.items()}
        ranks.append(slot.claim.rank)
        assert slot.claim.rank < value or slot.claim.submitter != cluster.submitter
    assert symmetric_match(job, ClassAd(have, ad)), "what they give back does not suffice"
    assert ranks == sorted(ranks) and ranks[-1] <= value
    assert match.reason == ("priority" if ranks[-1] == value else "rank")
    remaining_ranks = [slot.claim.rank for slot in slots.values() if slot.parent == parent.name and slot.claim
              and slot.name not in match.preempts and slot.state_activity == "Claimed/Busy"
              and slot.ad["MaxJobRetirementTime"] == "0" and slot.claim.rank < value]  # fmt: skip
    assert all(rank >= ranks[-1] for rank in remaining_ranks), "one of less rank was left"
