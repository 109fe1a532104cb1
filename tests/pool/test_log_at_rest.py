"""Golden: a log at rest in a program of one's own, a pool's or an imported one, tells what the commands print."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from poolbook import (
    AlreadyServed,
    Behaviour,
    ClassAdSyntaxError,
    ImportResult,
    Log,
    LogClosed,
    LogError,
    NotKnown,
    Pool,
    Refusal,
    UnknownThingError,
    events,
    follow_pool,
    import_pool,
)
from poolbook.adapters.cli.main import main
from poolbook.adapters.stores.log_paths import WriterLock

TRACES = Path(__file__).resolve().parent.parent / "data" / "traces"
REAL = TRACES / "05-prio-preempt"


@pytest.fixture
def own(tmp_path: Path) -> str:
    """A pool's own log: two of four jobs have ended."""
    url = str(tmp_path / "pool.db")
    with Pool.open(url, user="alice", uid_domain="example.org", behave=lambda launch: Behaviour(60)) as pool:
        pool.add_machine("node1", cpus=2, memory="4 GB")
        pool.submit({"executable": "/bin/work", "request_memory": "1 GB"}, count=4)
        pool.set_priority_factor("alice@example.org", 10)
        pool.advance(70)
    return url


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a real pool left behind, imported."""
    url = str(tmp_path_factory.mktemp("import") / "audit.db")
    import_pool(REAL, url, zone="UTC")
    return url


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """What a command prints with -json."""

    def call(*words: str) -> Any:
        assert main([*words]) == 0
        return json.loads(capsys.readouterr().out)

    return call


def ids(ads: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(ad["ClusterId"], ad["ProcId"]) for ad in ads]


def test_a_log_at_rest_tells_what_its_pool_told(own: str) -> None:
    with Pool.open(own) as pool, Log.open(own) as log:
        assert not log.imported
        assert log.position == len(list(pool.events()))
        assert list(log.events()) == list(pool.events())
        assert list(log.events(5, stream="1")) == list(pool.events(5, stream="1"))
        assert log.history() == pool.history()
        assert [{**job, "GlobalJobId": None} for job in log.jobs()] == [
            {**job, "GlobalJobId": None} for job in pool.jobs()
        ]
        assert [(slot["Name"], slot["State"]) for slot in log.slots()] == [
            (slot["Name"], slot["State"]) for slot in pool.slots()
        ]
        assert log.why("1.0") == pool.why((1, 0))
        assert log.why("1.0", at=1_800_000_030) == pool.why("1.0", at=1_800_000_030)
        (alice,) = log.submitters()
        (same,) = pool.submitters()
        assert (alice.name, alice.priority, alice.factor) == (same.name, same.priority, 10.0)
        assert [(row.name, row.jobs, row.wall) for row in log.usage()] == [("alice@example.org", 2, 120_000_000)]
        assert [row.name for row in log.usage(by="cluster")] == ["1"]


def test_what_names_positions_names_the_log(own: str, printed: Callable[..., Any]) -> None:
    with Pool.open(own) as pool, Log.open(own) as log:
        chosen = pool.id
        assert re.fullmatch("[0-9a-f]{16}", chosen)
        assert {log.id, log.verify().id, log.audit().id} == {chosen}
    assert printed("verify", "-json", "-log", own)["id"] == printed("audit", own, "-json")["id"] == chosen
    for words in (["log"], ["log", "1"], ["why", "1.0"]):
        assert {entry["log"] for entry in printed(*words, "-json", "-log", own)} == {chosen}


def test_verify_prints_the_id_of_the_log(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "-log", own]) == 0
    with Log.open(own) as log:
        assert capsys.readouterr().out.splitlines()[:2] == [f"{own}: sound", f"  the log's id is {log.id}"]


def test_constraints_choose_among_ads(own: str) -> None:
    with Log.open(own) as log:
        assert ids(log.history("ProcId == 1")) == [(1, 1)]
        assert len(log.jobs("JobStatus == 2")) == 2
        assert [slot["Name"] for slot in log.slots('State == "Unclaimed"')] == ["slot1@node1"]
        assert log.jobs("NoSuchAttribute > 1") == []


def test_a_log_is_read_while_its_pool_goes_on_and_never_written(own: str) -> None:
    before = Path(own).read_bytes()
    with Log.open(own) as log:
        assert log.verify().sound and log.audit().sound and log.jobs()
        assert Path(own).read_bytes() == before
        with Pool.open(own, behave=lambda launch: Behaviour(60)) as pool:
            pool.run()
            assert log.jobs() == []
            assert len(log.history()) == 4
            assert log.position == len(list(log.events())) == len(list(pool.events()))


def test_a_log_that_a_server_holds_is_read(tmp_path: Path) -> None:
    url = str(tmp_path / "pool.db")
    with Pool.open(url, execute=True), Log.open(url) as log:
        assert [type(event) for _, event in log.events()][:2] == [events.PoolFounded, events.WriterBegan]


def test_verifying_and_auditing_find_what_the_commands_find(own: str, printed: Callable[..., Any]) -> None:
    with Log.open(own) as log:
        found = log.verify(decisions=True)
        told = printed("verify", "-decisions", "-json", "-log", own)
        assert found.sound and found.decisions is not None
        assert (found.verdict.events, found.verdict.slots) == (told["events"], told["transitions"])
        assert found.decisions.taken == told["decisions"]["taken"] > 0
        assert log.verify().decisions is None
        assert log.audit().transitions == printed("audit", own, "-json")["transitions"]


def test_a_log_that_was_altered_is_not_sound_and_the_findings_say_where(own: str) -> None:
    with closing(sqlite3.connect(own)) as database, database:
        database.execute("UPDATE stored_events SET state = replace(state, 'node1', 'node9') WHERE rowid = 2")
    with Log.open(own) as log:
        found = log.verify()
        assert not found.sound
        assert (found.seal[0].position, found.seal[0].text[:8]) == (4, "the seal")  # where its append ends
        assert found.violations[0].position > 0 and found.violations[0].story
        audit = log.audit()
        assert not audit.sound and audit.seal
        assert audit.violations[0].line > 0


def test_an_imported_log_tells_what_the_commands_print(real: str, printed: Callable[..., Any]) -> None:
    with Log.open(real) as log:
        assert log.imported
        assert sorted(ids(log.history())) == sorted(ids(printed("history", "-json", "-log", real)))
        assert ids(log.jobs()) == ids(printed("q", "-json", "-log", real))
        assert [slot["Name"] for slot in log.slots()] == [
            slot["Name"] for slot in printed("status", "-json", "-log", real)
        ]
        people = [one for one in printed("userprio", "-json", "-all", "-log", real) if not one["IsAccountingGroup"]]
        standing = {one.name: [one.effective, one.factor, one.slots, one.used] for one in log.submitters()}
        names = ("Priority", "PriorityFactor", "ResourcesUsed", "WeightedAccumulatedUsage")
        assert standing == {one["Name"]: pytest.approx([one[name] for name in names]) for one in people}
        assert [row._asdict() for row in sorted(log.usage(), key=lambda row: -row.slot_time)] == printed(
            "usage", "-json", "-log", real
        )
        job = f"{log.history()[0]['ClusterId']}.{log.history()[0]['ProcId']}"
        told = printed("why", job, "-json", "-log", real)
        assert log.why(job) == [one["text"] for one in told if one["part"] == "answer"]
        assert log.why(job, verbose=True)[len(log.why(job)) :] == [one["full"] for one in told if one["part"] == "life"]
        assert len(log.audit().sources) == len(printed("audit", real, "-json")["sources"])
        assert log.verify().imported and log.verify().sound


def test_an_import_reads_once_and_says_what_it_read(tmp_path: Path) -> None:
    url = str(tmp_path / "audit.db")
    told: list[str] = []
    first = import_pool([REAL, str(TRACES / "01-plain")], url, progress=lambda path, *_: told.append(path))
    assert first.events > 1000 and {"startlog", "history"} <= set(first.counts) and told
    assert import_pool([REAL], url).events == 0


def grown(folder: Path) -> Iterator[ImportResult]:
    """Follows an import that finds something new after its first look."""
    stop = threading.Event()
    for result in follow_pool(folder, folder / "audit.db", interval=0.01, timeout=60, stop=stop):
        yield result
        shutil.copytree(REAL, folder / "pool", dirs_exist_ok=True)
        if result.events > 1000:
            stop.set()


def test_an_import_is_followed_until_it_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "pool").mkdir()
    assert [result.events > 1000 for result in grown(tmp_path)] == [False, True]
    with Log.open(tmp_path / "audit.db") as log:
        assert len(log.history()) > 5


def test_new_events_come_as_they_are_appended(own: str) -> None:
    with Log.open(own) as log, Pool.open(own, behave=lambda launch: Behaviour(60)) as pool:
        stop = threading.Event()
        following = log.follow(interval=0.01, timeout=60, stop=stop)
        before = log.position
        pool.run()
        heard = []
        for position, event in following:
            heard.append((position, event))
            if position == log.position:
                stop.set()
        assert heard == list(pool.events(before))
        assert list(log.follow(timeout=0)) == []
        assert list(log.follow(0, timeout=0)) == list(pool.events())


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda log: log.why("99.0"), UnknownThingError, "no job 99.0"),
        (lambda log: log.why("nonsense"), ValueError, "'nonsense' is none of these"),
        (
            lambda log: log.why("1.0", at="yesterday"),
            ValueError,
            "at = 'yesterday' is not a valid instant: give a num",
        ),
        (lambda log: log.why("1.0", at=float("nan")), ValueError, "at = nan is not a valid instant"),
        (lambda log: log.jobs("(("), ClassAdSyntaxError, "expected an operand"),
        (lambda log: log.events(stream="nonsense"), ValueError, "is not the name of a stream"),
        (lambda log: log.usage(by="moon"), ValueError, "not by 'moon'"),
        (lambda log: log.follow(timeout=-1), ValueError, "timeout = -1"),
        (lambda log: log.follow(interval="soon"), ValueError, "interval = 'soon'"),
        (lambda log: Log.open(Path(log.url).parent), LogError, "is a folder: `poolbook.import_pool"),
        (lambda log: Log.open(log.url + ".nowhere"), LogError, "there is no log at"),
        (lambda log: Log.open("ftp://x"), LogError, "is not a valid log URL"),
        (lambda log: import_pool("/nowhere", log.url), Refusal, "there is no /nowhere"),
        (lambda log: import_pool([], log.url), ValueError, "name a folder"),
        (lambda log: import_pool(REAL, f"{log.url}.other", zone="Atlantis"), ValueError, "unknown time zone"),
        (lambda log: import_pool(REAL, log.url), LogError, "it is a pool's own log"),
    ],
)
def test_what_is_wrong_is_said(own: str, wrong: Callable[[Log], object], error: type[Exception], words: str) -> None:
    with Log.open(own) as log, pytest.raises(error, match=words):
        wrong(log)


def test_a_log_that_somebody_writes_is_not_imported_into(own: str) -> None:
    lock = WriterLock(own)
    assert lock.take()
    with pytest.raises(AlreadyServed, match="is writing"):
        import_pool(REAL, own)
    lock.give_up()


def test_what_was_not_imported_is_not_made_up(tmp_path: Path) -> None:
    (tmp_path / "pool").mkdir()
    (log_file,) = (TRACES / "01-plain").glob("alice-job.log*")
    shutil.copy(log_file, tmp_path / "pool")
    import_pool(tmp_path / "pool", tmp_path / "audit.db")
    with Log.open(tmp_path / "audit.db") as log:
        for tells in (log.jobs, log.submitters):
            with pytest.raises(NotKnown, match="no imported file shows this"):
                tells()


@pytest.mark.parametrize(
    "late",
    [
        lambda log: log.jobs(),
        lambda log: log.slots(),
        lambda log: log.history(),
        lambda log: log.submitters(),
        lambda log: log.usage(),
        lambda log: log.events(),
        lambda log: log.why("1.0"),
        lambda log: log.verify(),
        lambda log: log.audit(),
        lambda log: log.follow(),
        lambda log: log.position,
        lambda log: log.imported,
    ],
)
def test_a_closed_log_answers_nothing(own: str, late: Callable[[Log], object]) -> None:
    log = Log.open(own)
    log.close()
    log.close()
    with pytest.raises(LogClosed, match=r"was closed: `Log\.open` opens it again"):
        late(log)
