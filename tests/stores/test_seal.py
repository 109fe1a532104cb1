"""Property: data that is changed, cut, moved or added outside the log's interface is detected."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext, suppress
from hashlib import blake2b
from pathlib import Path

import msgspec
import pytest

from poolbook.adapters.stores.fast_head import head_of
from poolbook.adapters.stores.head_witness import disagreement, read_mark
from poolbook.adapters.stores.seal import AppendBatch, recomputed_seal, seal
from poolbook.adapters.stores.sqlite import open_sqlite
from poolbook.adapters.stores.verification import MAX_PROBLEMS, find_problems
from poolbook.domain.ports.log import Head, LogDamaged, LogError

from ..together import together
from .places import Place
from .samples import AT, changed

COLUMNS = {
    "stored_events": ("originator_id", "originator_version", "topic", "state"),
    "appends": ("position", "format", "epoch", "digest"),
    "head": ("format", "epoch", "position", "digest"),
}


@pytest.fixture
def closed_log(durable: Place) -> Place:
    """A closed log of some 50 events in two epochs."""
    write(durable)
    return durable


def write(place: Place) -> None:
    log = place.open()
    for number in range(0, 48, 6):
        if number in (0, 24):
            log.raise_epoch("w", AT, f"s{number}")
        log.append([changed(i, slot=f"s{i % 5}") for i in range(number, number + 6)])
    log.close()


def bit_flips(value: object) -> Iterator[object]:
    """Return the value with a bit of each of its bytes flipped in turn. If only one byte matters, not the lowest bits:
    the database would refuse a number that is already present."""
    if isinstance(value, int):
        for byte in range(8):
            changed = value ^ (0x40 << 8 * byte)
            yield changed - 2**64 if changed >= 2**63 else changed
    else:
        content = value if isinstance(value, bytes) else str(value).encode()
        for i in range(len(content)):
            yield content[:i] + bytes([content[i] ^ (1 << i % 8)]) + content[i + 1 :]


@pytest.mark.parametrize("step", [17, pytest.param(1, marks=pytest.mark.soak)])
def test_every_byte_of_every_column_is_protected(step: int, sqlite: Place) -> None:
    """Each byte of the numbers, and every 17th of the texts, or in the soak each."""
    write(sqlite)
    tables = open_sqlite(sqlite.url, create=False, read_only=True, lenient=True)
    assert tables is not None and sqlite.mark is not None
    mark = read_mark(sqlite.mark)
    assert find_problems(tables, mark) == []
    flips = 0
    with closing(sqlite3.connect(sqlite.file, isolation_level=None)) as other:
        other.execute("PRAGMA synchronous=OFF")
        for table, columns in COLUMNS.items():
            for column in (*columns, *(["rowid"] if table == "stored_events" else [])):
                rows = other.execute(f"SELECT rowid, {column}, typeof({column}) FROM {table} ORDER BY rowid")
                for rowid, value, kind in rows.fetchall():
                    new = "CAST(? AS TEXT)" if kind == "text" else "?"
                    is_key = column in ("rowid", "position") and table != "head"
                    all_flips = list(bit_flips(value))
                    for flipped_value in all_flips if isinstance(value, int) else all_flips[rowid % step :: step]:
                        other.execute(f"UPDATE {table} SET {column}={new} WHERE rowid=?", (flipped_value, rowid))
                        assert find_problems(tables, mark), (table, rowid, column, value, flipped_value)
                        other.execute(
                            f"UPDATE {table} SET {column}=? WHERE rowid=?", (value, flipped_value if is_key else rowid)
                        )
                        flips += 1
    assert find_problems(tables, mark) == []
    tables.close()
    assert flips > 5000 // step


@pytest.mark.parametrize(("table", "column"), [(table, column) for table in COLUMNS for column in COLUMNS[table]])
def test_a_column_changed_in_any_store_is_found(closed_log: Place, table: str, column: str) -> None:
    digits = "||'0'" if column in ("originator_id", "topic", "digest") else "+1000"
    value = "state||?" if column == "state" else f"{column}{digits}"
    place = "position" if table == "appends" else closed_log.position
    condition = f" WHERE {place}=13" if table != "head" else ""
    closed_log.sql(
        f"UPDATE {table} SET {value.join([f'{column}=', ''])}{condition}", *([b" "] if column == "state" else [])
    )
    assert closed_log.problems() != []


@pytest.mark.parametrize("missing", [(1,), (20,), (20, 21, 22), (50,), tuple(range(1, 51))])
def test_missing_events_raise_an_error_and_hide_those_after_them(closed_log: Place, missing: tuple[int, ...]) -> None:
    for position in missing:
        closed_log.sql(f"DELETE FROM stored_events WHERE {closed_log.position}=?", position)
    log = closed_log.open(create=False, read_only=True)
    read: list[int] = []
    with pytest.raises(LogDamaged, match="events are missing"):
        read.extend(position for position, _ in log.read())
    log.close()
    assert all(position < missing[0] for position in read)


Tampering = Callable[[Place], object]


def cut_end(place: Place, after: int) -> None:
    """Remove the end, and make head and appends agree with it."""
    place.sql(f"DELETE FROM stored_events WHERE {place.position}>?", after)
    place.sql("DELETE FROM appends WHERE position>?", after)
    epoch, digest = place.sql("SELECT epoch, digest FROM appends WHERE position=?", after)[0]
    place.sql("UPDATE head SET epoch=?, position=?, digest=?", epoch, after, digest)


def replace_end(place: Place, after: int, appends: int) -> None:
    """Remove the end, write other events in its place through the log's interface, and restore the mark."""
    cut_end(place, after)
    assert place.mark is not None
    saved_mark = Path(place.mark).read_bytes()
    Path(place.mark).unlink()
    log = place.open()
    for _ in range(appends):
        log.append([changed(99) for _ in range(6)])
    log.close()
    Path(place.mark).write_bytes(saved_mark)


