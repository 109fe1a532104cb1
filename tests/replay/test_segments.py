"""A replay by several workers gives the verdict of a single one, whatever their number."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from distributed import LocalCluster

from poolbook import Behaviour, Log, Pool, State, events
from poolbook.adapters.cli.main import main
from poolbook.adapters.runtime import segments
from poolbook.adapters.runtime.log_verification import Verification
from poolbook.adapters.runtime.segments import ParallelReplayError, Workers, executor_of, segments_of
from poolbook.adapters.stores.opening import open_log

EVENTS = 40


@pytest.fixture(autouse=True)
def short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_EVENTS", EVENTS)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log with many negotiation cycles, some of which find no slot for a job."""
    path = str(tmp_path_factory.mktemp("segments") / "pool.db")
    with Pool.open(path, user="alice", uid_domain="x", behave=lambda _: Behaviour(seconds=90)) as pool:
        pool.add_machine("node1", cpus=2, memory="4 GB")
        for number in range(12):
            size = "3 GB" if number % 3 else "100 GB"
            pool.submit({"executable": "/bin/work", "request_memory": size}, user=f"user{number % 4}")
            pool.advance(70)
        pool.run(limit=2000)
    return path


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """The address of a Dask cluster with two workers."""
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
        yield cluster.scheduler_address


def test_the_segments_are_the_whole_log_and_each_begins_with_a_stimulus(url: str) -> None:
    with closing(open_log(url, create=False, read_only=True)) as log:
        parts = list(segments_of(log, url))
        stimuli = [""] + [event.stimulus for _, event in log.read()]
        assert [part.after for part in parts] == [0, *(part.last for part in parts[:-1])]
        assert parts[-1].last == log.head.position and len(parts) > 3
        assert all(stimuli[part.after] != stimuli[part.after + 1] for part in parts)


def count_ends(state: State, segment: Iterator[tuple[int, events.Event]]) -> tuple[int, int]:
    return state.position, sum(isinstance(event, events.JobExited) for _, event in segment)


@pytest.mark.parametrize("is_parallel", [False, True], ids=["here", "by workers"])
def test_a_function_of_each_segment_gets_the_state_before_it(url: str, scheduler: str, is_parallel: bool) -> None:
    with Log.open(url) as log:
        ends = log.map_segments(count_ends, scheduler=scheduler if is_parallel else "")
        expected = [event for _, event in log.events() if isinstance(event, events.JobExited)]
        positions = [part.after for part in segments_of(log._log, url)]
    assert [position for position, _ in ends] == positions
    assert sum(count for _, count in ends) == len(expected)


def verified(url: str, **workers: Any) -> Verification:
    with Log.open(url) as log:
        return log.verify(decisions=True, **workers)


def alter(url: str, path: Path, before: bytes, after: bytes, number: int) -> str:
    """Copy the log; in the copy, replace `before` in an event by `after`. `number` counts the events that have it."""
    copy = path / "altered.db"
    copy.write_bytes(Path(url).read_bytes())
    with closing(sqlite3.connect(copy)) as tables:
        (name,) = [
            row[0] for row in tables.execute("SELECT name FROM sqlite_master WHERE sql LIKE '%state%' AND type='table'")
        ]
        rows = [row for row in tables.execute(f"SELECT rowid, state FROM {name} ORDER BY rowid") if before in row[1]]
        rowid, state = rows[number]
        tables.execute(f"UPDATE {name} SET state=? WHERE rowid=?", (state.replace(before, after, 1), rowid))
        tables.commit()
    return str(copy)


@pytest.mark.parametrize(
    ("before", "after", "number"),
    [
        pytest.param(b"", b"", 0, id="an unaltered log"),
        pytest.param(b'"unmatched":[{"job":"1.0"', b'"unmatched":[{"job":"1.7"', 0, id="a reason of another job"),
        pytest.param(b'"matches":[{"job":"', b'"matches":[{"job":"9', 2, id="a match of another job"),
        pytest.param(b'"priorities":{"', b'"priorities":{"x', 3, id="a priority of another user"),
        pytest.param(b'"slot":"slot1_1@node1"', b'"slot":"slot9_1@node1"', 12, id="another slot"),
    ],
)
def test_the_verdict_does_not_depend_on_the_number_of_workers(
    url: str, scheduler: str, tmp_path: Path, before: bytes, after: bytes, number: int
) -> None:
    altered = alter(url, tmp_path, before, after, number) if before else url
    single = verified(altered)
    assert single.sound == (not before)
    assert verified(altered, scheduler=scheduler) == single


def test_verify_prints_the_same_with_workers(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "-decisions", "-json", "-log", url]) == 0
    single = json.loads(capsys.readouterr().out)
    assert main(["verify", "-decisions", "-json", "-workers", "1", "-log", url]) == 0
    assert json.loads(capsys.readouterr().out) == single


def test_workers_and_a_scheduler_together_are_an_error(url: str) -> None:
    with Log.open(url) as log, pytest.raises(ParallelReplayError, match="either a number of workers or the address"):
        log.verify(workers=2, scheduler="tcp://127.0.0.1:8786")


def test_a_scheduler_that_does_not_answer_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "CONNECT_SECONDS", 1)
    with (
        pytest.raises(ParallelReplayError, match=r"tcp://127\.0\.0\.1:9 does not answer"),
        executor_of(Workers(scheduler="tcp://127.0.0.1:9")),
    ):
        pass
