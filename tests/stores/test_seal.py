"""Property: whatever is changed, cut, moved or added behind a log's back is found."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext, suppress
from pathlib import Path

import pytest

from poolbook.adapters.stores.fast_head import head_of
from poolbook.adapters.stores.head_witness import disagreement, read_mark
from poolbook.adapters.stores.sqlite import open_sqlite
from poolbook.adapters.stores.verification import MOST, problems_of
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
def written(durable: Place) -> Place:
    """A log of some 50 events in two epochs, closed."""
    write(durable)
    return durable


def write(place: Place) -> None:
    log = place.open()
    for number in range(0, 48, 6):
        if number in (0, 24):
            log.raise_epoch("w", AT, f"s{number}")
        log.append([changed(i, slot=f"s{i % 5}") for i in range(number, number + 6)])
    log.close()


def flipped(value: object) -> Iterator[object]:
    """The value with a bit of each of its bytes flipped in turn. Where one byte would do, not the lowest bits: a number
    that is there already would be refused by the database."""
    if isinstance(value, int):
        for byte in range(8):
            changed = value ^ (0x40 << 8 * byte)
            yield changed - 2**64 if changed >= 2**63 else changed
    else:
        content = value if isinstance(value, bytes) else str(value).encode()
        for i in range(len(content)):
            yield content[:i] + bytes([content[i] ^ (1 << i % 8)]) + content[i + 1 :]


@pytest.mark.parametrize("step", [17, pytest.param(1, marks=pytest.mark.soak)])
def test_every_byte_of_every_column_is_guarded(step: int, sqlite: Place) -> None:
    """Each byte of the numbers, and of the texts each 17th, or in the soak each."""
    write(sqlite)
    tables = open_sqlite(sqlite.url, create=False, read_only=True, lenient=True)
    assert tables is not None and sqlite.mark is not None
    mark = read_mark(sqlite.mark)
    assert problems_of(tables, mark) == []
    flips = 0
    with closing(sqlite3.connect(sqlite.file, isolation_level=None)) as other:
        other.execute("PRAGMA synchronous=OFF")
        for table, columns in COLUMNS.items():
            for column in (*columns, *(["rowid"] if table == "stored_events" else [])):
                rows = other.execute(f"SELECT rowid, {column}, typeof({column}) FROM {table} ORDER BY rowid")
                for rowid, value, kind in rows.fetchall():
                    new = "CAST(? AS TEXT)" if kind == "text" else "?"
                    moved = column in ("rowid", "position") and table != "head"
                    all_flips = list(flipped(value))
                    for wrong in all_flips if isinstance(value, int) else all_flips[rowid % step :: step]:
                        other.execute(f"UPDATE {table} SET {column}={new} WHERE rowid=?", (wrong, rowid))
                        assert problems_of(tables, mark), (table, rowid, column, value, wrong)
                        other.execute(
                            f"UPDATE {table} SET {column}=? WHERE rowid=?", (value, wrong if moved else rowid)
                        )
                        flips += 1
    assert problems_of(tables, mark) == []
    tables.close()
    assert flips > 5000 // step


@pytest.mark.parametrize(("table", "column"), [(table, column) for table in COLUMNS for column in COLUMNS[table]])
def test_a_column_changed_in_any_store_is_found(written: Place, table: str, column: str) -> None:
    digits = "||'0'" if column in ("originator_id", "topic", "digest") else "+1000"
    value = "state||?" if column == "state" else f"{column}{digits}"
    place = "position" if table == "appends" else written.position
    where = f" WHERE {place}=13" if table != "head" else ""
    written.sql(f"UPDATE {table} SET {value.join([f'{column}=', ''])}{where}", *([b" "] if column == "state" else []))
    assert written.problems() != []


@pytest.mark.parametrize("missing", [(1,), (20,), (20, 21, 22), (50,), tuple(range(1, 51))])
def test_missing_events_raise_an_error_and_hide_those_after_them(written: Place, missing: tuple[int, ...]) -> None:
    for position in missing:
        written.sql(f"DELETE FROM stored_events WHERE {written.position}=?", position)
    log = written.open(create=False, read_only=True)
    read: list[int] = []
    with pytest.raises(LogDamaged, match="events are missing"):
        read.extend(position for position, _ in log.read())
    log.close()
    assert all(position < missing[0] for position in read)


Tampering = Callable[[Place], object]


def cut(place: Place, after: int) -> None:
    """Take the end off, and make head and appends agree with it."""
    place.sql(f"DELETE FROM stored_events WHERE {place.position}>?", after)
    place.sql("DELETE FROM appends WHERE position>?", after)
    epoch, digest = place.sql("SELECT epoch, digest FROM appends WHERE position=?", after)[0]
    place.sql("UPDATE head SET epoch=?, position=?, digest=?", epoch, after, digest)


def replace(place: Place, after: int, appends: int) -> None:
    """Take the end off, write other events in its place by a log's own means, and put the mark back."""
    cut(place, after)
    assert place.mark is not None
    kept = Path(place.mark).read_bytes()
    Path(place.mark).unlink()
    log = place.open()
    for _ in range(appends):
        log.append([changed(99) for _ in range(6)])
    log.close()
    Path(place.mark).write_bytes(kept)


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
    "the end cut off with its records": (lambda place: cut(place, 44), "its end was truncated"),
    "the end replaced by as much": (lambda place: replace(place, 44, 1), "it was replaced"),
    "the end replaced by more": (lambda place: replace(place, 38, 3), "it was replaced"),
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
def test_tampering_is_found_and_named(written: Place, name: str) -> None:
    tamper, words = TAMPERINGS[name]
    assert written.problems() == []
    tamper(written)
    assert words in "; ".join(problem.text for problem in written.problems())


