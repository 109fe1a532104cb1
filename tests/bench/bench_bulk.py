"""What a command over many jobs takes, and how long others wait for their answers meanwhile.

    python tests/bench/bench_bulk.py [JOBS [CLUSTERS]]

A served pool has JOBS jobs (300,000) that no slot fits, in CLUSTERS clusters (1). A third of them, scattered, is held,
edited, released and removed, then all the others are, each by one command with a constraint. Meanwhile one client
submits a job after the other, another lists one job (`q`) time and again: printed is how long the command took, and how
long the slowest of their answers. By the clock.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / ".path")]

from poolbook.adapters.runtime.log_writer import LogWriter, NullWorld  # noqa: E402
from poolbook.adapters.runtime.open_pool import open_pool_log  # noqa: E402
from poolbook.adapters.stores.log_paths import log_paths  # noqa: E402
from poolbook.domain.ports.stimuli import Submit  # noqa: E402

COMMAND = [sys.executable, "-c", "from poolbook.adapters.cli.main import entry; entry()"]
AD = {
    "Cmd": '"/bin/sleep"', "Args": '"60"', "JobUniverse": "5", "JobPrio": "0", "Rank": "0.0", "RequestCpus": "1",
    "RequestMemory": "100", "RequestDisk": "1", "TransferExecutable": "false", "Requirements": "false",
}  # fmt: skip
TOGETHER = 10_000
"""Submissions that are appended together."""
THIRD, REST = "(ClusterId + ProcId) % 3 == 0", "(ClusterId + ProcId) % 3 != 0"
COMMANDS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("hold", "Hold", {}),
    ("qedit", "Edit", {"changes": {"Colour": '"red"'}}),
    ("release", "Release", {}),
    ("rm", "Remove", {}),
)


def fill(folder: Path, jobs: int, clusters: int) -> None:
    log = open_pool_log(str(folder / "pool.db"), create=True, settings={})
    writer = LogWriter(log, NullWorld())
    writer.load()
    user = os.environ.get("USER", "root")
    for first in range(0, clusters, TOGETHER):
        numbers = range(first, min(first + TOGETHER, clusters))
        writer.handle([Submit(f"fill-{n}", user, 0, AD, jobs // clusters, (), "") for n in numbers])
    log.close()


class Client:
    """A connection to the pool's server."""

    def __init__(self, folder: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(log_paths(str(folder / "pool.db")).socket))
        self._stream = self._socket.makefile("rwb")

    def ask(self, kind: str, **what: Any) -> Any:
        request = {"kind": kind, "id": f"{kind}-{time.time_ns()}", **what}
        self._stream.write(json.dumps(request).encode() + b"\n")
        self._stream.flush()
        return json.loads(self._stream.readline())


@contextmanager
def served(folder: Path) -> Iterator[None]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / ".path")}
    server = subprocess.Popen(
        [*COMMAND, "serve", "-slots", "1"], cwd=folder, env=environment, stdout=subprocess.DEVNULL
    )
    try:
        while True:
            try:
                Client(folder).ask("ReserveCluster")
                break
            except (FileNotFoundError, ConnectionError):
                time.sleep(0.05)
        yield
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)


class Others:
    """Two clients at work while a command goes on."""

    def __init__(self, folder: Path) -> None:
        self.stopping = False
        self.took: dict[str, list[float]] = {"submit": [], "q": []}
        client = Client(folder)
        environment = os.environ | {"PYTHONPATH": str(ROOT / ".path")}
        asked = {
            "submit": lambda: client.ask("Submit", user="", cluster=0, ad=AD, count=1, columns=[]),
            "q": lambda: subprocess.run([*COMMAND, "q", "1.1"], cwd=folder, env=environment, capture_output=True),
        }
        self._threads = [threading.Thread(target=self._go_on, args=(name, ask)) for name, ask in asked.items()]
        for each in self._threads:
            each.start()

    def _go_on(self, name: str, ask: Any) -> None:
        while not self.stopping:
            began = time.perf_counter()
            done = ask()
            if name == "submit" and "answer" not in done:
                raise SystemExit(f"not submitted: {done}")
            self.took[name].append(time.perf_counter() - began)
            time.sleep(0.02)

    def end(self) -> None:
        self.stopping = True
        for each in self._threads:
            each.join()


def told(what: tuple[str, list[float]]) -> str:
    return f"{what[0]} {statistics.median(what[1]):.3f} s {max(what[1]):.3f} s"


def main(arguments: list[str]) -> int:
    jobs, clusters = (int(word) for word in (*arguments, *("300000", "1")[len(arguments) :]))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder, jobs, clusters)
        print(
            f"{jobs:,} jobs in {clusters:,} clusters{'':10} the command   others meanwhile: median, slowest", flush=True
        )
        with served(folder):
            client = Client(folder)
            for which, constraint in (("a third", THIRD), ("the rest", REST)):
                for verb, kind, what in COMMANDS:
                    others = Others(folder)
                    time.sleep(1.0)
                    began = time.perf_counter()
                    selection = {"constraint": constraint}
                    done = client.ask(kind, user="", selection=selection, **what)
                    took = time.perf_counter() - began
                    if "answer" not in done:
                        raise SystemExit(f"{verb}: {done}")
                    time.sleep(1.0)
                    others.end()
                    waits = "   ".join(
                        f"{each} {statistics.median(some):.3f} s {max(some):.3f} s"
                        for each, some in others.took.items()
                    )
                    print(f"{verb + ' ' + which:30} {took:12.3f} s   {waits}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
