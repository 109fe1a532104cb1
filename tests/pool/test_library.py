"""Golden: a pool in a program of one's own, on every kind of log, in virtual time and for real."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from poolbook import Behaviour, Expr, LogError, Pool, Refusal, SubmitError
from poolbook.adapters.place import WriterLock

POSTGRES = os.environ.get("POOLBOOK_TEST_POSTGRES")
KINDS = ["memory", "sqlite", *(["postgresql"] if POSTGRES else [])]


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # where the mark of a log on a server stands
    if request.param == "memory":
        yield "memory:"
    elif request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/pool.db"
    else:
        import psycopg

        schema = f"t{uuid.uuid4().hex}"
        assert POSTGRES is not None
        yield f"{POSTGRES}?schema={schema}"
        with psycopg.connect(POSTGRES, autocommit=True) as server:
            server.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


def story(pool: Pool) -> None:
    pool.add_machine("node1", cpus=2, memory=2048)
    cluster = pool.submit("executable = /bin/work\narguments = $(x)\nrequest_memory = 256\nqueue x in (1 2 3)\n")
    pool.hold((cluster, 2), reason="later")
    pool.advance(30)
    pool.vacate("1.0")
    pool.advance(100)
    pool.release(cluster)
    pool.prio(cluster, value=4)
    pool.run()


def test_a_pool_tells_the_same_story_on_every_kind_of_log(url: str) -> None:
    with Pool.open(url, user="alice", uid_domain="example.org", behave=lambda launch: Behaviour(60)) as pool:
        story(pool)
        history = pool.history()
        assert sorted((ad["ProcId"], ad["Args"], ad["NumShadowStarts"]) for ad in history) == [
            (0, "1", 2),
            (1, "2", 1),
            (2, "3", 1),
        ]
        assert pool.usage() == {"alice@example.org": 30.0 + 60 + 60 + 60}
        assert pool.jobs() == []
        assert pool.judge() == []
        events = list(pool.events())
    if url != "memory:":
        with Pool.open(url) as again:
            assert list(again.events()) == events
            assert again.history() == history
            assert again.now == events[-1][1].at / 1e6


def test_a_pool_whose_program_was_killed_goes_on_with_what_ran(tmp_path: Path) -> None:
    path = str(tmp_path / "pool.db")
    pool = Pool.open(path, user="alice", behave=lambda launch: Behaviour(60))
    pool.add_machine("node1")
    pool.submit({"executable": "/bin/work"})
    pool.advance(10)
    del pool  # nobody closes it
    with Pool.open(path, user="alice", behave=lambda launch: Behaviour(60)) as again:
        assert [job["JobStatus"] for job in again.jobs()] == [2]
        assert again.run()
        assert [ad["ExitCode"] for ad in again.history()] == [0]


def test_subscribers_hear_each_event_once_it_is_in_the_log() -> None:
    with Pool.open(user="alice") as pool:
        heard: list[tuple[int, str]] = []
        pool.subscribe(lambda position, event: heard.append((position, type(event).__name__)))
        before = len(list(pool.events()))
        pool.add_machine("node1")
        pool.submit({"executable": "/bin/work"})
        pool.run()
        assert heard == [(at, type(event).__name__) for at, event in pool.events(before)]


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda pool: pool.submit("executable = /bin/x\nqueue x from nowhere.txt\n"), SubmitError, "nowhere.txt"),
        (lambda pool: pool.submit({"executable": "/bin/x", "universe": "grid"}), SubmitError, "grid"),
        (lambda pool: pool.submit({}), SubmitError, "executable"),
        (lambda pool: pool.hold(), ValueError, "which jobs"),
        (lambda pool: pool.remove(constraint="(("), Refusal, "constraint"),
        (lambda pool: pool.edit("1", Owner="bob"), Refusal, "Owner"),
        (lambda pool: pool.add_machine("node1"), Refusal, "node1 is in the pool already"),
        (lambda pool: pool.remove_machine("node9"), Refusal, "node9 is not in the pool"),
        (lambda pool: pool.add_machine("n", cpus=1, memory=1, static=3), ValueError, "too many"),
        (lambda pool: Pool.open("ftp://x"), LogError, "ftp"),
        (lambda pool: Pool.open(dialect="klingon"), Refusal, "klingon"),
        (lambda pool: Pool.open(settings={"MATCH_TIMEOT": 3}), Refusal, "MATCH_TIMEOT"),
    ],
)
def test_what_is_wrong_is_said_and_changes_nothing(wrong, error: type[Exception], words: str) -> None:  # type: ignore[no-untyped-def]
    with Pool.open(user="alice") as pool:
        pool.add_machine("node1")
        before = len(list(pool.events()))
        with pytest.raises(error, match=words.replace("(", r"\(")):
            wrong(pool)
        assert len(list(pool.events())) == before


def test_values_and_expressions_are_told_apart() -> None:
    with Pool.open(user="alice") as pool:
        cluster = pool.submit({"executable": "/bin/work"}, count=2)
        pool.edit(cluster, Note='say "hi"\\n', Double=Expr("ProcId * 2"), Yes=True, Half=0.5)
        ads = pool.jobs("Double > 0")
        assert [(ad["ProcId"], ad["Double"], ad["Note"], ad["Yes"], ad["Half"]) for ad in ads] == [
            (1, 2, 'say "hi"\\n', True, 0.5)
        ]


def test_real_jobs_run_from_a_program(tmp_path: Path) -> None:
    path = str(tmp_path / "pool.db")
    with Pool.open(path, execute=True) as pool:
        pool.add_machine("here", cpus=2, memory=1024)
        text = "executable = /bin/sh\narguments = \"-c 'exit $(x)'\"\nrequest_memory = 32\nrequest_disk = 1 MB\n"
        pool.submit(text + "queue x in (0 3)\n", folder=tmp_path)
        assert pool.run(limit=30)
        assert sorted(ad["ExitCode"] for ad in pool.history()) == [0, 3]
        with pytest.raises(LogError, match="serves the log"):
            Pool.open(path, execute=True)


if POSTGRES:

    def test_a_log_on_a_server_has_one_writer_wherever_it_keeps_its_state(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As from two machines, or two users of one."""
        url = f"{POSTGRES}?schema=t{uuid.uuid4().hex}"
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "one"))
        first = WriterLock(url)
        assert first.take()
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "two"))
        second = WriterLock(url)
        assert not second.take()
        first.give_up()
        assert second.take()
        second.give_up()


def test_a_log_of_virtual_time_can_be_served_by_the_real_clock(tmp_path: Path) -> None:
    """Its instants lie in the future; time goes on from there."""
    path = str(tmp_path / "pool.db")
    with Pool.open(path, user="alice") as pool:
        pool.add_machine("node1")
        pool.submit({"executable": "/bin/true"}, count=1)
        pool.run()
    with Pool.open(path, execute=True) as pool:
        pool.add_machine("here", cpus=1, memory=512)
        pool.submit("executable = /bin/true\nrequest_memory = 32\nrequest_disk = 1 MB\nqueue 2\n", folder=tmp_path)
        assert pool.run(limit=30)
        assert pool.judge() == []
        times = [event.at for _, event in pool.events()]
        assert times == sorted(times)
        assert all(amount >= 0 for amount in pool.usage().values())
