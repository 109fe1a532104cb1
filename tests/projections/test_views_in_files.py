"""Property: views in a file agree with their position at any time, and they are restored whatever happens to them."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from poolbook.adapters.runtime import views
from poolbook.adapters.runtime.queries import Queries
from poolbook.adapters.runtime.views import catch_up, open_tables, rebuild, views_current, views_path
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.events import ClusterSubmitted, Event, SlotCreated
from poolbook.domain.ports.log import EventStore, LogError, LogUnavailable
from poolbook.projections import projector
from poolbook.projections.checkpoint import read_checkpoint, write_checkpoint
from poolbook.projections.projector import apply
from poolbook.projections.schema import FORMAT

from ..children import child, exit_code
from .pools import Pool, busy_pool, dump, folded

BATCH = 30


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return a log of a busy pool, in a file, without views."""
    path = str(tmp_path / "pool.db")
    with closing(open_log(path, create=True)) as log:
        log.append([event for _, event in busy_pool().events])
    return path


def truth(url: str, upto: int | None = None) -> dict[str, list[tuple[object, ...]]]:
    """Return the views of a log, folded from its beginning."""
    with closing(open_log(url, create=False, read_only=True)) as log:
        return dump(folded(list(log.read(0, upto))), but="tracking")


def contents(url: str) -> dict[str, list[tuple[object, ...]]]:
    """Return what a reader of the views sees."""
    with views_current(url) as views:
        return dump(views.connection, but="tracking")


def statements(url: str, path: str, stop_at: int | None = None) -> int:
    """Catch up; return how many statements that took, or kill this process at one of them."""
    count = 0

    def count_statement(statement: str) -> None:
        nonlocal count
        if count == stop_at:
            os.kill(os.getpid(), signal.SIGKILL)
        count += 1

    with closing(open_log(url, create=False, read_only=True)) as log, closing(open_tables(path)) as tables:
        tables.set_trace_callback(count_statement)
        catch_up(log, tables, batch=BATCH)
    return count


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.soak)])
def test_views_survive_a_kill_at_any_statement(step: int, tmp_path: Path) -> None:
    url = str(tmp_path / "short.db")
    with closing(open_log(url, create=True)) as log:
        log.append([event for _, event in busy_pool().events[:110]])
    expected = {upto: truth(url, upto) for upto in range(0, 110, BATCH)}
    truth_found = truth(url)
    total = statements(url, str(tmp_path / "other.views"))
    assert total > 90
    positions = set()
    for stop_at in {0, *range(step - 1, total, step)}:
        path = str(tmp_path / f"{stop_at}.views")
        assert exit_code(partial(statements, url, path, stop_at)) == -signal.SIGKILL
        with closing(open_tables(path)) as tables:
            if tables.execute("PRAGMA user_version").fetchone()[0]:
                position = read_checkpoint(tables).position
                positions.add(position)
                assert dump(tables, but="tracking") == expected.get(position, truth_found)
            else:
                assert tables.execute("SELECT name FROM sqlite_master").fetchall() == []
        statements(url, path)
        with closing(open_tables(path)) as tables:
            assert dump(tables, but="tracking") == truth_found
    assert positions >= {30, 60, 90}


def test_views_of_large_events_are_updated_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def note_and_apply(
        connection: sqlite3.Connection, events: Sequence[tuple[int, Event]], digest: str, log: str
    ) -> None:
        sizes.append(len(events))
        apply(connection, events, digest, log)

    monkeypatch.setattr(projector, "apply", note_and_apply)
    monkeypatch.setattr(views, "BATCH_BYTES", 100_000)
    large = SlotCreated(0, "configured", "s", "slot1@h", "h", "static", "", {"A": "1" * 40_000})
    with closing(open_log("memory:", create=True)) as log, closing(open_tables(None)) as tables:
        log.append([replace(large, slot=f"slot{number}@h") for number in range(1000)])
        assert catch_up(log, tables) == 1000
    assert sum(sizes) == 1000
    assert max(sizes) < 500


