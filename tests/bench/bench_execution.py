"""Jobs of /bin/true per second through the supervisor alone, beside a bare loop of posix_spawn in the same run.

Run with ``python tests/bench/bench_execution.py``. The bare loop is what this machine can do at all from Python: no
directory, no claim, no record, no report. The two take turns, and the best of each counts: on a noisy machine that is
what code can do. Ends with 1 where the aim is missed.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / ".path")]

from poolbook.adapters.machine.execution import Exited, LaunchRequest, Supervisor  # noqa: E402

JOBS = 500
AT_ONCE = 16
ROUNDS = 7
AIM = 1500

# Ads as long as real ones.
JOB_AD = "Attribute = 1\n" * 300
MACHINE_AD = "Attribute = 1\n" * 400


def bare() -> float:
    """Jobs a second, started 8 at a time."""
    began = time.perf_counter()
    for _ in range(JOBS // 8):
        for _ in range(8):
            os.posix_spawn("/bin/true", ["/bin/true"], {"A": "b"}, setsid=True)
        for _ in range(8):
            os.wait4(-1, 0)
    return JOBS // 8 * 8 / (time.perf_counter() - began)


def supervised(supervisor: Supervisor, home: str, prefix: str) -> float:
    """Jobs a second: started, ended, recorded on disk, reported and acknowledged."""

    def activation(number: int) -> LaunchRequest:
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
        free = min(AT_ONCE - (started - ended), JOBS - started)
        if free >= AT_ONCE // 2 or free == JOBS - started > 0:
            supervisor.start([activation(number) for number in range(started, started + free)])
            started += free
        ends = [report.key for report in supervisor.poll(1) if isinstance(report, Exited)]
        supervisor.acknowledge(ends)
        ended += len(ends)
    return JOBS / (time.perf_counter() - began)


def main() -> int:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as home:
        with Supervisor(Path(home) / "pool") as supervisor:
            supervisor.start([])
            pairs = [(bare(), supervised(supervisor, home, str(number))) for number in range(ROUNDS)]
        limit, ours = (max(rates) for rates in zip(*pairs, strict=True))
        verdict = "met" if ours > AIM else "MISSED"
        print(
            f"{'/bin/true through the supervisor':36} bare loop {limit:6.0f}/s   Poolbook {ours:6.0f}/s",
            end="",
        )
        print(f"   ratio {ours / limit:4.2f}   aim > {AIM} {verdict}")
        wait_for_end(Path(home) / "pool")
    return verdict != "met"


def wait_for_end(folder: Path) -> None:
    """The supervisor ends by itself; until then it uses the folder."""
    while (folder / "socket").exists():
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
