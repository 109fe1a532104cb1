"""Several managers read the same outbox of each role, and may match at the same time."""

from __future__ import annotations

from poolbook.domain import events as e
from poolbook.domain.ports.stimuli import Stimulus

from .simulated import FIRST_MANAGER, SimulatedPool

CM2 = "manager/cm2"


def test_all_managers_read_the_same_outbox() -> None:
    pool = SimulatedPool(managers=2)
    pool.submit(2, Args='"5"')
    pool.advance(120)
    for node in (pool.ap(), pool.ep()):
        sent_to = {event.peer for event in node.events if isinstance(event, e.Sent)}
        assert {peer for peer in sent_to if peer.startswith("manager")} == {"manager"}
        version = node.state.peers.outboxes["manager"].version
        assert {manager.state.peers.followed[node.name].version for manager in pool.managers} == {version}
    assert pool.ap().state.peers.followed.keys() == {"manager", CM2, "execution-point/ep1"}


def test_a_manager_that_is_added_later_reads_everything() -> None:
    pool = SimulatedPool(managers=2)
    pool.isolate(CM2)
    pool.submit(2, Args='"5"')
    pool.advance(120)
    assert pool.nodes[CM2].state.machines == {}
    pool.heal()
    pool.advance(60)
    assert [*pool.nodes[CM2].state.slots] == [*pool.manager.state.slots]
    assert pool.nodes[CM2].state.peers.followed.keys() == pool.manager.state.peers.followed.keys() - {CM2}


def test_jobs_run_while_one_of_two_managers_is_down() -> None:
    for name in ("manager", CM2):
        pool = SimulatedPool(managers=2)
        pool.nodes[name].stop()
        pool.submit(2, Args='"5"')
        pool.advance(300)
        assert not pool.ap().state.clusters, name


def test_a_job_that_both_managers_match_with_different_slots_keeps_the_first_match() -> None:
    pool = SimulatedPool(managers=2, execution_points=2)
    pool.cut(["manager"], ["execution-point/ep2"])
    pool.cut([CM2], ["execution-point/ep1"])
    pool.submit(1, Args='"60"')
    pool.advance(30)
    matched = {manager.name: matched_slots(manager.events) for manager in pool.managers}
    assert matched == {"manager": {"slot1@ep1"}, CM2: {"slot1@ep2"}}
    (request,) = [event for event in pool.ap().events if isinstance(event, e.ClaimRequested)]
    (void,) = {event.slot for event in pool.ap().events if isinstance(event, e.MatchVoided)}
    assert {request.slot, void} == {"slot1@ep1", "slot1@ep2"}
    for manager in pool.managers:
        is_void = any(isinstance(event, e.MatchVoided) for event in manager.events)
        assert is_void == (void in matched[manager.name]), manager.name
        assert not manager.state.assigned_slots


def matched_slots(events: list[e.Event]) -> set[str]:
    return {match.slot for event in events if isinstance(event, e.CycleHeld) for match in event.matches}


def test_managers_exchange_messages_and_other_roles_cannot() -> None:
    pool = SimulatedPool(managers=2)
    received: list[tuple[str, str, bytes]] = []
    for node in pool.nodes.values():

        def note(peer: str, data: bytes, name: str = node.name) -> list[Stimulus]:
            received.append((name, peer, data))
            return []

        node.links.on_message = note
    pool.manager.links.tell(CM2, b"here I am")
    pool.nodes[CM2].links.tell(FIRST_MANAGER, b"I see")
    pool.ap().links.tell("manager", b"ignored")
    pool.manager.links.tell("access-point/ap1", b"ignored")
    pool.advance(1)
    assert sorted(received) == [("manager", CM2, b"I see"), (CM2, FIRST_MANAGER, b"here I am")]
