"""Golden: when cycles are held, with and without a configured pace."""

from __future__ import annotations

import pytest

from poolbook import Pool
from poolbook.adapters.simulation import ScenarioMachines, Simulation, play
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.replay.recheck_cycles import recheck
from poolbook.replay.scenario import parse_scenario as read_play

PLAIN = "NUM_SLOTS = 1\nSLOT_TYPE_0_PARTITIONABLE = false\nRUNBENCHMARKS = False\n"
JOB = {"executable": "/bin/sleep", "arguments": "100"}


def cycle_times(pool: Pool) -> list[int]:
    """Return when cycles were held, in seconds from the pool's start."""
    (_, founded_at), *events = pool.events()
    return [(event.at - founded_at.at) // 1_000_000 for _, event in events if isinstance(event, e.CycleHeld)]


def wait_times(pool: Pool) -> dict[str, int]:
    return {ad["Owner"]: ad["JobCurrentStartDate"] - ad["QDate"] for ad in pool.history()}


@pytest.mark.parametrize(
    ("config", "expected_times"),
    [
        ("", [0, 10, 100]),  # immediately: when Bob submits, and when the slot is unclaimed
        ("NEGOTIATOR_INTERVAL = 60", [0, 10, 100]),  # a default value changes nothing, as in HTCondor
        ("NEGOTIATOR_CYCLE_DELAY = 20", [0, 20, 80, 140]),  # HTCondor's own pace
        ("NEGOTIATOR_INTERVAL = 600", [0, 20, 620]),
        ("NEGOTIATOR_INTERVAL = 600\nNEGOTIATOR_CYCLE_DELAY = 50", [0, 50, 650]),
        ("NEGOTIATOR_INTERVAL = 600\nNEGOTIATOR_CYCLE_DELAY = 0", [0, 10, 610]),
        ("NEGOTIATOR_INTERVAL = 600\nNEGOTIATOR_CYCLE_DELAY = 0\nNEGOTIATOR_MIN_INTERVAL = 70", [0, 70, 670]),
        ("NEGOTIATOR_INTERVAL = 5", [0, 20, 40, 60, 80, 100]),  # the delay comes first
    ],
)
def test_a_job_waits_for_the_next_cycle_of_the_configured_pace(config: str, expected_times: list[int]) -> None:
    """Alice's job runs for 100 seconds on the only slot; Bob's comes 10 seconds after it."""
    with Pool.open(config=PLAIN + config) as pool:
        pool.add_machine("h")
        pool.submit(JOB, user="alice")
        pool.advance(10)
        pool.submit(JOB, user="bob")
        assert pool.run() and pool.jobs() == []
        assert wait_times(pool) == {"alice": 0, "bob": expected_times[-1] - 10}
        times = cycle_times(pool)
        assert times == [at for at in expected_times if at in times] and times[-1] == expected_times[-1]
        assert pool.judge() == []
        rechecked = recheck(pool.events())
        assert rechecked.sound and rechecked.taken


def mean_wait(config: str) -> float:
    """Return the mean wait of ten users' jobs of 50 seconds, submitted 7 seconds apart, for one slot."""
    with Pool.open(config=PLAIN + config) as pool:
        pool.add_machine("h")
        for number in range(10):
            pool.submit({"executable": "/bin/sleep", "arguments": "50"}, user=f"user{number}")
            pool.advance(7)
        assert pool.run()
        return sum(wait_times(pool).values()) / 10


def test_the_mean_wait_follows_the_interval() -> None:
    """The first job starts immediately, each other one when the slot is unclaimed or with the first cycle after
    that."""
    assert mean_wait("") == sum(50 * n - 7 * n for n in range(10)) / 10
    starts = [0, 60, *(80 + 600 * n for n in range(1, 9))]  # on request there are cycles every 20 seconds, up to 80
    assert mean_wait("NEGOTIATOR_INTERVAL = 600") == sum(at - 7 * n for n, at in enumerate(starts)) / 10


def test_a_released_job_requests_a_cycle_and_an_edited_one_does_not() -> None:
    with Pool.open(config=PLAIN + "NEGOTIATOR_INTERVAL = 600") as pool:
        pool.add_machine("h")
        cluster = pool.submit({**JOB, "requirements": "TARGET.Memory > Wish"})
        pool.advance(100)
        pool.edit(cluster, Wish=1)
        pool.advance(100)
        assert [ad["JobStatus"] for ad in pool.jobs()] == [1]
        pool.hold(cluster)
        pool.release(cluster)
        assert [ad["JobStatus"] for ad in pool.jobs()] == [2]


def test_a_requested_cycle_respects_the_delay() -> None:
    with Pool.open(config=PLAIN + "NEGOTIATOR_INTERVAL = 600") as pool:
        pool.add_machine("h")
        pool.submit(JOB, user="alice")
        pool.submit(JOB, user="bob")
        pool.advance(15)
        pool.negotiate()
        pool.advance(100)
        assert cycle_times(pool)[:2] == [0, 20]


def test_cycles_are_immediate_again_when_the_pace_is_no_longer_configured() -> None:
    with Pool.open(config=PLAIN + "NEGOTIATOR_INTERVAL = 600") as pool:
        pool.configure(PLAIN)
        assert pool.state.settings == pool.state.founding_settings
        pool.add_machine("h")
        pool.submit(JOB, user="alice")
        pool.advance(10)
        pool.submit(JOB, user="bob")
        assert pool.run() and wait_times(pool) == {"alice": 0, "bob": 90}
        assert pool.judge() == []


def test_a_pool_that_was_created_with_a_pace_keeps_it() -> None:
    with Pool.open(settings={"NEGOTIATOR_INTERVAL": 600}) as pool:
        pool.add_machine("h", static=1)
        pool.submit(JOB, user="alice")
        pool.submit(JOB, user="bob")
        assert pool.run() and wait_times(pool) == {"alice": 0, "bob": 620}


@pytest.mark.parametrize(("config", "begins"), [("", "1:40"), ("    NEGOTIATOR_INTERVAL = 600\n", "10:20")])
def test_a_scenario_uses_the_pace_of_its_configuration(config: str, begins: str) -> None:
    scenario = read_play(
        f"machine a cores=1\nconfig\n    RUNBENCHMARKS = False\n{config}end\n"
        "at 0:01 submit alice run=1:39\nat 0:10 submit bob run=1:00\nuntil 20:00\n"
    )
    stage = Simulation(scenario, ScenarioMachines(scenario), open_log("memory:", create=True), lambda line: None)
    assert play(stage)
    minutes, _, seconds = begins.partition(":")
    start_times = [event.at for _, event in stage.log.read() if isinstance(event, e.JobActivated)]
    assert (start_times[1] - stage.start) // 1_000_000 == int(minutes) * 60 + int(seconds) + (1 if config else 0)
