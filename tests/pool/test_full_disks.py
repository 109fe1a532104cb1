"""Golden: a pool's disks are full: which jobs wait, which are held, what is reported, and that the pool continues
unaided."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .real import Folder

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
            children = [path for path in Path("/proc").glob("[0-9]*/stat") if _parent(path) == supervisor.name]
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
