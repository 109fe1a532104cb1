"""Measure file transfer with Poolbook and HTCondor: a large file, many small ones, many jobs with two files each.

``python tests/bench/bench_transfer.py [--peer DIR --peer-script SCRIPT]``; DIR and SCRIPT: an HTCondor pool as for
``make realpool``. Both pools get the same submit files. The script measures the time between the first "Started
transferring input files" and the last "Job terminated" in the job event log, which it reads every two milliseconds. It
also measures the CPU time of the pool's processes and their children, which varies less on a busy machine.
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
TIMEOUT = 300.0  #: seconds until a case fails
TRANSFER, END, HOLD = b"\n040 (", b"\n005 (", b"\n012 ("
_OVERLAP = len(END) - 1
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


def create_inputs(folder: Path, uid: int) -> None:
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


def cpu_time(pool: Pool) -> float:
    """Return the CPU seconds that the pool has used (proc(5), /proc/pid/stat: fields 14 to 17)."""
    ticks = 0
    for pid in pool.processes():
        with contextlib.suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def run_case(pool: Pool, submit_file: str) -> tuple[float, float]:
    """Return the seconds from the start of the first transfer to the end of the last job, and the CPU seconds."""
    folder = pool.home / "transfer"
    log = folder / "job.log"
    log.unlink(missing_ok=True)
    log.touch()
    os.chown(log, pool.uid, pool.uid)
    (folder / "job.sub").write_text(submit_file)
    jobs, ended, began, log_text = int(submit_file.split()[-1]), 0, 0.0, b""
    cpu_before = cpu_time(pool)
    until = time.perf_counter() + TIMEOUT
    output = pool.command("submit", "job.sub", folder="transfer")
    with log.open("rb") as file:
        while ended < jobs:
            log_text = log_text[-_OVERLAP:] + file.read()
            if not began and TRANSFER in log_text:
                began = time.perf_counter()
            ended += log_text.count(END)
            if HOLD in log_text or time.perf_counter() > until:
                raise SystemExit(f"{ended} of {jobs} jobs have ended: {output}\n{log.read_text()[-2000:]}")
            time.sleep(0.002)
    return time.perf_counter() - began, cpu_time(pool) - cpu_before


def run(pool: Pool) -> dict[str, tuple[float, float]]:
    create_inputs(pool.home / "transfer", pool.uid)
    return {name: run_case(pool, text) for name, text in CASES.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--peer", type=Path, metavar="DIR", help="the directory of an HTCondor pool")
    parser.add_argument("--peer-script", metavar="SCRIPT", help="the script that runs the HTCondor pool")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Own(Path(folder)).served() as poolbook:
        ours = run(poolbook)
    theirs: dict[str, tuple[float, float]] = {}
    if options.peer:
        with tempfile.TemporaryDirectory() as folder:
            htcondor = Real(options.peer.resolve(), options.peer_script)
            with htcondor.served(Path(folder) / "scenario.conf") as pool:
                theirs = run(pool)
    print(f"load {os.getloadavg()[0]:.1f}")
    for name, (seconds, cpu_seconds) in ours.items():
        comparison = ""
        if theirs:
            their_seconds, their_cpu = theirs[name]
            comparison = f"; HTCondor {their_seconds:.2f} s, {their_cpu:.2f} s CPU: {their_seconds / seconds:.1f} times"
        print(f"{name}: {seconds:.2f} s, {cpu_seconds:.2f} s CPU{comparison}")


if __name__ == "__main__":
    main()
