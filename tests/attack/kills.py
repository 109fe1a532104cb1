"""Attacks: the pool, its supervisor, or both are killed repeatedly."""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from poolbook.adapters.stores.opening import open_log
from poolbook.domain.events import ClusterSubmitted, JobActivated

from .. import forked
from ..pool.real import Folder
from ..pool.test_crashes import JOBS, check, events_of_ended_log, prepare, runs_of
from ..simulation.test_stories import tell
from .attacks import Trial, attack

RESOURCES = ("-slots", "8", "-cpus", "8", "-memory", "1024")
LOST = "a damaged log, a lost or second end, a wrong exit code, two runs at the same time, a run that is not "
LOST += "in the log, a process left behind, or a missing or duplicate entry in the job event log"


def _kill_supervisor(folder: Folder) -> None:
    with suppress(OSError, ValueError):
        pid = int((folder.path / "pool.db.d" / "lock").read_text())
        if str(folder.path).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)


def _run_and_kill(trial: Trial, pool_dies: bool, supervisor_dies: bool) -> None:
    """Run jobs, and kill the pool, its supervisor or both up to four times."""
    folder, rng = trial.folder, trial.rng
    prepare(folder)
    pool = folder.start("run", "jobs.sub", *RESOURCES)
    folder.wait_for(lambda: any((folder.path / "marks").iterdir()))
    trial.tries = rng.randint(1, 4)
    for _ in range(trial.tries):
        time.sleep(rng.uniform(0, 0.8))
        if supervisor_dies:
            _kill_supervisor(folder)
        if pool_dies:
            pool.kill()
            pool.communicate()
            time.sleep(rng.choice([0, 0, 0.3]))
            pool = folder.start("resume", *RESOURCES)
    output, _ = pool.communicate(timeout=120)
    assert "Traceback" not in output, output
    if not supervisor_dies:
        check(folder)
    _check_runs(folder)


def _check_runs(folder: Folder) -> None:
    """Check that the log has every run, even if it ended unrecorded because the supervisor had died."""
    starts = Counter(event.proc for event in events_of_ended_log(folder) if isinstance(event, JobActivated))
    for proc, marks in runs_of(folder.path / "marks").items():
        steps = [step for step, _ in marks]
        assert "beside" not in steps, f"job {proc} ran twice at the same time"
        assert steps.count("begin") <= starts[proc], f"job {proc} ran more often than the log says"
        assert steps[-1] == "end", f"job {proc}: {steps}"
    entries = Counter(re.findall(r"^(000|005) \(001\.(\d+)\.", (folder.path / "job.log").read_text(), re.MULTILINE))
    assert entries == {(kind, f"{proc:03d}"): 1 for kind in ("000", "005") for proc in range(JOBS)}, entries
    folder.wait_for(lambda: not _running_jobs(folder), 10)


def _running_jobs(folder: Folder) -> list[str]:
    """Return the process ids of the folder's jobs."""
    process_ids = []
    for path in Path("/proc").glob("[0-9]*"):  # a longer pattern fails if a process ends meanwhile
        with suppress(OSError):
            if f"{folder.path}/job.sh".encode() in (path / "cmdline").read_bytes():
                process_ids.append(path.name)
    return process_ids


@attack("pool-killed", promise="A killed pool can be resumed, and each job runs once.", fails=LOST)
def _pool_killed(trial: Trial) -> None:
    _run_and_kill(trial, True, False)


@attack("supervisor-killed", promise="Its jobs end and run again, one run at a time.", fails=LOST)
def _supervisor_killed(trial: Trial) -> None:
    _run_and_kill(trial, False, True)


@attack("both-killed", promise="The same if the pool and its supervisor are killed together.", fails=LOST)
def _both_killed(trial: Trial) -> None:
    _run_and_kill(trial, True, True)


@attack(
    "server-killed",
    promise="An acknowledged submission is in the log, whenever the server is killed.",
    fails="an acknowledged cluster that the log does not have, or a log that is not sound",
)
def _server_killed(trial: Trial) -> None:
    folder = trial.folder
    folder.write("one.sub", "executable = /bin/true\nqueue 3\n")
    acknowledged: set[int] = set()
    trial.tries = 0
    for _ in range(3):
        (folder.path / "pool.db.sock").unlink(missing_ok=True)  # left behind by the killed server
        with folder.served("-slots", "1") as server:
            clients = [folder.start("submit", "one.sub", "--json") for _ in range(4)]
            time.sleep(trial.rng.uniform(0, 0.5))
            server.send_signal(signal.SIGKILL)
            acknowledged |= {cluster for client in clients for cluster in _clusters(client)}
        trial.tries += len(clients)
    log = open_log(str(folder.path / "pool.db"), create=False, read_only=True)
    missing = acknowledged - {event.cluster for _, event in log.read() if isinstance(event, ClusterSubmitted)}
    log.close()
    assert not missing, missing
    assert "sound" in folder.call("verify")


def _clusters(client: forked.Process) -> list[int]:
    output, _ = client.communicate(timeout=60)
    assert "Traceback" not in output, output
    return [int(number) for number in re.findall(r'"ClusterId": (\d+)', output)] if client.wait() == 0 else []


@attack(
    "simulated-machine",
    promise="Whatever dies, fails or loses power, nothing is lost, and nothing runs twice without a record.",
    fails='a violation that the checks of "A simulated machine" report',
)
def _simulated_machine(trial: Trial) -> None:
    trial.tries = 5
    for number in range(trial.tries):
        sqlite = trial.path / str(number) if number == 0 else None
        if sqlite is not None:
            sqlite.mkdir()
        tell(trial.seed * trial.tries + number, sqlite)
