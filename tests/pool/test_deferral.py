"""Golden: jobs with real processes wait for their deferral time, with their input files. Killing the pool ends no
wait."""

from __future__ import annotations

import signal
import sys
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


WITH_FILES = """executable = /bin/sh
transfer_executable = false
arguments = "-c 'cat copied; date +%s'"
should_transfer_files = YES
transfer_plugins = slow={plugin}
transfer_input_files = slow://{arrive}/copied
deferral_time = {due}
deferral_window = {window}
output = out
request_memory = 16
log = job.log
queue
"""
PLUGIN = """#!{python}
import sys, time
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
if "-infile" not in options:
    print('MultipleFileSupport = true\\nPluginVersion = "1"\\nPluginType = "FileTransfer"\\nSupportedMethods = "slow"')
    sys.exit()
text = open(options["-infile"]).read()
url, name = (text.split(word + " = \\"")[1].split("\\"")[0] for word in ("Url", "LocalFileName"))
while time.time() < int(url.split("/")[2]):
    time.sleep(0.05)
open(name, "w").write("copied\\n")
with open(options["-outfile"], "w") as answer:
    print(f'[ TransferSuccess = true; TransferUrl = "{{url}}"; TransferProtocol = "slow" ]', file=answer)
"""


def submit_with_files(folder: Folder, due: int, window: int, arrive: int) -> None:
    folder.write("plugin", PLUGIN.format(python=sys.executable))
    (folder.path / "plugin").chmod(0o755)
    folder.write("job.sub", WITH_FILES.format(plugin=folder.path / "plugin", due=due, window=window, arrive=arrive))
    folder.call("submit", "job.sub")


def test_a_job_starts_at_its_time_with_its_files_although_the_pool_was_killed_in_between(folder: Folder) -> None:
    due = int(time.time()) + 6
    with folder.served() as server:
        submit_with_files(folder, due, 600, arrive=0)
        folder.wait_for(lambda: "Finished transferring input files" in (folder.path / "job.log").read_text())
        server.send_signal(signal.SIGKILL)
        server.wait()
    with folder.served():
        folder.wait_for(lambda: folder.call("history", "-af", "NumShadowStarts") == "1\n")
    copied, began = (folder.path / "out").read_text().split()
    assert copied == "copied"
    assert int(began) >= due
    log = open_log(str(folder.path / "pool.db"), create=False, read_only=True)
    assert list(validate(log.read())) == []
    log.close()


def test_a_job_whose_files_arrive_after_its_window_is_held(folder: Folder) -> None:
    with folder.served():
        for seconds in (4, 20, 80):  # until the machine was fast enough to match the job in time
            due = int(time.time()) + seconds
            submit_with_files(folder, due, 0, arrive=due + 1)
            folder.wait_for(lambda: folder.call("q", "-run", "-af", "ClusterId") or time.time() > due)  # noqa: B023
            if folder.call("q", "-run", "-af", "ClusterId"):
                break
            folder.call("rm", "-all")
        folder.wait_for(lambda: folder.call("q", "-hold", "-af", "HoldReasonCode") == "20\n")
        folder.wait_for(lambda: not list(folder.path.rglob("scratch/copied")))
    assert not (folder.path / "out").exists()
