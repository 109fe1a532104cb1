"""Property: when an append fails, wherever it does, the log is unchanged and still usable."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest

from poolbook.domain.ports.log import EventStore, LogDamaged, LogUnavailable

from .places import POSTGRES, Place, connected, place_of
from .samples import changed, samples

# A failing statement, at any position ----------------------------------------------------------------


def failure(message: str) -> sqlite3.OperationalError:
    """Return SQLite's error for a failing disk."""
    error = sqlite3.OperationalError(message)
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
    return error


class Failing(sqlite3.Connection):
    """A connection on which the statement numbered `at` (counted from 0, over all connections) fails."""

    at = -1
    done = 0

    @classmethod
    def count(cls) -> None:
        cls.done += 1
        if cls.done - 1 == cls.at:
            raise failure("injected")

    def cursor(self, *_: Any) -> Any:
        return super().cursor(FailingCursor)

    def commit(self) -> None:
        Failing.count()
        super().commit()


class FailingCursor(sqlite3.Cursor):
    def execute(self, *arguments: Any) -> Any:
        Failing.count()
        return super().execute(*arguments)

    def executemany(self, *arguments: Any) -> Any:
        Failing.count()
        return super().executemany(*arguments)


def fail_at(number: int) -> None:
    Failing.at, Failing.done = number, 0


def check_log(place: Place, log: EventStore, count: int) -> None:
    """Check that a new reader finds the first `count` samples, in a sound log that accepts appends."""
    reopened = place.open(create=False)
    assert reopened.head == log.head
    assert [event for _, event in reopened.read()] == samples(count)
    reopened.close()
    assert place.problems() == []


def test_an_append_that_fails_at_any_statement_of_its_transaction_changes_nothing(
    sqlite: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Failing))
    fail_at(-1)
    log = sqlite.open()
    log.append(samples(20))
    failed = 0
    while True:
        fail_at(failed)
        try:
            log.append(samples(20, first=20))
        except LogUnavailable as error:
            assert "injected" in str(error)
        else:
            break
        fail_at(-1)
        assert log.head.position == 20
        check_log(sqlite, log, 20)
        failed += 1
    fail_at(-1)
    # The lookups for streams, BEGIN, the head, the events, the append, COMMIT.
    assert failed >= 6
    check_log(sqlite, log, 40)


def test_an_append_that_was_stored_although_its_commit_reported_a_failure_counts(
    sqlite: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Vanishing(sqlite3.Connection):
        """Like a server that stores the commit, but vanishes before it reports so."""

        def commit(self) -> None:
            super().commit()
            raise failure("vanished")

    log = sqlite.open()
    log.append(samples(20))
    log.close()
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Vanishing))
    assert sqlite.open().append(samples(20, first=20)) == 40
    monkeypatch.undo()
    check_log(sqlite, sqlite.open(), 40)


TABLES_AND_WHEN = [
    ("head", "BEFORE UPDATE ON head"),
    ("events", "BEFORE INSERT ON stored_events"),
    ("appends", "BEFORE INSERT ON appends"),
]


@pytest.mark.parametrize("when", [when for _, when in TABLES_AND_WHEN], ids=[name for name, _ in TABLES_AND_WHEN])
def test_an_append_that_the_database_refuses_changes_nothing(durable: Place, when: str) -> None:
    log = durable.open()
    log.append(samples(20))
    last = "WHEN NEW.position = 40 " if "events" not in when else f"WHEN NEW.{durable.position} = 33 "
    if durable.kind == "sqlite":
        durable.sql(f"CREATE TRIGGER refuse {when} {last}BEGIN SELECT RAISE(FAIL, 'injected'); END")
    else:
        body = "'BEGIN RAISE EXCEPTION ''injected'' USING ERRCODE = ''53100''; END'"
        durable.sql(f"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS {body}")
        durable.sql(
            f"CREATE TRIGGER refuse {when} FOR EACH ROW {last.replace('WHEN ', 'WHEN (')}) EXECUTE FUNCTION refuse()"
        )
    for _ in range(3):
        with pytest.raises((LogUnavailable, LogDamaged), match="injected"):
            log.append(samples(20, first=20))
        assert log.refresh().position == 20
    durable.sql("DROP TRIGGER refuse" + ("" if durable.kind == "sqlite" else f" ON {when.split()[-1]}"))
    assert log.append(samples(20, first=20)) == 40
    check_log(durable, log, 40)


