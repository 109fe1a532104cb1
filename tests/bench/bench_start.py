"""What short commands take of the processor, beside a bare interpreter: on a log at rest, and at a served pool.

Run with ``python tests/bench/bench_start.py``; prints a line a command: milliseconds of the processor (user and system,
of the whole process, the least of its runs) and how often a bare interpreter's that is. It is a measurement: it ends
with 0 whatever came out. Every module is compiled before.
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
"""Each is repeated: what is removed already is looked for again, and refused."""
NOT_KEPT = ("PYTHONDONTWRITEBYTECODE", "POOLBOOK_LOG")
SLOTS = ("-slots", "4", "-cpus", "4", "-memory", "4096")


def environment(home: Path) -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONDONTWRITEBYTECODE", "POOLBOOK_LOG")
    }
    return kept | {"PYTHONPATH": str(ROOT / ".path"), "PYTHONPYCACHEPREFIX": str(home / "compiled")}


def run(folder: Path, home: Path, *argv: str) -> None:
    subprocess.run([sys.executable, *argv], cwd=folder, env=environment(home), capture_output=True, check=False)


def processor(folder: Path, home: Path, argv: Sequence[str]) -> float:
    """The least milliseconds of the processor that a process took."""
    took = []
    run(folder, home, *argv)
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run(folder, home, *argv)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(took) * 1000


def figures(where: str, folder: Path, home: Path, bare: float) -> None:
    for words in COMMANDS:
        took = processor(folder, home, [*COMMAND, *words])
        print(f"{where + ': ' + ' '.join(words):32} {took:8.1f} ms {took / bare:8.1f} times", flush=True)


def begun(folder: Path, home: Path) -> None:
    """A log with three held jobs."""
    (folder / "job.sub").write_text(JOB)
    for _ in range(3):
        run(folder, home, *COMMAND, "submit", "job.sub")


def serve(folder: Path, home: Path) -> subprocess.Popen[bytes]:
    """Start a server, and wait until it answers and its views have settled."""
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
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        rest, served = home / "rest", home / "served"
        for folder in (rest, served):
            folder.mkdir()
            begun(folder, home)
        bare = processor(rest, home, ["-c", "pass"])
        print(f"{'an interpreter that does nothing':32} {bare:8.1f} ms")
        figures("log at rest", rest, home, bare)
        server = serve(served, home)
        try:
            figures("served", served, home, bare)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)
        figures("served before", served, home, bare)


if __name__ == "__main__":
    main()
