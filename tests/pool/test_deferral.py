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
deferral_time = QDate + 4
deferral_window = $(window)
request_memory = 16
log = job.log
queue name, window from (
    late 600
    missed 0
)
"""


def test_a_pool_killed_while_jobs_wait_starts_each_once_or_holds_it(folder: Folder) -> None:
    folder.write("jobs.sub", SUBMIT)
    with folder.served("-slots", "2") as server:
        folder.call("submit", "jobs.sub")
        folder.wait_for(lambda: [job["JobStatus"] for job in folder.json("q")] == [2, 2])
        (due,) = {job["QDate"] + 4 for job in folder.json("q")}
        server.send_signal(signal.SIGKILL)
        server.wait()
    time.sleep(max(0.0, due + 1.1 - time.time()))
    assert not (folder.path / "began").exists()
    with folder.served("-slots", "2"):
        folder.wait_for(lambda: [job["JobStatus"] for job in folder.json("q")] == [5])
        folder.wait_for(lambda: "005 (001.000" in (folder.path / "job.log").read_text())
        (held_job,) = folder.json("q")
    assert (held_job["ProcId"], held_job["HoldReasonCode"]) == (1, 20)
    assert (folder.path / "began").read_text() == "late\n"
    log = open_log(str(folder.path / "pool.db"), create=False, read_only=True)
    entries = list(log.read())
    log.close()
    assert list(validate(entries)) == []
    assert not fold(iter(entries)).deferred
    begun_procs = [event.proc for _, event in entries if isinstance(event, JobDue)]
    executed = [event.proc for _, event in entries if isinstance(event, JobExecuting) and event.pid]
    assert (begun_procs, executed) == ([0], [0])
