"""Property: pending timed actions are part of the state. A copy of a state makes the same decisions. A pool that is
killed after it planned an action, and folds its log again, does it at the same time. So does a pool that evaluates at
every policy round instead of jumping from change to change."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from poolbook.adapters.runtime.engine import Engine
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.domain.ports.sensor_readings import Readings
from poolbook.domain.state.agenda import Agenda
from poolbook.domain.units import SECOND
from poolbook.replay.virtual_world import EPOCH, Behaviour

from .pools import TestPool

NOW = EPOCH // SECOND
INSTANTS = st.none() | st.integers(0, 9)
KINDS = st.sampled_from(["schedule", "schedule_earlier", "pop_due", "due_keys"])
OPERATIONS = st.tuples(KINDS, st.integers(0, 4), INSTANTS)


@given(st.lists(OPERATIONS))
def test_an_agenda_has_the_last_time_noted_for_each_key(
    operations: list[tuple[str, int, int | None]],
) -> None:
    agenda, model = Agenda[int](), dict[int, int]()
    for name, key, instant in operations:
        at = instant or 0
        if name == "schedule":
            agenda.schedule(key, instant)
            model.pop(key, None)
            if instant is not None:
                model[key] = instant
        elif name == "schedule_earlier":
            agenda.schedule_earlier(key, instant)
            if instant is not None:
                model[key] = min(instant, model.get(key, instant))
        else:
            expected = sorted(key for key, due in model.items() if due <= at)
            assert getattr(agenda, name)(at) == expected
            if name == "pop_due":
                model = {key: due for key, due in model.items() if due > at}
        assert agenda.next_due() == min(model.values(), default=None)
        assert set(agenda) == set(model)
        assert copy.deepcopy(agenda).next_due() == agenda.next_due()


# Pools that are killed in between


def pool_of(jobs: int = 0, steady: bool = True, behave: Behaviour | None = None, **attributes: str) -> TestPool:
    pool = TestPool(behave=lambda launch: behave or Behaviour(20.0, grace=None), steady=steady)
    pool.machine(static=2)
    if jobs:
        pool.submit(jobs, **attributes)
    return pool


def restart(pool: TestPool) -> None:
    """Kill the pool's process; another one folds the log, and the jobs continue."""
    pool.engine = Engine(pool.log, pool.world)
    pool.engine.load()


def steps(pool: TestPool) -> list[tuple[str, int, str, str]]:
    """Return what happened to jobs and slots, without its causes, since a restarted pool counts from the beginning."""
    kinds = (
        e.JobActivated, e.JobExited, e.JobCooledDown, e.JobsDeferred, e.JobsTransitioned, e.JobSignalled,
        e.SlotTransitioned, e.ClaimMade, e.ClaimEnded, e.DefragPolled,
    )  # fmt: skip
    return [
        (type(event).__name__, event.at, event.cause, event.stream)
        for event in pool.events()
        if isinstance(event, kinds)
    ]


def desktop(steady: bool) -> TestPool:
    pool = TestPool(steady=steady)
    pool.world.set_readings("h", Readings(last_input=EPOCH - 5 * SECOND))
    pool.machine(static=1, Start="KeyboardIdle > 60")
    pool.submit(1)
    return pool


STAYS = "time() - CompletionDate < 130"
STORIES: dict[str, Callable[[bool], TestPool]] = {
    "a round of a machine's policy": desktop,
    "a job's periodic policy": lambda steady: pool_of(
        3, steady, PeriodicHold=f"time() > {NOW + 70}", Requirements="false"
    ),
    "the policy of a job that runs": lambda steady: pool_of(
        2, steady, Behaviour(900.0, grace=None), PeriodicRemove=f"time() > {NOW + 70}"
    ),
    "a job that stays behind its end": lambda steady: pool_of(2, steady, LeaveJobInQueue=STAYS),
    "a job that sleeps until its time": lambda steady: pool_of(1, steady, DeferralTime=f"{NOW + 100}",
        Requirements=f"time() >= {NOW + 70}"),
    "a schedule": lambda steady: pool_of(1, steady, CronMinute='"*/2"', DeferralWindow="30", OnExitRemove="false"),
    "a pause behind a start that failed": lambda steady: pool_of(3, steady, Behaviour(failure="no disk")),
    "a time to end": lambda steady: pool_of(1, steady, Behaviour(900.0), PeriodicRemove=f"time() > {NOW + 50}"),
    "a job of the local universe": lambda steady: pool_of(1, steady, JobUniverse="12",
        Requirements=f"time() >= {NOW + 70}"),
}  # fmt: skip


