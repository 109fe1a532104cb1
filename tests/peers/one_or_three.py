"""The same pool with one log, and with separate logs of a manager, an access point and execution points."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, field

from poolbook.domain import events as e
from poolbook.domain.ports import stimuli as s
from poolbook.domain.units import SECOND
from poolbook.replay.virtual_world import EPOCH, Behave, sleep_behaviour

from ..domain.pools import JOB, MACHINE, TestPool, selection
from ..job_commands import job_command
from .simulated import SimulatedPool

SHOWN = ("HoldReason", "HoldReasonCode", "RemoveReason", "VacateReason", "VacateReasonCode", "ReleaseReason")
Step = tuple[float, tuple[object, ...]]


@define
class Shape:
    """The machines and settings of a pool."""

    dialect: str = "htcondor-25"
    machines: int = 1
    slots: int = 1
    kind: str = "static"
    settings: dict[str, str] = field(factory=dict)
    machine: dict[str, str] = field(factory=dict)
    behave: Behave = sleep_behaviour


class Pool:
    """A pool on which a story acts. Its methods return why a request was refused, or an empty string."""

    def ask(self, role: str, stimulus: s.Stimulus) -> str:
        """Decide a stimulus at a role: ap, cm, or a machine."""
        raise NotImplementedError

    def advance(self, seconds: float) -> None:
        raise NotImplementedError

    def events(self) -> Iterable[e.Event]:
        """Return the events of the log with the queue."""
        raise NotImplementedError

    def runs(self, machine: str) -> list[str]:
        """Return the keys of the processes on a machine, the last one last."""
        raise NotImplementedError

    def id(self) -> str:
        raise NotImplementedError

    def submit(self, count: int = 1, user: str = "alice", **attributes: str) -> str:
        return self.ask("ap", s.Submit(self.id(), user, 0, JOB | {"AccessPoint": "ap1"} | attributes, count, ()))

    def act(self, action: str, *jobs: str, fast: bool = False) -> str:
        return self.ask("ap", job_command(self.id(), "alice", action, selection(*jobs), fast=fast))

    def edit(self, *jobs: str, **changes: str) -> str:
        return self.ask("ap", s.Edit(self.id(), "alice", selection(*jobs), changes))

    def run_now(self, job: str, *victims: str) -> str:
        first, *others = [(int(cluster), int(proc)) for cluster, proc in (id.split(".") for id in (job, *victims))]
        return self.ask("ap", s.RunNow(self.id(), "alice", first, tuple(others)))

    def command(self, role: str, kind: type[s.Command], *arguments: Any) -> str:
        return self.ask(role, kind(self.id(), "root", *arguments))

    def chirp(self, machine: str, **values: str) -> str:
        """Let the job that was started last on a machine set attributes."""
        writes = tuple((number, "set", name, text) for number, (name, text) in enumerate(values.items(), 1))
        return self.ask(machine, s.ActivationChirped(self.id(), self.runs(machine)[-1], writes))

    def stories(self) -> dict[str, list[Step]]:
        """Return what happened to each job, with times in seconds."""
        jobs: dict[str, list[Step]] = {}
        for event in self.events():
            at = (event.at - EPOCH) / SECOND
            if isinstance(event, e.JobsTransitioned | e.JobsEdited):
                move = (event.row, event.target, _shown(event.changes)) if isinstance(event, e.JobsTransitioned) else ()
                for first, last in event.procs:
                    for proc in range(first, last + 1):
                        steps = jobs.setdefault(f"{event.cluster}.{proc}", [])
                        steps.append((at, move or ("edited", repr(event.changes))))
            elif isinstance(event, e.JobExited):
                end = event.outcome, event.row, event.target, event.code, event.signal, _shown(event.changes)
                jobs.setdefault(f"{event.cluster}.{event.proc}", []).append((at, ("ended", *end)))
            elif isinstance(event, e.JobActivated | e.JobDue | e.JobExecuting):
                jobs.setdefault(f"{event.cluster}.{event.proc}", []).append((at, (type(event).__name__,)))
        return jobs


def _shown(changes: Mapping[str, str]) -> str:
    return repr({name: changes[name] for name in SHOWN if name in changes})


class OneLog(Pool):
    def __init__(self, shape: Shape) -> None:
        self.pool = TestPool(dialect=shape.dialect, settings=shape.settings, behave=shape.behave)
        share = {"Cpus": "1", "Memory": "1024", "Disk": "1000000"}
        whole = {key: str(int(text) * shape.slots) for key, text in share.items()}
        for name in (f"ep{number}" for number in range(1, shape.machines + 1)):
            plans = [s.SlotPlan(f"slot{n}@{name}", "static", share) for n in range(1, shape.slots + 1)]
            if shape.kind == "partitionable":
                plans = [s.SlotPlan(f"slot1@{name}", shape.kind, whole)]
            ad = MACHINE | shape.machine | {"Machine": f'"{name}"'}
            self.pool.handle(s.AddMachine(self.id(), name, ad, tuple(plans)))

    def ask(self, role: str, stimulus: s.Stimulus) -> str:
        return self.pool.handle(stimulus).refusal

    def advance(self, seconds: float) -> None:
        self.pool.advance(seconds)

    def events(self) -> Iterable[e.Event]:
        return self.pool.events()

    def runs(self, machine: str) -> list[str]:
        return [run.key for run in self.pool.state.activations.values() if run.slot.endswith(f"@{machine}")]

    def id(self) -> str:
        return self.pool.id()


class ThreeLogs(Pool):
    def __init__(self, shape: Shape) -> None:
        self.pool = SimulatedPool(
            execution_points=shape.machines, slots=shape.slots, dialect=shape.dialect, settings=shape.settings,
            behave=shape.behave, machine=shape.machine, kind=shape.kind,
        )  # fmt: skip

    def ask(self, role: str, stimulus: s.Stimulus) -> str:
        names = {"ap": "access-point/ap1", "cm": "manager"}
        try:
            self.pool.nodes[names.get(role, f"execution-point/{role}")].ask(stimulus)
        except AssertionError as refusal:
            return str(refusal).splitlines()[0]
        return ""

    def advance(self, seconds: float) -> None:
        self.pool.advance(seconds)

    def events(self) -> Iterable[e.Event]:
        return self.pool.ap().events

    def runs(self, machine: str) -> list[str]:
        return [*self.pool.nodes[f"execution-point/{machine}"].state.remote_runs]

    def id(self) -> str:
        return self.pool.id()
