"""Golden: a pool's disks are full: which jobs wait, which are held, what is reported, and that the pool continues
unaided."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .. import forked
from .real import PATIENCE, Folder, environment

JOB = """
executable = /bin/sh
transfer_executable = false
request_memory = 16
request_disk = 100 KB
arguments = "-c '{script}'"
queue {count}
"""
UNTIL = "echo >> {name}.ran; while ! [ -e {name}.stop ]; do sleep 0.02; done; exit {code}"


@contextmanager
def disk(place: Path, *options: str) -> Iterator[Path]:
    """Mount a separate disk in this directory."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place: Path) -> Path:
    filler = place / "filler"
    subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=512"], capture_output=True)
    return filler


def test_when_the_pools_disk_is_full_jobs_continue_and_their_ends_are_late_but_not_lost(folder: Folder) -> None:
    elsewhere = folder.path
    with disk(folder.path / "disk", "size=4m") as place:
        pool = Folder(place)
        for name, code in (("one", 3), ("two", 4)):
            pool.write("job.sub", JOB.format(script=UNTIL.format(name=f"{elsewhere}/{name}", code=code), count=1))
            pool.call("submit", "job.sub")
        with pool.served("-slots", "2", "-cpus", "2"):
            pool.wait_for(lambda: all((elsewhere / f"{name}.ran").exists() for name in ("one", "two")))
            filler = fill(place)
            (elsewhere / "one.stop").touch()
            lock = place / "pool.db.d" / "lock"
            supervisor = Path("/proc", lock.read_text().strip())
            processes = (path / "stat" for path in Path("/proc").glob("[0-9]*"))
            children = [path for path in processes if _parent(path) == supervisor.name]
            pool.wait_for(lambda: sum(path.exists() and _parent(path) == supervisor.name for path in children) == 1)
            filler.unlink()
            pool.wait_for(lambda: pool.call("q", "-af", "ClusterId") == "2\n")
            assert supervisor.exists()
            (elsewhere / "two.stop").touch()
            pool.wait_for(lambda: pool.call("q", "-af", "ClusterId") == "")
        assert sorted(pool.call("history", "-af", "ClusterId", "ExitCode", "NumJobStarts").split("\n")) == [
            "", "1 3 1", "2 4 1",
        ]  # fmt: skip
        assert [(elsewhere / f"{name}.ran").read_text() for name in ("one", "two")] == ["\n", "\n"]
        assert "sound" in pool.call("verify")


def _parent(stat: Path) -> str:
    try:
        return stat.read_text().rpartition(")")[2].split()[1]
    except OSError:
        return ""


def test_a_machine_without_room_for_scratch_directories_holds_no_job_reports_why_and_continues(folder: Folder) -> None:
    with disk(folder.path / "disk", "size=200k") as place:
        folder.write("poolbook.conf", f"EXECUTE = {place}\nRUNBENCHMARKS = false\nNUM_CPUS = 1\nSTART = true\n")
        folder.write("job.sub", JOB.format(script="exit 0", count=3))
        (place / "filler").write_bytes(b"x" * 100_000)  # there is room while the pool measures the disk
        with folder.served():
            filler = fill(place)
            folder.call("submit", "job.sub")
            folder.wait_for(lambda: "No space left on device" in folder.call("why", "1.0"))
            assert "it could not be started; it is idle again: Error from slot1" in folder.call("why", "1.0")
            assert " 1" not in folder.call("q", "-af", "JobStatus", "NumHolds")
            filler.unlink()
            folder.wait_for(lambda: folder.call("q", "-af", "ClusterId") == "")
        ends = folder.call("history", "-af", "ExitCode", "NumHolds", "NumVacatesByReason")
        assert ends.count("0 undefined ") == 3
        assert "ScratchDirError" in ends
        assert "sound" in folder.call("verify")


UNREADABLE = """
import functools, os, sqlite3, sys

def refuse(statement):
    if os.path.exists("broken"):
        with open("refused", "a") as file:
            file.write(statement.split()[0] + "\\n")
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error

class Cursor(sqlite3.Cursor):
    def execute(self, statement, *arguments):
        refuse(statement)
        return super().execute(statement, *arguments)

class Connection(sqlite3.Connection):
    def cursor(self, *arguments):
        return super().cursor(Cursor)
    def execute(self, statement, *arguments):
        refuse(statement)
        return super().execute(statement, *arguments)

sqlite3.connect = functools.partial(sqlite3.connect, factory=Connection)
sys.argv = ["poolbook", "serve", "-slots", "2", "-cpus", "2"]
from poolbook.adapters.cli.main import entry
entry()
"""
"""A server that can neither write nor read its log while the file ``broken`` exists."""


def test_while_the_log_is_unreadable_the_server_answers_with_the_error_and_later_records_what_happened(
    folder: Folder,
) -> None:
    folder.write("job.sub", JOB.format(script=UNTIL.format(name="one", code=3), count=1))
    folder.call("submit", "job.sub")
    server = forked.start(
        ["-c", UNREADABLE], cwd=folder.path, env=environment(), stderr=forked.STDOUT, start_new_session=True
    )
    folder.wait_for((folder.path / "one.ran").exists)
    folder.wait_for(lambda: folder.call("q", "-af", "JobStatus") == "2\n")
    folder.write("broken", "")
    refused = folder.path / "refused"
    folder.write("one.stop", "")
    for attempts in (1, 4, 7):
        folder.wait_for(lambda least=attempts: refused.exists() and refused.read_text().count("SELECT") >= least)
        assert server.poll() is None, server.stdout and server.stdout.read()
        assert "disk I/O error" in folder.call("hold", "1", code=1)
    (folder.path / "broken").unlink()
    folder.wait_for(lambda: folder.call("q", "-af", "ClusterId") == "")
    assert folder.call("history", "-af", "ExitCode", "NumJobStarts", "NumHolds") == "3 1 undefined\n"
    server.terminate()
    output, _ = server.communicate(PATIENCE)
    assert output.count("disk I/O error") == 1 and "Traceback" not in output, output
    assert "sound" in folder.call("verify")