TAMPERINGS: dict[str, tuple[Tampering, str]] = {
    "an event in the middle removed": (
        lambda place: place.sql(f"DELETE FROM stored_events WHERE {place.position}=20"),
        "position 20 is missing; the next one is 21",
    ),
    "the last event removed": (
        lambda place: place.sql(f"DELETE FROM stored_events WHERE {place.position}=50"),
        "an append ends at position 50, but its last event is missing",
    ),
    "the record of an append removed": (
        lambda place: place.sql("DELETE FROM appends WHERE position=19"),
        "the seal of the append that ends at position 25 is broken",
    ),
    "the end cut off with its records": (lambda place: cut_end(place, 44), "its end was truncated"),
    "the end replaced by as much": (lambda place: replace_end(place, 44, 1), "it was replaced"),
    "the end replaced by more": (lambda place: replace_end(place, 38, 3), "it was replaced"),
    "the head set back": (
        lambda place: place.sql(
            "UPDATE head SET position=44, epoch=2, digest=(SELECT digest FROM appends WHERE position=44)"
        ),
        "an append ends at position 50, after the head",
    ),
    "two events swapped": (
        lambda place: [
            place.sql(f"UPDATE stored_events SET {place.position}=? WHERE {place.position}=?", new, old)
            for old, new in ((9, 999), (10, 9), (999, 10))
        ],
        "the seal of the append that ends at position 13 is broken",
    ),
    "an event added behind the head": (
        lambda place: place.sql(
            f"INSERT INTO stored_events ({place.position}, originator_id, originator_version, topic, state) "
            "VALUES (51, 'x', 1, 'slot', ?)",
            b"{}",
        ),
        "the events from position 51 on belong to no append",
    ),
    "an event added at a position that no log has": (
        lambda place: place.sql(
            f"INSERT INTO stored_events ({place.position}, originator_id, originator_version, topic, state) "
            "VALUES (-7, 'x', 1, 'slot', ?)",
            b"{}",
        ),
        "position 1 is missing; the next one is -7",
    ),
    "a second head": (
        lambda place: place.sql("INSERT INTO head SELECT * FROM head"),
        "has 2 heads instead of one",
    ),
    "no head": (lambda place: place.sql("DELETE FROM head"), "has 0 heads instead of one"),
    "everything removed": (
        lambda place: [place.sql(f"DELETE FROM {table}") for table in COLUMNS],
        "has 0 heads instead of one",
    ),
    "a later format": (lambda place: place.sql("UPDATE head SET format=7"), "has format 7"),
    "a format that never was": (lambda place: place.sql("UPDATE head SET format=0"), "has the invalid format 0"),
    "the mark altered": (
        lambda place: Path(place.mark or "").write_bytes(Path(place.mark or "").read_bytes().replace(b" 50 ", b" 49 ")),
        "is not a valid mark of a log",
    ),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_tampering_is_found_and_named(closed_log: Place, name: str) -> None:
    tamper, message = TAMPERINGS[name]
    assert closed_log.problems() == []
    tamper(closed_log)
    assert message in "; ".join(problem.text for problem in closed_log.problems())


@pytest.mark.parametrize(
    "name", ["the end cut off with its records", "the end replaced by as much", "the mark altered"]
)
def test_a_log_that_contradicts_its_mark_opens_only_for_reading(closed_log: Place, name: str) -> None:
    TAMPERINGS[name][0](closed_log)
    with pytest.raises(LogDamaged, match=r"(delete its mark|remove this file)"):
        closed_log.open()
    reader = closed_log.open(create=False, read_only=True)
    assert [position for position, _ in reader.read()] == list(range(1, reader.head.position + 1))


def test_the_remedy_that_the_message_names_works(closed_log: Place) -> None:
    cut_end(closed_log, 44)
    with pytest.raises(LogDamaged, match="delete its mark, the file "):
        closed_log.open()
    Path(closed_log.mark or "").unlink()
    log = closed_log.open()
    assert log.append([changed(1)]) == 45
    log.close()
    assert closed_log.problems() == []


def test_a_log_whose_file_is_missing_is_not_recreated_next_to_its_mark(sqlite: Place) -> None:
    write(sqlite)
    sqlite.file.unlink()
    assert [problem.text for problem in sqlite.problems()] == [f"{sqlite.url} is gone: it had reached position 50"]
    with pytest.raises(LogDamaged, match=r"is gone: it had reached position 50\. Restore it"):
        sqlite.open()


def test_a_copy_without_its_mark_verifies(sqlite: Place, tmp_path: Path) -> None:
    write(sqlite)
    copy = Place("sqlite", str(tmp_path / "copy"), str(tmp_path / "copy.head"))
    shutil.copy(sqlite.file, copy.file)
    assert copy.problems() == []


def test_only_the_first_of_many_problems_are_reported(sqlite: Place) -> None:
    log = sqlite.open()
    log.append([changed(number) for number in range(3 * MAX_PROBLEMS)])
    log.close()
    sqlite.sql("UPDATE stored_events SET originator_version=originator_version+1000000+rowid")
    problems = sqlite.problems()
    assert len(problems) == MAX_PROBLEMS + 1
    assert problems[-1].text.startswith("and more")


def test_a_truncated_file_is_never_accepted_as_complete(sqlite: Place) -> None:
    write(sqlite)
    content = sqlite.file.read_bytes()
    for size in range(0, len(content), 509):
        sqlite.file.write_bytes(content[:size])
        assert sqlite.problems() != []
        with pytest.raises(LogError):
            sqlite.open(create=size % 2 == 0).append([changed(1)])


def test_a_bit_flipped_anywhere_in_the_file_is_found_or_changes_nothing(sqlite: Place) -> None:
    write(sqlite)
    content = sqlite.file.read_bytes()
    events = list(sqlite.open(create=False, read_only=True).read())
    found_count = 0
    for place in range(0, len(content), 191):
        sqlite.file.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        if sqlite.problems():
            found_count += 1
        else:
            assert list(sqlite.open(create=False, read_only=True).read()) == events
    assert found_count > 20


def test_a_damaged_schema_is_reported(sqlite: Place) -> None:
    write(sqlite)
    content = sqlite.file.read_bytes()
    schema = range(content.rindex(b"CREATE TABLE head") - 900, 4096, 11)
    for place in schema:
        sqlite.file.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        sqlite.problems()
        for call in (lambda: list(sqlite.open(create=False, read_only=True).read()), lambda: head_of(sqlite.url)):
            with suppress(LogError):
                call()


CUTS = [
    "DELETE FROM stored_events WHERE {position}=(SELECT MAX({position}) FROM stored_events)",
    "DELETE FROM stored_events WHERE {position}>8",
    "DELETE FROM appends WHERE position>8",
]


@pytest.mark.parametrize("statement", CUTS)
@pytest.mark.parametrize("marked", [True, False])
def test_a_log_whose_tail_was_cut_opens_for_reading_only(closed_log: Place, statement: str, marked: bool) -> None:
    closed_log.sql(statement.format(position=closed_log.position))
    if not marked:
        Path(closed_log.mark or "").unlink()
    with pytest.raises(LogDamaged, match="was truncated"):
        closed_log.open(create=False)
    with closing(closed_log.open(create=False, read_only=True)) as log:
        assert next(log.read())[0] == 1


def test_any_byte_of_the_mark_changed_is_found(sqlite: Place) -> None:
    write(sqlite)
    mark = Path(sqlite.mark or "")
    content = mark.read_bytes()
    for place in range(len(content)):
        mark.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert [problem.text for problem in sqlite.problems()] != []


MARK = Head(3, 7, "a" * 64)
END = Head(4, 9, "b" * 64)


@together(
    ("mark", "sealed", "expected"),
    [
        (MARK, (3, "a" * 64), None),
        (MARK, (3, "c" * 64), "it was replaced"),
        (MARK, (2, "a" * 64), "it was replaced"),
        (MARK, (4, "a" * 64), "it was replaced"),
        (MARK, None, "it was replaced"),
        (Head(4, 10, "a" * 64), None, "its end was truncated"),
        (None, None, None),
    ],
)
def test_a_mark_and_a_log_agree_in_position_epoch_and_digest(
    mark: Head | None, sealed: tuple[int, str] | None, expected: str | None
) -> None:
    message = disagreement(mark, END, lambda position: sealed if position == 7 else None)
    assert (message is None) == (expected is None)
    assert expected is None or expected in str(message)


@pytest.mark.parametrize(("after", "limit", "read"), [(0, None, 19), (6, 3, 3), (13, None, 6), (26, None, 24)])
def test_no_altered_event_is_read_and_the_error_names_its_positions(
    closed_log: Place, after: int, limit: int | None, read: int
) -> None:
    """The event at position 20 was replaced by another well-formed one; its append has the positions 20 to 25."""
    (state,) = closed_log.sql(f"SELECT state FROM stored_events WHERE {closed_log.position}=20")[0]
    altered_state = bytes(state).replace(b"slot", b"slOt", 1)
    assert altered_state != bytes(state)
    closed_log.sql(f"UPDATE stored_events SET state=? WHERE {closed_log.position}=20", altered_state)
    log = closed_log.open(read_only=True)
    read_events = []
    with (
        nullcontext()
        if read in (3, 24)
        else pytest.raises(LogDamaged, match=r"damaged between positions 20 and 25.*backup")
    ):
        for position, _ in log.read(after, limit):
            read_events.append(position)
    assert read_events == list(range(after + 1, after + 1 + read))


@pytest.mark.parametrize("count", [0, 1, 15, 16, 1000, 1001, 2000, 65_535, 65_536])
def test_the_seal_of_any_number_of_events_is_the_digest_of_one_array(count: int) -> None:
    streams, numbers = [f"slot{number % 7}" for number in range(count)], [*range(1, count + 1)]
    batch = AppendBatch(1, streams, numbers, ["slots.created"] * count, [b"x" * (number % 300) for number in numbers])
    expected = blake2b(msgspec.msgpack.encode(("before", 3, 2, *batch)), digest_size=32).hexdigest()
    rows = [*zip(numbers, *batch[1:], strict=True)]
    assert seal("before", 3, 2, batch) == recomputed_seal("before", 3, 2, 1, rows) == expected
