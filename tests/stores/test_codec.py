"""Property: a log returns each event unchanged; it returns an older form in today's."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import pytest
from hypothesis import given

from poolbook.adapters.stores.codec import UPCASTS, Codec, Upcast
from poolbook.adapters.stores.memory import MemoryRecorder
from poolbook.adapters.stores.stored_log import StoredLog
from poolbook.domain.events import TOPICS, CycleHeld, Event, Match
from poolbook.domain.ports.log import LogDamaged, LogError, LogNewer

from ..together import together
from .samples import AT, any_event, changed, samples

CODEC = Codec()


def decoded(codec: Codec, topic: str, state: bytes) -> Event:
    (event,) = codec.decode([(7, "s", 1, topic, state)], "x.db")
    return event


@given(any_event)
def test_every_event_is_returned_unchanged(event: Event) -> None:
    (topic,), (state,) = CODEC.encode([event])
    assert TOPICS[topic] is type(event)
    assert decoded(CODEC, topic, state) == event


def test_events_of_many_kinds_are_returned_in_order() -> None:
    events = samples(500)
    topics, states = CODEC.encode(events)
    assert CODEC.decode([(0, "", 1, *row) for row in zip(topics, states, strict=True)], "x.db") == events


@pytest.mark.parametrize("rank", [math.inf, -math.inf, math.nan])
def test_a_rank_that_json_cannot_hold_is_refused(rank: float) -> None:
    matches = (Match(job="1.0", slot="a"), Match(job="1.1", slot="b", rank=rank))
    event = CycleHeld(AT, "negotiated", "s", matches=matches, unmatched=())
    with pytest.raises(LogError, match=r"an event cannot be stored in a log: the rank of 1\.1 with b is (-?inf|nan)"):
        CODEC.encode([changed(1), event])


def test_an_unknown_kind_of_event_is_rejected() -> None:
    with pytest.raises(LogError, match="Event is not an event kind"):
        CODEC.encode([Event(at=AT, cause="left", stimulus="s")])


@together(
    ("topic", "state", "error", "message"),
    [
        ("later", b"{}", LogNewer, r"x\.db: the event at position 7 has the kind 'later', .*\(log format 3\)"),
        ("slot.moved", b"", LogDamaged, "the data at position 7 is not a valid 'slot.moved' event"),
        ("slot.moved", b"{}", LogDamaged, "missing required field"),
        ("slot.moved", b"null", LogDamaged, "`poolbook verify` shows whether it was altered"),
        ("slot.moved", b'{"at": "now"}', LogDamaged, "not a valid 'slot.moved' event"),
        ("slot.moved", b"\xff\xfe", LogDamaged, "not a valid 'slot.moved' event"),
    ],
)
def test_an_unreadable_event_is_reported_with_its_position(topic: str, state: bytes, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        decoded(CODEC, topic, state)


# Upcasting: three releases of one kind of event --------------------------------------------------


class Ate0(Event, frozen=True):
    """The first release's: the meal as one text."""

    stream: ClassVar[str] = "meals"
    food: str


class Ate1(Event, frozen=True):
    """The second's: a list."""

    stream: ClassVar[str] = "meals"
    foods: tuple[str, ...]


class Ate(Event, frozen=True):
    """Today's: with amounts, and a field with a default."""

    stream: ClassVar[str] = "meals"
    amounts: dict[str, int]
    raw: bytes = b"\xff"


def as_list(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "foods": fields["food"].split("+")}


def as_amounts(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "amounts": dict.fromkeys(fields["foods"], 1)}


FIRST = Codec({"ate": Ate0}, {})
SECOND = Codec({"ate@1": Ate1}, {"ate": ("ate@1", as_list)})
THIRD = Codec({"ate@2": Ate}, {"ate": ("ate@1", as_list), "ate@1": ("ate@2", as_amounts)})


def test_events_of_all_releases_are_read_in_the_latest_form() -> None:
    tables = MemoryRecorder("x")
    log = StoredLog(tables, tables.head_rows()[0][1], None)
    stored_events = [
        (FIRST, Ate0(1, "c", "s", "egg+ham")),
        (SECOND, Ate1(2, "c", "s", ("egg",))),
        (THIRD, Ate(3, "c", "s", {})),
    ]
    for codec, event in stored_events:
        log = StoredLog(tables, log.head, None, codec=codec)
        log.append([event])
    assert [event for _, event in log.read()] == [
        Ate(1, "c", "s", {"egg": 1, "ham": 1}),
        Ate(2, "c", "s", {"egg": 1}),
        Ate(3, "c", "s", {}),
    ]
    assert [event for _, event in log.read_stream("meals")] == [event for _, event in log.read()]


def test_a_damaged_older_form_is_reported_with_its_position() -> None:
    with pytest.raises(LogDamaged, match="position 7 is not a valid 'ate' event"):
        decoded(THIRD, "ate", b'{"at": 1}')


def test_a_retired_topic_maps_to_a_present_kind() -> None:
    tables: list[tuple[dict[str, Upcast], set[str]]] = [(UPCASTS, set(TOPICS)), ({"a": ("a@1", as_list)}, {"a@1"})]
    for table, topics in tables:
        assert not topics & set(table)
        assert {target for target, _ in table.values()} <= topics | set(table)
