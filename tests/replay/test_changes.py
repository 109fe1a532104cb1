"""Golden: `poolbook diff` and `Log.diff` list what changed between two times, in a pool's own log and in an import."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from poolbook import Behaviour, Log, LogBeginsLater, Pool
from poolbook.adapters.cli.main import main
from poolbook.replay.moments.changes import JobRange, PoolAt, changes

BEGIN = 1_800_000_000
TRACE = Path(__file__).parents[1] / "data" / "traces" / "05-prio-preempt"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the log of a pool in which something happens every ten seconds."""
    url = str(tmp_path_factory.mktemp("changes") / "pool.db")
    with Pool.open(url, user="alice", uid_domain="example.org", behave=lambda launch: Behaviour(seconds=25)) as pool:
        pool.add_machine("node1", cpus=2, static=2)
        pool.advance(10)
        pool.submit({"executable": "/bin/work"}, count=3)
        pool.advance(10)
        pool.submit({"executable": "/bin/work", "hold": "true"}, count=2, user="bob")
        pool.add_machine("node2", cpus=1, static=1, attributes={"Start": "false"})
        pool.advance(10)
        pool.release("2.1", user="bob")
        pool.remove("2.0", user="bob")
        pool.advance(50)
    return url


CASES = [
    # the seconds between which to compare, kind, thing, what, before, after
    (5, 15, "job", "1.0", "submitted", "", "Running on slot1@node1"),
    (5, 15, "job", "1.2", "submitted", "", "Idle"),
    (15, 25, "job", "2.0-1", "submitted", "", "Held"),
    (15, 25, "machine", "node2", "joined", "", "in the pool"),
    (15, 25, "slot", "slot1@node2", "created", "", "Unclaimed/Idle"),
    (5, 15, "slot", "slot1@node1", "changed", "Unclaimed/Idle", "Claimed/Busy alice@example.org 1.0"),
    (25, 32, "job", "2.0", "removed", "Held", "Removed"),
    (25, 32, "job", "2.1", "released", "Held", "Idle"),
    (25, 50, "job", "1.0", "completed", "Running on slot1@node1", "Completed"),
    (25, 50, "job", "1.2", "started", "Idle", "Running on slot1@node1"),
    (5, 90, "job", "1.0-2", "submitted", "", "Completed"),
]


@pytest.mark.parametrize(("since", "until", "kind", "thing", "what", "before", "after"), CASES)
def test_a_change_is_listed_with_both_states(
    since: int, until: int, kind: str, thing: str, what: str, before: str, after: str, url: str
) -> None:
    with Log.open(url) as log:
        found = [change[2:5] for change in log.diff(BEGIN + since, BEGIN + until) if change[:2] == (kind, thing)]
    assert found == [(what, before, after)]


def test_nothing_changes_between_two_equal_times(url: str) -> None:
    with Log.open(url) as log:
        assert log.diff(BEGIN + 15, BEGIN + 15) == []
        assert log.diff(BEGIN + 15) == log.diff(BEGIN + 15, BEGIN + 10_000)
        with pytest.raises(LogBeginsLater):
            log.diff(5, BEGIN)


def diffed(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["diff", *words]) == code
    out, err = capsys.readouterr()
    return err if code else out


@pytest.mark.parametrize(
    ("word", "things"),
    [
        ("1", ["1.0", "1.1", "1.2"]),
        ("1.1", ["1.1"]),
        ("1.2", ["1.2"]),
        ("bob", ["2.0", "2.1", "bob@example.org"]),
        ("node2", []),
        ("node1", ["slot1@node1", "slot2@node1"]),
        ("slot2@node1", ["slot2@node1"]),
        ("7", []),
    ],
)
def test_words_select_jobs_slots_machines_and_users(
    word: str, things: list[str], url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = diffed(capsys, "2027-01-15T08:00:25Z", "2027-01-15T08:01:25Z", word, "-json", "-log", url)
    assert [row["thing"] for row in json.loads(out)] == things


def test_the_command_prints_a_table_or_says_that_nothing_changed(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = diffed(capsys, "2027-01-15T08:00:25Z", "2027-01-15T08:00:32Z", "2", "-log", url)
    assert out.splitlines()[0].split() == ["KIND", "NAME", "CHANGE", "BEFORE", "AFTER"]
    assert out.splitlines()[1].split() == ["job", "2.0", "removed", "Held", "Removed"]
    assert diffed(capsys, "2027-01-15T09:00Z", "2027-01-15T10:00Z", "-log", url) == "Nothing changed.\n"
    assert "the log begins at" in diffed(capsys, "2020-01-01", "now", "-log", url, code=1)
    assert "give two times" in diffed(capsys, "2020-01-01", "-log", url, code=2)
    assert "is before" in diffed(capsys, "2027-01-15T09:00Z", "2027-01-15T08:00Z", "-log", url, code=2)


def test_an_imported_log_shows_slots_jobs_and_users(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    audit = str(tmp_path / "audit.db")
    assert main(["import", str(TRACE), "-log", audit, "-zone", "UTC"]) == 0
    capsys.readouterr()
    rows = json.loads(diffed(capsys, "2026-11-20T22:36:45Z", "2026-11-20T22:36:57Z", "-json", "-log", audit))
    slots = [(row["thing"], row["before"], row["after"].split()[0]) for row in rows if row["kind"] == "slot"]
    assert slots[0] == ("slot1@localhost", "Unclaimed/Idle", "Claimed/Busy")


def test_ranges_of_jobs_are_split_where_their_states_differ() -> None:
    before = PoolAt([JobRange(1, 0, 9, 1, "", "a@x")], [], {}, {}, {})
    after = PoolAt(
        [JobRange(1, 0, 1, 1, "", "a@x"), JobRange(1, 2, 2, 2, "slot1@h", "a@x"), JobRange(1, 3, 5, 5, "", "a@x")],
        [JobRange(1, 6, 8, 4, "", "a@x"), JobRange(1, 9, 9, 3, "", "a@x")],
        {},
        {},
        {},
    )
    assert [(change.thing, change.what, change.before, change.after) for change in changes(before, after)] == [
        ("1.2", "started", "Idle", "Running on slot1@h"),
        ("1.3-5", "held", "Idle", "Held"),
        ("1.6-8", "completed", "Idle", "Completed"),
        ("1.9", "removed", "Idle", "Removed"),
    ]
