"""Measure the writing of job event logs: `python tests/bench/bench_userlog.py`."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from poolbook.adapters.runtime.userlog.fold import UserLogs
from poolbook.adapters.runtime.userlog.writer import UserLogWriter
from poolbook.domain import events as e
from poolbook.domain.events import Event

JOBS = 100_000
RUNS = 10_000


def submission(log: Path, cluster: int, count: int) -> e.ClusterSubmitted:
    ad = {"UserLog": f'"{log}"', "Iwd": '"/"', "RequestCpus": "1", "RequestMemory": "128", "RequestDisk": "1024"}
    return e.ClusterSubmitted(10**6, "submitted", "s", cluster, "alice@x", ad, count, (), "Idle")


def job_events(log: Path) -> list[tuple[int, Event]]:
    """Return the events of jobs that start, use memory and end, with their positions: three user log events each."""
    slot = {"Cpus": "1", "Memory": "1024", "Disk": "4096"}
    events: list[Event] = [e.SlotCreated(0, "configured", "s", "slot1@h", "h", "static", "", slot)]
    events.append(submission(log, 1, RUNS))
    for proc in range(RUNS):
        at = proc * 10**6
        events += [
            e.JobActivated(at, "activated", "s", 1, proc, "slot1@h", "c"),
            e.JobExecuting(at, "activated", "s", 1, proc, 7, "/scratch"),
            e.JobMeasured(at, "measured", "s", 1, proc, 100 + proc, 100, 10, 0, 0),
            e.JobExited(
                at + 10**6, "exited", "s", 1, proc, "slot1@h", "k", "exited", "complete", "Completed", {}, code=0
            ),
            e.JobsTransitioned(at + 10**6, "left_queue", "l", 1, ((proc, proc),), "leave", "Completed", "Left", {}),
        ]
    return list(enumerate(events, 1))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        writer = UserLogWriter(folder / "many")
        began = time.perf_counter()
        writer.write([(1, submission(folder / "many.log", 1, JOBS))])
        print(f"submission of {JOBS} jobs: {(time.perf_counter() - began) / JOBS * 1e6:.2f} us per job")
        events = job_events(folder / "lives.log")
        for batch in (1000, 100, 10, 1):
            writer = UserLogWriter(folder / f"batch-{batch}")
            began = time.perf_counter()
            for at in range(0, len(events), batch):
                writer.write(events[at : at + batch])
            print(f"written in batches of {batch}: {3 * RUNS / (time.perf_counter() - began):.0f} events/s")
        logs = UserLogs()
        began = time.perf_counter()
        for position, event in events:
            logs.skip(position, event)
        print(f"read at start, already written: {len(events) / (time.perf_counter() - began):.0f} events/s")


if __name__ == "__main__":
    main()
