"""Golden: in a program, an unserved log, a pool's or an imported one, gives the same answers as the commands print."""

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
def own_log(tmp_path: Path) -> str:
    """Return a pool's own log: two of four jobs have ended."""
    url = str(tmp_path / "pool.db")
    with Pool.open(url, user="alice", uid_domain="example.org", behave=lambda launch: Behaviour(60)) as pool:
        pool.add_machine("node1", cpus=2, memory="4 GB")
        pool.submit({"executable": "/bin/work", "request_memory": "1 GB"}, count=4)
        pool.set_priority_factor("alice@example.org", 10)
        pool.advance(70)
    return url


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return an imported log of a recorded HTCondor pool."""
    url = str(tmp_path_factory.mktemp("import") / "audit.db")
    import_pool(REAL, url, zone="UTC")
    return url


@pytest.fixture
def json_printer(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Return a function that returns what a command prints with -json."""

    def call(*arguments: str) -> Any:
        assert main([*arguments]) == 0
        return json.loads(capsys.readouterr().out)

    return call


def ids(ads: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(ad["ClusterId"], ad["ProcId"]) for ad in ads]


def test_an_unserved_log_answers_as_its_pool_did(own_log: str) -> None:
    with Pool.open(own_log) as pool, Log.open(own_log) as log:
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


def test_commands_that_name_positions_name_the_log(own_log: str, json_printer: Callable[..., Any]) -> None:
    with Pool.open(own_log) as pool, Log.open(own_log) as log:
        id_of_log = pool.id
        assert re.fullmatch("[0-9a-f]{16}", id_of_log)
        assert {log.id, log.verify().id, log.audit().id} == {id_of_log}
    assert (
        json_printer("verify", "-json", "-log", own_log)["id"]
        == json_printer("audit", own_log, "-json")["id"]
        == id_of_log
    )
    for arguments in (["log"], ["log", "1"], ["why", "1.0"]):
        assert {entry["log"] for entry in json_printer(*arguments, "-json", "-log", own_log)} == {id_of_log}


def test_verify_prints_the_id_of_the_log(own_log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "-log", own_log]) == 0
    with Log.open(own_log) as log:
        assert capsys.readouterr().out.splitlines()[:2] == [f"{own_log}: sound", f"  the log's id is {log.id}"]


def test_constraints_select_ads(own_log: str) -> None:
    with Log.open(own_log) as log:
        assert ids(log.history("ProcId == 1")) == [(1, 1)]
        assert len(log.jobs("JobStatus == 2")) == 2
        assert [slot["Name"] for slot in log.slots('State == "Unclaimed"')] == ["slot1@node1"]
        assert log.jobs("NoSuchAttribute > 1") == []


def test_a_log_is_read_while_its_pool_runs_and_never_written(own_log: str) -> None:
    before = Path(own_log).read_bytes()
    with Log.open(own_log) as log:
        assert log.verify().sound and log.audit().sound and log.jobs()
        assert Path(own_log).read_bytes() == before
        with Pool.open(own_log, behave=lambda launch: Behaviour(60)) as pool:
            pool.run()
            assert log.jobs() == []
            assert len(log.history()) == 4
            assert log.position == len(list(log.events())) == len(list(pool.events()))


def test_a_log_that_a_server_has_open_can_be_read(tmp_path: Path) -> None:
    url = str(tmp_path / "pool.db")
    with Pool.open(url, execute=True), Log.open(url) as log:
        assert [type(event) for _, event in log.events()][:2] == [events.PoolFounded, events.WriterBegan]


def test_verify_and_audit_have_the_same_results_as_the_commands(own_log: str, json_printer: Callable[..., Any]) -> None:
    with Log.open(own_log) as log:
        verification = log.verify(decisions=True)
        printed_report = json_printer("verify", "-decisions", "-json", "-log", own_log)
        assert verification.sound and verification.decisions is not None
        assert (verification.verdict.events, verification.verdict.slots) == (
            printed_report["events"],
            printed_report["transitions"],
        )
        assert verification.decisions.taken == printed_report["decisions"]["taken"] > 0
        assert log.verify().decisions is None
        assert log.audit().transitions == json_printer("audit", own_log, "-json")["transitions"]


def test_an_altered_log_is_not_sound_and_the_findings_name_the_place(own_log: str) -> None:
    with closing(sqlite3.connect(own_log)) as database, database:
        database.execute("UPDATE stored_events SET state = replace(state, 'node1', 'node9') WHERE rowid = 2")
    with Log.open(own_log) as log:
        verification = log.verify()
        assert not verification.sound
        assert (verification.seal[0].position, verification.seal[0].text[:8]) == (
            4,
            "the seal",
        )  # where its append ends
        assert verification.violations[0].position > 0 and verification.violations[0].story
        audit = log.audit()
        assert not audit.sound and audit.seal
        assert audit.violations[0].line > 0


