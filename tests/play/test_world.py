"""Specification: the world of a play, its sensors, and what comes from outside of the pool."""

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


def kinds(came: list[s.Stimulus]) -> list[str]:
    return [type(stimulus).__name__ for stimulus in came]


def test_a_machine_that_was_told_nothing_reads_nothing() -> None:
    assert world().sense("ws1") == Readings()


def test_new_readings_stir_their_machine_once() -> None:
    here = world()
    here.set_readings("ws1", Readings(load=0.5))
    assert here.sense("ws1").load == 0.5
    assert here.changed_machines() == {"ws1"}
    assert here.changed_machines() == set()


def test_a_job_adds_its_load_while_it_is_not_stopped() -> None:
    here = world(seconds=60, load=0.75)
    here.set_readings("ws1", Readings(load=0.5))
    here.start([launch()])
    pauses: tuple[How | None, ...] = (None, "suspend", "continue")
    seen = []
    for how in pauses:
        if how is not None:
            here.signal("7", how)
        readings = here.sense("ws1")
        seen.append((readings.load, dict(readings.condor_load)))
    assert seen == [(1.25, {"slot1@ws1": 0.75}), (0.5, {}), (1.25, {"slot1@ws1": 0.75})]
    assert kinds(here.wait(None)) == ["ActivationStarted"]
    assert kinds(here.wait(None)) == ["ActivationEnded"]
    assert here.sense("ws1").condor_load == {}
    assert here.changed_machines() == {"ws1"}


def test_what_was_planned_comes_at_its_instant_before_the_ends_of_that_instant() -> None:
    here = world(seconds=10)
    here.start([launch()])
    assert kinds(here.wait(None)) == ["ActivationStarted"]
    here.plan(EPOCH + 10 * SECOND, s.NotifyMatch("n", "slot2@ws1"))
    here.plan(EPOCH + 5 * SECOND, s.FailClaim("f", "slot2@ws1"))
    assert kinds(here.wait(None)) == ["FailClaim"]
    assert kinds(here.wait(EPOCH + 9 * SECOND)) == []
    assert kinds(here.wait(None)) == ["NotifyMatch", "ActivationEnded"]
    assert here.clock == EPOCH + 10 * SECOND


def test_a_job_from_outside_hears_signals_and_ends_with_what_it_was_given() -> None:
    here = world()
    ends = (s.StarterReported("r", "slot1@ws1"), s.StarterGone("g", "slot1@ws1"))
    here.occupy("outside", "slot1@ws1", Behaviour(seconds=100, grace=7), ends)
    here.signal("outside", "soft")
    assert tuple(here.wait(None)) == ends
    assert here.clock == EPOCH + 7 * SECOND


def test_benchmarks_take_their_time_and_find_the_machine_s_speed() -> None:
    here = world()
    here.speeds["ws1"] = Speed(100, 2000, 3)
    here.benchmark("slot1@ws1")
    (done,) = here.wait(None)
    assert isinstance(done, s.BenchmarksDone)
    assert (done.mips, done.kflops, here.clock) == (100, 2000, EPOCH + 3 * SECOND)
