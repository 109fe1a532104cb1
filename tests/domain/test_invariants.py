"""Property: a pool's invariants hold whatever users, machines and processes do, in any order."""

from __future__ import annotations

import copy
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from poolbook.adapters.stores.opening import open_log
from poolbook.domain.events import ClaimEnded, ClaimMade, Event, SlotCreated
from poolbook.domain.fold.evolve import fold
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.log import EventStore, LogUnavailable
from poolbook.domain.ports.world import ClientLaunch, How, Launch
from poolbook.domain.state.state import State
from poolbook.domain.state_machines import job_machine, slot_machine
from poolbook.replay.virtual_world import Behave, Behaviour, VirtualWorld

from .pools import TestPool
from .test_enforcement import DRIVEN_JOB_ROWS, everything, rows_of_jobs

JOBS = st.sampled_from(["1", "2", "3", "1.0", "1.1", "2.0", "3.2", "4.1", "alice", "bob"])

MORE = {
    "": {},
    "held": {"JobStatus": "5", "HoldReasonCode": "15"},
    "again": {"OnExitRemove": "NumJobCompletions > 1"},
    "kept": {"LeaveJobInQueue": "true"},
}
"""Attributes that jobs may have."""
LIVES: tuple[tuple[Any, ...], ...] = (
    ("machine", 2, 2),
    ("submit", 2, "alice", "128", 0, ""),
    ("advance", 0.5),
    ("act", "suspend", "1.0", "alice", False),
    ("act", "continue", "1.0", "alice", False),
    ("act", "remove", "1.0", "alice", False),
    ("advance", 20),
    ("submit", 1, "bob", "128", 0, "held"),
    ("submit", 1, "alice", "128", 1, "kept"),
    ("act", "release", "2", "root", False),
    ("act", "hold", "3", "alice", False),
    ("submit", 2, "alice", "128", 1, "again"),
    ("advance", 0.5),
    ("act", "vacate", "4.1", "alice", False),
    ("advance", 200),
    ("act", "remove", "3", "alice", False),
    ("act", "remove now", "3", "alice", False),
)
"""What jobs may live through: every row of their table is taken."""


class Flaky:
    """A log whose appends fail on request, before anything is stored, as on a full disk."""

    def __init__(self, log: EventStore) -> None:
        self._log, self.failing = log, 0

    def append(self, events: list[Event], after: int | None = None) -> int:
        if self.failing:
            self.failing -= 1
            raise LogUnavailable("no space left on the disk")
        return self._log.append(events, after)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def as_plain(state: State) -> dict[str, object]:
    """Return all of a state that events made, for comparison."""
    clusters = {
        cluster.id: (
            bytes(cluster.status),
            cluster.status_counts,
            cluster.live,
            [cluster.attributes(proc) for proc in cluster.procs()],
        )
        for cluster in state.clusters.values()
    }
    names = ("position", "settings", "machines", "slots", "next_cluster", "unused_cluster_ids", "usage", "activations")
    tables = ("matches", "assigned_slots", "ready_claims", "reservations")
    return {name: copy.deepcopy(getattr(state, name)) for name in (*names, *tables)} | {"clusters": clusters}