@pytest.mark.parametrize(
    "name", ["the end cut off with its records", "the end replaced by as much", "the mark altered"]
)
def test_what_the_mark_does_not_know_is_not_opened_for_writing_but_can_be_read(written: Place, name: str) -> None:
    TAMPERINGS[name][0](written)
    with pytest.raises(LogDamaged, match=r"remove (its mark|this file)"):
        written.open()
    reader = written.open(create=False, read_only=True)
    assert [position for position, _ in reader.read()] == list(range(1, reader.head.position + 1))


def test_the_way_out_that_the_message_names_works(written: Place) -> None:
    cut(written, 44)
    with pytest.raises(LogDamaged, match="remove its mark"):
        written.open()
    Path(written.mark or "").unlink()
    log = written.open()
    assert log.append([changed(1)]) == 45
    log.close()
    assert written.problems() == []


def test_a_log_whose_file_is_gone_is_not_begun_anew_beside_its_mark(sqlite: Place) -> None:
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


def test_of_very_many_problems_the_first_are_reported(sqlite: Place) -> None:
    log = sqlite.open()
    log.append([changed(number) for number in range(3 * MOST)])
    log.close()
    sqlite.sql("UPDATE stored_events SET originator_version=originator_version+1000000+rowid")
    problems = sqlite.problems()
    assert len(problems) == MOST + 1
    assert problems[-1].text.startswith("and more")


def test_a_file_that_was_cut_is_found_and_never_taken_for_whole(sqlite: Place) -> None:
    write(sqlite)
    whole = sqlite.file.read_bytes()
    for size in range(0, len(whole), 509):
        sqlite.file.write_bytes(whole[:size])
        assert sqlite.problems() != []
        with pytest.raises(LogError):
            sqlite.open(create=size % 2 == 0).append([changed(1)])


def test_a_bit_flipped_anywhere_in_the_file_is_found_or_changes_nothing(sqlite: Place) -> None:
    write(sqlite)
    whole = sqlite.file.read_bytes()
    events = list(sqlite.open(create=False, read_only=True).read())
    found = 0
    for place in range(0, len(whole), 191):
        sqlite.file.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        if sqlite.problems():
            found += 1
        else:
            assert list(sqlite.open(create=False, read_only=True).read()) == events
    assert found > 20


def test_a_damaged_schema_is_reported(sqlite: Place) -> None:
    write(sqlite)
    whole = sqlite.file.read_bytes()
    schema = range(whole.rindex(b"CREATE TABLE head") - 900, 4096, 11)
    for place in schema:
        sqlite.file.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
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
def test_a_log_whose_tail_was_cut_opens_for_reading_only(written: Place, statement: str, marked: bool) -> None:
    written.sql(statement.format(position=written.position))
    if not marked:
        Path(written.mark or "").unlink()
    with pytest.raises(LogDamaged, match="was truncated"):
        written.open(create=False)
    with closing(written.open(create=False, read_only=True)) as log:
        assert next(log.read())[0] == 1


def test_any_byte_of_the_mark_changed_is_found(sqlite: Place) -> None:
    write(sqlite)
    mark = Path(sqlite.mark or "")
    whole = mark.read_bytes()
    for place in range(len(whole)):
        mark.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert [problem.text for problem in sqlite.problems()] != []


MARK = Head(3, 7, "a" * 64)
END = Head(4, 9, "b" * 64)


@together(
    ("mark", "sealed", "wrong"),
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
    mark: Head | None, sealed: tuple[int, str] | None, wrong: str | None
) -> None:
    said = disagreement(mark, END, lambda position: sealed if position == 7 else None)
    assert (said is None) == (wrong is None)
    assert wrong is None or wrong in str(said)


@pytest.mark.parametrize(("after", "limit", "read"), [(0, None, 19), (6, 3, 3), (13, None, 6), (26, None, 24)])
def test_no_altered_event_is_read_and_the_error_names_its_positions(
    written: Place, after: int, limit: int | None, read: int
) -> None:
    """The event at position 20 became another, as well formed; its append has the positions 20 to 25."""
    (state,) = written.sql(f"SELECT state FROM stored_events WHERE {written.position}=20")[0]
    altered = bytes(state).replace(b"slot", b"slOt", 1)
    assert altered != bytes(state)
    written.sql(f"UPDATE stored_events SET state=? WHERE {written.position}=20", altered)
    log = written.open(read_only=True)
    seen = []
    with (
        nullcontext()
        if read in (3, 24)
        else pytest.raises(LogDamaged, match=r"damaged between positions 20 and 25.*copy")
    ):
        for position, _ in log.read(after, limit):
            seen.append(position)
    assert seen == list(range(after + 1, after + 1 + read))
