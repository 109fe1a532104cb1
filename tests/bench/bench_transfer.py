"""File transfer: a large file, very many small ones, and many short jobs with two files each; ours, and a real pool's.

Run with ``python tests/bench/bench_transfer.py [--peer DIR --peer-script SCRIPT]``; DIR and SCRIPT: a real pool, as
``make realpool`` has it. Both pools get the same submit files. What is measured is the time from the first "Started
transferring input files" until the last "Job terminated" in the jobs' log, which is looked at every few milliseconds,
and meanwhile the processor time of the pool's processes and of all that they have waited for, the jobs' included: where
others use the machine, too, that is the steadier figure.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / ".path"), str(ROOT)]

from tests.beside.pools import Own, Pool, Real  # noqa: E402

LARGE = 1 << 30
MANY = 10_000
JOBS = 500
PATIENCE = 300.0  #: seconds after which a case has failed
TRANSFER, END, HOLD = b"\n040 (", b"\n005 (", b"\n012 ("
_CUT = len(END) - 1
JOB = """executable = /bin/sh
transfer_executable = false
arguments = "-c '{script}'"
transfer_input_files = {inputs}
should_transfer_files = YES
request_memory = 16
request_disk = 4 GB
log = job.log
queue {count}
"""
CASES = {
    "1 GiB in and out": JOB.format(script="mv large back", inputs="large", count=1),
    "10,000 files of 1 kB in and out": JOB.format(script="mv files results", inputs="files", count=1).replace(
        "queue", "transfer_output_files = results\nqueue"
    ),
    "500 jobs with a file in and one out": JOB.format(script="cat small > made.$0", inputs="small", count=JOBS)
    .replace("'\"", "' $(Process)\"")
    .replace("4 GB", "1 MB"),
}


def furnish(folder: Path, uid: int) -> None:
    (folder / "files").mkdir(parents=True)
    with (folder / "large").open("wb") as file:
        block = os.urandom(1 << 20)
        for _ in range(LARGE >> 20):
            file.write(block)
    for number in range(MANY):
        (folder / "files" / str(number)).write_bytes(b"x" * 1000)
    (folder / "small").write_bytes(b"x" * 1000)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, uid, uid)
    os.sync()


def processor(pool: Pool) -> float:
    """The seconds of a processor that the pool has used so far. (proc(5), /proc/pid/stat: fields 14 to 17)"""
    ticks = 0
    for pid in pool.processes():
        with contextlib.suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def measured(pool: Pool, text: str) -> tuple[float, float]:
    """Seconds from the first transfer's begin until the last job's end, and of a processor."""
    folder = pool.home / "transfer"
    log = folder / "job.log"
    log.unlink(missing_ok=True)
    log.touch()
    os.chown(log, pool.uid, pool.uid)
    (folder / "job.sub").write_text(text)
    jobs, ended, began, said = int(text.split()[-1]), 0, 0.0, b""
    used = processor(pool)
    until = time.perf_counter() + PATIENCE
    words = pool.command("submit", "job.sub", where="transfer")
    with log.open("rb") as file:
        while ended < jobs:
            said = said[-_CUT:] + file.read()
            if not began and TRANSFER in said:
                began = time.perf_counter()
            ended += said.count(END)
            if HOLD in said or time.perf_counter() > until:
                raise SystemExit(f"{ended} of {jobs} jobs have ended: {words}\n{log.read_text()[-2000:]}")
            time.sleep(0.002)
    return time.perf_counter() - began, processor(pool) - used


def run(pool: Pool) -> dict[str, tuple[float, float]]:
    furnish(pool.home / "transfer", pool.uid)
    return {name: measured(pool, text) for name, text in CASES.items()}


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser()
    options.add_argument("--peer", type=Path)
    options.add_argument("--peer-script")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder, Own(Path(folder)).served() as own:
        ours = run(own)
    theirs: dict[str, tuple[float, float]] = {}
    if given.peer:
        with tempfile.TemporaryDirectory() as folder:
            real = Real(given.peer.resolve(), given.peer_script)
            with real.served(Path(folder) / "scenario.conf") as pool:
                theirs = run(pool)
    print(f"load {os.getloadavg()[0]:.1f}")
    for name, (seconds, used) in ours.items():
        beside = ""
        if theirs:
            other, much = theirs[name]
            beside = f"; the real pool {other:.2f} s, {much:.2f} s of a processor: {other / seconds:.1f} times"
        print(f"{name}: {seconds:.2f} s, {used:.2f} s of a processor{beside}")


if __name__ == "__main__":
    main()
