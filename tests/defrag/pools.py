"""Pools with defragmentation in virtual time; each machine has a partitionable slot."""

from __future__ import annotations

from collections.abc import Iterator

from poolbook.adapters.runtime.engine import Engine
from poolbook.domain import events as e
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.log import EventStore
from poolbook.domain.units import SECOND
from poolbook.replay.virtual_world import VirtualWorld

from ..domain.pools import MACHINE, TestPool

NAME = "DEFRAG@cm"
REASON = f"Defrag {NAME}"


class DefragPool(TestPool):
    """A pool with defragmentation. ``settings`` are named without DEFRAG_."""

    def __init__(self, dialect: str = "manual", log: EventStore | None = None, /, **settings: object) -> None:
        super().__init__(dialect=dialect, log=log)
        self.configure(**settings)

    def configure(self, **settings: object) -> None:
        """Replace the settings; NAME has a default."""
        texts = {f"DEFRAG_{name}": str(value) for name, value in ({"NAME": NAME} | settings).items() if value != ""}
        answer = self.handle(s.ConfigurePool(self.id(), texts))
        assert not answer.refusal

    def machines(self, *names: str, cpus: int = 4, retirement: int = 0) -> None:
        for name in names:
            ad = MACHINE | {"Machine": f'"{name}"', "MaxJobRetirementTime": str(retirement), "TotalCpus": f"{cpus}.0"}
            slot_ad = {
                "Cpus": str(cpus), "TotalSlotCpus": str(cpus), "Memory": "4096", "Disk": "1000000", "SlotID": "1",
                "PartitionableSlot": "true",
            }  # fmt: skip
            plan = s.SlotPlan(f"slot1@{name}", "partitionable", slot_ad)
            self.handle(s.AddMachine(self.id(), name, ad, (plan,)))

    def run(self, seconds: int, count: int = 1, cpus: int = 1, user: str = "alice") -> None:
        """Submit jobs that run for ``seconds``."""
        self.submit(count, user, Args=f'"{seconds}"', RequestCpus=str(cpus), RequestMemory="10")

    def crash(self) -> None:
        """Kill the pool and recover it from its log."""
        self.engine = Engine(self.log, self.world)
        self.engine.recover()

    def polls(self) -> Iterator[e.DefragPolled]:
        return (event for event in self.events() if isinstance(event, e.DefragPolled))

    def drained(self) -> list[str]:
        """Return the machines that the defragmentation drained, in order."""
        return [event.machine for event in self.events() if isinstance(event, e.DrainBegan) and event.cause == "defrag"]


def world_at(seconds_of_day: int) -> VirtualWorld:
    """Return a world whose clock starts this many seconds after midnight UTC."""
    return VirtualWorld(clock=(20_000 * 86400 + seconds_of_day) * SECOND)
