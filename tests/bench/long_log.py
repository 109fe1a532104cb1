"""Write a long log as a pool would: 16 static slots, each claimed once, run one job after another."""

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

# The events of a job's life on a claimed slot, in order.
LIFE = (
    (SlotTransitioned, "11"),
    (JobActivated, ""),
    (JobExecuting, ""),
    (JobExited, "complete"),
    (SlotTransitioned, "12"),
)
LIFE_EVENTS = len(LIFE)


def _life_index(event: Event) -> int:
    """Return the event's index in ``LIFE``, or -1."""
    kind = (type(event), getattr(event, "row", ""))
    return LIFE.index(kind) if kind in LIFE else -1


def _recorded_events() -> list[Event]:
    """Return the events that a pool in virtual time logs for a few jobs."""
    log = open_log("memory:", create=True)
    engine = Engine(log, VirtualWorld())
    engine.load()
    engine.handle([s.FoundPool("founding", "pool", "manual", "example.org", "0.1", {})])
    resources = {"Cpus": "1", "Memory": "256", "Disk": "100000"}
    plans = tuple(s.SlotPlan(f"slot{number}@h", "static", resources) for number in range(1, SLOTS + 1))
    engine.handle([s.AddMachine("machine", "h", MACHINE, plans)])
    engine.handle([s.Submit("submit-1", "alice", 0, JOB, 2 * SLOTS, ())])
    while engine.step(engine.world.now() + 100 * SECOND):
        pass
    return [event for _, event in log.read()]


def write_long_log(log: EventStore, jobs: int) -> None:
    """Append to an empty log the events that a pool would log for ``jobs`` jobs."""
    recorded = _recorded_events()
    first_exit = next(number for number, event in enumerate(recorded) if isinstance(event, JobExited))
    submit = next(event for event in recorded if isinstance(event, ClusterSubmitted))
    life = [next(event for event in recorded if _life_index(event) == index) for index in range(LIFE_EVENTS)]
    setup_events = [event for event in recorded[:first_exit] if _life_index(event) < 0 and event is not submit]
    clusters = [
        replace(submit, cluster=number, count=min(CLUSTER, jobs - first))
        for number, first in enumerate(range(0, jobs, CLUSTER), 1)
    ]
    log.append([*clusters, *setup_events])
    batch: list[Event] = []
    for cluster in clusters:
        for wave in _waves(life, cluster):
            batch += wave
            if len(batch) >= BATCH:
                log.append(batch)
                batch = []
    log.append(batch)


def _waves(life: Sequence[Event], cluster: ClusterSubmitted) -> Iterator[list[Event]]:
    """Yield the events of a cluster's jobs, as many jobs at a time as there are slots."""
    for first in range(0, cluster.count, SLOTS):
        at = cluster.at + (cluster.cluster * CLUSTER + first) * SECOND
        wave = [(proc, f"slot{1 + proc - first}@h") for proc in range(first, min(first + SLOTS, cluster.count))]

        def events(indexes: Sequence[int], at: int = at, wave: list[tuple[int, str]] = wave) -> list[Event]:
            return [
                _event_of_job(life[index], cluster.cluster, proc, slot, at) for proc, slot in wave for index in indexes
            ]

        procs = ((first, first + len(wave) - 1),)
        leaving = JobsTransitioned(
            at + 10 * SECOND, "left_queue", "leave", cluster.cluster, procs, "leave", "Completed", "Left", {}
        )
        yield [*events((0, 1)), *events((2,)), *events((3, 4), at + 10 * SECOND), leaving]


def _event_of_job(event: Event, cluster: int, proc: int, slot: str, at: int) -> Event:
    """Return the event with another job's ids, slot and time."""
    job_fields: dict[str, Any] = {"at": at, "cluster": cluster, "proc": proc, "slot": slot}
    fields = {name: value for name, value in job_fields.items() if name in _FIELD_NAMES[type(event)]}
    return replace(event, **fields)


_FIELD_NAMES: dict[type[Event], frozenset[str]] = {kind: frozenset(kind.__struct_fields__) for kind, _ in LIFE}
