"""Golden: a job's condor_chirp can access the files of its initial directory and its ad, with the cookie, and nothing
else."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from poolbook.adapters.machine.execution.activation import Chirp, Chirped, FileTransfer, Running, Started, Write

from .bench import Bench, runs, wait

RULES = Chirp(updates=True, delayed=("chirp*",), most=3, refused=("owner",))
AD = 'Owner = "alice"\nRequestCpus = 1\n'


class Client:
    """A connection that has sent the cookie."""

    def __init__(self, config: Path) -> None:
        host, port, self.cookie = config.read_text().split()
        self._socket = socket.create_connection((host, int(port)))
        self._stream = self._socket.makefile("rwb")

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def say(self, line: str, data: bytes = b"") -> int:
        self._stream.write(os.fsencode(line) + b"\n" + data)
        self._stream.flush()
        return self.number()

    def say_more(self, data: bytes) -> int:
        self._stream.write(data)
        self._stream.flush()
        return self.number()

    def number(self) -> int:
        return int(self._stream.readline())

    def line(self) -> list[int]:
        return [int(word) for word in self._stream.readline().split()]

    def take(self, length: int) -> bytes:
        return self._stream.read(length)

    def fetched(self, line: str) -> bytes:
        return self.take(self.say(line))


@pytest.fixture
def job(bench: Bench) -> Iterator[Client]:
    """Start a job whose initial directory has a file ``a``, a link ``out`` that leads outside, and one that does
    not."""
    iwd = bench.home / "iwd"
    (iwd / "folder").mkdir(parents=True)
    (iwd / "a").write_text("alpha beta\n")
    (bench.home / "iwd2").mkdir()
    (bench.home / "iwd2/secret").write_text("secret\n")
    (iwd / "beside").symlink_to("../iwd2")
    (bench.home / "secret").write_text("secret\n")
    (iwd / "out").symlink_to(bench.home / "secret")
    (iwd / "up").symlink_to("..")
    (iwd / "in").symlink_to("a")
    script = 'test "$_CONDOR_CHIRP_CONFIG" = "$_CONDOR_SCRATCH_DIR/.chirp.config" && touch ready; sleep 1000'
    transfer = FileTransfer(executable=False)
    bench.sh("1", script, iwd=str(iwd), transfer=transfer, chirp=RULES, job_ad=AD)
    bench.until(lambda: bench.of("1", Started))
    scratch = bench.folder / "execute/dir_1/scratch"
    wait(lambda: (scratch / "ready").exists())
    with closing(Client(scratch / ".chirp.config")) as client:
        yield client


def test_files_are_fetched_put_read_and_written(bench: Bench, job: Client) -> None:
    iwd = bench.home / "iwd"
    assert job.say(f"cookie {job.cookie}") == 0
    assert job.fetched("getfile a") == job.fetched("getfile in") == b"alpha beta\n"
    assert job.say("putfile folder/new 416 5") == 0
    assert job.say_more(b"made\n") == 5
    assert ((iwd / "folder/new").read_text(), (iwd / "folder/new").stat().st_mode & 0o777) == ("made\n", 0o640)
    assert job.say("putfile empty 384 0") == 0
    assert (iwd / "empty").read_bytes() == b""
    assert job.say("open a rw 0") == 0
    assert job.line()[7] == 11
    assert job.fetched("read 0 5") == b"alpha"
    assert job.fetched("pread 0 4 6") == b"beta"
    assert job.fetched("sread 0 4 0 2 6") == b"albe"
    assert job.say("pwrite 0 4 6", b"GAMM") == 4
    assert (job.say("lseek 0 0 0"), job.say("close 0"), job.say("close 0")) == (0, 0, -12)
    assert (iwd / "a").read_text() == "alpha GAMM\n"
    assert job.fetched("getdir folder") == b"new\n"
    assert (job.say("rename folder/new b"), job.say("unlink b"), job.say("unlink b"), job.say("rmdir folder")) == (
        0,
        0,
        -3,
        0,
    )
    assert (job.say("mkdir m 448"), job.say("symlink a m/l"), job.say("rmall m")) == (0, 0, 0)
    assert job.say("truncate a 3") == 0
    assert (job.say("stat a"), job.line()[7]) == (0, 3)
    assert (job.say("access a 4"), job.say("access a 1"), job.say("chmod a 384")) == (0, -2, 0)
    assert job.fetched("get_job_attr owner") == b'"alice"'
    assert job.fetched("get_job_attr NoSuch") == b"UNDEFINED"
    assert (job.say("version"), job.say("whoareyou x 9"), job.say("nonsense"), job.say("read x y")) == (
        2,
        -8,
        -8,
        -8,
    )
    assert not list(iwd.glob(".poolbook-*"))


OUTSIDE = (
    *("getfile out", "getfile up/secret", "getfile ../secret", "getfile /etc/passwd", "open out w 384", "stat out"),
    *("putfile up/secret 384 1", "unlink up/secret", "rename a up/b", "link up/secret c", "symlink ../secret c"),
    *("rmall .", "rmall ..", "lstat .."),
    *(
        "getfile ../iwd2/secret",
        "getfile beside/secret",
        "getdir ../iwd2",
        "putfile ../iwd2/new 384 1",
        "rmall ../iwd2",
    ),
    *(
        "mkdir ../iwd3 448",
        "rename a ../iwd2/a",
        "open ../iwd2/secret r 0",
        "chmod beside/secret 511",
        "truncate beside/secret 0",
    ),
)


def test_nothing_outside_of_the_initial_directory_is_accessible(bench: Bench, job: Client) -> None:
    assert job.say(f"cookie {job.cookie}") == 0
    assert {request: job.say(request) for request in OUTSIDE} == dict.fromkeys(OUTSIDE, -2)
    assert (bench.home / "secret").read_text() == (bench.home / "iwd2/secret").read_text() == "secret\n"
    assert not (bench.home / "b").exists()


WRITES = (
    ("set_job_attr Step 7", 0),
    ('set_job_attr Text "half\\ done"', 0),
    ("set_job_attr_delayed ChirpShare 0.5", 0),
    ("set_job_attr step RequestCpus\\ +\\ 7", 0),
    ("ulog half\\ of\\ it", 0),
    ("set_job_attr Fourth 1", -6),
    ("set_job_attr Owner 1", -2),
    ("set_job_attr_delayed Step 1", -2),
    ("set_job_attr 1Step 1", -8),
    (f"set_job_attr Text {'9' * 994}", -5),
    ("get_job_attr_delayed NoSuch", -3),
)


def test_each_write_of_a_job_is_reported_once_immediately_and_all_of_them_with_its_end(
    bench: Bench, job: Client
) -> None:
    assert job.say(f"cookie {job.cookie}") == 0
    assert [(line, job.say(line)) for line, _ in WRITES] == list(WRITES)
    assert job.fetched("get_job_attr STEP") == b"RequestCpus + 7"
    assert job.fetched("get_job_attr_delayed chirpshare") == b"0.5"
    expected = [
        Write(1, "set", "Step", "7"), Write(2, "set", "Text", '"half done"'), Write(3, "delayed", "ChirpShare", "0.5"),
        Write(4, "set", "step", "RequestCpus + 7"), Write(5, "note", "", "half of it"),
    ]  # fmt: skip

    def reported_writes() -> list[Write]:
        return [write for report in bench.of("1", Chirped) for write in report.writes]

    bench.until(lambda: len(reported_writes()) == len(expected))
    assert reported_writes() == expected
    (running,) = bench.supervisor.recover(["1"]).values()
    assert isinstance(running, Running)
    assert running.writes == tuple(expected[1:])
    assert job.say("set_job_attr Step 9") == 0
    bench.supervisor.signal("1", "hard")
    assert bench.end("1").writes == (*expected[1:3], expected[4], Write(6, "set", "Step", "9"))


NOTHING_ALLOWED = ("set_job_attr A 1", "set_job_attr_delayed ChirpA 1", "get_job_attr_delayed Owner", "ulog x")


def test_a_job_without_write_access_can_still_read_its_ad(bench: Bench) -> None:
    bench.sh("1", "sleep 1000", chirp=Chirp(), job_ad=AD)
    bench.until(lambda: bench.of("1", Started))
    with closing(Client(bench.folder / "execute/dir_1/scratch/.chirp.config")) as client:
        assert client.say(f"cookie {client.cookie}") == 0
        assert {request: client.say(request) for request in NOTHING_ALLOWED} == dict.fromkeys(NOTHING_ALLOWED, -8)
        assert client.fetched("get_job_attr Owner") == b'"alice"'


def test_without_the_cookie_nothing_is_answered_and_the_server_ends_with_its_job(bench: Bench, job: Client) -> None:
    assert job.say("getfile a") == -1
    assert job.say("cookie wrong") == -1
    wrong_cookies = [job.cookie[:1], job.cookie[:-1], f"{job.cookie}0", job.cookie.upper(), f"{job.cookie} more", ""]
    clients = [Client(bench.folder / "execute/dir_1/scratch/.chirp.config") for _ in wrong_cookies]
    with ThreadPoolExecutor(len(wrong_cookies)) as threads:  # each answer takes a second
        answers = threads.map(lambda other, cookie: other.say(f"cookie {cookie}"), clients, wrong_cookies)
        assert list(answers) == [-1] * len(wrong_cookies)
    for client in clients:
        client.close()
    supervisor = bench.pid()
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    assert len(children) == 3  # the job's process, its chirp server, and its mover
    bench.supervisor.signal("1", "hard")
    bench.end("1")
    wait(lambda: sum(runs(int(child)) for child in children) == 1)
