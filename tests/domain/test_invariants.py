"""Property: a pool's invariants hold whatever users, machines and processes do, in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule, run_state_machine_as_test

from poolbook import Pool
from poolbook.adapters.stores.opening import open_log
from poolbook.adapters.testing.pool_machine import JOBS
from poolbook.domain.events import Event
from poolbook.domain.fold.evolve import fold
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.log import EventStore, LogUnavailable
from poolbook.domain.ports.world import ClientLaunch, How, Launch
from poolbook.domain.state.state import State
from poolbook.replay.virtual_world import Behave, Behaviour, VirtualWorld
from poolbook.testing import MachinePlan, PoolMachine

from ..job_commands import job_command
from ..sampling import soak_examples
from .pools import TestPool, selection
from .test_enforcement import DRIVEN_JOB_ROWS, everything, rows_of_jobs

SLEEP = {"executable": "/bin/sleep"}
LIVES: tuple[tuple[Any, ...], ...] = (
    ("add_machine", MachinePlan("", 2, 2048)),
    ("submit", SLEEP, 2, "alice"),
    ("advance", 0.5),
    ("act", "suspend", "1.0", "alice"),
    ("act", "resume", "1.0", "alice"),
    ("act", "remove", "1.0", "alice"),
    ("advance", 20),
    ("submit", SLEEP | {"hold": "true"}, 1, "bob"),
    ("submit", SLEEP | {"leave_in_queue": "true", "priority": 1}, 1, "alice"),
    ("act", "release", "2", "root"),
    ("act", "hold", "3", "alice"),
    ("submit", SLEEP | {"on_exit_remove": "NumJobCompletions > 1", "priority": 1}, 2, "alice"),
    ("advance", 0.5),
    ("act", "vacate", "4.1", "alice"),
    ("advance", 200),
    ("act", "remove", "3", "alice"),
    ("remove_now", "3"),
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


KINDS = [
    Behaviour(20, grace=5), Behaviour(40, code=1, grace=None), Behaviour(1, failure="no such file"),
    Behaviour(3, lost=True), Behaviour(30, signal=11),
]  # fmt: skip


class FailingPool(PoolMachine):
    """A pool whose appends fail now and then."""

    rows: ClassVar[Counter[str]] = Counter()  #: how often the examples took each row of the jobs' table
    runs = st.sampled_from(KINDS)

    @initialize(dialect=st.sampled_from(PoolMachine.dialects), some=st.permutations(KINDS), lived=st.integers(0, 9))
    def open(self, dialect: str, some: list[Behaviour], lived: int) -> None:
        """Start a pool; `lived` says how much of LIVES happens before the rules (0: all)."""
        super().open(dialect, some)
        for name, *arguments in LIVES[: lived - 1] if lived else LIVES:
            getattr(self, name)(*arguments)

    def open_pool(self, dialect: str, behave: Behave) -> Pool:
        pool = Pool.open(
            dialect=dialect, behave=behave, user="alice", uid_domain="example.org",
            settings={"MachineMaxVacateTime": 6, "CLAIM_WORKLIFE": 60},
        )  # fmt: skip
        self.log = pool._engine.log = Flaky(pool._engine.log)  # type: ignore[assignment]
        return pool

    def begin(self) -> None:
        pass

    def attempt(self, action: Callable[[], object]) -> None:
        failing, before = self.log.failing, self.log.head.position
        try:
            super().attempt(action)
        except LogUnavailable:
            assert self.log.head.position == before, "what was refused for want of space is not in the log"
            assert failing

    @rule(seconds=st.sampled_from([0.5, 3, 20, 200]))
    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        self.log.failing = 0

    @rule(job=JOBS)
    def remove_now(self, job: str) -> None:
        stimulus = job_command(self.pool._engine.id("remove"), "root", "remove now", selection(job))
        self.attempt(lambda: self.pool._ask(stimulus))

    @rule(times=st.integers(1, 2))
    def fill_the_disk(self, times: int) -> None:
        self.log.failing = times

    @invariant()
    def no_end_of_a_job_is_forgotten(self) -> None:
        """Check that each activation in the log is alive in the world, or that its end is still to be logged."""
        engine, world = self.pool._engine, self.pool._engine.world
        to_come = {effect.key for effect in [*engine.unlogged, *world._started]}  # type: ignore[attr-defined]
        assert set(self.pool.state.activations) <= set(world._runs) | to_come  # type: ignore[attr-defined]

    def teardown(self) -> None:
        if hasattr(self, "pool"):
            self.rows.update(rows_of_jobs(event for _, event in self.pool.events()))
        super().teardown()


def bounds(examples: int, steps: int, derandomize: bool = False) -> settings:
    return settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck),
        derandomize=derandomize,
    )  # fmt: skip


def test_invariants_of_a_pool_hold_and_every_row_of_its_jobs_is_reached() -> None:
    run_state_machine_as_test(FailingPool, settings=bounds(20, 30, derandomize=True))
    assert DRIVEN_JOB_ROWS <= set(FailingPool.rows) <= DRIVEN_JOB_ROWS | {"hold_again"}


@pytest.mark.soak
def test_invariants_of_a_pool_hold_at_length() -> None:
    run_state_machine_as_test(FailingPool, settings=bounds(soak_examples(10), 60))


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
