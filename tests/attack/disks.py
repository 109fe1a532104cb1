"""Attacks: failing writes and full disks."""

from __future__ import annotations

import errno
import time
from contextlib import suppress

from .. import forked
from ..execution.test_refusing_disk import FailingDiskBench, story
from ..pool.real import Folder, environment
from ..pool.test_full_disks import JOB, UNTIL, disk, fill
from .attacks import MOUNTS, Trial, attack


@attack(
    "write-fails",
    promise="If any write of the supervisor fails, once or for a while, it continues and reports every exit.",
    fails="a job that is lost or runs twice, an exit that is missing or wrong, or a supervisor that dies",
)
def _write_fails(trial: Trial) -> None:
    trial.tries = 0
    for number in range(2):
        home = trial.path / str(number)
        home.mkdir()
        first, lasting = trial.rng.randint(1, 60), trial.rng.random() < 0.5
        bench = FailingDiskBench(home, first, lasting, trial.rng.choice([errno.ENOSPC, errno.EIO, errno.EDQUOT]))
        with bench:
            story(bench)
        trial.tries += bench.fired


# A server whose databases reject one statement, or that statement and all later ones until the file "room" exists.
REFUSING = """
import functools, itertools, os, sqlite3, sys
first, lasting, arguments = int(sys.argv[1]), sys.argv[2] == "lasting", sys.argv[3:]
numbers = itertools.count(1)

def refuse():
    number = next(numbers)
    if number == first or (lasting and number > first and not os.path.exists("room")):
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        open("fired", "w").close()
        raise error

class Cursor(sqlite3.Cursor):
    def execute(self, *arguments):
        refuse()
        return super().execute(*arguments)
    def executemany(self, *arguments):
        refuse()
        return super().executemany(*arguments)

class Connection(sqlite3.Connection):
    def cursor(self, *arguments):
        return super().cursor(Cursor)
    def commit(self):
        refuse()
        super().commit()

sqlite3.connect = functools.partial(sqlite3.connect, factory=Connection)
sys.argv = ["poolbook", *arguments]
from poolbook.adapters.cli.main import entry
entry()
"""


@attack(
    "log-refuses",
    promise="If the log or the views refuse a statement, the pool continues or ends with a message.",
    fails="a traceback, a job that is lost or runs twice, or a log that is not sound",
)
def _log_refuses(trial: Trial) -> None:
    folder, rng = trial.folder, trial.rng
    script = "echo >> ran.$(ClusterId).$(ProcId); exit 5"
    folder.write("job.sub", JOB.format(script=script, count=2))
    folder.call("submit", "job.sub")
    arguments = [str(rng.randint(1, 80)), rng.choice(["once", "lasting"]), "serve", "-slots", "2", "-cpus", "2"]
    server = forked.start(
        ["-c", REFUSING, *arguments], cwd=folder.path, env=environment(), stderr=forked.STDOUT, start_new_session=True
    )
    folder.wait_for(lambda: server.poll() is not None or (folder.path / "pool.db.sock").exists())
    clusters = 1
    for _ in range(3):
        clusters += "submitted to cluster" in folder.call("submit", "job.sub", code=None)
        time.sleep(rng.uniform(0, 0.5))
    folder.write("room", "")
    time.sleep(rng.uniform(0, 1))
    server.terminate()
    output, _ = server.communicate(60)
    assert "Traceback" not in output and "not foreseen" not in output, output
    folder.call("resume", "-slots", "2", "-cpus", "2", code=None)
    assert folder.call("q", "-af", "ClusterId") == ""
    results = folder.call("history", "-af", "ExitCode", "NumJobStarts").splitlines()
    assert len(results) >= 2 * clusters and set(results) == {"5 1"}, results
    runs = {path.read_text() for path in trial.path.glob("ran.*")}
    assert runs == {"\n"}, runs
    assert "sound" in folder.call("verify")
    trial.tries = int((trial.path / "fired").exists())


@attack(
    "full-disk",
    promise="While the pool's disk is full, jobs continue and end once; the log is updated later.",
    fails="a job that is lost, held, killed or run again, a wrong exit code, or a log that is not sound",
    needs=MOUNTS,
)
def _full_disk(trial: Trial) -> None:
    outside, rng = trial.path, trial.rng
    with disk(outside / "disk", f"size={rng.choice([3, 4, 8])}m") as mount_point:
        pool = Folder(mount_point)
        codes = {f"job{number}": number for number in range(1, rng.randint(2, 4) + 1)}
        trial.tries = len(codes)
        for name, code in codes.items():
            pool.write("job.sub", JOB.format(script=UNTIL.format(name=f"{outside}/{name}", code=code), count=1))
            pool.call("submit", "job.sub")
        with pool.served("-slots", "4", "-cpus", "4"):
            pool.wait_for(lambda: all((outside / f"{name}.ran").exists() for name in codes))
            for name in rng.sample(sorted(codes), len(codes)):
                filler = fill(mount_point)
                with suppress(OSError), filler.open("r+b") as file:  # free little or no space
                    file.truncate(max(0, filler.stat().st_size - rng.choice([0, 0, 4096, 40_000])))
                (outside / f"{name}.stop").touch()
                time.sleep(rng.uniform(0, 1.5))
                filler.unlink()
            pool.wait_for(lambda: pool.call("q", "-af", "ClusterId") == "")
        output = pool.call("history", "-af", "ExitCode", "NumJobStarts", "NumHolds")
        assert sorted(output.splitlines()) == [f"{code} 1 undefined" for code in codes.values()], output
        assert [(outside / f"{name}.ran").read_text() for name in codes] == ["\n"] * len(codes)
        assert "sound" in pool.call("verify")
