"""Golden: a real pool with simulated GPUs and a monitor that measures them: `use feature:GPUs`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from poolbook.adapters.machine.host import host_name

from .real import Folder

CONFIGURATION = """\
use feature:GPUs
LIBEXEC = /no/htcondor
GPU_DISCOVERY_EXTRA = -simulate:3,2 -by-index -extra
GPU_MONITOR = {path}/monitor.sh
STARTD_CRON_GPUs_MONITOR_PERIOD = 1
POLLING_INTERVAL = 1
UPDATE_INTERVAL = 1
"""
MONITOR = """\
#!/bin/sh
# Prints the records in a file repeatedly.
while cat {path}/use; do sleep 0.2; done
"""
RECORD = """\
SlotMergeConstraint = StringListMember("CUDA{0}", AssignedGPUs)
UptimeGPUsSeconds = 0.1
UptimeGPUsMemoryPeakUsage = {1}
{2}- GPUsSlot{0}
"""
JOB = """\
executable = /bin/sh
arguments = "-c 'env > new.$$RANDOM; mv new.$$RANDOM env.$$RANDOM; while [ ! -e go ]; do sleep 0.05; done'"
request_gpus = 1
gpus_minimum_capability = 7.0
request_memory = 16
request_disk = 1 MB
log = job.log
queue
"""


class GpuFolder(Folder):
    """A directory with a machine with two GPUs."""

    def use(self, first: str = "", second: str = "") -> None:
        """Set what the monitor reports from now on, atomically."""
        self.write("use.new", RECORD.format(0, 2048, first) + RECORD.format(1, 1024, second))
        (self.path / "use.new").rename(self.path / "use")

    def slot(self, name: str) -> dict[str, str]:
        text = self.call("status", "-long", f"{name}@{host_name()}", code=None)
        return dict(line.split(" = ", 1) for line in text.splitlines() if " = " in line)

    def environments(self) -> list[dict[str, str]]:
        texts = [path.read_text() for path in sorted(self.path.glob("env.*"), key=lambda path: path.stat().st_mtime)]
        return [dict(line.split("=", 1) for line in text.splitlines() if "=" in line) for text in texts]


@pytest.fixture
def gpus(folder: Folder) -> GpuFolder:
    gpu_folder = GpuFolder(folder.path)
    gpu_folder.use()
    gpu_folder.write("monitor.sh", MONITOR.format(path=folder.path))
    Path(folder.path / "monitor.sh").chmod(0o755)
    gpu_folder.write("poolbook.conf", CONFIGURATION.format(path=folder.path))
    gpu_folder.write("job.sub", JOB.replace("$$RANDOM", "$$$$$$$$"))
    return gpu_folder


def event(log: str, number: str) -> str:
    (text,) = re.findall(rf"^{number} .*?^\.\.\.$", log, re.MULTILINE | re.DOTALL)
    return str(text)


def test_a_job_uses_a_gpu_that_is_measured_and_moves_to_another_when_it_fails(gpus: GpuFolder) -> None:
    log = gpus.path / "job.log"
    with gpus.served():
        gpus.call("submit", "job.sub")
        gpus.wait_for(lambda: gpus.environments())
        first_run = gpus.environments()[0]
        assert (first_run["_CONDOR_AssignedGPUs"], first_run["GPU_DEVICE_ORDINAL"]) == ("CUDA0", "0")
        assert re.fullmatch("GPU-[0-9a-f-]{36}", first_run["CUDA_VISIBLE_DEVICES"])
        assert first_run["NVIDIA_VISIBLE_DEVICES"] == first_run["CUDA_VISIBLE_DEVICES"]
        gpus.wait_for(lambda: gpus.slot("slot1_1").get("DeviceGPUsMemoryPeakUsage") == "2048.0")
        # Records that arrive together count for a short time: the first averages may be too high.
        gpus.wait_for(lambda: 0 < float(gpus.slot("slot1_1").get("GPUsAverageUsage", "0")) < 1)
        assert gpus.slot("slot1_1")["GPUsMemoryUsage"] == "2048.0"
        gpus.use('FailedGPUs = "CUDA0,GPU-x"\nFailedGPUsReason = "Xid 79"\n')
        gpus.wait_for(lambda: len(gpus.environments()) == 2)
        assert gpus.environments()[1]["_CONDOR_AssignedGPUs"] == "CUDA1"
        assert gpus.slot("slot1")["OfflineGPUs"] == '"CUDA0"'
        assert "Xid 79" in gpus.call("why", f"slot1@{host_name()}")
        gpus.wait_for(lambda: gpus.slot("slot1_1").get("GPUsMemoryUsage") == "1024.0")
        gpus.write("go", "")
        gpus.wait_for(lambda: "\n005 (" in log.read_text())
    evicted, ended = event(log.read_text(), "004"), event(log.read_text(), "005")
    assert "Reason: A device of the slot failed" in evicted
    assert re.search(r"\n\t   GpusMemory \(MB\)      : +2048", evicted)
    assert re.search(r'\n\t   GPUs                 : +\d\.\d\d +1 +1 "CUDA1"', ended)
    assert re.search(r"\n\t   GpusMemory \(MB\)      : +1024", ended)
    history = gpus.call("history", "-af", "AssignedGPUs", "GPUsMemoryUsage", "GPUsProvisioned")
    assert history.split() == ["CUDA1", "1024.0", "1"]
    assert "sound" in gpus.call("verify")
