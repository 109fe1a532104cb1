"""Complete pools for tests: the live engine with a log in memory and a virtual world."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from poolbook.adapters.runtime.engine import Engine
from poolbook.adapters.runtime.log_writer import StimulusResult
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.decide import Tables
from poolbook.domain.events import Event
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.log import EventStore
from poolbook.domain.units import SECOND
from poolbook.replay.virtual_world import Behave, VirtualWorld, sleep_behaviour

from ..job_commands import job_command

MACHINE = {
    "Arch": '"X86_64"',
    "Start": "true",
    "SlotWeight": "Cpus",
    "Requirements": "Start && TARGET.RequestCpus <= MY.Cpus && TARGET.RequestMemory <= MY.Memory",
}
JOB = {
    "Cmd": '"/bin/sleep"',
    "Args": '"30"',
    "Requirements": 'TARGET.Arch == "X86_64" && TARGET.Memory >= RequestMemory',
    "Rank": "0.0",
    "RequestCpus": "1",
    "RequestMemory": "128",
    "RequestDisk": "1024",
    "JobPrio": "0",
    "JobStatus": "1",
}


class TestPool:
    """A pool in virtual time, with the commands as methods."""

    __test__ = False

    def __init__(
        self,
        *,
        dialect: str = "manual",
        log: EventStore | None = None,
        behave: Behave = sleep_behaviour,
        tables: Tables | None = None,
        settings: dict[str, str] | None = None,
        steady: bool = True,
        world: VirtualWorld | None = None,
    ) -> None:
        self.log = log or open_log("memory:", create=True)
        self.world = world or VirtualWorld(behave, simulated=steady)
        self.engine = Engine(self.log, self.world, tables)
        self._ids = (f"request-{number}" for number in itertools.count(1))
        self.engine.handle([s.FoundPool("founding", "pool", dialect, "example.org", "0.1", settings or {})])

    @property
    def state(self):  # type: ignore[no-untyped-def]
        return self.engine.state

    def events(self) -> list[Event]:
        return [event for _, event in self.log.read()]

    def handle(self, stimulus: s.Stimulus) -> StimulusResult:
        return self.engine.handle([stimulus])[0]

    def id(self) -> str:
        return next(self._ids)

    def machine(
        self, name: str = "h", cpus: int = 2, memory: int = 2048, static: int = 0, **more: str
    ) -> StimulusResult:
        plans: Sequence[s.SlotPlan]
        resources = {"Cpus": str(cpus), "Memory": str(memory), "Disk": "1000000"}
        if static:
            share = {key: str(int(value) // static) for key, value in resources.items()}
            plans = [s.SlotPlan(f"slot{n}@{name}", "static", share) for n in range(1, static + 1)]
        else:
            plans = [s.SlotPlan(f"slot1@{name}", "partitionable", resources)]
        ad = MACHINE | {"Machine": f'"{name}"'} | more
        return self.handle(s.AddMachine(self.id(), name, ad, tuple(plans)))

    def submit(self, count: int = 1, user: str = "alice", **attributes: str) -> StimulusResult:
        return self.handle(s.Submit(self.id(), user, 0, JOB | attributes, count, ()))

    def act(
        self, action: str, *state: str, user: str = "alice", fast: bool = False, constraint: str = ""
    ) -> StimulusResult:
        return self.handle(job_command(self.id(), user, action, selection(*state, constraint=constraint), fast=fast))

    def edit(self, *state: str, user: str = "alice", add: bool = False, **changes: str) -> StimulusResult:
        return self.handle(s.Edit(self.id(), user, selection(*state), changes, add))

    def vacate_slot(self, slot: str, user: str = "root", fast: bool = False) -> StimulusResult:
        return self.handle(s.VacateSlot(self.id(), user, slot, fast))

    def advance(self, seconds: float) -> None:
        """Let time pass, with everything that happens meanwhile."""
        until = self.world.clock + round(seconds * SECOND)
        while True:
            before = self.world.clock
            if not self.engine.step(until) and self.world.clock >= until:
                return
            assert self.world.clock >= before

    def status(self, job: str) -> str:
        cluster, _, proc = job.partition(".")
        cluster_record = self.state.clusters.get(int(cluster))
        return (
            cluster_record.status_of(int(proc))
            if cluster_record is not None and int(proc) in cluster_record
            else "ended"
        )


def selection(*state: str, constraint: str = "") -> s.Selection:
    """Parse a selection as a user types it: 3, 3.1, a user's name, or nothing for all."""
    clusters = tuple(int(w) for w in state if w.isdigit())
    jobs = tuple((int(c), int(p)) for c, dot, p in (w.partition(".") for w in state) if dot)
    owners = tuple(w for w in state if not w[0].isdigit())
    return s.Selection(clusters, jobs, owners, not state and not constraint, constraint)
