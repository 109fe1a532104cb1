"""A whole pool in virtual time, whose users' logs are collected."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC
from pathlib import Path

from attrs import define, field

from poolbook.adapters.runtime.engine import Engine
from poolbook.adapters.runtime.log_writer import StimulusResult
from poolbook.adapters.runtime.userlog import event_text
from poolbook.adapters.runtime.userlog.event_text import stamp_formatter
from poolbook.adapters.runtime.userlog.fold import UserLogs
from poolbook.adapters.runtime.views import catch_up, open_tables
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.config import read
from poolbook.domain.decide.pool_configuration import configured_pool_settings
from poolbook.domain.events import Event
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state.proc_ads import pack
from poolbook.domain.units import SECOND
from poolbook.projections.views import Views
from poolbook.replay.virtual_world import VirtualWorld

from ..job_commands import job_command
from ..schedd.policy_pool import TextFiles

DATA = Path(__file__).parents[1] / "data" / "userlog"
EVENT = re.compile(r"^\d{3} \(.*?^\.\.\.\n", re.MULTILINE | re.DOTALL)
MACHINE = {"Start": "true", "Requirements": "Start && TARGET.RequestCpus <= MY.Cpus", "Arch": '"X86_64"'}
JOB = {
    "Cmd": '"/bin/sleep"',
    "Args": '"30"',
    "Requirements": 'TARGET.Arch == "X86_64"',
    "RequestCpus": "1",
    "RequestMemory": "128",
    "RequestDisk": "1024",
    "Rank": "0.0",
    "JobPrio": "0",
    "Iwd": '"/home/alice"',
    "UserLog": '"/home/alice/job.log"',
}
"""A job that sleeps for half a minute."""


def events_of(text: str) -> list[str]:
    """Return the events of a user log; fail if there is anything between them."""
    event_texts = EVENT.findall(text)
    assert "".join(event_texts) == text
    return event_texts


def utc() -> UserLogs:
    return UserLogs(stamp_formatter(UTC))


@define
class Pool:
    """A pool of the dialect htcondor-25; a fold sees every event as it happens."""

    world: VirtualWorld = field(factory=VirtualWorld)
    logs: UserLogs = field(factory=utc)
    files: dict[str, str] = field(factory=dict)
    happened: list[tuple[int, Event]] = field(factory=list)
    engine: Engine = field(init=False)
    _asked: int = 0

    def __attrs_post_init__(self) -> None:
        self.engine = Engine(open_log("memory:", create=True), self.world)
        self.engine.load()
        self.engine.subscribe(self._see)
        self.ask(s.FoundPool("found", "pool", "htcondor-25", "localhost", "0.1", {}))

    def _see(self, first: int, events: Sequence[Event]) -> None:
        for position, event in enumerate(events, first):
            self.happened.append((position, event))
            for (path, _), text in self.logs.fold(position, event):
                self.files[path] = self.files.get(path, "") + text

    def ask(self, *stimuli: s.Stimulus) -> list[StimulusResult]:
        return self.engine.handle(stimuli)

    def next_id(self) -> str:
        self._asked += 1
        return f"ask-{self._asked}"

    def machine(self, name: str, slots: int, **ad: str) -> None:
        """Add `slots` static slots of a machine."""
        plans = tuple(s.SlotPlan(f"slot{n}@{name}", "static", ad) for n in range(1, slots + 1))
        self.ask(s.AddMachine(self.next_id(), name, {"Machine": f'"{name}"', **MACHINE}, plans))

    def configure(self, config: str, files: Mapping[str, str]) -> None:
        """Read this configuration, as at the pool's start or by condor_reconfig, on a disk with these files."""
        settings = configured_pool_settings(
            lambda daemon: read(config, subsystem=daemon, files=TextFiles(files)), lambda warning: None
        )
        (answer,) = self.ask(s.ConfigurePool(self.next_id(), settings))
        assert not answer.refusal

    def submit(self, ad: dict[str, str], count: int = 1, columns: dict[str, list[str]] | None = None) -> None:
        (answer,) = self.ask(s.Submit(self.next_id(), "alice", 0, ad, count, pack(columns or {})))
        assert not answer.refusal

    def act(self, action: str, *jobs: tuple[int, int], reason: str = "", fast: bool = False) -> None:
        """Run a command of alice's on single jobs, or on all if none is named."""
        selection = s.Selection(jobs=jobs, everything=not jobs)
        self.ask(job_command(self.next_id(), "alice", action, selection, reason, fast=fast))

    def edit(self, changes: dict[str, str], *jobs: tuple[int, int]) -> None:
        self.ask(s.Edit(self.next_id(), "alice", s.Selection(jobs=jobs, everything=not jobs), changes))

    def views(self) -> Views:
        """Return the queue and the history as of now."""
        tables = open_tables(None)
        catch_up(self.engine.log, tables)
        return Views(tables)

    def measure(self, job: tuple[int, int], image: int, resident: int, disk: int = 0) -> None:
        activation = self.engine.state.by_job[job]
        self.ask(s.ActivationMeasured(self.next_id(), activation.key, image, resident, disk, 0, 0))

    def until(self, at: int) -> None:
        """Advance to the instant `at`, and process what happens at it."""
        while self.engine.step(at):
            pass
        self.world.clock = max(self.world.clock, at)

    def run(self, seconds: float) -> None:
        self.until(self.world.now() + round(seconds * SECOND))

    def log(self, path: str = "/home/alice/job.log") -> str:
        return self.files.get(path, "")

    def numbers(self, path: str = "/home/alice/job.log") -> list[str]:
        """Return the event number and job of each event of a log, as in ``001 1.0``."""
        headers = (re.match(r"(\d{3}) \((\d+)\.(\d+)", event) for event in events_of(self.log(path)))
        return [f"{head[1]} {int(head[2])}.{int(head[3])}" for head in headers if head]


def one_job(pool: Pool, ad: Sequence[tuple[str, str]] = ()) -> None:
    """Start job 1.0 on the only slot of a machine."""
    pool.machine("host", 1, Cpus="1", Memory="1024", Disk="4096")
    pool.submit({**JOB, **dict(ad)})


def event_body(pool: Pool, number: str, index: int = -1) -> str:
    """Return the text of an event after its time."""
    matching = [event for event in events_of(pool.log()) if event.startswith(number)]
    return matching[index][len("000 (001.000.000) 2027-01-15 08:00:00 ") :].removesuffix(event_text.END)
