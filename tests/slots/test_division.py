"""A machine is cut into slots by its slot types, as the manual's "Dividing System Resources in Multi-core Machines" has
it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.domain.startd.slot_types import (
    AUTO,
    ConfiguredSlots,
    DivisibleResources,
    SlotAllocation,
    SlotTypeError,
    divide_machine,
)

from ..together import together

MANUAL = DivisibleResources(cpus=4, memory=256, swap=1000, disks={"d": 100_000})
"""The manual's machine with 4 cores and 256 Mbytes of RAM."""
COGS = DivisibleResources(8, 16_000, 16_000_000, {"d": 1_000_000}, {"cogs": 8, "actuator": 8})


def cut(whole: DivisibleResources, *wanted: tuple[str, int]) -> list[SlotAllocation]:
    types = [ConfiguredSlots(number, text, count) for number, (text, count) in enumerate(wanted, 1)]
    return divide_machine(whole, types, dict.fromkeys(range(1, 100), "d"))


def amounts(whole: DivisibleResources, text: str, *names: str) -> tuple[float, ...]:
    return tuple(cut(whole, (text, 1))[0].amount(name) for name in names)


@together(
    "text, cpus, memory, swap, disk",
    [
        # the manual's six types: the first three are alike, and the others are
        ("cpus=2, ram=128, swap=25%, disk=1/2", 2, 128, 250, 50_000),
        ("cpus=1/2, memory=128, virt=25%, disk=50%", 2, 128, 250, 50_000),
        ("c=1/2, m=50%, v=1/4, disk=1/2", 2, 128, 250, 50_000),
        ("c=25%, m=64, v=1/4, d=25%", 1, 64, 250, 25_000),
        ("25%", 1, 64, 250, 25_000),
        ("1/4", 1, 64, 250, 25_000),
        # "the disk share is set to auto, number of cores is 1, and everything else is 50%"
        ("cpus=1, ram=1/2, swap=50%", 1, 128, 500, 100_000),
        ("cpus=1, disk=auto, 50%", 1, 128, 500, 100_000),
        # what the manual leaves open
        ("auto", 4, 256, 1000, 100_000),
        ("", 4, 256, 1000, 100_000),
        ("1%", 1, 2, 10, 1000),
        ("CPUS=2  RAM=1/2", 2, 128, 1000, 100_000),
        ("cpus=2\nram=1/2\n10%", 2, 128, 100, 10_000),
        ("mem=0, disk=1", 4, 1, 1000, 1024),
        ("mem=131072k, disk=10m, swap=1m", 4, 131072, 1024, 10_240),
    ],
)
def test_each_spelling_means_its_amounts(text: str, cpus: float, memory: float, swap: float, disk: float) -> None:
    whole = MANUAL if "131072" not in text else DivisibleResources(4, 200_000, 2000, {"d": 100_000})
    assert amounts(whole, text, "Cpus", "Memory", "Swap", "Disk") == (cpus, memory, swap, disk)


@pytest.mark.parametrize("text", ["mem=64", "mem=1/2", "mem=50%", "mem=auto"])
def test_half_of_128_megabytes_is_spelled_in_four_ways(text: str) -> None:
    whole = DivisibleResources(4, 128, 1000, {"d": 100_000})
    assert [one.amount("Memory") for one in cut(whole, (text, 2))] == [64, 64]


def test_slots_with_auto_divide_what_the_others_leave() -> None:
    first, *rest = cut(MANUAL, ("cpus=1, mem=10%", 1), ("cpus=1", 3))
    assert first.amount("Memory") == 25
    assert [one.amount("Memory") for one in rest] == [77, 77, 77]


def test_the_manuals_cogs_and_actuators() -> None:
    slots = cut(COGS, ("cogs=50%,actuator=6,50%", 1), ("cogs=25%,actuator=1,25%", 2))
    assert [(one.amount("cogs"), one.amount("actuator"), one.amount("Cpus")) for one in slots] == [
        (4, 6, 4),
        (2, 1, 2),
        (2, 1, 2),
    ]


