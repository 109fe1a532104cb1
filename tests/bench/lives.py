"""A long log as a pool writes it: 16 static slots, claimed once, on which one job follows the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from poolbook.adapters.runtime.engine import Engine
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.events import (
    ClusterSubmitted,
    Event,
    JobActivated,
    JobExecuting,
    JobExited,
    JobsTransitioned,
    SlotTransitioned,
)
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.log import EventStore
from poolbook.domain.units import SECOND
from poolbook.replay.virtual_world import VirtualWorld

SLOTS = 16
CLUSTER = 10_000
BATCH = 10_000
MACHINE = {
    "Machine": '"h"',
    "Arch": '"X86_64"',
    "Start": "true",
    "Requirements": "Start && TARGET.RequestCpus <= MY.Cpus",
}
JOB = {
    "Cmd": '"/bin/sleep"', "Args": '"30"', "Iwd": '"/home/alice"', "Requirements": 'TARGET.Arch == "X86_64"',
    "RequestCpus": "1", "RequestMemory": "128", "RequestDisk": "1024", "Rank": "0.0", "JobPrio": "0",
}  # fmt: skip

# The life of a job on a slot that is claimed: what happens in it, in this order.
LIFE = (
    (SlotTransitioned, "11"),
    (JobActivated, ""),
    (JobExecuting, ""),
    (JobExited, "complete"),
    (SlotTransitioned, "12"),
)
LIFE_EVENTS = len(LIFE)


def _place(event: Event) -> int:
    """Which of a life's events it is, or -1."""
    kind = (type(event), getattr(event, "row", ""))
    return LIFE.index(kind) if kind in LIFE else -1


def _told() -> list[Event]:
    """What a pool in virtual time logs of a few jobs."""
    log = open_log("memory:", create=True)
    engine = Engine(log, VirtualWorld())
    engine.load()
    engine.handle([s.FoundPool("founding", "pool", "manual", "example.org", "0.1", {})])
    offer = {"Cpus": "1", "Memory": "256", "Disk": "100000"}
    plans = tuple(s.SlotPlan(f"slot{number}@h", "static", offer) for number in range(1, SLOTS + 1))
    engine.handle([s.AddMachine("machine", "h", MACHINE, plans)])
    engine.handle([s.Submit("submit-1", "alice", 0, JOB, 2 * SLOTS, ())])
    while engine.step(engine.world.now() + 100 * SECOND):
        pass
    return [event for _, event in log.read()]


def long_log(log: EventStore, jobs: int) -> None:
    """Append to an empty log what a pool would have logged of so many jobs."""
    told = _told()
    exited = next(number for number, event in enumerate(told) if isinstance(event, JobExited))
    submit = next(event for event in told if isinstance(event, ClusterSubmitted))
    life = [next(event for event in told if _place(event) == place) for place in range(LIFE_EVENTS)]
    beginning = [event for event in told[:exited] if _place(event) < 0 and event is not submit]
    clusters = [
        replace(submit, cluster=number, count=min(CLUSTER, jobs - first))
        for number, first in enumerate(range(0, jobs, CLUSTER), 1)
    ]
    log.append([*clusters, *beginning])
    batch: list[Event] = []
    for cluster in clusters:
        for wave in _waves(life, cluster):
            batch += wave
            if len(batch) >= BATCH:
                log.append(batch)
                batch = []
    log.append(batch)


def _waves(life: Sequence[Event], cluster: ClusterSubmitted) -> Iterator[list[Event]]:
    """A cluster's jobs, as many at a time as there are slots: they start, they run, they end."""
    for first in range(0, cluster.count, SLOTS):
        at = cluster.at + (cluster.cluster * CLUSTER + first) * SECOND
        wave = [(proc, f"slot{1 + proc - first}@h") for proc in range(first, min(first + SLOTS, cluster.count))]

        def events(places: Sequence[int], at: int = at, wave: list[tuple[int, str]] = wave) -> list[Event]:
            return [_one(life[place], cluster.cluster, proc, slot, at) for proc, slot in wave for place in places]

        procs = ((first, first + len(wave) - 1),)
        left = JobsTransitioned(
            at + 10 * SECOND, "left_queue", "leave", cluster.cluster, procs, "leave", "Completed", "Left", {}
        )
        yield [*events((0, 1)), *events((2,)), *events((3, 4), at + 10 * SECOND), left]


def _one(event: Event, cluster: int, proc: int, slot: str, at: int) -> Event:
    """The event of a life, in another job's."""
    own: dict[str, Any] = {"at": at, "cluster": cluster, "proc": proc, "slot": slot}
    fields = {name: value for name, value in own.items() if name in _NAMES[type(event)]}
    return replace(event, **fields)


_NAMES: dict[type[Event], frozenset[str]] = {kind: frozenset(kind.__struct_fields__) for kind, _ in LIFE}
