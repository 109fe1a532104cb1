"""The slots of a machine with a configuration are the same as in HTCondor."""

from __future__ import annotations

import gzip
import json
import re
from typing import Any

import pytest

from poolbook.domain.classad import Context, parse, unparse
from poolbook.domain.config import ConfigError
from poolbook.domain.ports.sensor_readings import Readings
from poolbook.domain.startd.evaluation import PolicyEvaluation
from poolbook.domain.startd.provisioning import Equipment, ExecuteVolume
from poolbook.domain.startd.slot_ad import snapshot_ad
from poolbook.domain.startd.slot_types import SlotTypeError
from poolbook.domain.state.caches import Caches

from ..domain.pools import TestPool
from ..together import together
from .configurations import DATA, RECORDED_NAMES, configurations
from .machines import new_pool, offer, slot_ads

RECORDS: list[dict[str, Any]] = json.loads(gzip.decompress((DATA / "offers.json.gz").read_bytes()))
TEXTS = dict(configurations())
DISK = 1_000_003
NOT_COMPARED = {
    "Name": "the machine has another name",
    "MachineMaxVacateTime": "a setting of the pool; in the ad only if it is configured",
    "START": "the same as Start",
}
"""Attributes that are not compared, with the reason."""
DIFFERENT = {
    "START slot by slot": {"Start"},  # HTCondor's startd ignores SLOT1_START
    "START in STARTD_ATTRS slot by slot": {"Start"},
    "a resource not among the names": {
        "DetectedGPUs"
    },  # HTCondor keeps the attributes of the inventory without the resource
}
"""Attributes that differ in a configuration."""


def machine(record: dict[str, Any]) -> Equipment:
    """Return the equipment of the recording's machine."""
    facts = record["facts"]
    swap = int(facts["TotalVirtualMemory"])
    volume = ExecuteVolume("<from-config>", DISK, DISK)
    return Equipment(int(facts["DetectedCpus"]), int(facts["DetectedMemory"]), swap, {"": volume})


ACCEPTED = [record for record in RECORDS if record["slots"]]
REJECTED = [record for record in RECORDS if not record["slots"]]


CATALOGS = re.compile(r"\(TARGET\.RequestDisk - ifthenelse\(.*?,catalogs\)\)\),0\)\)")
"""The space of common files in WithinResourceLimits, which Poolbook does not have."""


def comparable_attributes(name: str, ad: dict[str, str]) -> dict[str, str]:
    """Return the attributes to compare, in normalized form."""
    return {
        key: unparse(parse(CATALOGS.sub("TARGET.RequestDisk", text))).strip("()")
        for key, text in sorted(ad.items(), key=lambda item: item[0].lower())
        if RECORDED_NAMES.fullmatch(key)
        and not key.startswith("slot")
        and key not in NOT_COMPARED
        and key not in DIFFERENT.get(name, ())
    }


@together("record", ACCEPTED)
def test_slots_are_the_same_as_those_of_htcondor_s_startd(record: dict[str, Any]) -> None:
    name = record["name"]
    our_ads = slot_ads(offer(TEXTS[name], machine(record)))
    recorded_ads = {ad["Name"].strip('"').partition("@")[0]: ad for ad in record["slots"]}
    assert {slot: comparable_attributes(name, {"Rank": "0.0"} | ad) for slot, ad in our_ads.items()} == {
        slot: comparable_attributes(name, ad) for slot, ad in recorded_ads.items()
    }


@pytest.mark.parametrize("record", REJECTED, ids=lambda record: record["name"])
def test_a_configuration_that_htcondor_s_startd_rejects_is_rejected(record: dict[str, Any]) -> None:
    with pytest.raises((SlotTypeError, ConfigError)):
        offer(TEXTS[record["name"]], machine(ACCEPTED[0]))


def test_the_recording_has_all_configurations() -> None:
    assert len(ACCEPTED) > 60 and len(REJECTED) > 8
    assert {record["name"] for record in RECORDS} == TEXTS.keys()


def test_attributes_of_other_slots_are_the_same_as_those_of_htcondor_s_startd() -> None:
    record = next(record for record in RECORDS if record["name"] == "attributes of other slots")
    pool = new_pool(TEXTS[record["name"]], machine(record))
    pool.advance(1)
    for recorded_ad in record["slots"]:
        slot = pool.state.slots[f"slot{recorded_ad['SlotID']}@h"]
        ad = snapshot_ad(
            PolicyEvaluation(pool.state, slot, pool.world.sense, pool.world.now(), Context(), Caches()).snapshot()
        )
        expected = {key: text for key, text in recorded_ad.items() if re.match(r"slot\d_", key)}
        assert len(expected) == 6
        assert {key: unparse(ad[key]) for key in expected} == expected


