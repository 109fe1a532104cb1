"""Measure the discovery and the monitoring of GPUs on a machine that has one.

``python tests/bench/bench_gpu.py [SECONDS [DIRECTORY]]`` prints the time of condor_gpu_discovery, the time of each call
of NVML that the monitors make, and the share of a core that condor_gpu_utilization and the pool's monitor take in
SECONDS (60). DIRECTORY contains HTCondor's tools of the same names; they are measured, too, and the output of discovery
is compared. The aim is 0.5 % of a core. Without a GPU, condor_gpu_utilization runs on a stub whose calls take
5 ms of CPU time each, longer than NVML's.

Only attrs and nvidia-ml-py must be installed.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / ".path"))

from poolbook.adapters.gpus.devices import ProgressReport  # noqa: E402
from poolbook.adapters.gpus.nvml import Nvml, load_nvml  # noqa: E402
from poolbook.adapters.gpus.utilization import UsageMeter, print_utilization  # noqa: E402

AIM_PERCENT = 0.5
RUNS = 5
STARTUP_SECONDS = 5.0
COMPARED = (
    "", "-properties", "-extra", "-extra -not-nested", "-extra -uuid -mixed", "-extra -by-index -config",
    "-properties -divide 3 -packed", "-cuda -properties", "-opencl -properties", "-hip -properties", "-diagnostic",
)  # fmt: skip
"""Options of discovery without readings of sensors, which change."""

LEFT_OVER = re.compile(r"\b0x7ff\w0{8}\b")
"""The address that HTCondor's diagnostics show for the first GPU, half of which is left over from an earlier call."""


def tool(name: str) -> list[str]:
    return [sys.executable, "-c", "from poolbook.adapters.cli.main import entry; entry()", name]


def environment() -> dict[str, str]:
    path = f"{ROOT / '.path'}:{os.environ.get('PYTHONPATH', '')}"
    return os.environ | {"PYTHONPATH": path}


def run(command: list[str]) -> str:
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def print_time(title: str, call: Callable[[], object], runs: int = RUNS) -> None:
    durations, cpu_times = [], []
    for _ in range(runs):
        start, before = time.perf_counter(), os.times()
        call()
        after = os.times()
        durations.append(time.perf_counter() - start)
        cpu_times.append(sum(after[:4]) - sum(before[:4]))
    print(f"{title:56} {min(durations) * 1000:9.2f} ms, {min(cpu_times) * 1000:7.1f} ms of CPU time", flush=True)


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def print_monitor(title: str, command: list[str], seconds: float) -> float:
    """Print a monitor's last report, and return the percentage of a core that it took after its start."""
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as monitor:
        time.sleep(STARTUP_SECONDS)
        before = cpu_seconds(monitor.pid)
        time.sleep(seconds)
        percent = 100 * (cpu_seconds(monitor.pid) - before) / seconds
        memory = re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{monitor.pid}/status").read_text())
        monitor.terminate()
        report, _ = monitor.communicate()
    print(report, end="")
    print(f"{title}: {percent:.3f} % of a core, start {before:.2f} s of CPU time, {memory} KiB", flush=True)
    return percent


class SlowNvml:
    """Stands for ``pynvml`` on a machine without a GPU: each call takes `CALL_SECONDS` of CPU time."""

    NVMLError = OSError
    CALL_SECONDS = 0.005

    def _work(self) -> None:
        end = time.thread_time() + self.CALL_SECONDS
        while time.thread_time() < end:
            pass

    def nvmlDeviceGetSamples(self, gpu: int, kind: int, since_us: int) -> Any:
        self._work()
        self._work()
        now = time.time_ns() // 1000
        times = range(max(since_us, now - 14_000_000), now, 200_000)
        return 1, [SimpleNamespace(timeStamp=at, sampleValue=SimpleNamespace(uiVal=50)) for at in times]

    def nvmlDeviceGetMemoryInfo(self, gpu: int) -> Any:
        self._work()
        return SimpleNamespace(used=1 << 30)


def stub_percent(seconds: float) -> float:
    meters = {(0, "0"): UsageMeter(Nvml(SlowNvml()), 0)}
    before = time.process_time()
    threading.Thread(target=print_utilization, args=(meters, io.StringIO()), daemon=True).start()
    time.sleep(seconds)
    percent = 100 * (time.process_time() - before) / seconds
    print(f"monitor on a stub with calls of {SlowNvml.CALL_SECONDS * 1000:.0f} ms: {percent:.3f} % of a core")
    return percent


def print_calls(nvml: Nvml) -> None:
    for gpu in nvml.gpus():
        print(nvml.uuid(gpu), "has", len(nvml.samples(gpu, 0)), "samples")
        print_time("nvmlDeviceGetSamples", lambda gpu=gpu: nvml.samples(gpu, 0), 50)  # type: ignore[misc]
        print_time("nvmlDeviceGetMemoryInfo", lambda gpu=gpu: nvml.memory_used(gpu), 50)  # type: ignore[misc]
        print_time("nvmlDeviceGetProcessUtilization", lambda gpu=gpu: nvml.process_samples(gpu, 0), 50)  # type: ignore[misc]
        print_time("nvmlDeviceGetComputeRunningProcesses", lambda gpu=gpu: nvml.process_memory(gpu), 50)  # type: ignore[misc]


def compare(directory: Path) -> None:
    different = 0
    for options in COMPARED:
        ours = run([*tool("condor_gpu_discovery"), *options.split()])
        theirs = run([str(directory / "condor_gpu_discovery"), *options.split()])
        if ours != LEFT_OVER.sub("(nil)", theirs):
            different += 1
            print(f"condor_gpu_discovery {options}\n{ours}\nHTCondor's:\n{theirs}")
    print(f"{len(COMPARED) - different} of {len(COMPARED)} option sets print the same as HTCondor's")


def print_htcondors(directory: Path, seconds: float) -> None:
    compare(directory)
    discovery = [str(directory / "condor_gpu_discovery"), "-extra", "-dynamic"]
    print_time("HTCondor's condor_gpu_discovery", lambda: run(discovery))
    print_monitor("HTCondor's condor_gpu_utilization", [str(directory / "condor_gpu_utilization")], seconds)


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    nvml = load_nvml(ProgressReport(sys.stdout, sys.stderr))
    print(run([*tool("condor_gpu_discovery"), "-extra", "-dynamic"]), end="")
    print_time(
        "condor_gpu_discovery -extra -dynamic", lambda: run([*tool("condor_gpu_discovery"), "-extra", "-dynamic"])
    )
    if nvml is None:
        return int(stub_percent(seconds) > AIM_PERCENT)
    print_calls(nvml)
    own_monitor = [sys.executable, "-m", "poolbook.adapters.gpus.monitor"]
    percent = max(
        print_monitor("condor_gpu_utilization", tool("condor_gpu_utilization"), seconds),
        print_monitor("the pool's monitor", own_monitor, seconds),
    )
    if len(sys.argv) > 2:
        print_htcondors(Path(sys.argv[2]), seconds)
    return int(percent > AIM_PERCENT)


if __name__ == "__main__":
    sys.exit(main())
