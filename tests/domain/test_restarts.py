"""Golden: what a restarted pool does again, because it may have been killed before it did so."""

from __future__ import annotations

from poolbook.adapters.runtime.engine import Engine
from poolbook.domain.ports import stimuli as s
from poolbook.replay.virtual_world import VirtualWorld

from ..policy.points import Point
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
