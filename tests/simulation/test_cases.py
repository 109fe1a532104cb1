"""Bugs that stories of random seeds have found, one case each."""

from __future__ import annotations

from ..domain.pools import selection
from ..job_commands import job_command
from .programs import claimed_keys
from .story import Story


def test_a_full_disk_is_tried_once_a_second() -> None:
    with Story(1).begun() as story:
        story.submit_plan("60 0 - 0")
        story.advance(3)
        story.ask(lambda name: job_command(name, "alice", "vacate", selection("alice")))
        story.store.full = True
        before = story.store.tried
        story.advance(15)  # after six seconds the job, which ignores its soft kill, is due to be killed
        assert 5 <= story.store.tried - before <= 12


def test_requests_delayed_by_a_full_disk_are_done_when_there_is_room_again() -> None:
    with Story(1).begun() as story:
        story.submit_plan("5 0 0 0")
        story.advance(3)
        story.machine.disk.full = True
        story.advance(10)
        story.machine.disk.full = False
        story.advance(3)
        assert story.pool is not None
        assert not story.pool.engine.state.clusters, "the job's end is in the log"


def test_unacknowledged_end_records_of_a_killed_pool_are_removed_when_the_next_one_starts() -> None:
    with Story(1).begun() as story:
        story.submit_plan("5 0 0 0")
        story.advance(3)
        assert story.pool is not None
        story.pool.world.acknowledge = lambda keys: None  # type: ignore[method-assign]  # it does not come to say it
        story.advance(10)
        assert claimed_keys(story.machine), "the supervisor keeps the end"
        story.kill_pool()
        story.revive()
        story.advance(2)
        assert not claimed_keys(story.machine)
