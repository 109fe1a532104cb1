"""Roles with separate logs run jobs together, and lose nothing."""

from __future__ import annotations

from poolbook.domain import events as e

from .simulated import SimulatedPool


def kinds(events: list[e.Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def ends(pool: SimulatedPool, ap: int = 1) -> list[tuple[int, int, str]]:
    return [
        (event.cluster, event.proc, event.outcome) for event in pool.ap(ap).events if isinstance(event, e.JobExited)
    ]


def test_a_job_runs_on_another_machine() -> None:
    pool = SimulatedPool()
    pool.submit(Args='"30"')
    pool.advance(100)
    assert ends(pool) == [(1, 0, "exited")], "\n".join(map(repr, pool.ap().events[-30:]))