class PoolMachine(RuleBasedStateMachine):
    """A pool that receives any stimuli, in any order, with appends that fail now and then."""

    rows: ClassVar[Counter[str]] = Counter()  #: how often the examples took each row of the jobs' table

    @initialize(
        dialect=st.sampled_from(["manual", "htcondor-25"]),
        seconds=st.integers(1, 50),
        grace=st.integers(0, 9),
        lived=st.integers(0, 9),
    )
    def begin(self, dialect: str, seconds: int, grace: int, lived: int) -> None:
        """Start a pool; `lived` says how much of LIVES has happened before (0: all)."""
        kinds = [
            Behaviour(seconds, grace=grace),
            Behaviour(seconds * 2, code=1, grace=None),
            Behaviour(1, failure="no such file"),
            Behaviour(3, lost=True),
            Behaviour(seconds, signal=11),
        ]
        self.log = Flaky(open_log("memory:", create=True))
        self.pool = TestPool(
            dialect=dialect,
            log=self.log,  # type: ignore[arg-type]
            behave=lambda launch: kinds[(launch.cluster + launch.proc) % (2 if launch.proc % 3 else len(kinds))],
            settings={"MachineMaxVacateTime": "6", "CLAIM_WORKLIFE": "60"},
        )
        for name, *arguments in LIVES[: lived - 1] if lived else LIVES:
            getattr(self, name)(*arguments)

    def asked(self, ask) -> None:  # type: ignore[no-untyped-def]
        failing = self.log.failing
        before = self.log.head.position
        try:
            ask()
        except LogUnavailable:
            assert self.log.head.position == before, "what was refused for want of space is not in the log"
            assert failing

    @rule(cpus=st.integers(1, 4), static=st.integers(0, 2))
    def machine(self, cpus: int, static: int) -> None:
        name = f"m{len(self.pool.state.machines)}"
        self.asked(lambda: self.pool.machine(name, cpus=max(cpus, static), memory=cpus * 1024, static=static))

    @rule(
        count=st.integers(1, 4),
        user=st.sampled_from(["alice", "bob"]),
        memory=st.sampled_from(["128", "600", "3000"]),
        prio=st.integers(-2, 2),
        how=st.sampled_from(["", "held", "again", "kept"]),
    )
    def submit(self, count: int, user: str, memory: str, prio: int, how: str) -> None:
        attributes = MORE[how]
        self.asked(lambda: self.pool.submit(count, user, RequestMemory=memory, JobPrio=str(prio), **attributes))

    @rule(
        action=st.sampled_from(["hold", "release", "remove", "remove now", "vacate", "suspend", "continue"]),
        job_ids=JOBS,
        user=st.sampled_from(["alice", "root"]),
        fast=st.booleans(),
    )
    def act(self, action: str, job_ids: str, user: str, fast: bool) -> None:
        self.asked(lambda: self.pool.act(action, job_ids, user=user, fast=fast))

    @rule(
        job=st.sampled_from([(1, 1), (2, 0), (3, 2)]),
        victims=st.lists(st.sampled_from([(1, 0), (1, 1), (2, 0), (4, 1)]), min_size=1, max_size=3),
        user=st.sampled_from(["alice", "root"]),
    )
    def run_now(self, job: tuple[int, int], victims: list[tuple[int, int]], user: str) -> None:
        self.asked(lambda: self.pool.handle(s.RunNow(self.pool.id(), user, job, tuple(victims))))

    @rule(action=JOBS, amount=st.integers(-3, 3), add=st.booleans())
    def prio(self, action: str, amount: int, add: bool) -> None:
        self.asked(lambda: self.pool.edit(action, user="root", add=add, JobPrio=str(amount)))

    @rule(data=st.data(), fast=st.booleans())
    def vacate_slot(self, data: st.DataObject, fast: bool) -> None:
        slot = data.draw(st.sampled_from([*self.pool.state.slots, "slot1@nowhere"]))
        self.asked(lambda: self.pool.vacate_slot(slot, fast=fast))

    @rule(seconds=st.sampled_from([0.5, 3, 20, 200]))
    def advance(self, seconds: float) -> None:
        self.asked(lambda: self.pool.advance(seconds))
        self.log.failing = 0

    @rule(times=st.integers(1, 2))
    def fill_the_disk(self, times: int) -> None:
        self.log.failing = times

    @invariant()
    def the_state_is_the_log_folded(self) -> None:
        assert as_plain(self.pool.state) == as_plain(fold(self.log.read()))

    @invariant()
    def a_job_runs_once_at_a_time_and_a_slot_runs_one_job(self) -> None:
        state = self.pool.state
        living_activations = list(state.activations.values())
        assert len({(a.cluster, a.proc) for a in living_activations}) == len(living_activations)
        assert len({a.slot for a in living_activations}) == len(living_activations)
        for activation in living_activations:
            starter = state.slots[activation.slot].activation
            assert starter is not None and starter.key == activation.key
            assert state.slots[activation.slot].claim is not None

    @invariant()
    def no_end_of_a_job_is_forgotten(self) -> None:
        """Check that each activation in the log is alive in the world, or that its end is still to be logged."""
        engine, world = self.pool.engine, self.pool.world
        to_come = {effect.key for effect in [*engine.unlogged, *world._started]}  # type: ignore[attr-defined]
        assert set(self.pool.state.activations) <= set(world._runs) | to_come

    @invariant()
    def a_slot_has_a_claim_exactly_in_claimed_and_preempting(self) -> None:
        for slot in self.pool.state.slots.values():
            assert (slot.claim is not None) == (slot.state in ("Claimed", "Preempting")), slot.name

    @invariant()
    def each_job_has_exactly_the_claims_reserved_for_it(self) -> None:
        state = self.pool.state
        kept_claims = [
            (slot, claim) for reservation in state.reservations.values() for slot, claim in reservation.claims.items()
        ]
        assert len({slot for slot, _ in kept_claims}) == len(kept_claims)
        for name, claim in kept_claims:
            slot_claim = state.slots[name].claim
            assert slot_claim is not None and slot_claim.id == claim

    @invariant()
    def no_resource_is_given_twice(self) -> None:
        """Check that the carved parts and the remainder of a partitionable slot add up to its total."""
        state = self.pool.state
        had = {event.slot: event.ad for event in self.pool.events() if isinstance(event, SlotCreated)}
        for slot in state.slots.values():
            if slot.kind == "partitionable":
                for name in ("Cpus", "Memory", "Disk"):
                    carved = sum(int(s.ad[name]) for s in state.slots.values() if s.parent == slot.name)
                    assert int(slot.ad[name]) >= 0
                    assert int(slot.ad[name]) + carved == int(had[slot.name][name])

    @invariant()
    def usage_is_the_sum_of_the_claims_exactly(self) -> None:
        since: dict[str, tuple[int, int]] = {}
        usage: dict[str, int] = {}
        for event in self.pool.events():
            if isinstance(event, ClaimMade):
                since[event.slot] = (event.at, event.weight)
            elif isinstance(event, ClaimEnded):
                at, weight = since.pop(event.slot)
                usage[event.submitter] = usage.get(event.submitter, 0) + (event.at - at) * weight
        assert self.pool.state.usage == usage

    @invariant()
    def every_transition_is_a_row_of_its_table(self) -> None:
        slots, jobs = slot_machine(self.pool.state.dialect.name), job_machine(self.pool.state.dialect.name)
        for event in self.pool.events():
            if type(event).__name__ == "SlotTransitioned":
                assert slots.allows(event.source, event.row, event.target)  # type: ignore[attr-defined]
            elif type(event).__name__ == "JobsTransitioned":
                assert jobs.allows(event.source, event.row, event.target)  # type: ignore[attr-defined]

    def teardown(self) -> None:
        if hasattr(self, "pool"):
            self.rows.update(rows_of_jobs(self.pool.events()))


