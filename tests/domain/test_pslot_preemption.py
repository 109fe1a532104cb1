"""Property: dynamic slots that are preempted for a job on their partitionable slot, in a running pool."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from poolbook.domain.classad import Context, parse
from poolbook.domain.events import CycleHeld, JobExited, JobSignalled, SlotAdChanged, SlotTransitioned
from poolbook.domain.startd.public_ad import PublishedSlots
from poolbook.domain.state.caches import Caches
from poolbook.domain.units import SECOND
from poolbook.replay.recheck_cycles import recheck
from poolbook.replay.validation import examine
from poolbook.replay.virtual_world import Behaviour
from poolbook.replay.why.answer import why

from .pools import TestPool

DIALECTS = ["manual", "htcondor-25"]


def contested(dialect: str, /, grace: int = 3, **machine: str) -> TestPool:
    """Return a pool of four cores with four jobs of bob's, of importance 1, 0, 3 and 2, and one of alice's that
    requests two cores."""
    pool = TestPool(
        dialect=dialect,
        settings={"ALLOW_PSLOT_PREEMPTION": "true"},
        behave=lambda launch: Behaviour(600 if launch.cluster < 5 else 60, grace=grace),
    )
    pool.machine("h", 4, 4096, 0, Rank="TARGET.Importance", **machine)
    for importance in "1032":
        pool.submit(user="bob", Importance=importance)
        pool.advance(5)
    pool.submit(user="alice", Importance="9", RequestCpus="2")
    return pool


@pytest.mark.parametrize("dialect", DIALECTS)
def test_preempted_claims_are_killed_and_the_job_gets_their_resources_immediately(dialect: str) -> None:
    pool = contested(dialect, grace=3)
    pool.advance(0)
    cycle = [event for event in pool.events() if isinstance(event, CycleHeld) and event.matches][-1]
    (match,) = cycle.matches
    assert (match.job, match.slot, match.reason) == ("5.0", "slot1_5@h" if dialect == "manual" else "slot1@h", "rank")
    assert match.preempts == ("slot1_2@h", "slot1_1@h")
    assert [pool.status(job) for job in ("1.0", "2.0", "5.0")] == ["Idle", "Idle", "Running"]
    ends = [event for event in pool.events() if isinstance(event, JobExited)]
    assert {event.changes["VacateReasonCode"] for event in ends} == {"1019"}
    signals = [event for event in pool.events() if isinstance(event, JobSignalled)]
    assert {(event.how, event.cause) for event in signals} == {("hard", "pslot_preemption")}
    assert pool.state.slots["slot1@h"].ad["Cpus"] == "0"
    assert sorted(slot for slot in pool.state.slots) == ["slot1@h", "slot1_3@h", "slot1_4@h", "slot1_5@h"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_log_is_valid_and_its_cycles_can_be_repeated(dialect: str) -> None:
    pool = contested(dialect)
    pool.advance(1900)
    assert {pool.status(f"{number}.0") for number in range(1, 6)} == {"ended"}
    verdict = examine(pool.log.read())
    assert [str(violation) for violation in verdict.violations] == []
    rechecked = recheck(pool.log.read())
    assert rechecked.sound and rechecked.taken


def test_preempted_slots_stay_without_resources_until_their_jobs_are_gone() -> None:
    pool = contested("htcondor-25")
    pool.advance(0)
    events = pool.events()
    changes = [event for event in events if isinstance(event, SlotAdChanged) and event.cause == "pslot_preemption"]
    assert [event.slot for event in changes] == ["slot1_2@h", "slot1@h", "slot1_1@h", "slot1@h"]
    assert changes[0].changes == {"Cpus": "0", "Memory": "0", "Disk": "0"}
    assert (changes[1].changes["Cpus"], changes[3].changes["Cpus"]) == ("1", "2")
    targets = [event.target for event in events if isinstance(event, SlotTransitioned) and event.slot == "slot1_2@h"]
    assert "Preempting/Killing" in targets


def test_jobs_that_request_less_retirement_are_preempted() -> None:
    pool = contested("htcondor-25", MaxJobRetirementTime="1000")
    for number in range(1, 5):
        pool.edit(f"{number}.0", user="bob", MaxJobRetirementTime="0")
    pool.advance(60)
    assert any(match.preempts for event in pool.events() if isinstance(event, CycleHeld) for match in event.matches)
    assert [str(violation) for violation in examine(pool.log.read()).violations] == []


def test_a_slot_whose_job_keeps_its_retirement_time_stays() -> None:
    pool = contested("htcondor-25", MaxJobRetirementTime="(TARGET.Importance == 0) * 1000")
    pool.advance(0)
    cycle = [event for event in pool.events() if isinstance(event, CycleHeld) and event.matches][-1]
    assert cycle.matches[0].preempts == ("slot1_1@h", "slot1_4@h")


def test_an_altered_preemption_is_detected() -> None:
    """Another slot is preempted, none, or one without a match."""
    pool = contested("htcondor-25")
    pool.advance(0)
    log = list(pool.log.read())
    at = next(
        n for n, (_, event) in enumerate(log) if isinstance(event, CycleHeld) and any(m.preempts for m in event.matches)
    )
    position, cycle = log[at]
    assert isinstance(cycle, CycleHeld)
    for preempts in (("slot1_3@h",), (), ("slot1_2@h",), ("slot9_1@h", "slot1_2@h", "slot1_1@h")):
        lie = replace(cycle, matches=(replace(cycle.matches[0], preempts=preempts),))
        altered = [*log[:at], (position, lie), *log[at + 1 :]]
        assert examine(altered).violations, preempts
        assert not recheck(altered).sound, preempts


def test_why_reports_the_preemption_for_both_jobs() -> None:
    pool = contested("htcondor-25")
    pool.advance(1)
    explanations = ["\n".join(sentence.text for sentence in why(pool.log, job).life) for job in ("1.0", "5.0")]
    assert "with slot1@h and gave it the resources of slot1_1@h, where job 1.0 ran" in explanations[0]
    assert "with slot1@h, which takes the resources of slot1_2@h, slot1_1@h" in explanations[1]


def test_a_partitionable_slots_ad_describes_its_dynamic_slots() -> None:
    pool = contested("htcondor-25")
    pool.advance(0)
    now = pool.world.clock
    published = PublishedSlots(pool.state, Caches(), now, Context(now=now // SECOND))
    ad = published.ad(pool.state.slots["slot1@h"])
    rolled_up = {name: str(ad[name]) for name in ad if name.startswith(("Child", "NumDyn", "Pslot"))}
    assert rolled_up["ChildName"] == '{ "slot1_3@h","slot1_4@h","slot1_5@h" }'
    assert rolled_up["ChildCurrentRank"] == str(parse("{3.0, 2.0, 9.0}"))
    assert (rolled_up["ChildCpus"], rolled_up["ChildDSlotId"]) == ("{ 1,1,2 }", "{ 3,4,5 }")
    assert rolled_up["ChildRetirementTimeRemaining"] == "{ 0,0,0 }"
    assert rolled_up["ChildAccountingGroup"] == "{ undefined,undefined,undefined }"
    assert (rolled_up["NumDynamicSlots"], rolled_up["PslotRollupInformation"]) == ("3", "true")


def random_pool(seed: int) -> TestPool:
    """Return a pool with random events, drawn by a seed."""
    dice = random.Random(seed)
    pool = TestPool(
        dialect=dice.choice(DIALECTS),
        settings={
            "ALLOW_PSLOT_PREEMPTION": "true",
            "PREEMPTION_REQUIREMENTS": dice.choice(("true", "False", "RemoteUserPrio > SubmitterUserPrio")),
            "SCHEDD_ENABLE_PER_USER_MATCH_LIMITS": "false",
        },
        behave=lambda launch: Behaviour(90 * (1 + launch.cluster % 4), grace=launch.cluster % 3 * 20),
    )
    rank = dice.choice(("TARGET.Importance", "0.0", 'TARGET.Owner == "alice"'))
    retires = dice.choice(("0", "60", "(TARGET.Importance == 1) * 200"))
    for name in ("h", "i"):
        pool.machine(name, 4, 4096, 0, Rank=rank, MaxJobRetirementTime=retires)
    for _ in range(12):
        draw = dice.random()
        if draw < 0.7:
            asks = {"RequestCpus": str(dice.randint(1, 3)), "Importance": str(dice.randint(0, 4))}
            pool.submit(dice.randint(1, 3), dice.choice(("alice", "bob", "carol")), **asks)
        elif draw < 0.8 and pool.state.clusters:
            pool.act(dice.choice(("remove", "hold")), str(dice.choice(list(pool.state.clusters))), user="root")
        elif draw < 0.9:
            pool.vacate_slot(dice.choice(list(pool.state.slots)), fast=dice.random() < 0.5)
        pool.advance(dice.choice((0, 5, 40)))
    return pool


def test_resources_add_up_and_the_log_is_legal_after_random_events() -> None:
    preempted_count = 0
    for seed in range(3):
        pool = random_pool(seed)
        log = list(pool.log.read())
        preempted_count += sum(
            len(match.preempts) for _, event in log if isinstance(event, CycleHeld) for match in event.matches
        )
        assert [str(violation) for violation in examine(log).violations] == [], seed
        assert seed or recheck(log).sound
        for parent in ("slot1@h", "slot1@i"):
            parts = [slot for slot in pool.state.slots.values() if slot.parent == parent]
            assert int(pool.state.slots[parent].ad["Cpus"]) + sum(int(part.ad["Cpus"]) for part in parts) == 4, seed
    assert preempted_count
