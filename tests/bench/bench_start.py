"""Measure the CPU time of short commands, with and without a server, compared with the start of Python.

``python tests/bench/bench_start.py`` prints for each command the CPU milliseconds of its process (user and system, the
minimum of the runs) and the ratio to an interpreter that does nothing. The exit code is always 0. Modules are compiled
before.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
RUNS = 15
JOB = "executable = /bin/true\nhold = true\nqueue\n"
COMMAND = ("-c", "from poolbook.adapters.cli.main import entry; entry()")
COMMANDS = ("q",), ("status",), ("submit", "job.sub"), ("rm", "1.0"), ("hold", "2.0"), ("release", "3.0")
"""Each command is repeated; from the second time on, a removed job is not found."""
NOT_INHERITED = ("PYTHONDONTWRITEBYTECODE", "POOLBOOK_LOG")
SLOTS = ("-slots", "4", "-cpus", "4", "-memory", "4096")


def environment(home: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    return inherited | {"PYTHONPATH": str(ROOT / ".path"), "PYTHONPYCACHEPREFIX": str(home / "compiled")}


def run(folder: Path, home: Path, *argv: str) -> None:
    subprocess.run([sys.executable, *argv], cwd=folder, env=environment(home), capture_output=True, check=False)


def cpu_milliseconds(folder: Path, home: Path, argv: Sequence[str]) -> float:
    """Return the minimum CPU milliseconds of a command's process."""
    durations = []
    run(folder, home, *argv)
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run(folder, home, *argv)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        durations.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(durations) * 1000


def print_times(label: str, folder: Path, home: Path, interpreter: float) -> None:
    for command in COMMANDS:
        cpu_time = cpu_milliseconds(folder, home, [*COMMAND, *command])
        title = f"{label}: {' '.join(command)}"
        print(f"{title:32} {cpu_time:8.1f} ms {cpu_time / interpreter:8.1f} times", flush=True)


def create_log(folder: Path, home: Path) -> None:
    """Create a log with three held jobs."""
    (folder / "job.sub").write_text(JOB)
    for _ in range(3):
        run(folder, home, *COMMAND, "submit", "job.sub")


def serve(folder: Path, home: Path) -> subprocess.Popen[bytes]:
    """Start a server, and wait until it answers and its views are current."""
    server = subprocess.Popen(
        [sys.executable, *COMMAND, "serve", *SLOTS], cwd=folder, env=environment(home), stdout=subprocess.DEVNULL
    )
    while not (folder / "pool.db.sock").exists():
        if server.poll() is not None:
            raise SystemExit(f"poolbook serve: exit code {server.returncode}")
        time.sleep(0.01)
    time.sleep(2)
    return server


def main() -> None:
    with tempfile.TemporaryDirectory() as folder_name:
        home = Path(folder_name)
        unserved, served = home / "unserved", home / "served"
        for folder in (unserved, served):
            folder.mkdir()
            create_log(folder, home)
        interpreter = cpu_milliseconds(unserved, home, ["-c", "pass"])
        print(f"{'an interpreter that does nothing':32} {interpreter:8.1f} ms")
        print_times("no server", unserved, home, interpreter)
        server = serve(served, home)
        try:
            print_times("with a server", served, home, interpreter)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)
        print_times("after a server", served, home, interpreter)


if __name__ == "__main__":
    main()