@pytest.mark.parametrize("step", [1, 7, 23, 61])
@pytest.mark.parametrize("story", STORIES)
def test_a_pool_killed_between_planning_and_acting_acts_in_time(story: str, step: int) -> None:
    through, killed = STORIES[story](True), STORIES[story](True)
    through.advance(360)
    start = killed.world.clock
    while killed.world.clock < start + 360 * SECOND:
        killed.advance(min(step, 360 - (killed.world.clock - start) // SECOND))
        restart(killed)
    assert steps(killed) == steps(through)
    assert len(steps(through)) > 2


@pytest.mark.parametrize("story", STORIES)
def test_virtual_time_does_the_same_as_every_policy_round(story: str) -> None:
    jumping, looking = STORIES[story](True), STORIES[story](False)
    jumping.advance(360)
    looking.advance(360)
    assert steps(jumping) == steps(looking)


# Copies of a state


ACTS = st.one_of(
    st.tuples(st.just("wait"), st.sampled_from(["1", "19", "60", "61"])),
    st.tuples(st.just("submit"), st.sampled_from(["1", "3"])),
    st.tuples(
        st.sampled_from(["hold", "release", "remove", "vacate"]), st.sampled_from(["1.0", "1.1", "2.0", "1", "2"])
    ),
    st.tuples(st.just("edit"), st.sampled_from(["1.0", "2.0"])),
)


def play(pool: TestPool, acts: list[tuple[str, str]]) -> None:
    for name, act in acts:
        if name == "wait":
            pool.advance(int(act))
        elif name == "submit":
            pool.submit(int(act), PeriodicHold="time() - EnteredCurrentStatus > 90", LeaveJobInQueue=STAYS)
        elif name == "edit":
            pool.edit(act, Wanted="true")
        else:
            pool.act(name, act)


def fork(pool: TestPool, copied: bool) -> TestPool:
    """Return another pool with the same log and world; with `copied`, its state is a copy, else it folds the log."""
    log = open_log("memory:", create=True)
    log.append(pool.events(), 0)
    copied_pool = copy.copy(pool)
    copied_pool.log, copied_pool.world = log, copy.deepcopy(pool.world)
    copied_pool.engine = Engine(log, copied_pool.world)
    if copied:
        copied_pool.engine._state, copied_pool.engine._stale = copy.deepcopy(pool.state), False
        copied_pool.engine._serial = pool.engine._serial
    return copied_pool


@settings(max_examples=25, deadline=None)
@given(st.lists(ACTS, max_size=8))
def test_a_copy_of_a_state_makes_the_same_decisions(acts: list[tuple[str, str]]) -> None:
    pool = pool_of(2, PeriodicRelease="time() - EnteredCurrentStatus > 130", LeaveJobInQueue=STAYS)
    play(pool, acts)
    forked_pool = fork(pool, copied=True)
    assert forked_pool.engine.next_wake() == pool.engine.next_wake()
    for pool_state in (pool, forked_pool):
        pool_state.advance(400)
    assert forked_pool.events() == pool.events()


@settings(max_examples=25, deadline=None)
@given(st.lists(ACTS, max_size=8))
@example([("wait", "60"), ("wait", "60"), ("edit", "1.0")])
@example(
    [("wait", s) for s in ("1", "19", "61")]
    + [("submit", "1")]
    + [("wait", s) for s in ("1", "1", "19")]
    + [("edit", "1.0")]
)
def test_agendas_rebuilt_from_the_log_do_the_same_as_those_in_memory(acts: list[tuple[str, str]]) -> None:
    pool = pool_of(2, PeriodicRelease="time() - EnteredCurrentStatus > 130", LeaveJobInQueue=STAYS)
    play(pool, acts)
    forked_pool = fork(pool, copied=False)
    for pool_state in (pool, forked_pool):
        pool_state.advance(400)
    assert steps(forked_pool) == steps(pool)
