"""Run a pool with `use feature:GPUs` on this machine's GPU, and compare its measurements with nvidia-smi's.

    python -m tests.gpus.on_a_gpu [DIRECTORY]

It takes two minutes. DIRECTORY receives the pool's files and a report; the exit code is 1 if something differs. The
machine needs NVIDIA's driver, nvidia-ml-py, and the packages that Poolbook needs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

BURN = Path(__file__).with_name("burn.py")
ROOT = BURN.parents[2]
TOLERANCE = 0.05
CONFIGURATION = """\
use feature:GPUs
GPU_DISCOVERY_EXTRA = -extra -dynamic {options}
STARTD_CRON_GPUs_MONITOR_PERIOD = 5
UPDATE_INTERVAL = 5
POLLING_INTERVAL = 5
RunBenchmarks = false
"""
JOB = """\
executable = {python}
arguments = {burn} {seconds} {megabytes} {percent}
request_memory = 1G
request_disk = 10M
log = {name}.log
output = {name}.out
error = {name}.err
getenv = LD_LIBRARY_PATH
{more}
queue
"""
QUERY = "utilization.gpu,memory.used,memory.reserved"  #: as HTCondor reads it, the memory in use has the reserved part
SMI = ("nvidia-smi", "--query-gpu=" + QUERY, "--format=csv,noheader,nounits", "-lms", "200")


class Pool:
    """A pool in a directory."""

    def __init__(self, path: Path, options: str) -> None:
        path.mkdir(parents=True)
        modules = os.pathsep.join([str(ROOT / ".path"), *filter(None, sys.path)])
        self.path, self.environment = path, {**os.environ, "PYTHONPATH": modules, "POOLBOOK_LOG": "pool.db"}
        (path / "poolbook.conf").write_text(CONFIGURATION.format(options=options))

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-c", "from poolbook.adapters.cli.main import entry; entry()", *arguments]

    def call(self, *arguments: str) -> str:
        done = subprocess.run(
            self.command(*arguments), cwd=self.path, env=self.environment, capture_output=True, text=True, timeout=60
        )
        return done.stdout + done.stderr

    @contextmanager
    def served(self) -> Iterator[None]:
        with (self.path / "serve.txt").open("w") as output:
            server = subprocess.Popen(
                self.command("serve"), cwd=self.path, env=self.environment, stdout=output, stderr=output
            )
            try:
                wait_for(lambda: (self.path / "pool.db.sock").exists())
                yield
            finally:
                server.terminate()
                server.wait(30)

    def submit(self, name: str, seconds: int, megabytes: int, percent: int, more: str = "request_gpus = 1") -> None:
        text = JOB.format(
            python=sys.executable,
            burn=BURN,
            seconds=seconds,
            megabytes=megabytes,
            percent=percent,
            name=name,
            more=more,
        )
        (self.path / f"{name}.sub").write_text(text)
        print(self.call("submit", f"{name}.sub").strip())

    def wait(self, *names: str) -> None:
        wait_for(lambda: all("\n005 (" in self.log(name) for name in names), 120)

    def log(self, name: str) -> str:
        path = self.path / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def used(self, cluster: int) -> tuple[float, float]:
        """Return the average use and the peak memory (MB) of a job, from the history."""
        names = ("GPUsAverageUsage", "GPUsMemoryUsage")
        words = self.call("history", str(cluster), "-af", *names).split()
        return (float(words[0]), float(words[1])) if len(words) == 2 and "undefined" not in words else (-1.0, -1.0)


def wait_for(condition: object, seconds: float = 60) -> None:
    assert callable(condition)
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "this took too long"
        time.sleep(0.1)


@contextmanager
def measured(samples: list[tuple[float, float]]) -> Iterator[None]:
    """Add nvidia-smi's samples of the utilization (percent) and of the memory in use (MiB)."""
    smi = subprocess.Popen(SMI, stdout=subprocess.PIPE, text=True)
    try:
        yield
    finally:
        smi.terminate()
        output, _ = smi.communicate()
        rows = [line.split(",") for line in output.splitlines() if line.count(",") == 2]
        samples += [(float(percent), float(memory) + number(reserved)) for percent, memory, reserved in rows]


