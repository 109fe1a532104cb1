"""Two recorded HTCondor pools of a machine with a GPU (`use feature:GPUs`): a has one partitionable slot with the GPU;
b offers the GPU three times (-divide 3), to two of four slots."""

from __future__ import annotations

import gzip
import json
import re
from functools import cache

from attrs import frozen

from poolbook.domain.ports import stimuli as s
from poolbook.domain.startd.provisioning import Equipment, ExecuteVolume, machine_offer
from poolbook.domain.submit import dry_run, parse_submit

from ..submit.fakes import facts
from ..submit.record import parse_ads
from ..submit.recording import RecordedFiles
from .configurations import DATA as SLOT_DATA
from .machines import SYSTEM, configuration

DATA = SLOT_DATA.parent / "gpus"
JOBS = ("one", "two", "three", "four", "five", "six")
"""The submit files, in the order in which they were submitted."""


@frozen
class GpuPool:
    name: str
    conf: str
    inventory: str  #: the output of condor_gpu_discovery, as the startd read it
    files: dict[str, str]  #: submit files, and the jobs' output and logs
    status: dict[str, dict[str, str]]  #: the output of each command, by time: 1-empty, 2-running, 3-later
    history: list[str]

    def slots(self, time: str) -> dict[str, dict[str, str]]:
        """Return the recorded slot ads, by slot name without the host."""
        ads = recorded_ads(self.status[time]["condor_status -long"])
        return {ad["Name"].strip('"').partition("@")[0]: ad for ad in ads}

    def equipment(self) -> Equipment:
        ad = self.slots("1-empty")["slot1"]
        volume = ExecuteVolume("65024", int(ad["TotalDisk"]), int(ad["DetectedDisk"]))
        swap = int(ad["TotalVirtualMemory"])
        cpus, memory = int(ad["DetectedCpus"]), int(ad["DetectedMemory"])
        system = {**SYSTEM, "CondorVersion": ad["CondorVersion"], "HasFileTransfer": "true"}
        return Equipment(cpus, memory, swap, {"": volume}, system, {"GPUs": self.inventory})

    def offer(self) -> s.AddMachine:
        equipment = self.equipment()
        text = f"RunBenchmarks = false\n{self.conf}"
        return machine_offer("joins", "localhost", configuration(text, equipment), equipment)

    def job_ads(self, name: str) -> list[dict[str, str]]:
        """Return the ads of a submit file's jobs, as Poolbook makes them."""
        home = f"/home/alice/{self.name}"
        submit_facts = facts(filesystem_domain="localhost", submit_file=f"{name}.sub", iwd=home, settings={})
        submission = parse_submit(self.files[f"{name}.sub"], submit_facts, RecordedFiles({"/opt/job.sh": " " * 100}))
        return parse_ads("..\n..\n" + "".join(dry_run(submission)))


def recorded_ads(text: str) -> list[dict[str, str]]:
    blocks = [block.strip().split("\n") for block in re.split(r"\n\s*\n", text)]
    return [dict(line.split(" = ", 1) for line in lines if " = " in line) for lines in blocks if lines != [""]]


@cache
def gpu_pool(name: str) -> GpuPool:
    return GpuPool(name, **json.loads(gzip.decompress((DATA / f"pool-{name}.json.gz").read_bytes())))
