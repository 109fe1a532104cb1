"""Property: the views at each position of a log equal the ones of a log that ends there, with and without snapshots."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.adapters.runtime.views import catch_up, open_tables, views_at, views_path
from poolbook.adapters.stores.log_prefix import LogPrefix
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.ports.log import LogUnavailable
from poolbook.projections import snapshots
from poolbook.projections.projector import apply
from poolbook.projections.schema import schemas

from .pools import Pool, busy_pool, dump, folded
from .test_folding import FIXED, Step, steps

STORED = ("tracking", "snapshots")  # what the views of a shorter log need not have


Rows = dict[str, list[tuple[object, ...]]]


def rows(connection: sqlite3.Connection, *but: str) -> Rows:
    """Return all rows that a query can read, which temporary tables may hide."""
    names = [name for name in (*schemas("table"), *schemas("view")) if name not in (*STORED, *but)]
    return {name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in names}


@pytest.fixture(scope="module")
def log_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a log of a pool in which most things have happened."""
    path = str(tmp_path_factory.mktemp("past") / "pool.db")
    with closing(open_log(path, create=True)) as log:
        log.append([event for _, event in busy_pool().events])
    return path


@pytest.fixture
def stored(log_file: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[sqlite3.Connection]:
    """Yield the stored views of the log, with a snapshot about every 10 events, to change them."""
    monkeypatch.setattr(snapshots, "EVENTS", 10)
    monkeypatch.setattr(snapshots, "EVENTS_PER_ROW", 0)
    path = views_path(log_file)
    assert path is not None
    Path(path).unlink(missing_ok=True)
    with closing(open_log(log_file, create=False, read_only=True)) as log, closing(open_tables(path)) as tables:
        catch_up(log, tables, batch=7)
        yield tables


@pytest.fixture(scope="module")
def expected_rows(log_file: str) -> list[Rows]:
    """Return the rows after each position, folded one event after another (test_folding.py compares these with the rows
    of events that are folded together)."""
    with closing(open_log(log_file, create=False, read_only=True)) as log, closing(folded([])) as tables:
        all_rows = [rows(tables)]
        for placed in log.read():
            apply(tables, [placed])
            all_rows.append(rows(tables))
        return all_rows


def check_each_position(url: str, expected_rows: list[Rows], *left_out: str) -> None:
    with closing(open_log(url, create=False, read_only=True)) as log:
        assert log.head.position == len(expected_rows) - 1
        for position, all_rows in enumerate(expected_rows[1:], 1):
            expected = {name: values for name, values in all_rows.items() if name not in left_out}
            with views_at(url, log, position) as views:
                assert views.position == position
                assert rows(views.connection, *left_out) == expected


def keep(tables: sqlite3.Connection) -> None:
    assert tables.execute("SELECT COUNT(*) FROM snapshots").fetchone()[0] > 10


def delete(tables: sqlite3.Connection) -> None:
    tables.execute("DELETE FROM snapshots")


def damage(tables: sqlite3.Connection) -> None:
    tables.execute("UPDATE snapshots SET tables=zeroblob(length(tables)) WHERE position % 2")
    tables.execute("UPDATE snapshots SET tables='text' WHERE position % 3 = 0")
    tables.execute("UPDATE snapshots SET last='another log' WHERE position % 5 = 0")


@pytest.mark.parametrize("change", [keep, delete, damage])
def test_views_at_a_position_equal_those_of_a_log_that_ends_there(
    change: Callable[[sqlite3.Connection], None], log_file: str, stored: sqlite3.Connection, expected_rows: list[Rows]
) -> None:
    change(stored)
    check_each_position(log_file, expected_rows)


def test_views_at_a_position_need_no_stored_views(log_file: str, expected_rows: list[Rows]) -> None:
    path = views_path(log_file)
    assert path is not None
    Path(path).unlink(missing_ok=True)
    check_each_position(log_file, expected_rows, "history", "finished")
    assert not Path(path).exists()
    with closing(open_log(log_file, create=False)) as log, views_at(log_file, log, 50) as views:
        assert not views.has_history
        with pytest.raises(sqlite3.OperationalError, match="no such table: history"):
            views.usage()
    with closing(open_log(log_file, create=False)) as log, views_at("", log, 50, history=True) as views:
        assert rows(views.connection) == rows(folded(list(log.read(0, 50))))


@FIXED
@given(st.lists(steps, min_size=1, max_size=6), st.data())
def test_the_past_of_any_pool_is_unchanged_by_later_events(happened: list[Step], data: st.DataObject) -> None:
    pool = Pool()
    for step in happened:
        step(pool)
    pool.run(40)
    position = data.draw(st.integers(1, len(pool.events)))
    with views_at("", pool.log, position, history=True) as views:
        assert dump(views.connection, but="tracking") == dump(folded(pool.events[:position]), but="tracking")


def test_snapshots_are_thinned_out_in_a_long_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "EVENTS", 2)
    monkeypatch.setattr(snapshots, "MOST", 8)
    monkeypatch.setattr(snapshots, "EVENTS_PER_ROW", 0)
    pool = busy_pool()
    with closing(open_tables(None)) as tables:
        catch_up(pool.log, tables, batch=1)
        positions = [position for (position,) in tables.execute("SELECT position FROM snapshots ORDER BY 1")]
    gaps = [after - before for before, after in pairwise([*positions, pool.log.head.position])]
    assert len(positions) <= 9 and max(gaps) <= pool.log.head.position / 4


def test_snapshots_are_further_apart_if_they_have_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "EVENTS", 2)
    pool = busy_pool()
    with closing(open_tables(None)) as tables:
        catch_up(pool.log, tables, batch=1)
        assert 0 < tables.execute("SELECT COUNT(*) FROM snapshots").fetchone()[0] < len(pool.events) // 8


def test_the_past_of_a_log_ends_at_its_position() -> None:
    log = busy_pool().log
    past = LogPrefix(log, 50)
    assert (past.head.position, past.id, past.refresh()) == (50, log.id, past.head)
    assert list(past.read()) == list(log.read(0, 50)) and list(past.read(48, 9)) == list(log.read(48, 2))
    assert list(past.read(50)) == list(past.read(70)) == []
    assert list(past.read_stream("cluster/1")) == [pair for pair in log.read_stream("cluster/1") if pair[0] <= 50]
    last = next(event for _, event in log.read(log.head.position - 1))
    assert past.position_at(last.at) == 50 and log.position_at(last.at) == log.head.position
    assert past.digest_at(log.head.position) is None and log.digest_at(log.head.position) == log.head.digest
    with pytest.raises(LogUnavailable, match="cannot be changed"):
        past.append([last])


def test_the_position_at_a_time_is_that_of_the_last_event_by_then() -> None:
    log = busy_pool().log
    instants = [event.at for _, event in log.read()]
    for at in {*instants, instants[0] - 1, instants[-1] + 1, *(instant + 1 for instant in instants)}:
        assert log.position_at(at) == sum(instant <= at for instant in instants)