def test_several_processes_may_update_the_same_views(url: str) -> None:
    def catch_up_here(_: int) -> None:
        path = views_path(url)
        with closing(open_log(url, create=False, read_only=True)) as log, closing(open_tables(path)) as tables:
            catch_up(log, tables, shared=True, batch=3)

    with ExitStack() as stack:
        children = [stack.enter_context(child(catch_up_here)) for _ in range(4)]
        assert [child.wait() for child in children] == [0, 0, 0, 0]
    assert contents(url) == truth(url)


def test_a_reader_sees_what_was_appended_since(url: str) -> None:
    assert contents(url) == truth(url)
    with closing(open_log(url, create=False)) as log:
        log.append([event for _, event in log.read(log.head.position - 1)])
    assert contents(url) == truth(url)


def test_views_that_are_current_are_not_written(url: str) -> None:
    contents(url)
    before = os.stat(f"{url}.views").st_mtime_ns
    contents(url)
    assert os.stat(f"{url}.views").st_mtime_ns == before


@pytest.mark.parametrize("batch", [1000, 7])
def test_views_at_the_head_of_a_log_have_its_digest(url: str, batch: int) -> None:
    """It shows the next reader immediately that they are current."""
    with closing(open_log(url, create=False, read_only=True)) as log, closing(open_tables(f"{url}.views")) as tables:
        catch_up(log, tables, batch=batch)
        head = log.head
        assert read_checkpoint(tables)[:2] == (head.position, head.digest)
        write_checkpoint(
            tables, read_checkpoint(tables)._replace(digest="")
        )  # as on the way to a head that was cut off
        catch_up(log, tables)
        assert read_checkpoint(tables)[:2] == (head.position, head.digest)


def test_a_reader_sees_one_consistent_position(url: str) -> None:
    with views_current(url) as views:
        before = dump(views.connection)
        with closing(open_log(url, create=False)) as log:
            log.append([event for _, event in log.read(2, 2)])
        contents(url)
        assert dump(views.connection) == before
        assert views.position == before["tracking"][0][1]


# -- which log the views belong to


def cut(url: str) -> None:
    """Remove the last events of the log in a file, as an older copy would."""
    older = f"{url}.older"
    with closing(open_log(url, create=False, read_only=True)) as log, closing(open_log(older, create=True)) as copy:
        copy.append([event for _, event in log.read(0, 100)])
    put_in_place(url, older)


def put_in_place(url: str, other: str) -> None:
    for suffix in ("-wal", "-shm", ".head"):
        Path(url + suffix).unlink(missing_ok=True)
    os.replace(other, url)


def written_on(url: str) -> None:
    """Replace the log with an older copy whose pool wrote other events, up to a later position."""
    cut(url)
    with closing(open_log(url, create=False)) as log:
        log.append([event for _, event in busy_pool("htcondor-25").events][:150])


def another(url: str) -> None:
    """Replace the log with another one of the same length."""
    with closing(open_log(url, create=False, read_only=True)) as log:
        length = log.head.position
    other_url = f"{url}.other"
    events = [event for _, event in busy_pool("htcondor-25").events]
    with closing(open_log(other_url, create=True)) as copy:
        copy.append((events + events)[:length])
    put_in_place(url, other_url)


def altered(url: str) -> None:
    """Replace the log with one that ends with the same event at the same position, but differs before."""
    other_url = f"{url}.other"
    with closing(open_log(url, create=False, read_only=True)) as log, closing(open_log(other_url, create=True)) as copy:
        events = [event for _, event in log.read()]
        at, event = next((at, event) for at, event in enumerate(events) if isinstance(event, ClusterSubmitted))
        events[at] = replace(event, ad={})
        copy.append(events)
    put_in_place(url, other_url)


