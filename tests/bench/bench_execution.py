"""Measure jobs of /bin/true per second through the supervisor, compared with a plain loop of posix_spawn.

Run ``python tests/bench/bench_execution.py``. The plain loop shows the machine's limit for Python: it makes no
directory, claim, record or report. The two alternate, and the best of each counts, because other processes disturb the
rest. The exit code is 1 if the aim is missed.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / ".path")]

from poolbook.adapters.machine.execution.activation import Exited, LaunchRequest  # noqa: E402
from poolbook.adapters.machine.execution.client import Supervisor  # noqa: E402

JOBS = 500
MAX_RUNNING = 16
ROUNDS = 7
AIM = 1500

# Ads as long as real ones.
JOB_AD = "Attribute = 1\n" * 300
MACHINE_AD = "Attribute = 1\n" * 400


def spawn_rate() -> float:
    """Return the jobs per second that posix_spawn starts, 8 at a time."""
    began = time.perf_counter()
    for _ in range(JOBS // 8):
        for _ in range(8):
            os.posix_spawn("/bin/true", ["/bin/true"], {"A": "b"}, setsid=True)
        for _ in range(8):
            os.wait4(-1, 0)
    return JOBS // 8 * 8 / (time.perf_counter() - began)


def supervisor_rate(supervisor: Supervisor, home: str, prefix: str) -> float:
    """Return the jobs per second that the supervisor starts, records and reports, with acknowledgements."""

    def launch_request(number: int) -> LaunchRequest:
        return LaunchRequest(
            key=f"{prefix}_{number}",
            job="1.0",
            slot="slot1_1@host",
            executable="/bin/true",
            iwd=home,
            job_ad=JOB_AD,
            machine_ad=MACHINE_AD,
        )

    began = time.perf_counter()
    started = ended = 0
    while ended < JOBS:
        to_start = min(MAX_RUNNING - (started - ended), JOBS - started)
        if to_start >= MAX_RUNNING // 2 or to_start == JOBS - started > 0:
            supervisor.start([launch_request(number) for number in range(started, started + to_start)])
            started += to_start
        ends = [report.key for report in supervisor.poll(1) if isinstance(report, Exited)]
        supervisor.acknowledge(ends)
        ended += len(ends)
    return JOBS / (time.perf_counter() - began)


def main() -> int:
    """Print the measurement; return 1 if the aim is missed."""
    with tempfile.TemporaryDirectory() as home:
        with Supervisor(Path(home) / "pool") as supervisor:
            supervisor.start([])
            pairs = [(spawn_rate(), supervisor_rate(supervisor, home, str(number))) for number in range(ROUNDS)]
        limit, poolbook = (max(rates) for rates in zip(*pairs, strict=True))
        verdict = "met" if poolbook > AIM else "MISSED"
        print(
            f"{'/bin/true through the supervisor':36} plain loop {limit:6.0f}/s   Poolbook {poolbook:6.0f}/s",
            end="",
        )
        print(f"   ratio {poolbook / limit:4.2f}   aim > {AIM} {verdict}")
        wait_for_end(Path(home) / "pool")
    return verdict != "met"


def wait_for_end(folder: Path) -> None:
    """Wait for the supervisor to exit, because it uses the folder until then."""
    while (folder / "socket").exists():
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