if POSTGRES:

    def test_a_dropped_connection_to_the_server_is_reopened() -> None:
        with tempfile.TemporaryDirectory() as folder, place_of("postgresql", Path(folder)) as place:
            name = f"app_{place.schema}"
            log = attrs.evolve(place, url=place.url.replace("schema=", f"application_name={name}&schema=")).open()
            log.append(samples(10))
            with connected() as server:
                statement = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name=%s"
                assert server.execute(statement, (name[:63],)).fetchall() != []
            for _ in range(3):
                with suppress(LogUnavailable):
                    log.append(samples(10, first=10))
                    break
            assert log.head.position == 20
            check_log(place, log, 20)
            log.close()

    def test_a_writer_waits_for_another_only_for_the_timeout(tmp_path: Path) -> None:
        with place_of("postgresql", tmp_path) as place:
            impatient = Place(place.kind, place.url.replace("?", "?options=-clock_timeout%3D50ms&"), place.mark)
            log = place.open()
            with connected() as server:
                server.execute("BEGIN")
                server.execute(f"SELECT * FROM {place.schema}.head FOR UPDATE")
                log.close()
                log = impatient.open()
                with pytest.raises(LogUnavailable, match="another process was writing it"):
                    log.append(samples(1))
                server.execute("ROLLBACK")
            assert log.append(samples(1)) == 1
            log.close()


# Space ------------------------------------------------------------------------------------------


@contextmanager
def pages_at_most(place: Place, log: EventStore) -> Iterator[None]:
    """Limit the database to its present size."""
    tables = log._recorder  # type: ignore[attr-defined]
    with tables.connection() as connection:
        connection.execute("PRAGMA page_count")
        connection.execute(f"PRAGMA max_page_count={connection.fetchone()[0]}")
    yield
    with tables.connection() as connection:
        connection.execute("PRAGMA max_page_count=1000000")


@contextmanager
def files_at_most(place: Place, log: EventStore) -> Iterator[None]:
    """Limit this process's files to the present size of the write-ahead log."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(f"{place.url}-wal"), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    ("limit", "message"),
    [(pages_at_most, "no space is left for it"), (files_at_most, "the disk failed to read or write it")],
)
def test_without_space_nothing_is_appended_and_the_log_continues_later(sqlite: Place, limit: Any, message: str) -> None:
    log = sqlite.open()
    log.append(samples(50))
    with limit(sqlite, log):
        for _ in range(3):
            with pytest.raises(LogUnavailable, match=message):
                log.append([changed(1, text="x" * 300_000)])
        assert [event for _, event in log.read()] == samples(50)
    log.append(samples(10, first=50))
    log.close()
    check_log(sqlite, log, 60)


def mounted(folder: str) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", folder]
    return os.geteuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0


@contextmanager
def small_disk() -> Iterator[Path | None]:
    """Provide a disk of 512 KiB, or None if this process may not mount one."""
    folder = tempfile.mkdtemp()
    if mounted(folder):
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)
    else:
        yield None
    shutil.rmtree(folder)


with small_disk() as disk:
    CAN_MOUNT = disk is not None

if CAN_MOUNT:

    def test_on_a_full_disk_nothing_is_appended_and_the_log_is_readable() -> None:
        with small_disk() as disk:
            assert disk is not None
            place = Place("sqlite", str(disk / "x.db"), str(disk / "x.db.head"))
            log = place.open()
            position = 0
            with pytest.raises(LogUnavailable, match="no space is left for it; free some"):
                while True:
                    position = log.append(samples(20, first=position))
            assert log.refresh().position == position
            assert [event for _, event in log.read()] == samples(position)
            log.close()
            check_log(place, log, position)

    def test_on_a_read_only_disk_a_log_is_readable_and_refuses_writing() -> None:
        with small_disk() as disk:
            assert disk is not None
            place = Place("sqlite", str(disk / "x.db"), str(disk / "x.db.head"))
            log = place.open()
            log.append(samples(30))
            log.close()
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
            reader = place.open(create=False, read_only=True)
            assert [event for _, event in reader.read()] == samples(30)
            reader.close()
            assert place.problems() == []
            with pytest.raises(LogUnavailable, match="check the permissions of the file and directory"):
                place.open().append(samples(1))


# Rights -----------------------------------------------------------------------------------------


@contextmanager
def without_rights(*paths: Path) -> Iterator[None]:
    """Act as a user who may read these files but not write them."""
    modes = [(path, path.stat().st_mode) for path in paths]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        for path, mode in modes:
            path.chmod(mode)


def test_a_write_protected_log_is_readable_and_refuses_writing() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Place("sqlite", f"{folder}/x.db", f"{folder}/x.db.head")
        log = place.open()
        log.append(samples(30))
        log.close()
        with without_rights(Path(folder), place.file, Path(place.mark or "")):
            reader = place.open(create=False, read_only=True)
            assert [event for _, event in reader.read()] == samples(30)
            reader.close()
            assert place.problems() == []
            for create in (True, False):
                with pytest.raises(LogUnavailable, match="cannot be written"):
                    place.open(create=create).append(samples(1))
            other = Place("sqlite", f"{folder}/new.db", None)
            with pytest.raises(LogUnavailable, match="check the permissions of the file and directory"):
                other.open()
        check_log(place, log, 30)


def test_a_log_that_another_process_writes_for_too_long_is_not_waited_for(
    sqlite: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("poolbook.adapters.stores.sqlite.LOCK_TIMEOUT", 0.05)
    log = sqlite.open()
    other = sqlite3.connect(sqlite.file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LogUnavailable, match="another process was writing it"):
        log.append(samples(1))
    other.execute("ROLLBACK")
    other.close()
    assert log.append(samples(1)) == 1