def another_of_the_same_events(url: str) -> None:
    """Replace the log with another one that had another submission, and is beyond the event at which the views
    stopped."""
    other_url = f"{url}.other"
    with closing(open_log(url, create=False, read_only=True)) as log, closing(open_log(other_url, create=True)) as copy:
        events = [event for _, event in log.read()]
        events[0] = replace(events[0], log="0123456789abcdef")
        at, event = next((at, event) for at, event in enumerate(events) if isinstance(event, ClusterSubmitted))
        events[at] = replace(event, ad={})
        copy.append([*events, *events[-5:]])
    put_in_place(url, other_url)


def of_another_format(url: str) -> None:
    with closing(sqlite3.connect(f"{url}.views")) as tables:
        tables.execute("DROP TABLE history")
        tables.execute("CREATE TABLE other (x)")
        tables.execute(f"PRAGMA user_version={FORMAT + 1}")
        tables.commit()


def removed(url: str) -> None:
    os.unlink(f"{url}.views")


@pytest.mark.parametrize(
    "happens", [cut, written_on, another, altered, another_of_the_same_events, of_another_format, removed]
)
def test_views_of_another_log_are_rebuilt(url: str, happens: Callable[[str], None]) -> None:
    contents(url)
    happens(url)
    assert contents(url) == truth(url)


def test_views_have_the_id_of_their_log(url: str) -> None:
    with views_current(url) as views, closing(open_log(url, create=False, read_only=True)) as log:
        assert read_checkpoint(views.connection).log == log.id != ""


def test_a_writers_own_log_and_views_in_memory() -> None:
    pool = busy_pool()
    with closing(open_tables(None)) as tables:
        assert catch_up(pool.log, tables) == len(pool.events)
        assert dump(tables, but="tracking") == dump(folded(pool.events), but="tracking")
        pool.submit(3)
        assert catch_up(pool.log, tables) == catch_up(pool.log, tables) == len(pool.events)
        assert dump(tables, but="tracking") == dump(folded(pool.events), but="tracking")
        other_log: EventStore = Pool().log
        assert catch_up(other_log, tables) == other_log.head.position
        assert dump(tables, but="tracking") == dump(folded(list(other_log.read())), but="tracking")


def test_a_log_in_memory_is_read_by_its_name() -> None:
    log = open_log("memory:shared", create=True)
    Pool(log, cpus=0).submit(2)
    with views_current("memory:shared") as views:
        assert views.totals() == {"alice": {1: 2}}


# -- failures


@contextmanager
def as_nobody(folder: Path) -> Iterator[None]:
    """Become a user who may read a directory and its files, but not write there."""
    for path in [*folder.parents, folder]:
        if path.stat().st_uid == os.geteuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o055)
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        folder.chmod(0o755)


@pytest.mark.parametrize("state", ["missing", "current", "behind"])
def test_a_log_in_a_folder_that_cannot_be_written_is_read(url: str, tmp_path: Path, state: str) -> None:
    expected = contents(url)
    if state == "missing":
        removed(url)
    if state == "behind":
        with closing(open_log(url, create=False)) as log:
            log.append([event for _, event in log.read(2, 2)])
        expected = truth(url)
    before = sorted(os.listdir(tmp_path))
    with as_nobody(tmp_path):
        assert contents(url) == expected
    assert sorted(os.listdir(tmp_path)) == before


def damaged(path: str) -> None:
    with open(path, "r+b") as file:
        file.seek(100)
        file.write(os.urandom(50_000))


def no_database(path: str) -> None:
    Path(path).write_bytes(b"A letter to my aunt. " * 400)


@pytest.mark.parametrize(
    ("happens", "says"),
    [
        (damaged, r"the views \S+pool.db.views are damaged \(.+\); `poolbook views` rebuilds them"),
        (no_database, r"the views \S+pool.db.views are damaged \(file is not a database\); `poolbook views`"),
    ],
)
def test_damaged_views_are_reported_and_rebuilt_on_demand(url: str, happens: Callable[[str], None], says: str) -> None:
    contents(url)
    happens(f"{url}.views")
    with pytest.raises(LogUnavailable, match=says):
        contents(url)
    assert rebuild(url) == len(folded_events(url))
    assert contents(url) == truth(url)


