"""What jobs take of a partitionable slot, and what is left of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.domain.startd.custom_resources import assigned_ids
from poolbook.domain.startd.slot_resources import remaining_resources
from poolbook.replay.validation import validate

from ..domain.pools import TestPool
from .machines import equipment, pool

SLOT = "slot1@h"


def carved(found: TestPool) -> list[tuple[str, ...]]:
    """What each dynamic slot has: cores, memory and disk."""
    slots = [slot for slot in found.state.slots.values() if slot.parent]
    return [tuple(slot.ad[name] for name in ("Cpus", "Memory", "Disk")) for slot in slots]


@pytest.mark.parametrize(
    "text, request_, taken",
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
        # what is enlarged is taken as it was asked for where too little is left for the enlarged
        ("MODIFY_REQUEST_EXPR_REQUESTMEMORY = 20000", {"RequestMemory": "100"}, ("1", "100", "1024")),
        # a consumption policy says itself what a job takes
        ("CONSUMPTION_POLICY = true", {"RequestCpus": "2", "RequestMemory": "300"}, ("2", "384", "1024")),
        ("CONSUMPTION_POLICY = true\nCONSUMPTION_CPUS = 3", {}, ("3", "128", "1024")),
    ],
)
def test_a_job_takes_what_it_asks_for_as_the_configuration_enlarges_it(
    text: str, request_: dict[str, str], taken: tuple[str, ...]
) -> None:
    found = pool(text)
    found.submit(1, **request_)
    found.advance(1)
    assert carved(found) == [taken]
    left = found.state.slots[SLOT].ad
    assert [int(left["Cpus"]), int(left["Memory"]), int(left["Disk"])] == [
        8 - int(taken[0]), 16_000 - int(taken[1]), 1_000_000 - int(taken[2])
    ]  # fmt: skip


@pytest.mark.parametrize("must", ["true", "1", "2 > 1"])
def test_a_request_that_must_be_enlarged_and_cannot_waits(must: str) -> None:
    text = f"MODIFY_REQUEST_EXPR_REQUESTMEMORY = 20000\nMUST_MODIFY_REQUEST_EXPRS = {must}"
    found = pool(text)
    found.submit()
    found.advance(1)
    assert carved(found) == [] and found.status("1.0") == "Idle"


def things(found: TestPool) -> dict[str, tuple[str, str, str]]:
    """How many fans each slot has, which, and which are to be had."""
    return {
        name.partition("@")[0]: (slot.ad["Fans"], slot.ad["AssignedFans"].strip('"'), slot.ad["AvailableFans"])
        for name, slot in found.state.slots.items()
    }


FANS = "MACHINE_RESOURCE_Fans = red, green, blue\n"


def test_a_dynamic_slot_gets_things_that_no_other_has_and_gives_them_back() -> None:
    found = pool(FANS)
    found.submit(2, Args='"30"', RequestFans="1")
    found.submit(1, Args='"90"', RequestFans="1")
    found.advance(1)
    assert things(found) == {
        "slot1": ("0", "red,green,blue", "{}"),
        "slot1_1": ("1", "red", "{Fans_red}"),
        "slot1_2": ("1", "green", "{Fans_green}"),
        "slot1_3": ("1", "blue", "{Fans_blue}"),
    }
    found.advance(60)
    assert things(found) == {
        "slot1": ("2", "red,green,blue", "{Fans_red,Fans_green}"),
        "slot1_3": ("1", "blue", "{Fans_blue}"),
    }
    found.advance(60)
    assert things(found) == {"slot1": ("3", "red,green,blue", "{Fans_red,Fans_green,Fans_blue}")}
    assert list(validate(found.log.read())) == []


INVENTORY = """\
DetectedFans = "fan-1, fan-2, fan-3"
common = [ Speed = 100 ]
fan_1 = [ id = "fan-1"; Size = 1 ]
fan_2 = [ id = "fan-2"; Size = 2 ]
fan_3 = [ id = "fan-3"; Size = 2 ]
"""


def test_a_job_gets_things_with_the_properties_that_it_requires() -> None:
    found = pool("MACHINE_RESOURCE_INVENTORY_Fans = anything", equipment(Fans=INVENTORY))
    found.submit(RequestFans="2", RequireFans="Size >= 2 && Speed > 50")
    found.advance(1)
    ad = found.state.slots["slot1_1@h"].ad
    assert assigned_ids(ad, "Fans") == ("fan-2", "fan-3")
    assert (ad["Fans_Size"], ad["Fans_Speed"], "Fans_fan_1" in ad, "Fans_fan_2" in ad) == ("2", "100", False, True)


def test_a_job_that_asks_for_more_things_than_there_are_waits() -> None:
    found = pool(FANS)
    found.submit(RequestFans="4")
    found.advance(1)
    assert found.status("1.0") == "Idle"


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
def test_what_dynamic_slots_have_and_what_is_left_is_always_the_whole(
    submissions: list[tuple[dict[str, str], int, int]],
) -> None:
    found = pool(FANS)
    for request, count, seconds in submissions:
        found.submit(count, **request)
        found.advance(seconds)
        _adds_up(found)
    found.advance(5000)
    _adds_up(found)
    assert list(validate(found.log.read())) == []


def _adds_up(found: TestPool) -> None:
    parent = found.state.slots[SLOT]
    slots = [slot for slot in found.state.slots.values() if slot is parent or slot.parent]
    for name, amount in {"Cpus": 8, "Memory": 16_000, "Disk": 1_000_000, "Fans": 3}.items():
        each = [remaining_resources(slot.ad)[name] for slot in slots]
        assert sum(each) == amount and min(each) >= 0
    handed = [one for slot in slots if slot is not parent for one in assigned_ids(slot.ad, "Fans")]
    assert len(handed) == len(set(handed)) == 3 - remaining_resources(parent.ad)["Fans"]
