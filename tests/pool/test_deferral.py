"""Golden: jobs with real processes wait for their deferral time. Killing the pool ends no wait."""

from __future__ import annotations

import signal
import time

from poolbook.adapters.stores.opening import open_log
from poolbook.domain.events import JobDue, JobExecuting
from poolbook.domain.fold.evolve import fold
from poolbook.replay.validation import validate

from .real import Folder

SUBMIT = """executable = /bin/sh
arguments = "-c 'echo $(name) >> began'"
deferral_time = QDate + {seconds}
deferral_window = $(window)
request_memory = 16
log = job.log
queue name, window from (
    late 600
    missed 0
)
"""


def kill_while_jobs_wait(folder: Folder, seconds: int) -> bool:
    """Kill a pool before the deferral time of its jobs, and wait until that has passed. Return False if the machine was
    too slow."""
    folder.write("jobs.sub", SUBMIT.format(seconds=seconds))
    earliest = time.time() + seconds - 1
    with folder.served("-slots", "2") as server:
        folder.call("submit", "jobs.sub")
        folder.wait_for(lambda: time.time() > earliest or [job["JobStatus"] for job in folder.json("q")] == [2, 2])
        jobs = folder.json("q")
        server.send_signal(signal.SIGKILL)
        server.wait()
    if time.time() > earliest:
        return False
    (due,) = {job["QDate"] + seconds for job in jobs}
    time.sleep(due + 1.1 - time.time())
    return True


def test_a_pool_killed_while_jobs_wait_starts_each_once_or_holds_it(folder: Folder) -> None:
    for seconds in (4, 20, 80):
        place = Folder(folder.path / f"{seconds}")
        place.path.mkdir()
        if kill_while_jobs_wait(place, seconds):
            break
        place.kill_everything()
    assert not (place.path / "began").exists()
    with place.served("-slots", "2"):
        place.wait_for(lambda: [job["JobStatus"] for job in place.json("q")] == [5])
        place.wait_for(lambda: "005 (001.000" in (place.path / "job.log").read_text())
        (held_job,) = place.json("q")
    assert (held_job["ProcId"], held_job["HoldReasonCode"]) == (1, 20)
    assert (place.path / "began").read_text() == "late\n"
    log = open_log(str(place.path / "pool.db"), create=False, read_only=True)
    entries = list(log.read())
    log.close()
    assert list(validate(entries)) == []
    assert not fold(iter(entries)).deferred
    begun_procs = [event.proc for _, event in entries if isinstance(event, JobDue)]
    executed = [event.proc for _, event in entries if isinstance(event, JobExecuting) and event.pid]
    assert (begun_procs, executed) == ([0], [0])
