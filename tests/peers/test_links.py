"""The cost of a role's links depends on what has changed, and they forget what has ended."""

from __future__ import annotations

import pytest

from poolbook.adapters.fabric.datagrams import DECODE, ENCODE, FileAccess, Hint

from ..counters.counting import count
from .simulated import Network, SimulatedPool

AP, EP = "access-point/ap1", "execution-point/ep1"


def calls_for_a_datagram(name: str, execution_points: int) -> int:
    """Return how many functions the links of a role call for a datagram and an append, while its other peers, which run
    jobs, are silent."""
    pool = SimulatedPool(execution_points=execution_points)
    pool.submit(execution_points, Args='"600"')
    pool.advance(60)
    node, events = pool.nodes[name], pool.nodes[name].events
    appended = [event for event in events if getattr(event, "peer", getattr(event, "slot", "")) in (EP, "slot1@ep1")]
    hint = ENCODE(Hint(pool.ep().log.id, 1_000_000))

    def work() -> None:
        pool.network.arrived[name] = [(EP, hint)]
        assert node.links.receive() == []
        node.links.note(appended[-3:])
        node.links.next_due()

    node.links.receive()
    node.links.next_due()
    return count(work)["calls"]


@pytest.mark.parametrize("name", ["manager", AP])
def test_a_datagram_costs_the_same_however_many_peers_a_role_has(name: str) -> None:
    assert calls_for_a_datagram(name, 2) == calls_for_a_datagram(name, 20)


def test_the_access_to_files_is_forgotten_with_the_next_page() -> None:
    pool = SimulatedPool()
    pool.ap().links.offer_files = lambda peer, runs: FileAccess((), "", dict.fromkeys(runs, ("", "")), "")
    pool.submit(Args='"60"')
    pool.advance(30)
    (run,) = pool.ap().state.activations
    assert pool.ep().links.file_access(AP, run) is not None
    pool.advance(60)
    assert pool.ap().state.activations == {}
    assert pool.ep().links.file_access(AP, run) is None


@pytest.mark.parametrize("restarts", [False, True])
def test_a_lost_hint_is_repeated_until_the_peer_reads(monkeypatch: pytest.MonkeyPatch, restarts: bool) -> None:
    """Without a hint, an execution point reads that its claim was released only when it renews it, in five minutes."""
    pool = SimulatedPool(execution_points=1)
    pool.submit(Args='"20"')
    pool.advance(10)
    with monkeypatch.context() as during:
        send = Network.send

        def send_others(network: Network, name: str, receiver: str, data: bytes) -> None:
            if (name, type(DECODE(data))) != (AP, Hint):
                send(network, name, receiver, data)

        during.setattr(Network, "send", send_others)
        pool.advance(20)
        if restarts:
            pool.ap().stop()
            pool.ap().start()
            pool.advance(5)
    assert pool.ap().state.clusters == {}
    assert pool.ep().state.slots["slot1@ep1"].claim is not None
    pool.advance(40)
    assert pool.ep().state.slots["slot1@ep1"].claim is None
