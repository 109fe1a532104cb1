"""Property: what must hold in every cycle, whatever users, machines, administrators and claims did before."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from poolbook.adapters.testing.invariants import plain_state
from poolbook.domain.events import ClaimEnded, ClaimMade, CycleHeld, SlotCreated
from poolbook.domain.fold.evolve import evolve
from poolbook.domain.names import SlotName
from poolbook.domain.negotiator.accounting import ceiling
from poolbook.domain.ports import stimuli as s
from poolbook.domain.startd.dynamic_slots import slot_weight
from poolbook.domain.state.state import State
from poolbook.replay.virtual_world import Behaviour

from ..domain.pools import TestPool
from ..sampling import soak_examples
from .pools import USERS, Pool

PREEMPTION = {
    "never": {"NEGOTIATOR_CONSIDER_PREEMPTION": "false"},
    "by rank": {},
    "by priority": {"PREEMPTION_REQUIREMENTS": "true"},
    "of parts": {"PREEMPTION_REQUIREMENTS": "true", "ALLOW_PSLOT_PREEMPTION": "true"},
    "by usage": {
        "PREEMPTION_REQUIREMENTS": "RemoteUserResourcesInUse > SubmitterUserResourcesInUse",
        "PREEMPTION_REQUIREMENTS_STABLE": "false",
    },
}
RANKS = ["0.0", 'TARGET.Owner == "ann"', "TARGET.RequestMemory", "undefined"]


def promised_resources(state: State) -> Counter[str]:
    """Return what submitters were given and do not use yet, in thousandths of cores."""
    slots_by_user: Counter[str] = Counter()
    for (cluster, _), name in state.assigned_slots.items():
        if name in state.slots and name not in state.ready_claims:
            slots_by_user[state.clusters[cluster].submitter] += slot_weight(state.slots[name])
    return slots_by_user


class Cycles(RuleBasedStateMachine):
    """A live pool in virtual time. Each cycle in its log is checked against the state before it."""

    @initialize(
        dialect=st.sampled_from(["manual", "htcondor-25"]),
        preemption=st.sampled_from(list(PREEMPTION)),
        weights=st.sampled_from(["true", "false"]),
    )
    def begin(self, dialect: str, preemption: str, weights: str) -> None:
        configured = {"SCHEDD_ENABLE_PER_USER_MATCH_LIMITS": "false", "NEGOTIATOR_USE_SLOT_WEIGHTS": weights}
        self.pool = TestPool(
            dialect=dialect,
            settings=configured | PREEMPTION[preemption] | {"MachineMaxVacateTime": "100"},
            behave=lambda launch: Behaviour(150 * (1 + launch.cluster % 3), grace=launch.cluster % 4 * 30),
        )
        self.state, self.read = State(), 0
        self.weighted = weights == "true"

    @rule(cpus=st.integers(1, 6), static=st.integers(0, 3), rank=st.sampled_from(RANKS))
    def machine(self, cpus: int, static: int, rank: str) -> None:
        name = f"m{len(self.pool.state.machines)}"
        self.pool.machine(name, max(cpus, static), 4096, static, Rank=rank)

    @rule(
        count=st.integers(1, 5),
        user=st.sampled_from(USERS),
        cpus=st.sampled_from(["1", "1", "2"]),
        memory=st.sampled_from(["128", "600", "3000"]),
        prio=st.integers(0, 2),
    )
    def submit(self, count: int, user: str, cpus: str, memory: str, prio: int) -> None:
        self.pool.submit(count, user, RequestCpus=cpus, RequestMemory=memory, JobPrio=str(prio))

    @rule(
        user=st.sampled_from(USERS),
        action=st.sampled_from(
            [
                ("ceiling", 0),
                ("ceiling", 1),
                ("ceiling", 3),
                ("ceiling", -1),
                ("floor", 2),
                ("factor", 1),
                ("priority", 9),
            ]
        ),
    )
    def grant(self, user: str, action: tuple[str, float]) -> None:
        self.pool.handle(s.SetSubmitter(self.pool.id(), "root", f"{user}@example.org", action[0], float(action[1])))

    @rule(seconds=st.sampled_from([1, 20, 61, 400]))
    def advance(self, seconds: int) -> None:
        self.pool.advance(seconds)

    @precondition(lambda self: self.pool.state.slots)
    @rule(data=st.data(), fast=st.booleans())
    def vacate(self, data: st.DataObject, fast: bool) -> None:
        self.pool.vacate_slot(data.draw(st.sampled_from(list(self.pool.state.slots))), fast=fast)

    @rule(user=st.sampled_from(USERS))
    def remove(self, user: str) -> None:
        self.pool.act("remove", user, user=user)

    # The properties

    @invariant()
    def every_cycle_obeys_the_rules(self) -> None:
        for _, event in self.pool.log.read(self.read):
            if isinstance(event, CycleHeld):
                self.judge(event)
            evolve(self.state, event)
            self.read += 1

    def judge(self, cycle: CycleHeld) -> None:
        state = self.state
        carves = not state.dialect.informs_startd_of_matches  # of the claim and of the slot that is matched
        slots = [
            match.slot for match in cycle.matches if not (carves and state.slots[match.slot].kind == "partitionable")
        ]
        jobs = [match.job for match in cycle.matches]
        assert len(set(slots)) == len(slots), "a slot is matched once in a cycle: no one preempts it in that cycle"
        assert len(set(jobs)) == len(jobs)
        new: Counter[str] = Counter()
        cut: Counter[str] = Counter()
        for match in cycle.matches:
            number, proc = map(int, match.job.split("."))
            cluster = state.clusters[number]
            assert cluster.status_of(proc) == "Idle"
            assert (number, proc) not in state.assigned_slots
            slot = state.slots.get(match.slot)
            if slot is None or slot.kind == "partitionable":
                assert (slot is None) != carves
                parent = match.slot if carves else str(SlotName.parse(match.slot).parent)
                cut[parent] += int(cluster.value(proc, "RequestCpus"))
                for name in match.preempts:
                    part = state.slots[name]
                    assert match.reason and part.parent == parent and part.state == "Claimed"
                    cut[parent] -= int(part.ad["Cpus"])
                cores = 1000 * int(cluster.value(proc, "RequestCpus"))
            else:
                assert match.slot not in state.matches
                assert slot.queued_claim is None
                assert (slot.claim is not None) == bool(match.reason)
                cores = slot_weight(slot)
            new[cluster.submitter] += cores if self.weighted else 1000
        for parent, cores in cut.items():
            assert cores <= int(state.slots[parent].ad["Cpus"])
        waiting = promised_resources(state) if self.weighted else Counter()
        for name, cores in new.items():
            most = ceiling(state.submitters[name], cycle.at)
            has = state.submitters[name].weighted_in_use if self.weighted else 1000 * state.submitters[name].slots
            preempted = sum(self.had(match.slot) for match in cycle.matches if self.holder(match.slot) == name)
            assert most < 0 or has - preempted + waiting[name] + cores <= 1000 * most, name

    def holder(self, slot: str) -> str:
        slot_record = self.state.slots.get(slot)
        return slot_record.claim.submitter if slot_record is not None and slot_record.claim is not None else ""

    def had(self, slot: str) -> int:
        claim = self.state.slots[slot].claim
        return (claim.weight if self.weighted else 1000) if claim is not None else 0

    @invariant()
    def carved_parts_and_remainder_add_up_to_the_whole_slot(self) -> None:
        state = self.pool.state
        had = {event.slot: event.ad for event in self.pool.events() if isinstance(event, SlotCreated)}
        for slot in state.slots.values():
            if slot.kind == "partitionable":
                parts = [
                    int(taken_slot.ad["Cpus"]) for taken_slot in state.slots.values() if taken_slot.parent == slot.name
                ]
                assert int(slot.ad["Cpus"]) + sum(parts) == int(had[slot.name]["Cpus"])
                assert int(slot.ad["Cpus"]) >= 0

    @invariant()
    def total_usage_is_exactly_that_of_the_claims_intervals(self) -> None:
        now, used = self.pool.engine.now(), Counter[str]()
        held_cores: dict[str, ClaimMade] = {}
        for event in self.pool.events():
            if isinstance(event, ClaimMade):
                held_cores[event.slot] = event
            elif isinstance(event, ClaimEnded):
                removed = held_cores.pop(event.slot)
                used[removed.submitter] += (event.at - removed.at) * removed.weight
        for removed in held_cores.values():
            used[removed.submitter] += (now - removed.at) * removed.weight
        assert {
            name: submitter.usage_until(now)
            for name, submitter in self.pool.state.submitters.items()
            if submitter.usage_until(now)
        } == {name: amount for name, amount in used.items() if amount}


def bounds(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck)
    )


def test_every_cycle_of_a_living_pool_obeys_the_rules() -> None:
    run_state_machine_as_test(Cycles, settings=bounds(15, 20))


@pytest.mark.soak
def test_every_cycle_of_a_living_pool_obeys_the_rules_at_length() -> None:
    run_state_machine_as_test(Cycles, settings=bounds(soak_examples(20), 50))


# Submitters below their share


@st.composite
def unequal(draw: st.DrawFn) -> Pool:
    """Return a pool whose slots are open to everyone, some of them in use, and users who want some."""
    pool = Pool(NEGOTIATOR_CONSIDER_PREEMPTION=draw(st.sampled_from(["true", "false"])))
    weights = draw(st.lists(st.sampled_from([1, 1, 1, 2, 4]), min_size=1, max_size=12))
    for number, cpus in enumerate(weights, 1):
        pool.slot(f"slot{number}@h", Cpus=str(cpus))
        user = draw(st.sampled_from(["", "", *USERS]))
        if user:
            pool.claim(f"slot{number}@h", f"{user}@here", weight=cpus)
    for user in draw(st.lists(st.sampled_from(USERS), min_size=1, unique=True)):
        pool.submit(user, draw(st.integers(1, 9)))
        pool.grant(user, "priority", draw(st.sampled_from([0.5, 1, 7, 50])))
    return pool


def deserved(pool: Pool) -> dict[str, float]:
    """Return what each waiting submitter deserves in addition, by the inverse ratio of effective priorities."""
    state = pool.state
    waiting = {cluster.submitter for cluster in state.clusters.values() if cluster.status_counts[1]}
    running = {name for name, submitter in state.submitters.items() if submitter.slots}
    part = waiting | (running if state.settings.get("NEGOTIATOR_CONSIDER_PREEMPTION") == "true" else set())
    inverse = {name: 1 / (state.submitters[name].priority * (state.submitters[name].factor or 1000)) for name in part}
    total = sum(int(slot.ad["Cpus"]) for slot in state.slots.values())
    total_inverse = sum(inverse.values())
    return {
        name: inverse[name] / total_inverse * total - state.submitters[name].weighted_in_use / 1000 for name in waiting
    }


def free_slots(pool: Pool) -> list[float]:
    return [float(slot.ad["Cpus"]) for slot in pool.state.slots.values() if slot.claim is None]


@given(unequal())
def test_no_cycle_leaves_a_slot_free_that_fits_a_submitter_below_its_share(pool: Pool) -> None:
    pool.cycle()
    slots = free_slots(pool)
    assert not slots or all(cores < min(slots) - 1e-6 for cores in deserved(pool).values())


@given(unequal())
def test_a_remainder_smaller_than_a_slot_each_goes_to_one_submitter_in_the_next_cycle(pool: Pool) -> None:
    """A cycle rounds up once for each: a submitter with room for a part of a slot gets one."""
    for _ in range(40):
        before = free_slots(pool)
        below = any(cores > 1e-6 for cores in deserved(pool).values())
        pool.cycle()
        if before and below:
            assert len(free_slots(pool)) < len(before)
        if not free_slots(pool):
            return
    assert not any(cores > 1e-6 for cores in deserved(pool).values())


@given(unequal())
def test_a_cycle_does_not_change_the_state_that_it_reads(pool: Pool) -> None:
    before = plain_state(pool.state)
    first, second = pool.hold(), pool.hold()
    assert (first.held, first.priorities) == (second.held, second.priorities)
    assert plain_state(pool.state) == before == plain_state(pool.folded())


# Slots that were given and are not in use yet


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_promised_slots_count_for_the_ceiling_before_they_are_used(dialect: str) -> None:
    """bob's jobs take 80 seconds to end. Meanwhile there are further cycles, and ann waits for one of his slots."""
    pool = TestPool(
        dialect=dialect,
        settings={"PREEMPTION_REQUIREMENTS": "RemoteUserPrio > SubmitterUserPrio", "MachineMaxVacateTime": "100"},
        behave=lambda launch: Behaviour(1000, grace=80),
    )
    pool.machine("h", 2, 2048, 2, Rank="0.0")
    pool.submit(3, user="bob")
    pool.advance(10)
    for user, name, value in (("bob", "priority", 50.0), ("ann", "ceiling", 1.0)):
        pool.handle(s.SetSubmitter(pool.id(), "root", f"{user}@example.org", name, value))
    pool.submit(3, user="ann")
    pool.advance(300)
    matched_jobs = [m.job for event in pool.events() if isinstance(event, CycleHeld) for m in event.matches if m.reason]
    assert matched_jobs == ["2.0"]
