"""Property: an edited log of a role with a separate log violates a rule."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from msgspec.structs import replace

from poolbook.domain import events as e
from poolbook.replay.validation import Violation, examine

from ..peers.simulated import SimulatedPool

OF_PEERS: frozenset[type[e.Event]] = frozenset(
    {e.Sent, e.Followed, e.PeerRejected, e.ClaimRequested, e.ClaimGranted, e.ClaimRejected, e.ClaimCommanded,
     e.MatchTaken, e.MachineExpired, e.JobDisconnected, e.JobReconnected}
)  # fmt: skip


@cache
def logs() -> dict[str, tuple[e.Event, ...]]:
    """Return the logs of a pool whose jobs run on another machine."""
    pool = SimulatedPool(slots=2)
    pool.submit(Args='"30"', count=3)
    pool.advance(200)
    return {name: tuple(node.events) for name, node in pool.nodes.items()}


def violations(log: Sequence[e.Event]) -> list[Violation]:
    return examine(enumerate(log, 1)).violations


def test_the_log_of_an_execution_point_is_sound() -> None:
    assert violations(logs()["execution-point/ep1"]) == []


def test_a_changed_or_omitted_outbox_entry_is_detected() -> None:
    log = logs()["execution-point/ep1"]
    for at, sent in enumerate(log):
        if isinstance(sent, e.Sent):
            assert violations((*log[:at], *log[at + 1 :]))
            for changed in (
                replace(sent, version=sent.version + 1),
                replace(sent, positions=sent.positions[1:]),
                replace(sent, digest="0" * 64),
            ):
                assert any(each.rule == "peers" for each in violations((*log[:at], changed, *log[at + 1 :])))
