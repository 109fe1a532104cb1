"""Measure commands over many jobs, and how long other clients wait for answers meanwhile, by the clock.

    python tests/bench/bench_bulk.py [JOBS [CLUSTERS]]

A served pool has JOBS jobs (300,000) in CLUSTERS clusters (1); no slot fits them. Commands with a constraint hold,
edit, release and remove every third job, and then all the others. Meanwhile one client keeps submitting jobs, and
another keeps listing one job (`q`). Each line has the command's time, and the median and slowest answer to the others.
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
SUBMISSIONS_PER_APPEND = 10_000
"""The number of submissions in one append."""
THIRD, OTHERS = "(ClusterId + ProcId) % 3 == 0", "(ClusterId + ProcId) % 3 != 0"
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
    for first in range(0, clusters, SUBMISSIONS_PER_APPEND):
        numbers = range(first, min(first + SUBMISSIONS_PER_APPEND, clusters))
        writer.handle([Submit(f"fill-{n}", user, 0, AD, jobs // clusters, (), "") for n in numbers])
    log.close()


class Client:
    """A connection to the pool's server."""

    def __init__(self, folder: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(log_paths(str(folder / "pool.db")).socket_path))
        self._stream = self._socket.makefile("rwb")

    def ask(self, kind: str, **fields: Any) -> Any:
        request = {"kind": kind, "id": f"{kind}-{time.time_ns()}", **fields}
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


class OtherClients:
    """Two clients that work while a command runs."""

    def __init__(self, folder: Path) -> None:
        self.stopping = False
        self.durations: dict[str, list[float]] = {"submit": [], "q": []}
        client = Client(folder)
        environment = os.environ | {"PYTHONPATH": str(ROOT / ".path")}
        requests = {
            "submit": lambda: client.ask("Submit", user="", cluster=0, ad=AD, count=1, columns=[]),
            "q": lambda: subprocess.run([*COMMAND, "q", "1.1"], cwd=folder, env=environment, capture_output=True),
        }
        self._threads = [threading.Thread(target=self._repeat, args=(name, ask)) for name, ask in requests.items()]
        for thread in self._threads:
            thread.start()

    def _repeat(self, name: str, ask: Any) -> None:
        while not self.stopping:
            began = time.perf_counter()
            result = ask()
            if name == "submit" and "answer" not in result:
                raise SystemExit(f"not submitted: {result}")
            self.durations[name].append(time.perf_counter() - began)
            time.sleep(0.02)

    def stop(self) -> None:
        self.stopping = True
        for thread in self._threads:
            thread.join()


def main(arguments: list[str]) -> int:
    jobs, clusters = (int(word) for word in (*arguments, *("300000", "1")[len(arguments) :]))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder, jobs, clusters)
        print(f"{jobs:,} jobs in {clusters:,} clusters{'':10} the command   other clients: median, slowest", flush=True)
        with served(folder):
            client = Client(folder)
            for subset, constraint in (("a third", THIRD), ("the others", OTHERS)):
                for verb, kind, fields in COMMANDS:
                    others = OtherClients(folder)
                    time.sleep(1.0)
                    began = time.perf_counter()
                    selection = {"constraint": constraint}
                    reply = client.ask(kind, user="", selection=selection, **fields)
                    duration = time.perf_counter() - began
                    if "answer" not in reply:
                        raise SystemExit(f"{verb}: {reply}")
                    time.sleep(1.0)
                    others.stop()
                    waits = "   ".join(
                        f"{request} {statistics.median(durations):.3f} s {max(durations):.3f} s"
                        for request, durations in others.durations.items()
                    )
                    print(f"{f'{verb} {subset}':30} {duration:12.3f} s   {waits}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
