"""Golden: what a pool asks of the world, and what a restarted pool asks again, because it may have been killed."""

from __future__ import annotations

from collections.abc import Sequence

from poolbook.adapters.runtime.engine import Engine
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.world import ClientLaunch, Launch
from poolbook.replay.virtual_world import VirtualWorld, sleep_behaviour

from ..policy.points import Point
from .pools import TestPool
from .preempting import SLOT


class SlowWorld(VirtualWorld):
    """A virtual world whose benchmarks take time; it records for which slots they are requested."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def benchmark(self, slot: str) -> None:
        self.asked.append(slot)


def restart(point: Point, world: SlowWorld) -> list[str]:
    """Restart the pool; return the slots whose benchmarks are requested."""
    world.asked.clear()
    point.engine = Engine(point.log, world)
    point.engine.load()
    point.engine.recover()
    return world.asked


def test_benchmarks_that_were_running_are_run_again() -> None:
    point = Point("manual")
    world = point.world = point.engine.world = SlowWorld()
    point.point({"RUNBENCHMARKS": "LastBenchmark is undefined || LastBenchmark == 0"})
    point.advance(10)
    assert point.pair() == "Unclaimed/Benchmarking"
    assert restart(point, world) == [SLOT]
    point.handle(s.BenchmarksDone(point.id(), SLOT, 1000, 2000))
    assert point.pair() == "Unclaimed/Idle"
    assert restart(point, world) == []


class CountingWorld(VirtualWorld):
    """A virtual world that records how many jobs are started together."""

    def __init__(self) -> None:
        super().__init__(sleep_behaviour)
        self.starts: list[int] = []

    def start(self, launches: Sequence[Launch | ClientLaunch]) -> None:
        self.starts.append(len(launches))
        super().start(launches)


def test_at_most_a_thousand_jobs_are_started_together() -> None:
    """Their ads take several kB each, so they are not all in memory."""
    pool = TestPool()
    world = pool.world = pool.engine.world = CountingWorld()
    pool.machine(cpus=1100, memory=1100 * 128, static=1100)
    pool.submit(1100)
    assert world.starts == [1000, 100]
