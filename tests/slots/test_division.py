"""A machine is divided into slots by its slot types (the manual's "Dividing System Resources in Multi-core
Machines")."""

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


def divide(resources: DivisibleResources, *slot_types: tuple[str, int]) -> list[SlotAllocation]:
    types = [ConfiguredSlots(number, text, count) for number, (text, count) in enumerate(slot_types, 1)]
    return divide_machine(resources, types, dict.fromkeys(range(1, 100), "d"))


def amounts(resources: DivisibleResources, text: str, *names: str) -> tuple[float, ...]:
    return tuple(divide(resources, (text, 1))[0].amount(name) for name in names)


@together(
    "text, cpus, memory, swap, disk",
    [
        # the manual's six types: the first three are equal, and so are the others
        ("cpus=2, ram=128, swap=25%, disk=1/2", 2, 128, 250, 50_000),
        ("cpus=1/2, memory=128, virt=25%, disk=50%", 2, 128, 250, 50_000),
        ("c=1/2, m=50%, v=1/4, disk=1/2", 2, 128, 250, 50_000),
        ("c=25%, m=64, v=1/4, d=25%", 1, 64, 250, 25_000),
        ("25%", 1, 64, 250, 25_000),
        ("1/4", 1, 64, 250, 25_000),
        # "the disk share is set to auto, number of cores is 1, and everything else is 50%"
        ("cpus=1, ram=1/2, swap=50%", 1, 128, 500, 100_000),
        ("cpus=1, disk=auto, 50%", 1, 128, 500, 100_000),
        # not specified by the manual
        ("auto", 4, 256, 1000, 100_000),
        ("", 4, 256, 1000, 100_000),
        ("1%", 1, 2, 10, 1000),
        ("CPUS=2  RAM=1/2", 2, 128, 1000, 100_000),
        ("cpus=2\nram=1/2\n10%", 2, 128, 100, 10_000),
        ("mem=0, disk=1", 4, 1, 1000, 1024),
        ("mem=131072k, disk=10m, swap=1m", 4, 131072, 1024, 10_240),
    ],
)
def test_each_slot_type_text_gives_the_expected_amounts(
    text: str, cpus: float, memory: float, swap: float, disk: float
) -> None:
    resources = MANUAL if "131072" not in text else DivisibleResources(4, 200_000, 2000, {"d": 100_000})
    assert amounts(resources, text, "Cpus", "Memory", "Swap", "Disk") == (cpus, memory, swap, disk)


@pytest.mark.parametrize("text", ["mem=64", "mem=1/2", "mem=50%", "mem=auto"])
def test_half_of_128_megabytes_can_be_written_in_four_ways(text: str) -> None:
    resources = DivisibleResources(4, 128, 1000, {"d": 100_000})
    assert [slot.amount("Memory") for slot in divide(resources, (text, 2))] == [64, 64]


def test_slots_with_auto_share_the_remaining_resources() -> None:
    first, *others = divide(MANUAL, ("cpus=1, mem=10%", 1), ("cpus=1", 3))
    assert first.amount("Memory") == 25
    assert [slot.amount("Memory") for slot in others] == [77, 77, 77]


def test_the_manual_s_cogs_and_actuators_are_divided_by_share() -> None:
    slots = divide(COGS, ("cogs=50%,actuator=6,50%", 1), ("cogs=25%,actuator=1,25%", 2))
    assert [(slot.amount("cogs"), slot.amount("actuator"), slot.amount("Cpus")) for slot in slots] == [
        (4, 6, 4),
        (2, 1, 2),
        (2, 1, 2),
    ]


def test_the_remainder_of_a_custom_resource_goes_to_the_first_slots() -> None:
    assert [slot.amount("cogs") for slot in divide(COGS, ("cpus=1", 3))] == [3, 3, 2]


@together(
    "slot_types, message",
    [
        ([("cpus=9", 1)], "SLOT_TYPE_1: slot 1 cannot be made: it needs 9 of Cpus, but 8 is left"),
        ([("60%", 2)], "SLOT_TYPE_1: slot 2 cannot be made: it needs 4.8 of Cpus, but 3 is left"),
        ([("mem=10000", 1), ("mem=7000", 1)], "SLOT_TYPE_2: slot 2 cannot be made: it needs 7000 of Memory"),
        ([("disk=75%", 2)], "slot 2 cannot be made: it needs 750000 of Disk, but 250000 is left"),
        ([("actuator=5", 2)], "slot 2 cannot be made: it needs 5 of actuator, but 3 is left"),
        ([("cpus=8", 1), ("auto", 2)], "SLOT_TYPE_2: slot 2 cannot be made: 2 slots share 0 of Cpus, but each needs"),
        ([("2", 1)], 'SLOT_TYPE_1: "2" is not a share of all resources; write a part'),
        ([("150%", 1)], '"150%" is not a share of all resources'),
        (
            [("gears=2", 1)],
            "gears is not a resource of this machine, which has Cpus, Memory, Disk, Swap, cogs, actuator",
        ),
        ([("cpus=", 1)], "SLOT_TYPE_1: cpus=: a value is missing after the equals sign"),
        ([("cpus=many", 1)], "SLOT_TYPE_1: many is not a share of a resource; write a number"),
        ([("cpus=-2", 1)], "-2 is not a share"),
        ([("cpus=1/0", 1)], "1/0 is not a fraction"),
    ],
)
def test_an_invalid_slot_type_is_rejected(slot_types: list[tuple[str, int]], message: str) -> None:
    with pytest.raises(SlotTypeError) as error_info:
        divide(COGS, *slot_types)
    assert message in str(error_info.value)


@pytest.mark.parametrize("text", ["cpus=1, gears=0", "cpus=1, gears=50%", "cpus=1, gears=auto"])
def test_a_slot_type_may_have_none_or_a_share_of_a_missing_resource(text: str) -> None:
    assert amounts(COGS, text, "Cpus") == (1,)


def test_slots_on_separate_volumes_may_each_have_a_whole_volume() -> None:
    resources = DivisibleResources(2, 100, 100, {"a": 5000, "b": 7000})
    slots = divide_machine(resources, [ConfiguredSlots(1, "cpus=1, disk=100%", 2)], {1: "a", 2: "b"})
    assert [slot.amount("Disk") for slot in slots] == [5000, 7000]


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
def test_slots_never_have_more_than_the_machine(types: list[tuple[str, int]]) -> None:
    try:
        slots = divide(COGS, *types)
    except SlotTypeError:
        return
    assert [slot.number for slot in slots] == list(range(1, 1 + sum(count for _, count in types)))
    for name in ("Cpus", "Memory", "Swap", "Disk", "cogs", "actuator"):
        total = sum(int(slot.amount(name)) for slot in slots)  # a slot's ad has integers
        assert total <= COGS.amount_of(name, "d")
        shares = {slot.amount(name) for slot in slots if slot.type.shares[name] == AUTO}
        assert max(shares, default=0) - min(shares, default=0) <= (1 if name in ("cogs", "actuator") else 0)
