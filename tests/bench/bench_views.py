"""The views' figures: folding a log, bringing views up to date, and reading a queue of 100,000 jobs.

Prints one line a figure: what was measured, Poolbook's, the aim. Ends with 1 where an aim is missed. Times are the best
of several repetitions: on a noisy machine that is what code can do.
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


def founded() -> Iterator[e.Event]:
    yield e.PoolFounded(AT, "founded", "f", "pool", "manual", "example.org", "0.1", {})
    yield e.MachineJoined(AT, "configured", "f", "h", {"Arch": '"X86_64"'})
    for number in range(SLOTS):
        name = f"slot{number}@h"
        yield e.SlotCreated(AT, "configured", "f", name, "h", "static", "", {"Name": f'"{name}"', "Cpus": "1"})
        yield e.SlotTransitioned(AT, "not_owner", "f", name, "1", "Owner/Idle", "Unclaimed/Idle")


def submitted(cluster: int, count: int) -> e.Event:
    return e.ClusterSubmitted(AT, "submitted", "s", cluster, "alice@example.org", AD, count, (), "Idle")


def lives(cluster: int, count: int) -> Iterator[e.Event]:
    """Jobs that run and end, as many at once as there are slots: six events each."""
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


def best(work: Callable[[], object], times: int = 5) -> float:
    """The seconds that the quickest of some runs took."""
    took = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        took.append(time.perf_counter() - begin)
    return min(took)


def whole_process(code: str) -> float:
    """The seconds that a fresh interpreter takes for it."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / ".path")}
    return best(lambda: subprocess.run([sys.executable, "-c", code], check=True, env=environment), 7)


def tell(what: str, figure: float, unit: str, aim: float, higher: bool = False) -> bool:
    met = figure >= aim if higher else figure <= aim
    print(f"{what:<62}{figure:>12,.4g} {unit:<9} aim {aim:>9,.4g}   {'met' if met else 'MISSED'}")
    return met


def fold(folder: Path) -> bool:
    """All events of a log into the tables of a file, in the batches in which a cold start does it."""
    per_job = 6
    count = EVENTS // per_job
    events = list(enumerate([*founded(), submitted(1, count), *lives(1, count)], 1))
    connection = open_tables(str(folder / "cold.views"))
    begin = time.perf_counter()
    connection.execute("BEGIN")
    create(connection)
    for at in range(0, len(events), BATCH):
        apply(connection, events[at : at + BATCH])
        connection.execute("COMMIT")
        connection.execute("BEGIN")
    connection.execute("COMMIT")
    took = time.perf_counter() - begin
    size = os.path.getsize(folder / "cold.views") / count
    connection.close()
    print(f"{'  bytes on disk for a job in the history':<62}{size:>12,.0f}")
    return tell(f"fold {len(events):,} events, {count:,} jobs that ran", len(events) / took, "events/s", 100_000, True)


def read(folder: Path) -> list[bool]:
    """A queue of 100,000 like jobs, of which 100 have ended and 100 run."""
    path = str(folder / "pool.db")
    log = open_log(path, create=True)
    log.append([*founded(), submitted(1, JOBS), *lives(1, 100)])
    log.append([e.JobActivated(AT, "activated", "a", 1, proc, f"slot{proc}@h", "c") for proc in range(100, 200)])
    with views_current(path) as views:
        print(f"{'  rows for the jobs':<62}{views.connection.execute('SELECT COUNT(*) FROM jobs').fetchone()[0]:>12}")

    def listed() -> int:
        with views_current(path) as views:
            return sum(1 for _ in views.columns(COLUMNS))

    writer = open_tables(views_path(path))
    ends = iter(range(100, 200))
    spent: list[float] = []

    def updated() -> None:
        log.append([e.JobExecuting(AT, "activated", "x", 1, next(ends), 1000, "dir")])
        spent.append(best(lambda: catch_up(log, writer), 1))

    best(updated, 50)

    def held() -> None:
        log.append([e.JobsEdited(AT, "user_edit", "e", 1, ((0, JOBS - 1),), {"JobPrio": str(time.perf_counter_ns())})])
        catch_up(log, writer)

    opened = f"from poolbook.adapters.runtime.views import views_current\nviews = views_current({path!r})\n"
    figures = [
        tell("one event into views that are open", min(spent) * 1e3, "ms", 2),
        tell(f"a change of all {JOBS:,} jobs, appended and folded", best(held) * 1e3, "ms", 20),
        tell(f"-af {' '.join(COLUMNS)} of {JOBS:,}", best(listed), "s", 0.15),
        tell("the same, whole process, written out", whole_process(opened + _WRITE), "s", 0.45),
        tell("totals, whole process", whole_process(opened + "views.totals()"), "s", 0.1),
        tell("batches, whole process", whole_process(opened + "views.batches()"), "s", 0.1),
        tell("one job's ad, whole process", whole_process(opened + "views.job(1, 77777).to_old()"), "s", 0.1),
    ]
    writer.close()
    log.close()
    return figures


_WRITE = f"""
import os
with open(os.devnull, "w") as out:
    out.write("".join([" ".join(row) + chr(10) for row in views.columns({COLUMNS!r})]))
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return 0 if all([fold(folder), *read(folder)]) else 1


if __name__ == "__main__":
    sys.exit(main())
