"""Property: whichever write of the supervisor fails, once or for a while, no job is lost and none runs twice.

Golden: the report about a job that could not be started.
"""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from poolbook.adapters.machine.execution.activation import Exited, Failed, Lost, Started
from poolbook.adapters.machine.execution.client import SupervisorError
from poolbook.adapters.machine.execution.supervisor.launch import failure

from .. import forked
from ..together import together
from .bench import Bench, runs, wait

# A supervisor on a failing disk: of all calls that write, the one of this number fails, or that and all later ones
# until there is room again.
FAULTY = """
import errno, itertools, os, sys
from poolbook.adapters.machine.execution.supervisor import server

folder, first, lasting, number = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "lasting", int(sys.argv[4])
server._REFUSED_US = 10_000
calls = itertools.count(1)
exists = os.path.exists

def refusing(name, call):
    def refused(*words, **named):
        if name != "open" or words[1] & os.O_CREAT:
            count = next(calls)
            if count == first or (lasting and count > first and not exists(folder + "/../room")):
                kept(folder + "/../fired", os.O_CREAT | os.O_WRONLY)
                raise OSError(number, os.strerror(number))
        return call(*words, **named)
    return refused

kept = os.open
WRITING = "open write pwrite ftruncate fsync fdatasync mkdir rename link symlink unlink rmdir"
for name in WRITING.split():
    setattr(os, name, refusing(name, getattr(os, name)))
sys.exit(server.main(folder))
"""


class FailingDiskBench(Bench):
    """A bench whose disk refuses writes."""

    def __init__(self, home: Path, first: int, lasting: bool, number: int) -> None:
        super().__init__(home)
        self.folder.mkdir(mode=0o700)
        arguments = [str(self.folder), str(first), "lasting" if lasting else "once", str(number)]
        log = os.open(self.folder / "supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        forked.start(["-c", FAULTY, *arguments], stdout=forked.DEVNULL, stderr=log).wait()
        os.close(log)
        self._waited = 0

    @property
    def fired(self) -> bool:
        return (self.home / "fired").exists()

    def took(self) -> None:
        """Receive reports; make room on the disk when none has come for a while."""
        reports = self.supervisor.poll(0.01)
        self.reports += reports
        self._waited = 0 if reports else self._waited + 1
        if self._waited > 4:
            (self.home / "room").touch()

    def begin(self, name: str, script: str) -> str:
        """Start a job, again and again as a pool does, until it runs; return its last key."""
        for attempt in range(10):
            if attempt == 5:
                (self.home / "room").touch()
            key = f"{name}.{attempt}"
            self.sh(key, f"echo >> {name}; {script}", run_in_iwd=True, stdout="out", stderr="out")
            while not (self.of(key, Started) or self.of(key, Failed)):
                self.took()
            if self.of(key, Started):
                return key
            self.supervisor.acknowledge([key])
        raise AssertionError("it never started")

    def code_of(self, key: str) -> int | None:
        while not self.of(key, Exited):
            self.took()
        (end,) = self.of(key, Exited)
        code: int | None = end.code
        return code


def story(bench: FailingDiskBench) -> None:
    """Run one job all the time, while three others start, end and are acknowledged."""
    long = bench.begin("long", "while ! [ -e stop ]; do sleep 0.01; done; exit 6")
    pid = bench.pid() if (bench.folder / "lock").read_text() else 0
    for code in (3, 4, 5):
        key = bench.begin(f"short{code}", f"touch $_CONDOR_SCRATCH_DIR/x; exit {code}")
        assert bench.code_of(key) == code
        bench.supervisor.acknowledge([key])
    (bench.home / "stop").touch()
    assert bench.code_of(long) == 6
    bench.supervisor.acknowledge([long])
    (bench.home / "room").touch()
    bench.until(lambda: not bench.supervisor.claimed_keys())
    assert [(bench.home / name).read_text() for name in ("long", "short3", "short4", "short5")] == ["\n"] * 4
    assert pid == 0 or runs(pid)
    log = bench.folder / "supervisor.log"
    assert not log.exists() or "cut short" not in log.read_text()


ALL = [
    pytest.param(1, lasting, number, marks=pytest.mark.soak)
    for lasting in (False, True)
    for number in (errno.ENOSPC, errno.EIO, errno.EDQUOT)
]


@pytest.mark.parametrize(
    ("step", "lasting", "number"), [(5, False, errno.EIO), (5, True, errno.ENOSPC), *ALL], ids=lambda value: str(value)
)
def test_whichever_write_fails_no_job_is_lost_and_none_runs_twice(
    tmp_path: Path, step: int, lasting: bool, number: int
) -> None:
    first, fired = 0, True
    while fired:
        first += step
        home = tmp_path / str(first)
        home.mkdir()
        bench = FailingDiskBench(home, first, lasting, number)
        with bench:
            story(bench)
        fired = bench.fired
    assert first > 30


# A disk that is really full


@contextmanager
def disk(home: Path, *options: str) -> Iterator[Path]:
    """Mount a separate disk in this directory."""
    place = home / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place: Path) -> Path:
    """Fill a disk with one file."""
    path = place / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError as error:
                assert error.errno == errno.ENOSPC
    return path


