"""The load of a machine is divided among its slots."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.domain.fold.evolve import evolve
from poolbook.domain.ports.sensor_readings import Readings
from poolbook.domain.startd.load import LoadedSlot, divide_owner_load, slot_load
from poolbook.domain.state.caches import Caches
from poolbook.domain.state.state import State

from ..projections.pools import busy_pool
from ..together import together

MANUAL, HTCONDOR = False, True
"""Values of ``by_cores``: whether a slot's share depends on its number of cores."""


def parse_slot(text: str) -> LoadedSlot:
    """Parse name, state and cores, as in "slot1 Owner 4".

    A dynamic slot has its parent after a colon, a partitionable slot its free cores after a slash.
    """
    name, state, cores = text.split()
    name, _, parent = name.partition(":")
    total, _, free = cores.partition("/")
    return LoadedSlot(name, state, float(total), float(free or total), parent)


@together(
    "by_cores, owner, slots, loads",
    [
        # the manual's two logs, "Debug Logging in the Multi-Core condor_startd Daemon"
        (MANUAL, 0.34, ["slot1 Owner 1", "slot2 Owner 1"], [0.34, 0.0]),
        (MANUAL, 0.254, ["slot1 Owner 1", "slot2 Claimed 1"], [0.254, 0.0]),
        (HTCONDOR, 0.34, ["slot1 Owner 1", "slot2 Owner 1"], [0.34, 0.0]),
        (HTCONDOR, 0.254, ["slot1 Owner 1", "slot2 Claimed 1"], [0.254, 0.0]),
        # slots in Owner first, then those in Unclaimed, then the others, each at most 1.0
        (MANUAL, 1.5, ["slot1 Claimed 1", "slot2 Unclaimed 1", "slot3 Owner 1"], [0.0, 0.5, 1.0]),
        (HTCONDOR, 1.5, ["slot1 Claimed 1", "slot2 Unclaimed 1", "slot3 Owner 1"], [0.0, 0.5, 1.0]),
        (MANUAL, 2.5, ["slot1 Preempting 1", "slot2 Claimed 1", "slot3 Owner 1"], [1.0, 0.5, 1.0]),
        # no load remains for the others
        (MANUAL, 1.0, ["slot1 Unclaimed 1", "slot2 Unclaimed 1"], [1.0, 0.0]),
        # more load than slots: the manual assigns slots more than 1.0, HTCondor drops the rest
        (MANUAL, 3.5, ["slot1 Claimed 1", "slot2 Owner 1"], [1.5, 2.0]),
        (MANUAL, 4.0, ["slot1 Claimed 1", "slot2 Owner 1"], [2.0, 2.0]),
        (HTCONDOR, 3.5, ["slot1 Claimed 1", "slot2 Owner 1"], [1.0, 1.0]),
        # a slot of several cores: 1.0 at a time, or as much as it has cores
        (MANUAL, 2.5, ["slot1 Unclaimed 4", "slot2 Unclaimed 4"], [1.5, 1.0]),
        (HTCONDOR, 2.5, ["slot1 Unclaimed 4", "slot2 Unclaimed 4"], [2.5, 0.0]),
        # dynamic slots get the load that exceeds the free cores of their parent
        (HTCONDOR, 3.0, ["slot1 Unclaimed 4/2", "slot1_1:slot1 Claimed 1", "slot1_2:slot1 Claimed 1"], [2.0, 1.0, 0.0]),
        (HTCONDOR, 1.5, ["slot1 Unclaimed 4/2", "slot1_1:slot1 Claimed 2"], [1.5, 0.0]),
        # no load, or no slots
        (MANUAL, 0.0, ["slot1 Owner 1"], [0.0]),
        (MANUAL, 2.0, [], []),
        (HTCONDOR, 2.0, [], []),
    ],
)
def test_the_owner_s_load_is_assigned_to_slots_in_order(
    by_cores: bool, owner: float, slots: list[str], loads: list[float]
) -> None:
    loaded_slots = [parse_slot(text) for text in slots]
    shares = divide_owner_load(owner, loaded_slots, by_cores)
    assert [shares[slot.name] for slot in loaded_slots] == pytest.approx(loads)


STATES = st.sampled_from(["Owner", "Unclaimed", "Matched", "Claimed", "Preempting", "Drained"])
LOADED_SLOTS = st.lists(st.tuples(STATES, st.integers(1, 8)), min_size=1, max_size=8).map(
    lambda rows: [LoadedSlot(f"slot{n}", state, cores, cores) for n, (state, cores) in enumerate(rows)]
)


@given(st.floats(0, 40), LOADED_SLOTS)
def test_the_manual_dialect_assigns_all_of_the_owner_s_load(owner: float, slots: list[LoadedSlot]) -> None:
    shares = divide_owner_load(owner, slots, by_cores=False)
    assert sum(shares.values()) == pytest.approx(owner)
    assert max(shares.values()) - min(shares.values()) <= 1 + 1e-9


@given(st.floats(0, 40), LOADED_SLOTS)
def test_the_htcondor_dialect_assigns_no_slot_more_load_than_cores(owner: float, slots: list[LoadedSlot]) -> None:
    shares = divide_owner_load(owner, slots, by_cores=True)
    assert all(0 <= shares[slot.name] <= slot.cpus for slot in slots)
    assert sum(shares.values()) == pytest.approx(min(owner, sum(slot.cpus for slot in slots)))


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_cached_loads_equal_newly_computed_ones(dialect: str) -> None:
    state, caches, loads = State(), Caches(), set()
    readings = Readings(load=2.25, condor_load={"slot1_1@node": 0.5}, backfill_load=0.25)
    for _, event in busy_pool(dialect).events:
        evolve(state, event)
        for slot in state.slots.values():
            load = slot_load(state, slot, readings, caches)
            assert load == slot_load(state, slot, readings, Caches())
            loads.add((load.load, load.condor))
    assert len(loads) > 1
