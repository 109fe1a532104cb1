"""Measure the views: folding a log, updating views, and reading a queue of 100,000 jobs.

Each line has a measurement, its value and the aim. The exit code is 1 if an aim is missed. Times are the best of
several repetitions, because other processes disturb the rest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / ".path"), str(ROOT)]

from poolbook.adapters.runtime.views import BATCH, catch_up, open_tables, views_current, views_path  # noqa: E402
from poolbook.adapters.stores.opening import open_log  # noqa: E402
from poolbook.domain import events as e  # noqa: E402
from poolbook.projections.projector import apply  # noqa: E402
from poolbook.projections.schema import create  # noqa: E402

EVENTS = 1_000_000
JOBS = 100_000
SLOTS = 1000
AT = 1_800_000_000_000_000
AD = {f"Attribute{number}": f'"value {number}"' for number in range(40)} | {
    "Owner": '"alice"', "QDate": "1800000000", "Cmd": '"/bin/sleep"', "RequestMemory": "128", "JobStatus": "1",
    "JobPrio": "0", "Requirements": 'TARGET.Arch == "X86_64"', "RemoteUserCpu": "0.0",
}  # fmt: skip
COLUMNS = ("ClusterId", "ProcId", "JobStatus")


def pool_events() -> Iterator[e.Event]:
    yield e.PoolFounded(AT, "founded", "f", "pool", "manual", "example.org", "0.1", {})
    yield e.MachineJoined(AT, "configured", "f", "h", {"Arch": '"X86_64"'})
    for number in range(SLOTS):
        name = f"slot{number}@h"
        yield e.SlotCreated(AT, "configured", "f", name, "h", "static", "", {"Name": f'"{name}"', "Cpus": "1"})
        yield e.SlotTransitioned(AT, "not_owner", "f", name, "1", "Owner/Idle", "Unclaimed/Idle")


def submission(cluster: int, count: int) -> e.Event:
    return e.ClusterSubmitted(AT, "submitted", "s", cluster, "alice@example.org", AD, count, (), "Idle")


def job_events(cluster: int, count: int) -> Iterator[e.Event]:
    """Yield six events for each job; as many jobs run at a time as there are slots."""
    for first in range(0, count, SLOTS):
        wave = [(proc, f"slot{proc % SLOTS}@h") for proc in range(first, min(first + SLOTS, count))]
        at = AT + first * 60_000
        for proc, slot in wave:
            yield e.JobActivated(at, "activated", "a", cluster, proc, slot, slot)
            yield e.SlotTransitioned(at, "activated", "a", slot, "11", "Claimed/Idle", "Claimed/Busy")
        for proc, _ in wave:
            yield e.JobExecuting(at, "activated", "x", cluster, proc, 1000 + proc, f"dir_{proc}")
        for proc, _ in wave:
            yield e.JobMeasured(at + 9, "measured", "m", cluster, proc, 5000, 3000, 12, 1000, 1000)
        for proc, slot in wave:
            end = at + 30_000_000
            yield e.JobExited(
                end, "exited", "e", cluster, proc, slot, str(proc), "exited", "complete", "Completed", {}, 0
            )
            yield e.SlotTransitioned(end, "job_ended", "e", slot, "14", "Claimed/Busy", "Claimed/Idle")
        procs = ((wave[0][0], wave[-1][0]),)
        yield e.JobsTransitioned(end, "left_queue", "l", cluster, procs, "leave", "Completed", "Left", {})


def best(function: Callable[[], object], times: int = 5) -> float:
    """Return the seconds of the fastest run."""
    durations = []
    for _ in range(times):
        began = time.perf_counter()
        function()
        durations.append(time.perf_counter() - began)
    return min(durations)


def whole_process(code: str) -> float:
    """Return the seconds that a new interpreter takes to run the code."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / ".path")}
    return best(lambda: subprocess.run([sys.executable, "-c", code], check=True, env=environment), 7)


def print_result(measurement: str, value: float, unit: str, aim: float, higher: bool = False) -> bool:
    met = value >= aim if higher else value <= aim
    print(f"{measurement:<62}{value:>12,.4g} {unit:<9} aim {aim:>9,.4g}   {'met' if met else 'MISSED'}")
    return met


def measure_fold(folder: Path) -> bool:
    """Measure the fold of a log into the tables of a file, in the batches of a cold start."""
    per_job = 6
    count = EVENTS // per_job
    events = list(enumerate([*pool_events(), submission(1, count), *job_events(1, count)], 1))
    connection = open_tables(str(folder / "cold.views"))
    began = time.perf_counter()
    connection.execute("BEGIN")
    create(connection)
    for at in range(0, len(events), BATCH):
        apply(connection, events[at : at + BATCH])
        connection.execute("COMMIT")
        connection.execute("BEGIN")
    connection.execute("COMMIT")
    duration = time.perf_counter() - began
    size = os.path.getsize(folder / "cold.views") / count
    connection.close()
    print(f"{'  bytes on disk for a job in the history':<62}{size:>12,.0f}")
    return print_result(
        f"fold {len(events):,} events, {count:,} jobs that ran", len(events) / duration, "events/s", 100_000, True
    )


def measure_queries(folder: Path) -> list[bool]:
    """Measure a queue of 100,000 identical jobs; 100 have ended and 100 run."""
    path = str(folder / "pool.db")
    log = open_log(path, create=True)
    log.append([*pool_events(), submission(1, JOBS), *job_events(1, 100)])
    log.append([e.JobActivated(AT, "activated", "a", 1, proc, f"slot{proc}@h", "c") for proc in range(100, 200)])
    with views_current(path) as views:
        print(f"{'  rows for the jobs':<62}{views.connection.execute('SELECT COUNT(*) FROM jobs').fetchone()[0]:>12}")

    def list_jobs() -> int:
        with views_current(path) as views:
            return sum(1 for _ in views.columns(COLUMNS))

    writer = open_tables(views_path(path))
    procs = iter(range(100, 200))
    durations: list[float] = []

    def add_event() -> None:
        log.append([e.JobExecuting(AT, "activated", "x", 1, next(procs), 1000, "dir")])
        durations.append(best(lambda: catch_up(log, writer), 1))

    best(add_event, 50)

    def edit_all() -> None:
        log.append([e.JobsEdited(AT, "user_edit", "e", 1, ((0, JOBS - 1),), {"JobPrio": str(time.perf_counter_ns())})])
        catch_up(log, writer)

    open_views = f"from poolbook.adapters.runtime.views import views_current\nviews = views_current({path!r})\n"
    results = [
        print_result("one event into open views", min(durations) * 1e3, "ms", 2),
        print_result(f"an edit of all {JOBS:,} jobs, appended and folded", best(edit_all) * 1e3, "ms", 20),
        print_result(f"-af {' '.join(COLUMNS)} of {JOBS:,}", best(list_jobs), "s", 0.15),
        print_result("the same, whole process, with output", whole_process(open_views + _WRITE), "s", 0.45),
        print_result("totals, whole process", whole_process(open_views + "views.totals()"), "s", 0.1),
        print_result("batches, whole process", whole_process(open_views + "views.batches()"), "s", 0.1),
        print_result(
            "one job's ad, whole process", whole_process(open_views + "views.job(1, 77777).to_old()"), "s", 0.1
        ),
    ]
    writer.close()
    log.close()
    return results


_WRITE = f"""
import os
with open(os.devnull, "w") as out:
    out.write("".join([" ".join(row) + chr(10) for row in views.columns({COLUMNS!r})]))
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return 0 if all([measure_fold(folder), *measure_queries(folder)]) else 1


if __name__ == "__main__":
    sys.exit(main())
