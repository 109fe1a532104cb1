"""Property: an outbox can be read from any entry, although a role remembers only some of their positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from poolbook.adapters.fabric.datagrams import read_page
from poolbook.domain.events import Sent
from poolbook.domain.ports.log import EventStore
from poolbook.domain.state import peers

from .simulated import SimulatedPool

AP, EP = "access-point/ap1", "execution-point/ep1"


@given(st.integers(1, 20_000))
def test_an_outbox_remembers_few_positions_and_finds_each_entry_near_one_of_them(count: int) -> None:
    outbox = peers.Outbox()
    positions = [3 * version for version in range(1, count + 1)]
    for position in positions:
        outbox.add(position, "")
    assert outbox.version == count
    assert len(outbox.last) + len(outbox.marks) <= 2 * peers.MOST_POSITIONS
    longest_search = 3 * max(1, 4 * count // peers.MOST_POSITIONS)
    for version, position in enumerate(positions, 1):
        assert 0 <= position - outbox.position_before(version) < longest_search
    for version in range(max(1, count - peers.MOST_POSITIONS // 2), count + 1):
        assert outbox.position_before(version) == positions[version - 1]


def test_a_page_of_a_long_outbox_begins_after_any_entry() -> None:
    pool = SimulatedPool()
    pool.submit(12, Args='"5"')
    pool.advance(300)
    node = pool.nodes[EP]
    sent = [event for event in node.events if isinstance(event, Sent) and event.peer == AP]
    outbox = peers.Outbox()
    assert len(sent) > 20
    for position, event in enumerate(node.events, 1):
        if event in sent:
            outbox.add(position, event.digest)
    few = peers.Outbox(outbox.version, outbox.digest, outbox.last[-2:], outbox.marks[::8], stride=8)
    for each in (outbox, few):
        node.engine.state.peers.outboxes[AP] = each
        for after in range(len(sent) + 2):
            page = read_page(node.engine.log, node.engine.state, AP, after)
            assert [(entry.version, entry.digest) for entry in page.entries] == [
                (event.version, event.digest) for event in sent[after:]
            ]
            assert page.base == (
                (0, "") if not after else (min(after, len(sent)), sent[min(after, len(sent)) - 1].digest)
            )


def test_a_page_with_the_last_entry_reads_only_the_events_of_this_entry() -> None:
    pool = SimulatedPool()
    pool.submit(12, Args='"5"')
    pool.advance(300)
    node = pool.nodes[EP]
    log, last = node.engine.log, node.engine.state.peers.outboxes[AP].version
    rows: list[int] = []

    class CountedReads:
        id = log.id

        def read(self, after: int = 0, limit: int | None = None, size: int | None = None) -> Iterator[Any]:
            for row in log.read(after, limit, size):
                rows.append(row[0])
                yield row

    (entry,) = read_page(cast(EventStore, CountedReads()), node.engine.state, AP, last - 1).entries
    assert len(rows) <= 2 + entry.positions[-1] - entry.positions[0] + 1
