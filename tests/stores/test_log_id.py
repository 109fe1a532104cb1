"""Property: a log keeps the id that was chosen at its start, in every store; an older log's id is its first digest."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.adapters.condor_files.importing.driver import begin_import
from poolbook.adapters.runtime.open_pool import open_pool_log
from poolbook.adapters.stores.log_id import chosen_id
from poolbook.adapters.stores.memory import open_memory
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.events import Event, PoolFounded
from poolbook.domain.ports.log import Head, LogPosition

from ..golden.make import GOLDEN
from ..together import together
from .places import Place
from .samples import changed

OLD = sorted(path.name for path in GOLDEN.glob("*.db.gz") if path.name.startswith(("0.1.", "0.2.0a")))
"""The logs of releases that did not choose an id."""
AT = 1_800_000_000_000_000

ids = st.text("0123456789abcdef", min_size=16, max_size=16)


def founding(chosen_id: str) -> PoolFounded:
    return PoolFounded(AT, "founded", "founding", "pool", "manual", "example.org", "0.1", {}, log=chosen_id)


# References


@given(ids, st.integers(1, 2**63 - 1))
def test_a_reference_is_read_as_it_was_written(log: str, position: int) -> None:
    reference = LogPosition(log, position)
    assert LogPosition.parse(str(reference)) == reference
    assert str(LogPosition.parse(str(reference))) == str(reference)


@given(st.one_of(st.text("0123456789abcdefA-+_ \n", max_size=24), st.text(max_size=24)))
def test_a_reference_has_one_text(text: str) -> None:
    try:
        assert str(LogPosition.parse(text)) == text
    except ValueError as error:
        assert str(error).startswith(f"{text!r} is not a reference to a log position")


@together(
    "text",
    [
        "", "12", "-12", "0123456789abcdef", "0123456789abcdef-", "0123456789abcdef-0", "0123456789abcdef-01",
        "0123456789ABCDEF-1", "0123456789abcde-1", "0123456789abcdef0-1", "0123456789abcdef-1\n",
        "0123456789abcdef-\u0661", "0123456789abcdef--1",
    ],
)  # fmt: skip
def test_an_invalid_reference_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="an id of 16 hexadecimal digits, a hyphen and a position"):
        LogPosition.parse(text)


# The id of a log


def test_a_log_has_the_id_that_was_chosen_for_it_in_every_store(place: Place) -> None:
    log = place.open()
    assert log.id == ""
    log.append([founding("0123456789abcdef"), changed(1)])
    assert log.id == place.open(read_only=True).id == chosen_id(log) == "0123456789abcdef"


def test_a_log_whose_id_was_not_chosen_has_its_first_digest(place: Place) -> None:
    log = place.open()
    for events in ([founding("")], [changed(1)]):
        log.append(events)
        assert (log.id, chosen_id(log)) == (place.open(read_only=True).id, "")
    first = place.open()
    assert first.id == log.id == digest_of(founding(""))[:16]


def digest_of(event: Event) -> str:
    """Return the digest of a log with only this event."""
    log = open_log("memory:", create=True)
    log.append([event])
    return log.head.digest


def test_a_log_that_is_opened_empty_gets_its_id_with_its_first_event(place: Place) -> None:
    reader, writer = place.open(), place.open()
    writer.append([founding("0123456789abcdef")])
    assert reader.id == ""
    reader.refresh()
    assert reader.id == "0123456789abcdef"


def test_a_first_event_of_another_kind_leaves_the_first_digest(place: Place) -> None:
    log = place.open()
    log.append([changed(1)])
    assert log.id == log.head.digest[:16]


@pytest.mark.parametrize("name", OLD)
def test_an_old_log_has_its_first_digest_and_keeps_it_wherever_it_is_copied(
    name: str, tmp_path: Path, place: Place
) -> None:
    path = tmp_path / "old.db"
    path.write_bytes(gzip.decompress((GOLDEN / name).read_bytes()))
    with closing(sqlite3.connect(path)) as tables:
        ((first,),) = tables.execute("SELECT digest FROM appends ORDER BY position LIMIT 1")
        tables.execute("VACUUM INTO ?", (str(tmp_path / "copy.db"),))
    with closing(open_log(str(path), create=False)) as old_log:
        assert (old_log.id, chosen_id(old_log)) == (first[:16], "")
        old_log.raise_epoch("today", AT, "s")
        assert old_log.id == first[:16], "what is appended today does not change it"
    with closing(open_log(str(tmp_path / "copy.db"), create=False, read_only=True)) as copy:
        assert copy.id == first[:16]
    if place.kind != "sqlite":
        place.open().close()
        copy_rows(path, place)
        assert place.open(read_only=True).id == first[:16]


def copy_rows(path: Path, place: Place) -> None:
    """Copy the tables of an SQLite log, as an administrator would who moves it to another store."""
    with closing(sqlite3.connect(path)) as tables:
        events = tables.execute(
            "SELECT rowid, originator_id, originator_version, topic, state FROM stored_events ORDER BY rowid"
        ).fetchall()
        appends = tables.execute("SELECT position, format, epoch, digest FROM appends ORDER BY position").fetchall()
    position, version, epoch, digest = appends[-1]
    if place.kind == "memory":
        log: Any = open_memory(place.url.removeprefix("memory:"), False)
        log._rows, log._appends, log._head = events, appends, Head(epoch, position, digest)
        return
    columns = "notification_id, originator_id, originator_version, topic, state"
    for row in events:
        place.sql(f"INSERT INTO stored_events ({columns}) VALUES (?, ?, ?, ?, ?)", *row)
    for row in appends:
        place.sql("INSERT INTO appends VALUES (?, ?, ?, ?)", *row)
    place.sql("UPDATE head SET format=?, epoch=?, position=?, digest=?", version, epoch, position, digest)


def test_two_logs_created_simultaneously_have_different_ids(tmp_path: Path) -> None:
    pools = [open_pool_log(str(tmp_path / f"{n}.db"), create=True, name="p", uid_domain="d", now=AT) for n in "ab"]
    imports = [open_log("memory:", create=True) for _ in range(2)]
    for log in imports:
        begin_import(log, "node", AT)
    log_ids = [log.id for log in (*pools, *imports)]
    assert len(set(log_ids)) == 4
    for log in (*pools, *imports):
        assert log.id == chosen_id(log) == LogPosition.parse(f"{log.id}-1").log
        log.close()


def test_a_reopened_log_keeps_its_id(tmp_path: Path) -> None:
    url = str(tmp_path / "pool.db")
    with closing(open_pool_log(url, create=True)) as log:
        log_id = log.id
    with closing(open_pool_log(url, create=True)) as log:
        assert log.id == log_id


def test_the_events_of_a_log_carry_its_id_into_any_other_store(place: Place) -> None:
    with closing(open_pool_log("memory:", create=True)) as log:
        log.append([changed(1)])
        copy = place.open()
        copy.append([event for _, event in log.read()])
        assert copy.id == log.id