def test_an_imported_log_gives_the_same_answers_as_the_commands(real: str, json_printer: Callable[..., Any]) -> None:
    with Log.open(real) as log:
        assert log.imported
        assert sorted(ids(log.history())) == sorted(ids(json_printer("history", "-json", "-log", real)))
        assert ids(log.jobs()) == ids(json_printer("q", "-json", "-log", real))
        assert [slot["Name"] for slot in log.slots()] == [
            slot["Name"] for slot in json_printer("status", "-json", "-log", real)
        ]
        people = [
            row for row in json_printer("userprio", "-json", "-all", "-log", real) if not row["IsAccountingGroup"]
        ]
        standings = {
            submitter.name: [submitter.effective, submitter.factor, submitter.slots, submitter.used]
            for submitter in log.submitters()
        }
        names = ("Priority", "PriorityFactor", "ResourcesUsed", "WeightedAccumulatedUsage")
        assert standings == {person["Name"]: pytest.approx([person[name] for name in names]) for person in people}
        assert [row._asdict() for row in sorted(log.usage(), key=lambda row: -row.slot_time)] == json_printer(
            "usage", "-json", "-log", real
        )
        job = f"{log.history()[0]['ClusterId']}.{log.history()[0]['ProcId']}"
        printed_report = json_printer("why", job, "-json", "-log", real)
        assert log.why(job) == [part["text"] for part in printed_report if part["part"] == "answer"]
        assert log.why(job, verbose=True)[len(log.why(job)) :] == [
            part["full"] for part in printed_report if part["part"] == "life"
        ]
        assert len(log.audit().sources) == len(json_printer("audit", real, "-json")["sources"])
        assert log.verify().imported and log.verify().sound


def test_an_import_reads_each_file_once_and_reports_it(tmp_path: Path) -> None:
    url = str(tmp_path / "audit.db")
    paths: list[str] = []
    first = import_pool([REAL, str(TRACES / "01-plain")], url, progress=lambda path, *_: paths.append(path))
    assert first.events > 1000 and {"startlog", "history"} <= set(first.counts) and paths
    assert import_pool([REAL], url).events == 0


def followed_import(folder: Path) -> Iterator[ImportResult]:
    """Yield the results of a followed import that finds something new after its first look."""
    stop = threading.Event()
    for result in follow_pool(folder, folder / "audit.db", interval=0.01, timeout=60, stop=stop):
        yield result
        shutil.copytree(REAL, folder / "pool", dirs_exist_ok=True)
        if result.events > 1000:
            stop.set()


def test_an_import_is_followed_until_it_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "pool").mkdir()
    assert [result.events > 1000 for result in followed_import(tmp_path)] == [False, True]
    with Log.open(tmp_path / "audit.db") as log:
        assert len(log.history()) > 5


def test_new_events_arrive_as_they_are_appended(own_log: str) -> None:
    with Log.open(own_log) as log, Pool.open(own_log, behave=lambda launch: Behaviour(60)) as pool:
        stop = threading.Event()
        followed = log.follow(interval=0.01, timeout=60, stop=stop)
        before = log.position
        pool.run()
        heard_events = []
        for position, event in followed:
            heard_events.append((position, event))
            if position == log.position:
                stop.set()
        assert heard_events == list(pool.events(before))
        assert list(log.follow(timeout=0)) == []
        assert list(log.follow(0, timeout=0)) == list(pool.events())


@pytest.mark.parametrize(
    ("wrong", "error", "arguments"),
    [
        (lambda log: log.why("99.0"), UnknownThingError, "no job 99.0"),
        (lambda log: log.why("nonsense"), ValueError, "'nonsense' is none of these"),
        (
            lambda log: log.why("1.0", at="yesterday"),
            ValueError,
            "at = 'yesterday' is not a valid time: give a num",
        ),
        (lambda log: log.why("1.0", at=float("nan")), ValueError, "at = nan is not a valid time"),
        (lambda log: log.jobs("(("), ClassAdSyntaxError, "expected an operand"),
        (lambda log: log.events(stream="nonsense"), ValueError, "is not the name of a stream"),
        (lambda log: log.usage(by="moon"), ValueError, "'moon' is not a"),
        (lambda log: log.follow(timeout=-1), ValueError, "timeout = -1"),
        (lambda log: log.follow(interval="soon"), ValueError, "interval = 'soon'"),
        (lambda log: Log.open(Path(log.url).parent), LogError, "is a folder: `poolbook.import_pool"),
        (lambda log: Log.open(log.url + ".nowhere"), LogError, "there is no log at"),
        (lambda log: Log.open("ftp://x"), LogError, "is not a valid log URL"),
        (lambda log: import_pool("/nowhere", log.url), Refusal, "/nowhere does not exist"),
        (lambda log: import_pool([], log.url), ValueError, "specify a directory"),
        (lambda log: import_pool(REAL, f"{log.url}.other", zone="Atlantis"), ValueError, "unknown time zone"),
        (lambda log: import_pool(REAL, log.url), LogError, "it is a pool's own log"),
    ],
)
def test_an_invalid_call_raises(
    own_log: str, wrong: Callable[[Log], object], error: type[Exception], arguments: str
) -> None:
    with Log.open(own_log) as log, pytest.raises(error, match=arguments):
        wrong(log)


def test_a_log_that_is_being_written_is_not_imported_into(own_log: str) -> None:
    lock = WriterLock(own_log)
    assert lock.try_acquire()
    with pytest.raises(AlreadyServed, match="is writing"):
        import_pool(REAL, own_log)
    lock.give_up()


def test_missing_records_are_not_invented(tmp_path: Path) -> None:
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
def test_a_closed_log_refuses_every_call(own_log: str, late: Callable[[Log], object]) -> None:
    log = Log.open(own_log)
    log.close()
    log.close()
    with pytest.raises(LogClosed, match=r"was closed: `Log\.open` opens it again"):
        late(log)
