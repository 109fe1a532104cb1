"""Specification: the world of a play, its sensors, and events from outside the pool."""

from __future__ import annotations

from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.sensor_readings import Readings
from poolbook.domain.ports.world import How, Launch
from poolbook.domain.units import SECOND
from poolbook.replay.virtual_world import EPOCH, Behaviour, Speed, VirtualWorld


def world(**behaviour: float) -> VirtualWorld:
    return VirtualWorld(lambda launch: Behaviour(**behaviour))  # type: ignore[arg-type]


def launch(key: str = "7") -> Launch:
    return Launch(key, 1, 0, "slot1@ws1", {}, {}, "alice")


def kinds(arrivals: list[s.Stimulus]) -> list[str]:
    return [type(stimulus).__name__ for stimulus in arrivals]


def test_a_machine_without_readings_reports_none() -> None:
    assert world().sense("ws1") == Readings()


def test_new_readings_wake_their_machine_once() -> None:
    play_world = world()
    play_world.set_readings("ws1", Readings(load=0.5))
    assert play_world.sense("ws1").load == 0.5
    assert play_world.changed_machines() == {"ws1"}
    assert play_world.changed_machines() == set()


def test_a_job_adds_its_load_while_it_is_not_stopped() -> None:
    play_world = world(seconds=60, load=0.75)
    play_world.set_readings("ws1", Readings(load=0.5))
    play_world.start([launch()])
    pauses: tuple[How | None, ...] = (None, "suspend", "continue")
    loads = []
    for how in pauses:
        if how is not None:
            play_world.signal("7", how)
        readings = play_world.sense("ws1")
        loads.append((readings.load, dict(readings.condor_load)))
    assert loads == [(1.25, {"slot1@ws1": 0.75}), (0.5, {}), (1.25, {"slot1@ws1": 0.75})]
    assert kinds(play_world.wait(None)) == ["ActivationStarted"]
    assert kinds(play_world.wait(None)) == ["ActivationEnded"]
    assert play_world.sense("ws1").condor_load == {}
    assert play_world.changed_machines() == {"ws1"}


def test_planned_stimuli_precede_job_ends_of_the_same_instant() -> None:
    play_world = world(seconds=10)
    play_world.start([launch()])
    assert kinds(play_world.wait(None)) == ["ActivationStarted"]
    play_world.plan(EPOCH + 10 * SECOND, s.NotifyMatch("n", "slot2@ws1"))
    play_world.plan(EPOCH + 5 * SECOND, s.FailClaim("f", "slot2@ws1"))
    assert kinds(play_world.wait(None)) == ["FailClaim"]
    assert kinds(play_world.wait(EPOCH + 9 * SECOND)) == []
    assert kinds(play_world.wait(None)) == ["NotifyMatch", "ActivationEnded"]
    assert play_world.clock == EPOCH + 10 * SECOND


def test_an_outside_job_receives_signals_and_ends_as_given() -> None:
    play_world = world()
    ends = (s.StarterReported("r", "slot1@ws1"), s.StarterGone("g", "slot1@ws1"))
    play_world.occupy("outside", "slot1@ws1", Behaviour(seconds=100, grace=7), ends)
    play_world.signal("outside", "soft")
    assert tuple(play_world.wait(None)) == ends
    assert play_world.clock == EPOCH + 7 * SECOND


def test_benchmarks_take_time_and_report_the_machines_speed() -> None:
    play_world = world()
    play_world.speeds["ws1"] = Speed(100, 2000, 3)
    play_world.benchmark("slot1@ws1")
    (result,) = play_world.wait(None)
    assert isinstance(result, s.BenchmarksDone)
    assert (result.mips, result.kflops, play_world.clock) == (100, 2000, EPOCH + 3 * SECOND)
