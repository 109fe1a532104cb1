"""Golden: what a URL names, and the messages when there is no log."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from poolbook.adapters.stores import log_paths as beside
from poolbook.adapters.stores.fast_head import head_of
from poolbook.adapters.stores.location import EXTRA, Location, locate
from poolbook.adapters.stores.opening import mark_of, open_log, verify_seal
from poolbook.domain.ports.log import Head, LogDamaged, LogError, LogNewer, LogUnavailable

from ..together import together
from .places import DURABLE, POSTGRES, Place, on_server, place_of
from .samples import AT, samples

ROOT = Path(__file__).parent.parent.parent


@together(
    ("url", "location"),
    [
        ("memory:", Location("memory", "")),
        ("memory:plan", Location("memory", "plan")),
        ("x.db", Location("sqlite", "x.db")),
        ("./a:b", Location("sqlite", "./a:b")),
        ("/var/lib/pool.db", Location("sqlite", "/var/lib/pool.db")),
        ("sqlite:///x.db", Location("sqlite", "x.db")),
        ("sqlite:////var/lib/pool.db", Location("sqlite", "/var/lib/pool.db")),
        ("sqlite:///a b%20c?d#e.db", Location("sqlite", "a b%20c?d#e.db")),
        ("postgresql://host/db", Location("postgresql", "postgresql://host/db", "poolbook")),
        ("postgresql://u:p@host:5433/db?schema=mine", Location("postgresql", "postgresql://u:p@host:5433/db", "mine")),
        ("postgres:///db?sslmode=require&schema=a_1", Location("postgresql", "postgres:///db?sslmode=require", "a_1")),
    ],
)
def test_a_url_names_a_store_and_a_place(url: str, location: Location) -> None:
    assert locate(url) == location


@together(
    ("url", "message"),
    [
        ("", "it names no file; use memory:, a file's path"),
        ("mysql://host/db", "use memory:, a file's path, sqlite:///file.db, or postgresql://"),
        ("a:b.db", r"for a file of this name, write \./a:b.db"),
        ("sqlite://x.db", "it needs three slashes"),
        ("sqlite:///", "it names no file"),
        ("sqlite:///:memory:", "a log in memory is written memory:"),
        ("postgresql://h/d?schema=A;DROP", "schema= needs one name of lower-case letters"),
        (
            "postgresql://u:secret@h/d?schema=a&schema=b",
            r"'postgresql://u:\*\*\*@h/d\?schema=a&schema=b' is no",
        ),
    ],
)
def test_an_invalid_url_is_rejected_with_the_fix(url: str, message: str) -> None:
    with pytest.raises(LogError, match=message):
        open_log(url, create=True)


def test_a_missing_log_is_named(tmp_path: Path) -> None:
    for url in (str(tmp_path / "x.db"), f"sqlite:///{tmp_path}/x.db", "memory:nobody"):
        with pytest.raises(LogError, match=r"there is no log at .*; check the name, or start one"):
            open_log(url, create=False)
        with pytest.raises(LogError, match="there is no log at"):
            verify_seal(url)
        assert head_of(url) is None
    with pytest.raises(LogError, match=r"the directory .* is missing; create it"):
        open_log(str(tmp_path / "no" / "x.db"), create=True)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_refused_as_a_log(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"is a directory, but a log is a file; use for example"):
        open_log(str(tmp_path), create=True)


@pytest.mark.parametrize("content", [b"executable = /bin/true\nqueue\n", b"x" * 5000, b"SQLite format 3\0", b"\0" * 99])
def test_a_file_of_another_kind_is_refused_and_unchanged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "pi.sub"
    path.write_bytes(content)
    for create in (True, False):
        with pytest.raises(LogDamaged, match="it is not an SQLite database: not a log, or a damaged one"):
            open_log(str(path), create=create)
    assert verify_seal(str(path)) != []
    with pytest.raises(LogDamaged):
        head_of(str(path))
    assert path.read_bytes() == content


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (x)")
    for create in (True, False):
        with pytest.raises(LogError, match="is an SQLite database, but not a Poolbook log; use another file"):
            open_log(str(path), create=create)
    with pytest.raises(LogError, match="not a Poolbook log"):
        verify_seal(str(path))


def test_a_log_of_a_later_version_is_rejected(durable: Place) -> None:
    log = durable.open()
    log.append(samples(5))
    durable.sql("UPDATE head SET format=4")
    for read_only in (True, False):
        with pytest.raises(LogNewer, match=r"has format 4, but this version of Poolbook supports formats up to 3"):
            durable.open(create=False, read_only=read_only)
    with pytest.raises(LogNewer):
        log.refresh()
    with pytest.raises(LogNewer):
        head_of(durable.url)


def test_an_empty_file_becomes_a_log(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.touch()
    with pytest.raises(LogError, match="there is no log"):
        open_log(str(path), create=False)
    assert open_log(str(path), create=True).append(samples(2)) == 2


def test_a_log_whose_creation_crashed_is_created(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    assert path.stat().st_size > 0
    with pytest.raises(LogError, match="there is no log"):
        open_log(str(path), create=False)
    assert open_log(str(path), create=True).append(samples(2)) == 2


def test_a_log_may_have_any_file_name(tmp_path: Path) -> None:
    for name in ("a b", "100%", "what?mode=memory#x", ":memory:", "Grüße", "mode=memory"):
        open_log(str(tmp_path / name), create=True).append(samples(2))
        assert (tmp_path / name).stat().st_size > 0
        assert head_of(str(tmp_path / name)) is not None


def test_a_log_in_memory_disappears_with_its_last_user() -> None:
    log = open_log("memory:one", create=True)
    log.append(samples(3))
    assert open_log("memory:one", create=False).head == log.head
    assert open_log("memory:", create=True).head.position == 0
    del log
    assert head_of("memory:one") is None


@pytest.mark.parametrize("kind", DURABLE)
def test_head_of_is_the_head(kind: str, tmp_path: Path) -> None:
    with place_of(kind, tmp_path) as place:
        assert head_of(place.url) is None
        log = place.open()
        log.raise_epoch("w", AT, "s")
        log.append(samples(7))
        head = head_of(place.url)
        assert head is not None
        assert Head(*head) == log.head
        log.close()
        assert head_of(place.url) == head


def loaded_modules(program: str, *names: str) -> set[str]:
    """Return which of these modules a fresh interpreter has loaded after `program`."""
    printed = subprocess.run(
        [sys.executable, "-c", f"import sys\n{program}\nprint(*sys.modules)"],
        env={**os.environ, "PYTHONPATH": str(ROOT / ".path")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return set(names) & set(printed.split())


def test_head_of_an_sqlite_log_loads_no_library_but_sqlite3(sqlite: Place) -> None:
    sqlite.open().append(samples(1))
    program = f"from poolbook.adapters.stores.fast_head import head_of\nassert head_of({sqlite.url!r})[1] == 1"
    heavy = {"attrs", "attr", "msgspec", "eventsourcing", "psycopg", "poolbook.domain.events"}
    assert loaded_modules(program, "sqlite3", *heavy) == {"sqlite3"}


@pytest.mark.parametrize(
    ("url", "loaded"),
    [
        ("memory:", set()),
        ("sqlite:///{folder}/x.db", {"sqlite3"}),
        *([(on_server("nobody"), {"psycopg"})] if POSTGRES else []),
    ],
    ids=["memory", "sqlite", "postgresql"][: 2 + bool(POSTGRES)],
)
def test_a_store_does_not_load_anothers_library(tmp_path: Path, url: str, loaded: set[str]) -> None:
    program = (
        "from poolbook.adapters.stores.opening import open_log\nfrom poolbook.domain.ports.log import LogError\n"
        f"try: open_log({url.format(folder=tmp_path)!r}, create={'nobody' not in url})\nexcept LogError: pass"
    )
    assert loaded_modules(program, "sqlite3", "psycopg") == loaded


@pytest.mark.parametrize("library", ["psycopg", "psycopg_pool"])
def test_a_log_on_a_server_without_the_libraries_is_rejected_with_the_fix(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)  # as if it were not installed: Python's own way to say so
    operations: list[Callable[[str], object]] = [
        head_of, verify_seal, beside.log_paths, lambda url: open_log(url, create=True)
    ]  # fmt: skip
    for operation in operations:
        with pytest.raises(LogError, match=rf"needs {library}.* pip install 'poolbook\[postgres\]'"):
            operation("postgresql://host/db")


def test_the_extra_that_the_refusal_names_has_the_missing_libraries() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert [text.partition(">")[0] for text in extras[EXTRA]] == ["eventsourcing[postgres]", "psycopg[binary]"]


def test_a_server_that_does_not_answer_is_named_without_its_password() -> None:
    with pytest.raises(
        LogUnavailable, match=r"postgresql://localhost:9/db\?schema=poolbook: the server failed"
    ) as error:
        open_log("postgresql://u:secret@localhost:9/db", create=True)
    assert "secret" not in str(error.value)


def test_an_invalid_postgresql_url_is_refused() -> None:
    with pytest.raises(LogError, match="invalid PostgreSQL URL"):
        open_log("postgresql://host/db?nonsense=1", create=True)


def test_the_mark_is_next_to_a_file_and_in_the_state_folder_for_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    assert mark_of(locate("/a/x.db")) == "/a/x.db.head"
    assert mark_of(locate("memory:")) is None
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    urls = ["postgresql://u:p@h/db", "postgresql://other@h/db?schema=poolbook", "postgresql://h/db?schema=b"]
    first, second_spelling, other = (mark_of(locate(url)) for url in urls)
    assert first == second_spelling != other
    assert first is not None
    assert Path(first).parent == Path("/state/poolbook")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/alice")
    assert str(mark_of(locate(urls[0]))).startswith("/home/alice/.local/state/poolbook/")
