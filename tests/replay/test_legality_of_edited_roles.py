"""Property: the log of a role with a separate log is sound, and violates a rule if it is edited."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest
from msgspec.structs import replace

from poolbook.domain import events as e
from poolbook.domain.ports import stimuli as s
from poolbook.replay.validation import Violation, examine

from ..domain.pools import selection
from ..peers.chaos import Story
from ..peers.simulated import SimulatedPool
from .edits import undetected_omissions, undetected_repeats

OF_PEERS: frozenset[type[e.Event]] = frozenset(
    {e.Sent, e.Followed, e.PeerRejected, e.PeerCommanded, e.ClaimRequested, e.ClaimGranted, e.ClaimRejected,
     e.ClaimCommanded, e.ClaimJobEdited, e.MatchNotified, e.MatchTaken, e.MachineExpired, e.JobDisconnected,
     e.JobReconnected}
)  # fmt: skip
AP, EP, MANAGER = "access-point/ap1", "execution-point/ep1", "manager"


@cache
def logs() -> dict[str, tuple[e.Event, ...]]:
    """Return the logs of a pool with two execution points: one is silent for less than a lease, one for longer."""
    pool = SimulatedPool(execution_points=2)
    pool.submit(2, Args='"100"', JobLeaseDuration="60")
    pool.advance(15)
    pool.ap().ask(s.Edit(pool.id(), "alice", selection("1"), {"Note": '"edited"'}))
    pool.advance(15)
    pool.cut([AP], [EP])
    pool.advance(45)
    pool.heal()
    pool.advance(10)
    pool.isolate("execution-point/ep2")
    pool.advance(100)
    pool.heal()
    pool.advance(200)
    pool.manager.ask(s.VacateSlot(pool.id(), "root", "slot1@ep1"))
    pool.advance(10)
    return {name: tuple(node.events) for name, node in pool.nodes.items()}


def violations(log: Sequence[e.Event]) -> list[Violation]:
    return examine(enumerate(log, 1)).violations


@pytest.mark.parametrize("name", [AP, EP, "execution-point/ep2", MANAGER])
def test_the_log_of_each_role_is_sound(name: str) -> None:
    assert violations(logs()[name]) == []


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_the_logs_of_failing_machines_and_networks_are_sound(seed: int) -> None:
    story = Story(seed)
    story.run()
    for name, node in story.pool.nodes.items():
        assert violations(node.events) == [], name


@pytest.mark.parametrize("name", [AP, EP, MANAGER])
def test_an_omitted_or_repeated_event_is_detected(name: str) -> None:
    assert undetected_omissions(logs()[name], 3) == set()
    assert undetected_repeats(logs()[name], 3) == set()


@pytest.mark.parametrize("name", [AP, EP])
def test_a_changed_outbox_entry_is_detected(name: str) -> None:
    log = logs()[name]
    for at, sent in enumerate(log):
        if isinstance(sent, e.Sent):
            for changed in (
                replace(sent, peer="access-point/other"),
                replace(sent, version=sent.version + 1),
                replace(sent, positions=sent.positions[1:]),
                replace(sent, digest="0" * 64),
            ):
                assert "peers" in {each.rule for each in violations((*log[:at], changed, *log[at + 1 :]))}


def test_an_event_of_another_role_must_have_been_read() -> None:
    log = [*logs()[MANAGER]]
    for at, event in enumerate(log):
        if isinstance(event, e.ClaimMade):
            log[at] = replace(event, slot="slot1@elsewhere")
    assert {each.rule for each in violations(log)} >= {"peers"}


@pytest.mark.parametrize(
    "change",
    [{"version": 0}, {"epoch": -1}, {"peer": "access-point/other"}],
    ids=["an earlier entry", "an earlier epoch", "another peer"],
)
def test_reading_backwards_is_detected(change: dict[str, object]) -> None:
    log = [*logs()[AP]]
    last = max(at for at, event in enumerate(log) if isinstance(event, e.Followed))
    log[last] = replace(log[last], **change)
    assert violations(log)
