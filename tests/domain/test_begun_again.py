"""Golden: what a pool does again when it begins again with its log, as it may have been killed before it did so."""

from __future__ import annotations

from poolbook.adapters.runtime.engine import Engine
from poolbook.domain.ports import stimuli as s
from poolbook.replay.virtual_world import VirtualWorld

from ..policy.points import Point
from .preempting import SLOT


class Slow(VirtualWorld):
    """A virtual world whose benchmarks take their time; it notes of which slots they are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def benchmark(self, slot: str) -> None:
        self.asked.append(slot)


def begins_again(point: Point, world: Slow) -> list[str]:
    """Begin the pool again; return the slots whose benchmarks are asked for."""
    world.asked.clear()
    point.engine = Engine(point.log, world)
    point.engine.load()
    point.engine.recover()
    return world.asked


def test_benchmarks_that_were_running_are_run_again() -> None:
    point = Point("manual")
    world = point.world = point.engine.world = Slow()
    point.point({"RUNBENCHMARKS": "LastBenchmark is undefined || LastBenchmark == 0"})
    point.advance(10)
    assert point.pair() == "Unclaimed/Benchmarking"
    assert begins_again(point, world) == [SLOT]
    point.handle(s.BenchmarksDone(point.id(), SLOT, 1000, 2000))
    assert point.pair() == "Unclaimed/Idle"
    assert begins_again(point, world) == []
