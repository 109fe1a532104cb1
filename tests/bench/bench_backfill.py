"""Measure how much backfill slows down jobs: 500 short jobs in a pool with a backfill client, and in one without.

``python tests/bench/bench_backfill.py [RUNS]`` runs both pools alternately (RUNS times each, default 9), because the
machine's load changes. It prints median and best of each, their ratio and the aim. The exit code is 1 if it is missed.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
AIM = 1.05  #: time with backfill / time without
JOBS = 500
POOLBOOK = "from poolbook.adapters.cli.main import entry; entry()"
MACHINE = "NUM_CPUS = 8\nMEMORY = 8000\nSTART = true\n"
BACKFILL = """ENABLE_BACKFILL = true
BACKFILL_SYSTEM = EXEC
EXEC_Executable = /bin/sleep
EXEC_Arguments = 1000
EXEC_InitialDir = {folder}
EXEC_Owner = {owner}
START_BACKFILL = true
"""
SUBMISSION = f"executable = /bin/true\nrequest_memory = 16\nrequest_disk = 1\nqueue {JOBS}\n"


def seconds(backfill: bool) -> float:
    """Run the jobs in a new pool and return the time of the whole command."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        backfill_settings = BACKFILL.format(folder=folder, owner=os.environ.get("USER") or "root") if backfill else ""
        (folder / "machine.conf").write_text(MACHINE + backfill_settings)
        (folder / "true.sub").write_text(SUBMISSION)
        arguments = ["-c", POOLBOOK, "run", "true.sub", "-config", "machine.conf", "-quiet"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / ".path"), "POOLBOOK_LOG": "pool.db"}
        began = time.perf_counter()
        subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - began


def main(runs: int) -> int:
    durations: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(runs):
        for backfill, times in durations.items():
            times.append(seconds(backfill))
    for backfill, times in durations.items():
        kind = "with" if backfill else "without"
        print(f"{kind:<8} backfill: {statistics.median(times):6.3f} s, best {min(times):6.3f} s")
    ratio, best = (
        statistics.median(durations[True]) / statistics.median(durations[False]),
        min(durations[True]) / min(durations[False]),
    )
    print(f"ratio of the medians {ratio:.3f}, of the best {best:.3f}; aim {AIM}")
    return ratio > AIM


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 9))
