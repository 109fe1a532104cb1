"""Differential: a negotiator that has seen submitters come and go decides as one that was just started."""

from __future__ import annotations

from poolbook.domain.events import JobActivated
from poolbook.replay.virtual_world import Behaviour

from ..domain.pools import TestPool


def start_order(*, refold: bool) -> list[tuple[int, int]]:
    """Return the order in which jobs start on the only slot: jobs of 120 users in three waves; every third user
    leaves."""
    pool = TestPool(behave=lambda launch: Behaviour(5 if launch.cluster > 1 else 300))
    pool.machine(cpus=1)
    pool.submit(1, "root")
    pool.advance(2)
    for wave in range(3):
        for number in range(40):
            pool.submit(1 + number % 2, f"user{wave * 40 + number}", JobPrio=str(number % 5))
        pool.advance(10)
        for cluster in range(2 + wave * 40, 42 + wave * 40, 3):
            pool.act("remove", str(cluster), user="root")
        pool.advance(10)
    if refold:
        pool.engine.load()
    pool.advance(1500)
    return [(event.cluster, event.at) for event in pool.events() if isinstance(event, JobActivated)]


def test_users_who_come_and_go_leave_the_turns_of_others_unchanged() -> None:
    followed = start_order(refold=False)
    leaving_clusters = {cluster for wave in range(3) for cluster in range(2 + wave * 40, 42 + wave * 40, 3)}
    assert {cluster for cluster, _ in followed} == {*range(1, 122)} - leaving_clusters
    assert followed == start_order(refold=True)
