"""The load of a machine is shared out over its slots."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.domain.fold.evolve import evolve
from poolbook.domain.ports.sensor_readings import Readings
from poolbook.domain.startd.load import LoadedSlot, divide_owner_load, load_of
from poolbook.domain.state.caches import Caches
from poolbook.domain.state.state import State

from ..projections.pools import busy_pool
from ..together import together

MANUAL, HTCONDOR = False, True
"""Whether a slot takes of the load by its cores."""


def place(text: str) -> LoadedSlot:
    """slot1 Owner 4: its name, state and cores; of a dynamic slot, also its parent behind a colon; of a partitionable
    one, what is left of its cores behind a slash."""
    name, state, cores = text.split()
    name, _, parent = name.partition(":")
    given, _, free = cores.partition("/")
    return LoadedSlot(name, state, float(given), float(free or given), parent)


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
        # no load is left for the others
        (MANUAL, 1.0, ["slot1 Unclaimed 1", "slot2 Unclaimed 1"], [1.0, 0.0]),
        # more load than slots: the manual gives slots more than 1.0, the real daemons leave it out
        (MANUAL, 3.5, ["slot1 Claimed 1", "slot2 Owner 1"], [1.5, 2.0]),
        (MANUAL, 4.0, ["slot1 Claimed 1", "slot2 Owner 1"], [2.0, 2.0]),
        (HTCONDOR, 3.5, ["slot1 Claimed 1", "slot2 Owner 1"], [1.0, 1.0]),
        # a slot of several cores: 1.0 at a time, or as much as it has cores
        (MANUAL, 2.5, ["slot1 Unclaimed 4", "slot2 Unclaimed 4"], [1.5, 1.0]),
        (HTCONDOR, 2.5, ["slot1 Unclaimed 4", "slot2 Unclaimed 4"], [2.5, 0.0]),
        # dynamic slots have what is beyond the free cores of their parent
        (HTCONDOR, 3.0, ["slot1 Unclaimed 4/2", "slot1_1:slot1 Claimed 1", "slot1_2:slot1 Claimed 1"], [2.0, 1.0, 0.0]),
        (HTCONDOR, 1.5, ["slot1 Unclaimed 4/2", "slot1_1:slot1 Claimed 2"], [1.5, 0.0]),
        # nothing to give, nobody to give it to
        (MANUAL, 0.0, ["slot1 Owner 1"], [0.0]),
        (MANUAL, 2.0, [], []),
        (HTCONDOR, 2.0, [], []),
    ],
)
def test_the_owners_load_goes_to_slots_in_turn(
    by_cores: bool, owner: float, slots: list[str], loads: list[float]
) -> None:
    places = [place(text) for text in slots]
    found = divide_owner_load(owner, places, by_cores)
    assert [found[one.name] for one in places] == pytest.approx(loads)


STATES = st.sampled_from(["Owner", "Unclaimed", "Matched", "Claimed", "Preempting", "Drained"])
PLACES = st.lists(st.tuples(STATES, st.integers(1, 8)), min_size=1, max_size=8).map(
    lambda rows: [LoadedSlot(f"slot{n}", state, cores, cores) for n, (state, cores) in enumerate(rows)]
)


@given(st.floats(0, 40), PLACES)
def test_all_of_the_owners_load_is_somebodys_in_the_manuals_dialect(owner: float, places: list[LoadedSlot]) -> None:
    found = divide_owner_load(owner, places, by_cores=False)
    assert sum(found.values()) == pytest.approx(owner)
    assert max(found.values()) - min(found.values()) <= 1 + 1e-9


@given(st.floats(0, 40), PLACES)
def test_no_slot_has_more_than_its_cores_in_the_real_daemons_dialect(owner: float, places: list[LoadedSlot]) -> None:
    found = divide_owner_load(owner, places, by_cores=True)
    assert all(0 <= found[one.name] <= one.cpus for one in places)
    assert sum(found.values()) == pytest.approx(min(owner, sum(one.cpus for one in places)))


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_the_shares_that_are_kept_are_those_that_are_found_anew(dialect: str) -> None:
    state, kept, seen = State(), Caches(), set()
    readings = Readings(load=2.25, condor_load={"slot1_1@node": 0.5}, backfill_load=0.25)
    for _, event in busy_pool(dialect).events:
        evolve(state, event)
        for slot in state.slots.values():
            load = load_of(state, slot, readings, kept)
            assert load == load_of(state, slot, readings, Caches())
            seen.add((load.load, load.condor))
    assert len(seen) > 1
