"""golden: a recorded machine accepts jobs again when its slots do, and no slot has events after its last one."""

from __future__ import annotations

from pathlib import Path

import pytest

from poolbook.domain import events as e

from ..conformance.trace_cycles import record

RECORDINGS = Path(__file__).resolve().parent.parent / "data" / "recordings"


@pytest.mark.parametrize("name", ["quick-drains", "drain-checks"])
def test_a_drain_is_over_when_the_first_slot_goes(name: str) -> None:
    over: dict[str, int] = {}
    ends = []
    for event in record(RECORDINGS / name).pool:
        if isinstance(event, e.DrainTransitioned) and event.target == "Open":
            over[event.machine] = event.at
        elif isinstance(event, e.SlotTransitioned) and event.source.startswith("Drained"):
            at = over.pop(event.slot.partition("@")[2], None)
            ends += [] if at is None else [(at, event.at)]
    assert ends
    assert all(drain == slot for drain, slot in ends)
