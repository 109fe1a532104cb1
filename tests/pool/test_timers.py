"""Property: a pool's timers fire once, at their time, even if the pool is killed in between: it may be dead at that
time, or restarted before it."""

from __future__ import annotations

import signal
import time
from collections import Counter

from poolbook.adapters.stores.opening import open_log
from poolbook.domain.fold.evolve import fold
from poolbook.replay.validation import validate

from .real import Folder

SERVE = ("-config", "pool.conf")
SUBMIT = """executable = /bin/sh
arguments = "-c 'echo $(kind) $(when) >> ran; exec sleep $(seconds)'"
request_memory = 16
request_disk = 1 MB
log = $(kind)-$(when).log
if defined deferred
  deferral_time = $(due)
  deferral_window = 600
endif
if defined held
  periodic_hold = time() >= $(due)
endif
if defined removed
  periodic_remove = time() >= $(due)
endif
if defined released
  hold = true
  periodic_release = time() >= $(due)
endif
queue when, due from (
    dead {dead}
    back {back}
)
"""
CONF = """PERIODIC_EXPR_INTERVAL = 1
RUNBENCHMARKS = false
NUM_CPUS = 8
MEMORY = 1024
"""
KINDS = {"deferred": 0, "held": 600, "removed": 600, "released": 0}
"""What is done at the time, and how long the job runs, in seconds."""
WAITING = {"deferred": 2, "held": 2, "removed": 2, "released": 5}
"""Each job's status until then."""
DONE = {
    "deferred": ["000", "001", "005"],
    "held": ["000", "001", "012"],
    "removed": ["000", "001", "009"],
    "released": ["000", "013", "001", "005"],
}
"""The events in the jobs' logs, without evictions and sizes."""


def events(folder: Folder, name: str) -> list[str]:
    lines = (folder.path / f"{name}.log").read_text().splitlines()
    numbers = [line[:3] for line in lines if line[3:5] == " ("]
    return [number for number in numbers if number not in ("004", "006")]


def kill_and_restart(folder: Folder, seconds: int) -> tuple[int, int] | None:
    """Kill a pool before this many seconds have passed, and start it again afterwards. Return the two times at which
    something is due, while it is dead and later; None if the machine was too slow."""
    dead = int(time.time()) + seconds
    back = dead + seconds
    folder.write("jobs.sub", SUBMIT.format(dead=dead, back=back))
    with folder.served(*SERVE) as server:
        for kind, runs in KINDS.items():
            folder.call("submit", f"kind={kind}", f"{kind}=true", f"seconds={runs}", "jobs.sub")
        statuses = [status for status in WAITING.values() for _ in range(2)]
        folder.wait_for(lambda: [job["JobStatus"] for job in folder.json("q")] == statuses or time.time() > dead)
        folder.wait_for(lambda: len(start_times(folder)) == 4 or time.time() > dead)
        server.send_signal(signal.SIGKILL)
        server.wait()
    if time.time() >= dead - 1:
        return None
    time.sleep(dead + 1.1 - time.time())
    assert sorted(start_times(folder)) == ["held back", "held dead", "removed back", "removed dead"]
    with folder.served(*SERVE):
        if time.time() >= back - 1:
            return None
        folder.wait_for(lambda: all(events(folder, f"{kind}-back")[-1] == DONE[kind][-1] for kind in KINDS))
        folder.wait_for(lambda: all(events(folder, f"{kind}-dead")[-1] == DONE[kind][-1] for kind in KINDS))
    return dead, back


def start_times(folder: Folder) -> list[str]:
    """Return the start times that the jobs recorded."""
    path = folder.path / "ran"
    return path.read_text().splitlines() if path.exists() else []


def test_timers_due_while_a_pool_was_killed_fire_once_and_not_before_their_time(folder: Folder) -> None:
    for seconds in (4, 20, 80):
        place = Folder(folder.path / f"{seconds}")
        place.path.mkdir()
        place.write("pool.conf", CONF)
        due = kill_and_restart(place, seconds)
        if due is not None:
            break
        place.kill_everything()
    assert due is not None, "this machine is too slow"
    assert Counter(start_times(place)) == Counter(f"{kind} {when}" for kind in KINDS for when in ("dead", "back"))
    for when in ("dead", "back"):
        assert {kind: events(place, f"{kind}-{when}") for kind in KINDS} == DONE
    for proc, at in enumerate(due):
        all_jobs = [*place.json("q"), *place.json("history")]
        times = {job["ClusterId"]: job["EnteredCurrentStatus"] for job in all_jobs if job["ProcId"] == proc}
        assert len(times) == len(KINDS) and min(times.values()) >= at
    log = open_log(str(place.path / "pool.db"), create=False, read_only=True)
    entries = list(log.read())
    log.close()
    assert list(validate(entries)) == []
    assert not fold(iter(entries)).deferred
