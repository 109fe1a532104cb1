"""Golden: what a pool repeats that was killed between its log and its supervisor, in which order it sends requests to
the supervisor, and what is logged after the clock was set.

The pool and the supervisor are the real ones, on a simulated machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from poolbook.domain import events as e
from poolbook.domain.ports import stimuli as s

from ..domain.pools import selection
from ..job_commands import job_command
from .machine import POOL, SECOND, Killed, Running
from .story import Story

SEED = 1  # whose machine has no backfill
LIMITED = 3  # whose machine is one partitionable slot: memory is limited


def act(story: Story, action: str, fast: bool = False) -> None:
    story.ask(lambda name: job_command(name, "alice", action, selection("alice"), fast=fast))


def dies_before_it_tells(story: Story, action: str, fast: bool = False) -> None:
    """Send a command; kill the pool when its log has it, before the supervisor receives it."""
    append = story.store.append

    def last(store: Callable[[], None]) -> None:
        append(store)
        story.machine.dead.add(POOL)

    story.store.append = last  # type: ignore[method-assign]
    with pytest.raises(Killed):
        act(story, action, fast)
    story.store.append = append  # type: ignore[method-assign]
    story.kill_pool()
    story.revive()
    story.advance(0.5)


def processes(story: Story) -> list[Running]:
    """Return the jobs' processes that have not ended."""
    return [process for process in story.machine.table.values() if process.plan is not None and process.status is None]


@pytest.mark.parametrize(
    ("before", "action", "fast", "becomes"),
    [
        ("", "suspend", False, "stopped"),
        ("suspend", "continue", False, "running"),
        ("", "vacate", False, "ended"),
        ("", "vacate", True, "ended"),
        ("", "hold", False, "ended"),
        ("", "remove", False, "ended"),
        ("suspend", "hold", False, "ended"),
    ],
)
def test_a_signal_in_the_log_is_sent_again_by_the_next_pool(before: str, action: str, fast: bool, becomes: str) -> None:
    with Story(SEED).begun() as story:
        story.submit_plan("60 0 - 0" if fast else "60 0 0 0")  # only a hard kill ends the first
        story.advance(3)
        (process,) = processes(story)
        if before:
            act(story, before)
        dies_before_it_tells(story, action, fast)
        status = "ended" if process.status is not None else "stopped" if process.stopped else "running"
        assert status == becomes


def test_a_suspended_job_stays_suspended_when_the_pool_is_killed_and_restarts() -> None:
    with Story(SEED).begun() as story:
        story.submit_plan("60 0 0 0")
        story.advance(3)
        act(story, "suspend")
        story.kill_pool()
        story.revive()
        story.advance(5)
        assert [process.stopped for process in processes(story)] == [True]


def test_the_next_job_of_a_claim_is_started_before_the_end_of_the_last_one_is_acknowledged() -> None:
    """A start is urgent, and an acknowledged end is forgotten, so everything else is done before."""
    with Story(SEED).begun() as story:
        story.submit_plan("5 0 0 0", story.cores + 1)
        story.advance(3)
        assert story.pool is not None
        world, calls = story.pool.world, list[str]()
        start, acknowledge = world.start, world.acknowledge

        def starts(launches: Sequence[Any]) -> None:
            calls.append("start")
            start(launches)

        def acknowledges(keys: Iterable[str]) -> None:
            calls.append("acknowledge")
            acknowledge(keys)

        world.start, world.acknowledge = starts, acknowledges  # type: ignore[method-assign]
        story.advance(3)
        assert calls[:2] == ["start", "acknowledge"]


@pytest.mark.parametrize("hours", [-1, 1])
@pytest.mark.parametrize("when", ["before the job starts", "while the job runs"])
def test_a_jobs_run_time_does_not_depend_on_clock_changes(when: str, hours: int) -> None:
    with Story(SEED).begun() as story:
        if when == "before the job starts":
            story.machine.clock += hours * 3600 * SECOND
        story.submit_plan("50 0 0 0")
        story.ask(lambda name: s.Edit(name, "alice", selection("1"), {"LeaveJobInQueue": "true"}, False))
        story.advance(10)
        if when == "while the job runs":  # the log's time continues from its last event, which is now
            story.ask(lambda name: s.Edit(name, "alice", selection("1"), {"JobPrio": "1"}, False))
            story.machine.clock += hours * 3600 * SECOND
        story.advance(50)
        assert story.pool is not None
        ad = story.pool.engine.state.clusters[1].attributes(0)
        ran = 50 + (3600 if when == "while the job runs" and hours > 0 else 0)
        assert float(ad["RemoteWallClockTime"]) == pytest.approx(ran, abs=1)
        assert int(ad["CompletionDate"]) - int(ad["JobCurrentStartExecutingDate"]) == pytest.approx(ran, abs=1)
        assert 0 <= int(ad["JobCurrentStartExecutingDate"]) - int(ad["JobCurrentStartDate"]) <= 1
        assert int(ad["EnteredCurrentStatus"]) == pytest.approx(int(ad["CompletionDate"]), abs=1)


def test_a_job_that_may_not_start_is_held_immediately_even_if_nothing_else_happens() -> None:
    with Story(SEED).begun() as story:
        assert story.pool is not None
        story.pool.world.owners.clear()
        story.submit_plan("5 0 0 0")
        story.advance(30)
        events = [event for _, event in story.pool.log.read()]
        began_at, ended_at = (
            next(event.at for event in events if isinstance(event, kind)) for kind in (e.JobActivated, e.JobExited)
        )
        assert ended_at - began_at < SECOND


@pytest.mark.parametrize(("more_kb", "status"), [(0, "Running"), (1, "Held")])
def test_a_job_may_use_exactly_its_requested_memory_and_is_held_beyond_that(more_kb: int, status: str) -> None:
    with Story(LIMITED).begun() as story:
        assert story.pool is not None
        story.submit_plan("60 0 0 0", memory="128")
        (slot,) = (slot for slot in story.pool.engine.state.slots.values() if slot.activation is not None)
        story.machine.resident_kb = int(slot.ad["Memory"]) * 1024 + more_kb
        story.advance(10)
        assert story.pool.engine.state.clusters[1].status_of(0) == status
