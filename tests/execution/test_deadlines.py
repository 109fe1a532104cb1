"""Golden: a job with a deadline is killed unless the pool renews the deadline, whatever became of the pool."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import time
from typing import Any

import pytest

from poolbook.adapters.machine.execution.activation import EXPIRED, Exited, Failed, FileTransfer, Lost, Running
from poolbook.adapters.machine.execution.client import Supervisor
from poolbook.adapters.machine.execution.supervisor.supervised_job import boot_ticker

from .bench import Bench, runs, wait

SOON, LATER = 200_000, 1_000_000_000
DAEMON = "(env -i setsid sh -c 'echo $$ > daemon; exec sleep 1000' &)"


def test_a_job_whose_deadline_passes_without_a_pool_is_killed_with_its_descendants(bench: Bench) -> None:
    script = f"{DAEMON}; echo $$ > main; exec sleep 1000"
    bench.sh("1", script, run_in_iwd=True, deadline=boot_ticker() + LATER)
    pids = [int(bench.file("main")), int(bench.file("daemon"))]
    bench.supervisor.set_deadlines({"1": boot_ticker() + SOON, "unknown": 1})
    bench.supervisor.close()
    wait(lambda: not any(runs(pid) for pid in pids))
    with Supervisor(bench.folder) as next_pool:
        end = next_pool.recover(["1"])["1"]
    assert isinstance(end, Exited)
    assert (end.violated, end.signal, end.code) == (EXPIRED, signal.SIGKILL, None)


def test_a_job_with_a_deadline_ends_if_its_supervisor_is_killed_and_there_is_no_pool(bench: Bench) -> None:
    script = f"{DAEMON}; echo $$ > main; exec sleep 1000"
    bench.sh("1", script, run_in_iwd=True, deadline=boot_ticker() + LATER)
    pids = [int(bench.file("main")), int(bench.file("daemon"))]
    bench.supervisor.close()
    bench.kill_supervisor()
    wait(lambda: not any(runs(pid) for pid in pids))
    with Supervisor(bench.folder) as next_pool:
        assert isinstance(next_pool.recover(["1"])["1"], Lost)


def test_a_supervisor_without_jobs_ends_with_its_guard(bench: Bench) -> None:
    script = "echo $$ > main; while ! [ -e stop ]; do sleep 0.01; done; exit 3"
    bench.sh("1", script, run_in_iwd=True, deadline=boot_ticker() + LATER)
    main, pid = int(bench.file("main")), bench.pid()
    children = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()
    (guard,) = {int(child) for child in children} - {main}
    (bench.home / "stop").touch()
    assert bench.end("1").code == 3
    bench.supervisor.close()
    wait(lambda: not runs(pid) and not runs(guard))
    with open(bench.folder / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # there is no next supervisor


def end_at_a_deadline(bench: Bench, script: str, **fields: Any) -> Any:
    """Return how a job ended that was started shortly before its deadline: the sooner, the faster the machine is."""
    for key, microseconds in {"1": SOON, "2": 10 * SOON, "3": 100 * SOON}.items():
        bench.sh(key, script, deadline=boot_ticker() + microseconds, **fields)
        end = bench.end(key)
        if not isinstance(end, Failed):
            break
    return end


def test_a_job_has_its_deadline_from_its_start(bench: Bench) -> None:
    assert end_at_a_deadline(bench, "trap '' TERM; exec sleep 1000").violated == EXPIRED


@pytest.mark.parametrize("renewed_by", [LATER, None])
def test_a_job_whose_deadline_is_renewed_runs_on(bench: Bench, renewed_by: int | None) -> None:
    for key, microseconds in {"1": 5 * SOON, "2": 50 * SOON, "3": 500 * SOON}.items():
        deadline = boot_ticker() + microseconds
        bench.sh(key, "exec sleep 1000", deadline=deadline)
        bench.supervisor.set_deadlines({key: 0 if renewed_by is None else deadline + renewed_by})
        bench.supervisor.recover([key])  # it answers when it has done what it was asked before
        if boot_ticker() < deadline:
            break
    time.sleep(max(0.0, deadline - boot_ticker()) / 1e6 + 0.1)
    assert isinstance(bench.supervisor.recover([key])[key], Running)


def test_a_suspended_job_is_killed_at_its_deadline(bench: Bench) -> None:
    bench.sh("1", "echo $$ > main; exec sleep 1000", run_in_iwd=True)
    pid = int(bench.file("main"))
    bench.supervisor.signal("1", "suspend")
    bench.supervisor.set_deadlines({"1": boot_ticker()})
    assert bench.end("1").violated == EXPIRED
    assert not runs(pid)


def test_a_job_is_not_started_after_its_deadline(bench: Bench) -> None:
    bench.sh("1", "touch ran", run_in_iwd=True, deadline=boot_ticker())
    end = bench.end("1")
    assert isinstance(end, Failed)
    assert (end.hold_code, end.reason) == (1003, "the lease of its claim was over before it could be started")
    assert not (bench.home / "ran").exists()
    assert bench.supervisor.claimed_keys() == frozenset()


def test_the_transfer_of_files_ends_at_the_deadline(bench: Bench) -> None:
    plugin = bench.home / "plugin"
    plugin.write_text("#!/bin/sh\necho $$ > moving\nexec sleep 1000\n")
    plugin.chmod(0o700)
    transfer = FileTransfer(inputs=("slow://x",), plugins={"slow": (str(plugin),)}, plugin_seconds=1000)
    end = end_at_a_deadline(bench, "touch ran", transfer=transfer)
    assert (end.violated, end.undelivered, end.began) == (EXPIRED, True, 0)
