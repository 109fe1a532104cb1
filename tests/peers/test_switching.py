"""Property: an administrator turns parts of managers off and on like condor_off and condor_on, and nothing is lost."""

from __future__ import annotations

import pytest

from poolbook.domain import events as e
from poolbook.domain.ports import stimuli as s

from .simulated import Node, SimulatedPool
from .test_availability import FAST, TAKEOVER, active, check_logs, factors, negotiators, pool, set_factor

__all__ = ["pool"]


def switch(pool: SimulatedPool, node: Node, daemon: str, *, on: bool, everywhere: bool = False) -> None:
    node.ask(s.SwitchDaemons(pool.id(), "root", daemon, on, everywhere))


def ended(pool: SimulatedPool) -> int:
    return sum(isinstance(event, e.JobExited) for event in pool.ap().events)


def test_a_negotiator_that_is_off_holds_no_cycle_until_it_is_on(pool: SimulatedPool) -> None:
    switch(pool, pool.manager, "negotiator", on=False)
    pool.submit(2)
    pool.advance(60)
    assert active(pool) == ["manager"]  # HAD still is
    assert negotiators(pool) == []
    pool.manager.lose_power()
    pool.advance(60)
    pool.manager.start()
    pool.advance(60)
    assert negotiators(pool) == ["manager/cm2"]  # it took over, while the first manager was down
    assert ended(pool) == 2
    pool.submit(2)
    pool.advance(60)
    assert ended(pool) == 2  # the first manager is active again, and its negotiator still is off
    switch(pool, pool.manager, "NEGOTIATOR", on=True)
    pool.advance(60)
    assert ended(pool) == 4
    check_logs(pool)


def test_the_manuals_steps_end_high_availability(pool: SimulatedPool) -> None:
    """The manual: `condor_off -all -neg`, `-all -subsystem -replication`, `-all -subsystem -had`, then on one host
    `condor_on -neg`."""
    second = pool.managers[1]
    for daemon in ("NEGOTIATOR", "REPLICATION", "HAD"):
        switch(pool, second, daemon, on=False, everywhere=True)
    pool.advance(2 * TAKEOVER)
    pool.submit(2)
    pool.advance(60)
    assert active(pool) == [] and negotiators(pool) == []
    switch(pool, second, "NEGOTIATOR", on=True)
    pool.advance(60)
    assert negotiators(pool) == ["manager/cm2"] and ended(pool) == 2
    check_logs(pool)


def test_had_takes_its_negotiator_along_and_another_manager_takes_over(pool: SimulatedPool) -> None:
    switch(pool, pool.manager, "HAD", on=False)
    pool.submit(2)
    pool.advance(60)
    assert active(pool) == ["manager/cm2"] and negotiators(pool) == ["manager/cm2"]
    switch(pool, pool.manager, "HAD", on=True)
    pool.advance(2 * TAKEOVER)
    assert active(pool) == ["manager"]
    pool.submit(2)
    pool.advance(60)
    assert negotiators(pool) == ["manager", "manager/cm2"] and ended(pool) == 4
    check_logs(pool)


@pytest.mark.parametrize("off_at", [0, 1])
def test_settings_wait_until_replication_is_on_at_both_managers(pool: SimulatedPool, off_at: int) -> None:
    switch(pool, pool.managers[off_at], "REPLICATION", on=False)
    pool.advance(1)
    set_factor(pool, pool.manager, 5)
    pool.advance(1)
    set_factor(pool, pool.managers[1], 7, "bob@example.org")
    pool.advance(5)
    assert pool.manager.state.submitters["alice@example.org"].factor == 5
    assert "alice@example.org" not in pool.managers[1].state.submitters
    assert "bob@example.org" not in pool.manager.state.submitters
    pool.managers[off_at].lose_power()
    pool.managers[off_at].start()
    switch(pool, pool.managers[off_at], "REPLICATION", on=True)
    pool.advance(5)
    assert factors(pool) == [5, 5]
    assert factors(pool, "bob@example.org") == [7, 7]
    assert not any(node.state.had.withheld for node in pool.managers)
    check_logs(pool)


@pytest.mark.parametrize(
    ("settings", "daemon", "refusal"),
    [
        ({}, "HAD", "there is no daemon HAD in this manager; it has NEGOTIATOR"),
        ({}, "DEFRAG", "there is no daemon DEFRAG in this manager; it has NEGOTIATOR"),
        (FAST, "COLLECTOR", "there is no daemon COLLECTOR in this manager; it has NEGOTIATOR, HAD, REPLICATION"),
    ],
)
def test_a_part_that_a_manager_lacks_is_refused(settings: dict[str, str], daemon: str, refusal: str) -> None:
    pool = SimulatedPool(managers=2, settings=settings)
    (result,) = pool.manager.engine.handle([s.SwitchDaemons(pool.id(), "root", daemon, False)])
    assert result.refusal == refusal


def test_only_an_administrator_may_turn_a_negotiator_off(pool: SimulatedPool) -> None:
    (result,) = pool.manager.engine.handle([s.SwitchDaemons(pool.id(), "alice", "NEGOTIATOR", False)])
    assert "permission denied to turn NEGOTIATOR off" in result.refusal