def test_what_custom_resources_leave_over_goes_to_the_first_slots() -> None:
    assert [one.amount("cogs") for one in cut(COGS, ("cpus=1", 3))] == [3, 3, 2]


@together(
    "wanted, words",
    [
        ([("cpus=9", 1)], "SLOT_TYPE_1: slot 1 cannot be made: it needs 9 of Cpus, but 8 is left"),
        ([("60%", 2)], "SLOT_TYPE_1: slot 2 cannot be made: it needs 4.8 of Cpus, but 3 is left"),
        ([("mem=10000", 1), ("mem=7000", 1)], "SLOT_TYPE_2: slot 2 cannot be made: it needs 7000 of Memory"),
        ([("disk=75%", 2)], "slot 2 cannot be made: it needs 750000 of Disk, but 250000 is left"),
        ([("actuator=5", 2)], "slot 2 cannot be made: it needs 5 of actuator, but 3 is left"),
        ([("cpus=8", 1), ("auto", 2)], "SLOT_TYPE_2: slot 2 cannot be made: 2 slots share 0 of Cpus, but each needs"),
        ([("2", 1)], 'SLOT_TYPE_1: "2" is not a share of all resources: write a part'),
        ([("150%", 1)], '"150%" is not a share of all resources'),
        (
            [("gears=2", 1)],
            "gears is not a resource of this machine, which has Cpus, Memory, Disk, Swap, cogs, actuator",
        ),
        ([("cpus=", 1)], "SLOT_TYPE_1: cpus=: a value is missing after the equals sign"),
        ([("cpus=many", 1)], "SLOT_TYPE_1: many is not a share of a resource: write a number"),
        ([("cpus=-2", 1)], "-2 is not a share"),
        ([("cpus=1/0", 1)], "1/0 is not a fraction"),
    ],
)
def test_what_cannot_be_made_is_refused_in_words(wanted: list[tuple[str, int]], words: str) -> None:
    with pytest.raises(SlotTypeError) as refused:
        cut(COGS, *wanted)
    assert words in str(refused.value)


@pytest.mark.parametrize("text", ["cpus=1, gears=0", "cpus=1, gears=50%", "cpus=1, gears=auto"])
def test_nothing_or_a_share_of_what_a_machine_has_not_may_be_asked_for(text: str) -> None:
    assert amounts(COGS, text, "Cpus") == (1,)


def test_slots_on_volumes_of_their_own_may_have_all_of_each() -> None:
    whole = DivisibleResources(2, 100, 100, {"a": 5000, "b": 7000})
    slots = divide_machine(whole, [ConfiguredSlots(1, "cpus=1, disk=100%", 2)], {1: "a", 2: "b"})
    assert [one.amount("Disk") for one in slots] == [5000, 7000]


SHARES = st.one_of(
    st.just("auto"),
    st.integers(0, 100).map(lambda part: f"{part}%"),
    st.integers(1, 9).map(lambda part: f"1/{part}"),
    st.integers(0, 5).map(str),
)
ITEMS = st.tuples(st.sampled_from(["c", "mem", "disk", "swap", "cogs", "actuator"]), SHARES).map("=".join)
TYPES = st.lists(st.tuples(st.lists(ITEMS, max_size=4).map(", ".join), st.integers(1, 3)), min_size=1, max_size=3)


@settings(max_examples=80, deadline=None)
@given(TYPES)
def test_no_more_is_given_out_than_there_is(types: list[tuple[str, int]]) -> None:
    try:
        slots = cut(COGS, *types)
    except SlotTypeError:
        return
    assert [one.number for one in slots] == list(range(1, 1 + sum(count for _, count in types)))
    for name in ("Cpus", "Memory", "Swap", "Disk", "cogs", "actuator"):
        given = sum(int(one.amount(name)) for one in slots)  # a slot's ad says whole numbers
        assert given <= COGS.of(name, "d")
        shares = {one.amount(name) for one in slots if one.type.shares[name] == AUTO}
        assert max(shares, default=0) - min(shares, default=0) <= (1 if name in ("cogs", "actuator") else 0)