@together(
    "text, message",
    [
        ("NUM_SLOTS = -1", "NUM_SLOTS = -1: the number of slots of a type must be from 0 to 10000"),
        ("NUM_SLOTS = 1000000000", "NUM_SLOTS = 1000000000"),
        ("NUM_SLOTS_TYPE_1 = 1000000000", "NUM_SLOTS_TYPE_1 = 1000000000"),
        ("SLOT_TYPE_0 = 50%", "SLOT_TYPE_0: type 0 is reserved for evenly divided machines"),
        ("MEMORY = 10\nRESERVED_MEMORY = 10", "RESERVED_MEMORY leaves no memory for jobs"),
        ("NUM_SLOTS_TYPE_1 = 1\nSLOT_TYPE_1_BACKFILL = true", "backfill slots are not supported"),
        ("STARTD_ATTRS = CPUS\nCPUS = 3", "STARTD_ATTRS: CPUS is set by the startd"),
        ("MACHINE_RESOURCE_RAM = 3", "MACHINE_RESOURCE_RAM: RAM is a standard resource"),
        ("STARTD_ATTRS = Color\nColor = (1", "Color: (1 is not an expression"),
        ("SLOT1_START = (1", "SLOT1_START: (1 is not an expression"),
        ("POLLING_INTERVAL = 0", "POLLING_INTERVAL: 0 is out of range; it must be at least 1"),
        ("UPDATE_INTERVAL = 0.5", "UPDATE_INTERVAL: 0.5 is out of range; it must be at least 1"),
        ("MUST_MODIFY_REQUEST_EXPRS = maybe", "MUST_MODIFY_REQUEST_EXPRS: maybe is neither true nor false"),
    ],
)
def test_an_invalid_configuration_of_slots_is_rejected(text: str, message: str) -> None:
    with pytest.raises((SlotTypeError, ConfigError)) as error_info:
        offer(text)
    assert message in str(error_info.value)


def current_values(pool: TestPool, name: str) -> list[int]:
    """Return the current value of an attribute in slot1 and slot2."""
    slots = [pool.state.slots[f"slot{number}@h"] for number in (1, 2)]
    now = pool.world.now()
    return [
        snapshot_ad(
            PolicyEvaluation(pool.state, slot, pool.world.sense, now, Context(), Caches()).snapshot(), whole=True
        ).eval(name)
        for slot in slots
    ]


@pytest.mark.parametrize(
    "text, keyboard, console",
    [
        # "Slots that are not configured to notice any activity will report ConsoleIdle and KeyboardIdle times from when
        # the condor_startd daemon was started, plus a configurable number of seconds"
        ("SLOTS_CONNECTED_TO_KEYBOARD = 1\nSLOTS_CONNECTED_TO_CONSOLE = 1", [10, 1300], [40, 1300]),
        ("SLOTS_CONNECTED_TO_KEYBOARD = 2\nSLOTS_CONNECTED_TO_CONSOLE = 1", [10, 10], [40, 1300]),
        ("DISCONNECTED_KEYBOARD_IDLE_BOOST = 500", [600, 600], [600, 600]),
    ],
)
def test_slots_show_the_activity_of_connected_keyboards_and_consoles(
    text: str, keyboard: list[int], console: list[int]
) -> None:
    pool = new_pool("NUM_SLOTS = 2\n" + text)
    pool.advance(100)
    now = pool.world.now()
    pool.world.set_readings("h", Readings(last_input=now - 10_000_000, last_console=now - 40_000_000))
    assert (current_values(pool, "KeyboardIdle"), current_values(pool, "ConsoleIdle")) == (keyboard, console)


def test_the_owner_s_load_is_in_the_slots_ads() -> None:
    pool = new_pool("NUM_SLOTS = 2\nIS_OWNER = SlotID == 2")
    pool.world.set_readings("h", Readings(load=1.2549, condor_load={"slot1@h": 0.996}))
    pool.advance(1)
    assert [pool.state.slots[f"slot{number}@h"].state for number in (1, 2)] == ["Unclaimed", "Owner"]
    assert current_values(pool, "LoadAvg") == [1.0, 0.26]
    assert current_values(pool, "CondorLoadAvg") == [1.0, 0.0]


@pytest.mark.parametrize(
    "text, worklife, vacate",
    [
        ("", None, None),
        ("CLAIM_WORKLIFE = 60\nMachineMaxVacateTime = 5 * $(MINUTE)", "60", "5 * 60"),
        ("MaxVacateTime = 20", None, "20"),
        ("CLAIM_WORKLIFE =", "-1", None),
    ],
)
def test_a_setting_of_the_pool_is_in_the_ad_only_if_it_is_configured(
    text: str, worklife: str | None, vacate: str | None
) -> None:
    ad = slot_ads(offer(text))["slot1"]
    assert (ad.get("CLAIM_WORKLIFE"), ad.get("MachineMaxVacateTime")) == (worklife, vacate)