NO_TEXT, NO_JSON = "CAST(x'7b22ff' AS TEXT)", "'{\"a'"


@pytest.mark.parametrize("value", [NO_TEXT, NO_JSON])
@pytest.mark.parametrize(
    ("cell", "question"),
    [
        ("clusters.ad", lambda queries: list(queries.queue().ads)),
        ("jobs.changes", lambda queries: list(queries.queue().ads)),
        ("history.changes", lambda queries: list(queries.history())),
        ("machines.record", lambda queries: queries.views.machines()),
        ("history.changes", lambda queries: queries.usage()),
    ],
)
def test_a_damaged_cell_is_reported_with_the_fix(
    url: str, cell: str, value: str, question: Callable[[Queries], object]
) -> None:
    contents(url)
    table, column = cell.split(".")
    with closing(sqlite3.connect(f"{url}.views")) as tables, tables:
        assert tables.execute(f"UPDATE {table} SET {column}={value}").rowcount > 0
    message = r"the views \S+ cannot be used .*; `poolbook views` rebuilds them"
    with pytest.raises(LogUnavailable, match=message), Queries(url) as queries:
        question(queries)


def test_sound_views_are_rebuilt_on_demand_under_their_readers(url: str) -> None:
    with views_current(url) as reader:
        before = dump(reader.connection)
        with closing(sqlite3.connect(f"{url}.views")) as tables:
            tables.execute("UPDATE jobs SET status = 4")
            tables.commit()
        assert contents(url) != truth(url)
        assert rebuild(url) == len(folded_events(url))
        assert dump(reader.connection) == before
    assert contents(url) == truth(url)


@pytest.mark.parametrize("does", [contents, rebuild])
def test_a_file_that_is_not_a_views_file_is_left_alone(url: str, does: Callable[[str], object]) -> None:
    with closing(sqlite3.connect(f"{url}.views")) as tables:
        tables.execute("CREATE TABLE recipes (name)")
    before = Path(f"{url}.views").read_bytes()
    with pytest.raises(LogUnavailable, match=r"the views \S+ are another program's SQLite database; move it"):
        does(url)
    assert Path(f"{url}.views").read_bytes() == before


def folded_events(url: str) -> list[object]:
    with closing(open_log(url, create=False, read_only=True)) as log:
        return list(log.read())


def test_there_are_no_views_without_a_log(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"there is no log at \S+nowhere\.db"):
        views_current(str(tmp_path / "nowhere.db"))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("pool.db", "pool.db.views"),
        ("sqlite:////folder/pool.db", "/folder/pool.db.views"),
        ("memory:", None),
        ("memory:name", None),
    ],
)
def test_views_are_next_to_their_log(url: str, path: str | None) -> None:
    assert views_path(url) == path


def test_views_of_a_log_on_a_server_are_next_to_its_mark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path, other_path = (views_path(f"postgresql://user@host/pool?schema={name}") for name in ("a", "b"))
    assert path is not None and path.startswith(str(tmp_path)) and path.endswith(".views") and path != other_path


def test_a_short_command_imports_neither_events_nor_the_engine(url: str) -> None:
    """Each of them takes longer to import than a short command may run."""
    contents(url)
    from subprocess import run
    from sys import executable

    code = (
        "import sys; from poolbook.adapters.runtime.views import views_current; views = views_current(sys.argv[1]); "
        "views.totals(); views.batches(); list(views.columns(['ClusterId', 'ProcId', 'JobStatus'])); "
        "print(*sorted({name.partition('.')[0] for name in sys.modules} & "
        "{'attrs', 'attr', 'msgspec', 'sqlite_utils', 'eventsourcing', 'numpy'}), "
        "'poolbook.domain.classad' in sys.modules)"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / ".path")}
    completed = run([executable, "-c", code, url], capture_output=True, text=True, env=environment, check=True)
    assert completed.stdout.split() == ["False"]