def number(text: str) -> float:
    return float(text) if text.strip().isdigit() else 0.0


class Report:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.failures = 0

    def compare(self, what: str, ours: float, expected: float) -> None:
        good = abs(ours - expected) <= TOLERANCE * max(abs(expected), 1e-9)
        self._add(what, f"{ours:.4f}, expected {expected:.4f}", good)

    def check(self, what: str, good: bool, shown: str = "") -> None:
        self._add(what, shown, good)

    def _add(self, what: str, shown: str, good: bool) -> None:
        self.failures += not good
        self.lines.append(f"{'ok  ' if good else 'FAIL'} {what}: {shown}")
        print(self.lines[-1], flush=True)


def steady(samples: Sequence[tuple[float, float]]) -> float:
    """Return the average utilization, from 0 to 1, without the ends, where the program starts and ends."""
    busy = [number for number, (percent, _) in enumerate(samples) if percent > 0]
    inner = samples[busy[0] + 10 : busy[-1] - 10] if len(busy) > 30 else samples
    return sum(percent for percent, _ in inner) / max(1, len(inner)) / 100


def one_job(path: Path, report: Report) -> None:
    """A job that uses the card for 60 % of its time, and one without a card."""
    pool, samples = Pool(path, ""), list[tuple[float, float]]()
    with pool.served():
        print(pool.call("status", "-gpus"))
        with measured(samples):
            pool.submit("alone", 55, 2000, 60)
            pool.submit("without", 1, 0, 0, "")
            pool.wait("alone", "without")
        cpu = monitor_cpu()
        report.check("the monitor uses less than 0.5 % of a core", cpu < 0.5, f"{cpu:.2f} %")
    use, memory = pool.used(1)
    report.compare("average use of one job, as nvidia-smi", use, steady(samples))
    report.compare("average use of one job, as the program wanted", use, 0.6)
    report.compare("peak memory of one job (MB), as nvidia-smi", memory, max(used for _, used in samples))
    output = (path / "alone.out").read_text()
    report.check("the job's device is in its environment", "CUDA_VISIBLE_DEVICES=GPU-" in output, output.split("\n")[0])
    errors = (path / "without.err").read_text()
    report.check("a job without a GPU sees none", "error" in errors, errors.strip())
    print(pool.log("alone"))


def two_jobs(path: Path, report: Report) -> None:
    """Two jobs that share the card. NVML often charges one process for the use by both, so only the sum is certain."""
    pool, samples = Pool(path, "-divide 2"), list[tuple[float, float]]()
    with pool.served(), measured(samples):
        pool.submit("light", 35, 2000, 20)
        pool.submit("heavy", 35, 6000, 50)
        pool.wait("light", "heavy")
    (light, light_memory), (heavy, heavy_memory) = pool.used(1), pool.used(2)
    shown = f"{light:.3f} and {heavy:.3f}; nvidia-smi shows {steady(samples):.3f} for the card"
    report.check("use of two jobs on one card", 0.45 <= light + heavy <= 0.75, shown)
    shown = f"{light_memory:.0f} and {heavy_memory:.0f} MB"
    report.check("their memory", 2000 <= light_memory <= 3200 and 6000 <= heavy_memory <= 7200, shown)


def monitor_cpu() -> float:
    """Return the CPU use of the running monitor, in percent of a core."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"adapters.gpus.monitor" not in (process / "cmdline").read_bytes():
                continue
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            uptime = float(Path("/proc/uptime").read_text().split()[0])
        except OSError:
            continue
        ticks = os.sysconf("SC_CLK_TCK")
        age = uptime - int(fields[19]) / ticks
        started = 1.0  # seconds of CPU to load Python and NVML, once
        return max(0.0, (int(fields[11]) + int(fields[12])) / ticks - started) / max(age, 1.0) * 100
    return 100.0


def main() -> int:
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    report = Report()
    for name, scenario in (("one", one_job), ("two", two_jobs)):
        shutil.rmtree(given / name, ignore_errors=True)
        try:
            scenario(given / name, report)
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            report.check(name, False, str(error))
            print((given / name / "serve.txt").read_text() if (given / name / "serve.txt").exists() else "")
    (given / "report.txt").write_text("\n".join(report.lines) + "\n")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