def bounds(examples: int, steps: int, derandomize: bool = False) -> settings:
    return settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck),
        derandomize=derandomize,
    )  # fmt: skip


def test_invariants_of_a_pool_hold_and_every_row_of_its_jobs_is_reached() -> None:
    run_state_machine_as_test(PoolMachine, settings=bounds(20, 30, derandomize=True))
    assert DRIVEN_JOB_ROWS <= set(PoolMachine.rows) <= DRIVEN_JOB_ROWS | {"hold_again"}


@pytest.mark.soak
def test_invariants_of_a_pool_hold_at_length() -> None:
    examples = int(os.environ.get("POOLBOOK_SOAK_EXAMPLES", "20000")) // 10
    run_state_machine_as_test(PoolMachine, settings=bounds(examples, 60))


def test_lived_names_every_attribute_that_a_jobs_life_changes() -> None:
    """Otherwise jobs could wrongly count as alike."""
    from poolbook.domain.state.runtime_attributes import RUNTIME_ATTRIBUTES

    from .pools import JOB

    for dialect in ("manual", "htcondor-25"):
        changed_names: set[str] = set()
        pool = everything(dialect)
        state = State()
        for position, event in pool.log.read():
            state = fold([(position, event)], state)
            for cluster in state.clusters.values():
                for proc in cluster.procs():
                    changed_names |= {name.lower() for name in cluster.changes(proc)}
        assert changed_names - {name.lower() for name in JOB} <= RUNTIME_ATTRIBUTES
        assert len(changed_names) > 25


class Witness(VirtualWorld):
    """A virtual world that records what it is asked to do."""

    def __init__(self, behave: Behave) -> None:
        super().__init__(behave)
        self.done: list[str] = []

    def start(self, launches: Sequence[Launch | ClientLaunch]) -> None:
        self.done.append("start")
        super().start(launches)

    def signal(self, key: str, how: How) -> None:
        self.done.append("signal")
        super().signal(key, how)

    def acknowledge(self, keys: Iterable[str]) -> None:
        self.done.append("acknowledge")
        super().acknowledge(keys)


def test_effects_of_a_failed_append_are_never_executed() -> None:
    log = Flaky(open_log("memory:", create=True))
    pool = TestPool(log=log, behave=lambda launch: Behaviour(50, grace=None))  # type: ignore[arg-type]
    world = pool.engine.world = pool.world = Witness(pool.world.behave)
    pool.machine(static=2, cpus=2)

    def tried(act: Callable[[], object], then: str) -> None:
        """Check that the log rejects it once, and then accepts it."""
        log.failing = 1
        before = list(world.done)
        with pytest.raises(LogUnavailable):
            act()
        assert world.done == before
        act()
        assert then in world.done[len(before) :]

    tried(pool.submit, "start")
    tried(lambda: pool.act("hold", "1.0"), "signal")
    pool.submit()
    (key,) = [activation.key for activation in pool.state.activations.values() if activation.cluster == 2]
    tried(lambda: pool.handle(s.ActivationEnded("end", key, world.clock, code=0)), "acknowledge")
