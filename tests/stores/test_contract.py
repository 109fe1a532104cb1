"""Property: the guarantees of every store of a log. Each test runs on each kind of store."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import attrs
import pytest
from eventsourcing.persistence import IntegrityError, StoredEvent

from poolbook.adapters.stores.codec import CODEC
from poolbook.adapters.stores.persistence import StoreRecorder
from poolbook.adapters.stores.stored_log import StoredLog
from poolbook.domain.events import DrainBegan, Event, MachineLeft, SlotDestroyed, WriterBegan
from poolbook.domain.ports.log import Fenced, Head, LogError, LogUnavailable

from .places import DURABLE, Place
from .samples import AT, changed, samples


def test_ci_tests_postgresql_too() -> None:
    assert "postgresql" in DURABLE or os.environ.get("CI", "").lower() not in ("true", "1")


# Appending -------------------------------------------------------------------------------------


def test_a_new_log_is_empty(place: Place) -> None:
    log = place.open()
    assert (log.head.epoch, log.head.position) == (0, 0)
    assert list(log.read()) == []


def test_appended_events_are_read_in_order_with_positions_from_1(place: Place) -> None:
    log = place.open()
    events = samples(100)
    assert log.append(events[:3]) == 3
    assert log.append(events[3:4]) == 4
    assert log.append(events[4:]) == 100
    assert list(log.read()) == list(enumerate(events, 1))


def test_an_empty_append_changes_nothing(place: Place) -> None:
    log = place.open()
    log.append(samples(2))
    before = log.head
    assert log.append([]) == 2
    assert log.head == before == log.refresh()


def test_each_append_moves_the_head_and_its_digest(place: Place) -> None:
    log = place.open()
    digests = {log.head.digest}
    for number in range(5):
        log.append([changed(0)])
        digests.add(log.head.digest)
        assert log.head.position == number + 1
    assert len(digests) == 6


def test_the_same_events_have_the_same_digest_in_every_store(place: Place) -> None:
    log = place.open()
    log.append([changed(1), changed(2, text="\U0001f412 Grüße")])
    log.raise_epoch("me", AT, "s")
    assert log.head == Head(1, 3, "1b44c17c0af6947866686ae841848bbc76b7d64eca34ecb72aa7d56be5a088cd")


def test_an_event_of_5_mb_is_kept(place: Place) -> None:
    log = place.open()
    large = [changed(1, text="x" * 5_000_000), changed(2), changed(3, text="ü" * 2_500_000)]
    log.append(large)
    assert [event for _, event in place.open().read()] == large


@pytest.mark.parametrize("text", ["", "\0", '"\\/\b\f\n\r\t', "\x7f\u2028\u2029\ufeff\ufffd", "\U0001f412e\u0301"])
def test_every_text_is_returned_unchanged(place: Place, text: str) -> None:
    log = place.open()
    event = changed(1, slot=f"slot{text.replace(chr(0), '')}@host", text=text)
    log.append([event])
    assert list(place.open().read_stream(event.stream)) == [(1, event)]


def test_an_event_that_no_log_can_hold_is_refused_and_nothing_is_appended(place: Place) -> None:
    log = place.open()
    log.append([changed(1)])
    before = log.head
    for invalid, message in [
        (changed(2, text="\udc80"), "SlotAdChanged of stimulus 's-2' cannot be stored in a log"),
        (changed(2, slot="\0"), "NUL"),
        (WriterBegan(at=AT, cause="writer", stimulus="s", epoch=1, writer="me"), "use raise_epoch"),
    ]:
        with pytest.raises(LogError, match=message):
            log.append([changed(3), invalid])
    assert log.append([changed(4)]) == before.position + 1
    assert place.problems() == []


# Reading ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after", "limit", "positions"),
    [
        (0, None, range(1, 4001)),
        (0, 3, range(1, 4)),
        (3990, None, range(3991, 4001)),
        (3990, 100, range(3991, 4001)),
        (1000, 2000, range(1001, 3001)),
        (4000, None, range(0)),
        (9999, None, range(0)),
        (0, 0, range(0)),
        (-5, 2, range(1, 3)),
    ],
)
def test_a_part_of_the_log_is_read(place: Place, after: int, limit: int | None, positions: range) -> None:
    log = place.open()
    events = [changed(number) for number in range(4000)]
    log.append(events)
    assert list(log.read(after, limit)) == [(position, events[position - 1]) for position in positions]


def test_a_stream_is_read_alone(place: Place) -> None:
    log = place.open()
    events = [changed(number, slot=f"slot{number % 3}@host") for number in range(3000)]
    for i in range(0, 3000, 1000):
        log.append(events[i : i + 1000])
    of_one = [(position, event) for position, event in enumerate(events, 1) if event.slot == "slot1@host"]
    assert list(log.read_stream("slot/slot1@host")) == of_one
    assert list(log.read_stream("slot/slot1@host", after=2000)) == [pair for pair in of_one if pair[0] > 2000]
    assert list(log.read_stream("slot/slot1@host", after=3000)) == []
    assert list(log.read_stream("slot/slot")) == []
    assert list(log.read_back("slot/slot1@host")) == of_one[::-1]
    assert list(log.read_back("slot/slot1@host", before=2000)) == [pair for pair in of_one if pair[0] < 2000][::-1]
    assert list(log.read_back("slot/slot1@host", before=1)) == list(log.read_back("slot/slot")) == []


def test_events_of_some_kinds_are_read_from_a_stream(place: Place) -> None:
    log = place.open()
    destroyed = SlotDestroyed(AT, "reconfigured", "s", "slot1@host")
    log.append([changed(1), destroyed, *[changed(number) for number in range(3000)], destroyed, changed(2)])
    assert list(log.read_back("slot/slot1@host", kinds=[SlotDestroyed])) == [(3003, destroyed), (2, destroyed)]
    assert list(log.read_back("slot/slot1@host", before=3003, kinds=[SlotDestroyed, DrainBegan])) == [(2, destroyed)]


def test_a_reader_sees_the_log_up_to_the_head_that_it_knows(place: Place) -> None:
    writer, reader = place.open(), place.open()
    writer.append(samples(10))
    assert list(reader.read()) == list(reader.read_stream(changed(1).stream)) == []
    assert reader.refresh() == writer.head
    assert len(list(reader.read())) == 10


def test_appending_while_reading_does_not_disturb_either(place: Place) -> None:
    log = place.open()
    log.append([changed(number) for number in range(3000)])
    reading = log.read()
    first = list(islice(reading, 10))
    log.append([changed(number) for number in range(3000, 6000)])
    assert [position for position, _ in [*first, *reading]] == list(range(1, 3001))


def test_abandoned_readings_do_not_block_appends(place: Place) -> None:
    log = place.open()
    log.append(samples(2000))
    readings = [log.read() for _ in range(50)]
    assert [next(reading)[0] for reading in readings] == [1] * 50
    assert log.append([changed(1)]) == 2001


# The fence -------------------------------------------------------------------------------------


def test_only_one_of_two_writers_at_one_head_succeeds_in_any_streams(place: Place) -> None:
    first, second = place.open(), place.open()
    first.append([changed(1, slot="a")])
    with pytest.raises(Fenced, match="another writer has appended; refresh, read the new events"):
        second.append([changed(2, slot="b")])
    assert [event.stream for _, event in place.open().read()] == ["slot/a"]


def test_a_fenced_writer_continues_after_a_refresh(place: Place) -> None:
    first, second = place.open(), place.open()
    second.append([changed(0)])
    first.refresh()
    first.append([changed(1)])
    for _ in range(2):
        with pytest.raises(Fenced):
            second.append([changed(2)])
    assert second.refresh() == first.head
    assert second.append([changed(3)]) == 3
    assert place.problems() == []


@pytest.mark.parametrize("other", ["position", "digest", "epoch"])
def test_a_writer_is_fenced_by_any_other_head(place: Place, other: str) -> None:
    """As when the log under a writer was replaced by another one of the same length."""
    log = place.open()
    log.append(samples(3))
    head = log.head
    position = head.position + (other == "position")
    digest = "0" * len(head.digest) if other == "digest" else head.digest
    other_head = Head(head.epoch + (other == "epoch"), position, digest)
    with pytest.raises(Fenced):
        StoredLog(log._recorder, other_head, None).append([changed(1)])  # type: ignore[attr-defined]
    assert log.refresh() == head
    assert place.problems() == []


def test_a_raised_epoch_fences_earlier_writers(place: Place) -> None:
    earlier, later = place.open(), place.open()
    earlier.append(samples(3))
    assert later.raise_epoch("server 7", AT, "s-1") == 1
    assert later.head.epoch == 1
    with pytest.raises(Fenced):
        earlier.append(samples(1))
    assert earlier.raise_epoch("server 8", AT, "s-2") == 2
    with pytest.raises(Fenced):
        later.append(samples(1))
    assert [event for _, event in earlier.read(after=3)] == [
        WriterBegan(at=AT, cause="writer", stimulus="s-1", epoch=1, writer="server 7"),
        WriterBegan(at=AT, cause="writer", stimulus="s-2", epoch=2, writer="server 8"),
    ]
    assert place.problems() == []


def test_the_epoch_of_a_writer_stays_in_its_appends(place: Place) -> None:
    log = place.open()
    log.raise_epoch("me", AT, "s")
    log.append(samples(5))
    assert (log.head.epoch, log.head.position) == (1, 6)
    assert place.open().head == log.head


def test_threads_that_share_a_log_append_in_turn(place: Place) -> None:
    log = place.open()
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(log.append, [changed(i, slot=f"s{i % 4}")] * 3) for i in range(40)]
    assert sorted(future.result() for future in futures) == list(range(3, 121, 3))
    assert place.problems() == []


# Opening and closing ---------------------------------------------------------------------------


def test_a_log_opened_again_is_the_same(place: Place) -> None:
    log = place.open()
    log.append(samples(30))
    head = log.head
    log.close()
    reopened = place.open(create=False)
    assert reopened.head == head
    assert [event for _, event in reopened.read()] == samples(30)
    assert reopened.append([changed(1)]) == 31
    reopened.close()
    assert place.problems() == []


def test_a_log_can_be_closed_twice(place: Place) -> None:
    log = place.open()
    log.close()
    log.close()


def test_a_read_only_log_refuses_appends(place: Place) -> None:
    place.open().append(samples(3))
    log = place.open(create=False, read_only=True)
    assert len(list(log.read())) == 3
    with pytest.raises(LogUnavailable, match="opened for reading only; open it for writing"):
        log.append(samples(1))
    with pytest.raises(LogUnavailable, match="opened for reading only"):
        log.raise_epoch("me", AT, "s")
    assert log.append([]) == 3


def test_a_closed_log_reports_that_it_is_closed(durable: Place) -> None:
    log = durable.open()
    log.append(samples(1))
    log.close()
    with pytest.raises(LogUnavailable, match="was closed; open it again"):
        log.append(samples(1))
    with pytest.raises(LogUnavailable, match="was closed; open it again"):
        list(log.read())


def test_a_log_whose_mark_cannot_be_written_is_not_opened_for_writing(durable: Place, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    place = attrs.evolve(durable, mark=str(tmp_path / "file" / "mark"))
    durable.open().close()
    with pytest.raises(LogUnavailable, match=r"cannot be (read|written)"):
        place.open()


def test_an_sqlite_log_waits_for_the_disk_at_each_commit(sqlite: Place) -> None:
    log = sqlite.open()
    with log._recorder.connection() as connection:  # type: ignore[attr-defined]
        pragmas = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    assert pragmas == ["wal", 2]


def test_the_librarys_own_readers_work_on_a_log(place: Place) -> None:
    log = place.open()
    log.append([changed(1), changed(2, slot="b"), changed(3)])
    recorder = StoreRecorder(log._recorder)  # type: ignore[attr-defined]
    assert recorder.max_notification_id() == 3
    assert [note.id for note in recorder.select_notifications(1, 10)] == [1, 2, 3]
    assert [event.originator_version for event in recorder.select_events(changed(1).stream)] == [1, 2]


def stored(event: Event, version: int) -> StoredEvent:
    topics, states = CODEC.encode([event])
    return StoredEvent(event.stream, version, topics[0], states[0])


def test_events_that_the_library_inserts_are_sealed_and_read_as_all_others(place: Place) -> None:
    log = place.open()
    log.append([changed(1)])
    recorder = StoreRecorder(log._recorder)  # type: ignore[attr-defined]
    assert list(recorder.insert_events([stored(changed(2), 2), stored(changed(3, slot="b"), 1)])) == [2, 3]
    assert list(recorder.insert_events([])) == []
    log.refresh()
    assert list(log.read()) == [(1, changed(1)), (2, changed(2)), (3, changed(3, slot="b"))]
    assert place.problems() == []


@pytest.mark.parametrize("version", [0, 1, 3])
def test_a_version_that_is_not_the_next_of_its_stream_is_not_inserted(place: Place, version: int) -> None:
    log = place.open()
    log.append([changed(1)])
    recorder = StoreRecorder(log._recorder)  # type: ignore[attr-defined]
    with pytest.raises(IntegrityError, match=f"version {version} .* its next version is 2"):
        recorder.insert_events([stored(changed(2, slot="b"), 1), stored(changed(2), version)])
    assert log.refresh().position == 1


def test_a_writer_is_fenced_by_the_librarys_inserts(place: Place) -> None:
    log = place.open()
    recorder = StoreRecorder(log._recorder)  # type: ignore[attr-defined]
    recorder.insert_events([stored(changed(1), 1)])
    with pytest.raises(Fenced):
        log.append([changed(2)])
    log.refresh()
    assert log.append([changed(2)]) == 2


def test_inserts_of_several_threads_are_all_stored(place: Place) -> None:
    log = place.open()
    recorder = StoreRecorder(log._recorder)  # type: ignore[attr-defined]
    with ThreadPoolExecutor(4) as executor:
        for number in range(12):
            executor.submit(recorder.insert_events, [stored(changed(number, slot=f"s{number}"), 1)])
    assert log.refresh().position == 12
    assert place.problems() == []


def test_more_streams_than_are_remembered_are_appended_in_one_batch(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("poolbook.adapters.stores.stored_log._STREAMS_KEPT", 3)
    log = place.open()
    for first in range(0, 20, 5):
        log.append([MachineLeft(AT, "left", "x", f"m{number % 8}") for number in range(first, first + 9)])
    assert [position for position, _ in log.read_stream("machine/m3")] == [4, 16, 20, 32]
    assert place.problems() == []
