"""Dynamic slots: the resources that jobs get, and the remainder of the partitionable slot."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.domain.startd.custom_resources import assigned_ids
from poolbook.domain.startd.slot_resources import remaining_resources
from poolbook.replay.validation import validate

from ..domain.pools import TestPool
from .machines import equipment, new_pool

SLOT = "slot1@h"


def dynamic_slots(pool: TestPool) -> list[tuple[str, ...]]:
    """Return the cores, memory and disk of each dynamic slot."""
    slots = [slot for slot in pool.state.slots.values() if slot.parent]
    return [tuple(slot.ad[name] for name in ("Cpus", "Memory", "Disk")) for slot in slots]


@pytest.mark.parametrize(
    "text, request_, expected",
    [
        # the manual's defaults: quanta of 1 core, 128 MiB and 1024 KiB
        ("", {"RequestCpus": "2", "RequestMemory": "300", "RequestDisk": "5000"}, ("2", "384", "5120")),
        ("", {"RequestCpus": "1.5"}, ("2", "128", "1024")),
        ("", {"RequestMemory": "RequestCpus * 100"}, ("1", "128", "1024")),
        # others
        ("MODIFY_REQUEST_EXPR_REQUESTMEMORY = quantize(RequestMemory, {1000})", {}, ("1", "1000", "1024")),
        ("MODIFY_REQUEST_EXPR_REQUESTCPUS = TARGET.TotalSlotCpus / 2", {}, ("4", "128", "1024")),
        ("MODIFY_REQUEST_EXPR_REQUESTCPUS = no_such_attribute", {"RequestCpus": "3"}, ("3", "128", "1024")),
        (
            "NUM_SLOTS_TYPE_1 = 1\nSLOT_TYPE_1 = 100%\nSLOT_TYPE_1_PARTITIONABLE = true\n"
            "SLOT_TYPE_1_MODIFY_REQUEST_EXPR_REQUESTCPUS = 5",
            {},
            ("5", "128", "1024"),
        ),
        # too little is left for the enlarged request, so the job gets what it requested
        ("MODIFY_REQUEST_EXPR_REQUESTMEMORY = 20000", {"RequestMemory": "100"}, ("1", "100", "1024")),
        # a consumption policy determines the resources
        ("CONSUMPTION_POLICY = true", {"RequestCpus": "2", "RequestMemory": "300"}, ("2", "384", "1024")),
        ("CONSUMPTION_POLICY = true\nCONSUMPTION_CPUS = 3", {}, ("3", "128", "1024")),
    ],
)
def test_a_job_gets_its_request_as_modified_by_the_configuration(
    text: str, request_: dict[str, str], expected: tuple[str, ...]
) -> None:
    pool = new_pool(text)
    pool.submit(1, **request_)
    pool.advance(1)
    assert dynamic_slots(pool) == [expected]
    remaining = pool.state.slots[SLOT].ad
    assert [int(remaining["Cpus"]), int(remaining["Memory"]), int(remaining["Disk"])] == [
        8 - int(expected[0]), 16_000 - int(expected[1]), 1_000_000 - int(expected[2])
    ]  # fmt: skip


@pytest.mark.parametrize("must", ["true", "1", "2 > 1"])
def test_a_job_waits_if_its_request_must_be_modified_but_cannot_be(must: str) -> None:
    text = f"MODIFY_REQUEST_EXPR_REQUESTMEMORY = 20000\nMUST_MODIFY_REQUEST_EXPRS = {must}"
    pool = new_pool(text)
    pool.submit()
    pool.advance(1)
    assert dynamic_slots(pool) == [] and pool.status("1.0") == "Idle"


def fans(pool: TestPool) -> dict[str, tuple[str, str, str]]:
    """Return the number of fans of each slot, the assigned ones and the available ones."""
    return {
        name.partition("@")[0]: (slot.ad["Fans"], slot.ad["AssignedFans"].strip('"'), slot.ad["AvailableFans"])
        for name, slot in pool.state.slots.items()
    }


FANS = "MACHINE_RESOURCE_Fans = red, green, blue\n"


def test_a_dynamic_slot_gets_unassigned_resources_and_returns_them() -> None:
    pool = new_pool(FANS)
    pool.submit(2, Args='"30"', RequestFans="1")
    pool.submit(1, Args='"90"', RequestFans="1")
    pool.advance(1)
    assert fans(pool) == {
        "slot1": ("0", "red,green,blue", "{}"),
        "slot1_1": ("1", "red", "{Fans_red}"),
        "slot1_2": ("1", "green", "{Fans_green}"),
        "slot1_3": ("1", "blue", "{Fans_blue}"),
    }
    pool.advance(60)
    assert fans(pool) == {
        "slot1": ("2", "red,green,blue", "{Fans_red,Fans_green}"),
        "slot1_3": ("1", "blue", "{Fans_blue}"),
    }
    pool.advance(60)
    assert fans(pool) == {"slot1": ("3", "red,green,blue", "{Fans_red,Fans_green,Fans_blue}")}
    assert list(validate(pool.log.read())) == []


INVENTORY = """\
DetectedFans = "fan-1, fan-2, fan-3"
common = [ Speed = 100 ]
fan_1 = [ id = "fan-1"; Size = 1 ]
fan_2 = [ id = "fan-2"; Size = 2 ]
fan_3 = [ id = "fan-3"; Size = 2 ]
"""


def test_a_job_gets_custom_resources_with_the_required_properties() -> None:
    pool = new_pool("MACHINE_RESOURCE_INVENTORY_Fans = anything", equipment(Fans=INVENTORY))
    pool.submit(RequestFans="2", RequireFans="Size >= 2 && Speed > 50")
    pool.advance(1)
    ad = pool.state.slots["slot1_1@h"].ad
    assert assigned_ids(ad, "Fans") == ("fan-2", "fan-3")
    assert (ad["Fans_Size"], ad["Fans_Speed"], "Fans_fan_1" in ad, "Fans_fan_2" in ad) == ("2", "100", False, True)


def test_a_job_that_requests_more_custom_resources_than_exist_waits() -> None:
    pool = new_pool(FANS)
    pool.submit(RequestFans="4")
    pool.advance(1)
    assert pool.status("1.0") == "Idle"


REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "RequestCpus": st.integers(1, 9).map(str),
        "RequestMemory": st.integers(1, 9000).map(str),
        "RequestDisk": st.integers(1, 600_000).map(str),
        "RequestFans": st.integers(0, 4).map(str),
        "Args": st.integers(1, 200).map('"{}"'.format),
    },
)


@settings(max_examples=6, deadline=None)
@given(st.lists(st.tuples(REQUESTS, st.integers(1, 3), st.integers(0, 90)), max_size=6))
def test_dynamic_slots_and_the_remainder_always_add_up_to_the_machine(
    submissions: list[tuple[dict[str, str], int, int]],
) -> None:
    pool = new_pool(FANS)
    for request, count, seconds in submissions:
        pool.submit(count, **request)
        pool.advance(seconds)
        _check_sums(pool)
    pool.advance(5000)
    _check_sums(pool)
    assert list(validate(pool.log.read())) == []


def _check_sums(pool: TestPool) -> None:
    parent = pool.state.slots[SLOT]
    slots = [slot for slot in pool.state.slots.values() if slot is parent or slot.parent]
    for name, amount in {"Cpus": 8, "Memory": 16_000, "Disk": 1_000_000, "Fans": 3}.items():
        amounts = [remaining_resources(slot.ad)[name] for slot in slots]
        assert sum(amounts) == amount and min(amounts) >= 0
    assigned = [fan for slot in slots if slot is not parent for fan in assigned_ids(slot.ad, "Fans")]
    assert len(assigned) == len(set(assigned)) == 3 - remaining_resources(parent.ad)["Fans"]