def test_on_a_full_disk_a_supervisor_and_its_other_jobs_survive_the_end_of_one(tmp_path: Path) -> None:
    with disk(tmp_path, "size=1m") as place, Bench(place) as bench:
        for key, code in (("one", 3), ("two", 4)):
            bench.sh(
                key, f"echo >> {tmp_path}/{key}; while ! [ -e {tmp_path}/stop.{key} ]; do sleep 0.01; done; exit {code}"
            )
            bench.until(lambda key=key: bench.of(key, Started))  # type: ignore[misc]
        pid = bench.pid()
        filler = fill(place)
        (tmp_path / "stop.one").touch()
        (two,) = bench.of("two", Started)
        bench.until(lambda: not runs(bench.of("one", Started)[0].pid))
        bench.sh("three", "true", job_ad="A = 1\n")  # its claim has room, its scratch directory has none
        assert bench.until(lambda: bench.of("three", Failed))[0].machine
        assert runs(pid)
        assert runs(two.pid)
        assert not bench.of("one", Exited)
        filler.unlink()
        assert bench.end("one").code == 3
        (tmp_path / "stop.two").touch()
        assert bench.end("two").code == 4
        assert [(tmp_path / key).read_text() for key in ("one", "two")] == ["\n", "\n"]
        wait(lambda: "cannot be written: [Errno 28]" in (bench.folder / "supervisor.log").read_text())


def test_an_acknowledged_end_has_no_record_and_is_not_reported_again(tmp_path: Path) -> None:
    with disk(tmp_path, "size=1m") as place, Bench(place) as bench:
        bench.sh("1", f"echo $$ > {tmp_path}/main; exec sleep 1000")
        bench.until(lambda: (tmp_path / "main").exists() and (tmp_path / "main").read_text())
        bench.kill_supervisor()
        filler = fill(place)
        assert isinstance(bench.supervisor.recover(["1"])["1"], Lost)
        bench.supervisor.acknowledge(["1"])
        bench.until(lambda: not bench.supervisor.claimed_keys())
        filler.unlink()
        bench.sh("2", "exit 2")
        assert bench.end("2").code == 2
        assert not bench.of("1", Lost)
        assert bench.supervisor.recover(["1"]) == {"1": "unknown"}


def test_without_space_for_a_supervisor_the_start_fails_and_leaves_nothing(tmp_path: Path) -> None:
    with disk(tmp_path, "nr_inodes=4") as place, Bench(place) as bench:
        with pytest.raises(SupervisorError, match=r"no supervisor can be started in .*No space left on device"):
            bench.start("1", "/bin/true")
        subprocess.run(["mount", "-o", "remount,nr_inodes=1000", str(place)], check=True)
        bench.start("1", "/bin/true")
        assert bench.end("1").code == 0


def test_a_full_disk_that_only_the_job_chose_is_not_the_machines_fault(tmp_path: Path) -> None:
    with disk(tmp_path, "nr_inodes=1") as place, Bench(tmp_path) as bench:
        bench.start("1", "/bin/true", stdout=f"{place}/out")
        end = bench.end("1")
        assert (end.part, end.errno, end.machine, end.hold_code) == ("stdout", errno.ENOSPC, False, 7)


@pytest.mark.parametrize(
    ("fields", "part", "code"),
    [
        ({"execute": "{disk}"}, "scratch", 1024),
        ({"execute": "{disk}/execute", "stdout": "{disk}/out"}, "stdout", 1003),
    ],
)
def test_a_full_disk_of_the_machine_is_the_machines_fault(
    tmp_path: Path, fields: dict[str, str], part: str, code: int
) -> None:
    with disk(tmp_path, f"nr_inodes={1 if part == 'scratch' else 6}") as place, Bench(tmp_path) as bench:
        if part == "stdout":
            (place / "execute").mkdir()
        bench.start("1", "/bin/true", **{name: path.format(disk=place) for name, path in fields.items()})
        end = bench.end("1")
        assert (end.part, end.errno, end.machine, end.hold_code) == (part, errno.ENOSPC, True, code)
        assert bench.supervisor.claimed_keys() == set()


MACHINES = "it waits for the machine"
JOBS = "it is held"


@together(
    ("part", "number", "machines_disk", "then"),
    [
        ("claim", errno.ENOSPC, False, MACHINES),
        ("claim", errno.EIO, False, MACHINES),
        ("scratch", errno.ENOSPC, False, MACHINES),
        ("scratch", errno.EROFS, False, MACHINES),
        ("scratch", errno.EDQUOT, False, JOBS),
        ("scratch", errno.ENOENT, False, JOBS),
        ("scratch", errno.EACCES, False, JOBS),
        ("stdout", errno.ENOSPC, True, MACHINES),
        ("stdout", errno.ENOSPC, False, JOBS),
        ("stdout", errno.EDQUOT, True, JOBS),
        ("stderr", errno.EIO, True, MACHINES),
        ("stderr", errno.EIO, False, JOBS),
        ("stdin", errno.EMFILE, False, MACHINES),
        ("executable", errno.ENOMEM, False, MACHINES),
        ("executable", errno.EAGAIN, False, MACHINES),
        ("executable", errno.ENOENT, False, JOBS),
        ("iwd", errno.EACCES, False, JOBS),
    ],
)
def test_a_failed_start_names_its_cause(part: str, number: int, machines_disk: bool, then: str) -> None:
    failure_found = failure(part, OSError(number, ""), "x", machines_disk)
    assert (MACHINES if failure_found.machine else JOBS) == then
