"""A pool in virtual time with a configuration, for tests of its schedd's handling of submissions and edits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from poolbook.adapters.runtime.engine import Engine
from poolbook.adapters.runtime.log_writer import StimulusResult
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.domain.config import read
from poolbook.domain.decide.pool_configuration import configured_pool_settings
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state.job_ad import quoted
from poolbook.domain.state.proc_ads import pack
from poolbook.replay.virtual_world import VirtualWorld, sleep_behaviour

Kind = TypeVar("Kind", bound=e.Event)
JOB = {
    "Cmd": '"/bin/sleep"',
    "JobPrio": "0",
    "JobUniverse": "5",
    "Rank": "0.0",
    "RequestCpus": "1",
    "RequestDisk": "1024",
    "RequestMemory": "128",
    "Requirements": "true",
}


class TextFiles:
    """A file system with these files."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = dict(files)

    def read(self, path: str) -> str:
        if path not in self.files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self.files[path]

    def listing(self, path: str) -> list[str]:
        return []

    def run(self, command: str) -> str:
        raise FileNotFoundError(2, "No commands can be run here", command)

    def write(self, path: str, text: str) -> None:
        raise PermissionError(1, "Nothing can be written here", path)


class PolicyPool:
    def __init__(self, config: str = "", dialect: str = "htcondor-25", files: Mapping[str, str] | None = None) -> None:
        self.log = open_log("memory:", create=True)
        self.engine = Engine(self.log, VirtualWorld(sleep_behaviour))
        self.engine.load()
        self.files = TextFiles(files or {})
        self.warnings: list[str] = []
        self._serial = 0
        self.handle(s.FoundPool("found", "pool", dialect, "example.org", "0.1", {}))
        self.configure(config)

    @property
    def events(self) -> list[e.Event]:
        return [event for _, event in self.log.read()]

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [event for event in self.events if isinstance(event, kind)]

    def handle(self, stimulus: s.Stimulus) -> StimulusResult:
        return self.engine.handle([stimulus])[0]

    def id(self) -> str:
        self._serial += 1
        return f"c-{self._serial}"

    def configure(self, config: str) -> None:
        """Read this configuration, as at the pool's start or by condor_reconfig."""
        settings = configured_pool_settings(
            lambda daemon: read(config, subsystem=daemon, files=self.files), self.warnings.append
        )
        answer = self.handle(s.ConfigurePool(self.id(), settings))
        assert not answer.refusal, answer.refusal

    def submit(
        self,
        user: str = "alice",
        count: int = 1,
        columns: Mapping[str, Sequence[str]] | None = None,
        **ad: str,
    ) -> StimulusResult:
        attributes = {name: text for name, text in {**JOB, **ad}.items() if text}
        return self.handle(s.Submit(self.id(), user, 0, attributes, count, pack(columns or {})))

    def ads(self, cluster: int = 0) -> list[dict[str, str]]:
        """Return the ads of a cluster's jobs; by default of the last cluster."""
        cluster_record = self.engine.state.clusters[cluster or max(self.engine.state.clusters)]
        return [cluster_record.attributes(proc) for proc in cluster_record.procs()]

    def ad(self, cluster: int = 0) -> dict[str, str]:
        return self.ads(cluster)[0]

    def edit(
        self, user: str, changes: Mapping[str, str], selection: s.Selection | None = None, **how: bool
    ) -> StimulusResult:
        chosen_selection = selection or s.Selection(everything=True)
        return self.handle(s.Edit(self.id(), user, chosen_selection, dict(changes), **how))

    def machine(self, **ad: str) -> None:
        attributes = {"Start": "true", "Requirements": "Start", "Cpus": "4", "Memory": "4096", "Disk": "100000", **ad}
        plan = s.SlotPlan("slot1@h", "partitionable", attributes)
        self.handle(s.AddMachine(self.id(), "h", {"Machine": quoted("h")}, (plan,)))
