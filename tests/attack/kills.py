"""The pool, its supervisor, or both are killed, again and again."""

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
from ..pool.test_crashes import JOBS, check, ended, prepare, runs_of
from ..simulation.test_stories import tell
from .attacks import Trial, attack

PLACE = ("-slots", "8", "-cpus", "8", "-memory", "1024")
LOST = "a torn log, a lost or second end, an exit code that is not the job's, two runs at one time, a run that is not "
LOST += "in the log, a process left behind, or an entry of the job's log that is missing or there twice"


def _kill_supervisor(folder: Folder) -> None:
    with suppress(OSError, ValueError):
        pid = int((folder.path / "pool.db.d" / "lock").read_text())
        if str(folder.path).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)


def _story(trial: Trial, pool_dies: bool, supervisor_dies: bool) -> None:
    """Jobs are run, and what is to be killed is killed up to four times."""
    folder, chance = trial.folder, trial.chance
    prepare(folder)
    pool = folder.start("run", "jobs.sub", *PLACE)
    folder.wait_for(lambda: any((folder.path / "marks").iterdir()))
    trial.tries = chance.randint(1, 4)
    for _ in range(trial.tries):
        time.sleep(chance.uniform(0, 0.8))
        if supervisor_dies:
            _kill_supervisor(folder)
        if pool_dies:
            pool.kill()
            pool.communicate()
            time.sleep(chance.choice([0, 0, 0.3]))
            pool = folder.start("resume", *PLACE)
    said, _ = pool.communicate(timeout=120)
    assert "Traceback" not in said, said
    if not supervisor_dies:
        check(folder)
    _judge(folder)


def _judge(folder: Folder) -> None:
    """A job whose supervisor died may come to its end without a record, and then runs again: the log tells of both."""
    starts = Counter(event.proc for event in ended(folder) if isinstance(event, JobActivated))
    for proc, said in runs_of(folder.path / "marks").items():
        words = [word for word, _ in said]
        assert "beside" not in words, f"job {proc} ran twice at one time"
        assert words.count("begin") <= starts[proc], f"job {proc} ran more often than the log says"
        assert words[-1] == "end", f"job {proc}: {words}"
    entries = Counter(re.findall(r"^(000|005) \(001\.(\d+)\.", (folder.path / "job.log").read_text(), re.MULTILINE))
    assert entries == {(kind, f"{proc:03d}"): 1 for kind in ("000", "005") for proc in range(JOBS)}, entries
    folder.wait_for(lambda: not _living(folder), 10)


def _living(folder: Folder) -> list[str]:
    """The processes of the folder's jobs."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if f"{folder.path}/job.sh".encode() in path.read_bytes():
                found.append(path.parent.name)
    return found


@attack("pool-killed", promise="A killed pool can be resumed, and each job runs once.", fails=LOST)
def _pool_killed(trial: Trial) -> None:
    _story(trial, True, False)


@attack("supervisor-killed", promise="Its jobs end and run again, one run at a time.", fails=LOST)
def _supervisor_killed(trial: Trial) -> None:
    _story(trial, False, True)


@attack("both-killed", promise="The same if the pool and its supervisor are killed together.", fails=LOST)
def _both_killed(trial: Trial) -> None:
    _story(trial, True, True)


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
        (folder.path / "pool.db.sock").unlink(missing_ok=True)  # what a killed server leaves is no server
        with folder.served("-slots", "1") as server:
            clients = [folder.start("submit", "one.sub", "--json") for _ in range(4)]
            time.sleep(trial.chance.uniform(0, 0.5))
            server.send_signal(signal.SIGKILL)
            acknowledged |= {cluster for client in clients for cluster in _clusters(client)}
        trial.tries += len(clients)
    log = open_log(str(folder.path / "pool.db"), create=False, read_only=True)
    missing = acknowledged - {event.cluster for _, event in log.read() if isinstance(event, ClusterSubmitted)}
    log.close()
    assert not missing, missing
    assert "sound" in folder.call("verify")


def _clusters(client: forked.Process) -> list[int]:
    said, _ = client.communicate(timeout=60)
    assert "Traceback" not in said, said
    return [int(number) for number in re.findall(r'"ClusterId": (\d+)', said)] if client.wait() == 0 else []


@attack(
    "simulated-machine",
    promise="Whatever dies, fails or loses power, nothing is lost, and nothing runs twice without a record.",
    fails='what the judges of "A simulated machine" find',
)
def _simulated_machine(trial: Trial) -> None:
    trial.tries = 5
    for number in range(trial.tries):
        sqlite = trial.path / str(number) if number == 0 else None
        if sqlite is not None:
            sqlite.mkdir()
        tell(trial.seed * trial.tries + number, sqlite)
