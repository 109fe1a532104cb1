"""Measure views at a time of a log of 1,000,000 events, with snapshots, without them, and without stored views.

Each line has the processor time of a command, including the interpreter's start, at the middle of the log and near its
end. The exit code is 1 if an aim is missed.
"""

from __future__ import annotations

import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / ".path"), str(ROOT)]

from tests.bench.long_log import LIFE_EVENTS, write_long_log  # noqa: E402

from poolbook.adapters.runtime.views import rebuild, views_path  # noqa: E402
from poolbook.adapters.stores.opening import open_log  # noqa: E402

EVENTS = 1_000_000
COMMANDS = ("q -all", "status", "userprio -allusers", "history -limit 10", "q 15.7 -long")
RUN = "from poolbook.adapters.cli.main import entry; entry()"


def processor_time(command: str, url: str, at: str) -> float:
    """Return the smallest processor time of three runs of a command, in seconds."""
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-c", RUN, *command.split(), "-log", url, "-at", at],
            check=True,
            stdout=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": str(ROOT / ".path")},
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def instants(url: str) -> dict[str, str]:
    """Return times in the middle and near the end of a log."""
    with closing(open_log(url, create=False, read_only=True)) as log:
        last = log.head.position
        events = {name: next(log.read(round(last * part), 1))[1] for name, part in (("middle", 0.5), ("end", 0.99))}
    return {name: datetime.fromtimestamp(event.at // 1_000_000, UTC).isoformat() for name, event in events.items()}


def measure(url: str, name: str, aim: float, commands: tuple[str, ...] = COMMANDS) -> bool:
    met = True
    for command in commands:
        for part, at in instants(url).items():
            seconds = processor_time(command, url, at)
            met &= seconds <= aim
            print(f"{name:<24}{command:<24}{part:<8}{seconds:>8.2f} s CPU   aim {aim:.1f}")
    return met


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        url = f"{folder}/pool.db"
        with closing(open_log(url, create=True)) as log:
            write_long_log(log, EVENTS // LIFE_EVENTS)
        path = views_path(url)
        assert path is not None
        met = measure(url, "without stored views", 3, tuple(name for name in COMMANDS if "history" not in name))
        rebuild(url)
        met &= measure(url, "with snapshots", 0.6)
        with closing(sqlite3.connect(path)) as tables, tables:
            tables.execute("DELETE FROM snapshots")
        return 0 if measure(url, "without snapshots", 3) and met else 1


if __name__ == "__main__":
    sys.exit(main())
