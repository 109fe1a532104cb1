"""What a machine offers under a configuration: as a real startd's slots, for each configuration that one was given."""

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
from .configurations import DATA, KEPT, configurations
from .machines import offered, pool, whole_ads

RECORDS: list[dict[str, Any]] = json.loads(gzip.decompress((DATA / "offers.json.gz").read_bytes()))
TEXTS = dict(configurations())
DISK = 1_000_003
NOT_COMPARED = {
    "Name": "the machine's name is another",
    "MachineMaxVacateTime": "the pool has it as a setting, and the ad where it is configured",
    "START": "Start, in other letters",
}
"""The attributes that are not compared, with the reason."""
OTHERWISE = {
    "START slot by slot": {"Start"},  # a real startd asks SLOT1_START for nothing: here it is the slot's
    "START in STARTD_ATTRS slot by slot": {"Start"},
    "a resource not among the names": {"DetectedGPUs"},  # there the inventory's facts stay, without the resource
}
"""The attributes in which a configuration is taken in another way."""


def machine(record: dict[str, Any]) -> Equipment:
    """The machine of the recording."""
    facts = record["facts"]
    swap = int(facts["TotalVirtualMemory"])
    volume = ExecuteVolume("<from-config>", DISK, DISK)
    return Equipment(int(facts["DetectedCpus"]), int(facts["DetectedMemory"]), swap, {"": volume})


MADE = [record for record in RECORDS if record["slots"]]
FAILED = [record for record in RECORDS if not record["slots"]]


CATALOGS = re.compile(r"\(TARGET\.RequestDisk - ifthenelse\(.*?,catalogs\)\)\),0\)\)")
"""In WithinResourceLimits: the space of common files, which there are none of here."""


def compared(name: str, ad: dict[str, str]) -> dict[str, str]:
    """The attributes that are compared, each as the language writes it."""
    return {
        key: unparse(parse(CATALOGS.sub("TARGET.RequestDisk", text))).strip("()")
        for key, text in sorted(ad.items(), key=lambda item: item[0].lower())
        if KEPT.fullmatch(key)
        and not key.startswith("slot")
        and key not in NOT_COMPARED
        and key not in OTHERWISE.get(name, ())
    }


@together("record", MADE)
def test_slots_are_those_of_a_real_startd(record: dict[str, Any]) -> None:
    name = record["name"]
    ours = whole_ads(offered(TEXTS[name], machine(record)))
    theirs = {ad["Name"].strip('"').partition("@")[0]: ad for ad in record["slots"]}
    assert {slot: compared(name, {"Rank": "0.0"} | ad) for slot, ad in ours.items()} == {
        slot: compared(name, ad) for slot, ad in theirs.items()
    }


@pytest.mark.parametrize("record", FAILED, ids=lambda record: record["name"])
def test_what_a_real_startd_refuses_is_refused(record: dict[str, Any]) -> None:
    with pytest.raises((SlotTypeError, ConfigError)):
        offered(TEXTS[record["name"]], machine(MADE[0]))


def test_many_configurations_were_recorded() -> None:
    assert len(MADE) > 60 and len(FAILED) > 8
    assert {record["name"] for record in RECORDS} == TEXTS.keys()


def test_attributes_of_other_slots_are_those_of_a_real_startd() -> None:
    record = next(record for record in RECORDS if record["name"] == "attributes of other slots")
    found = pool(TEXTS[record["name"]], machine(record))
    found.advance(1)
    for theirs in record["slots"]:
        slot = found.state.slots[f"slot{theirs['SlotID']}@h"]
        ad = snapshot_ad(
            PolicyEvaluation(found.state, slot, found.world.sense, found.world.now(), Context(), Caches()).snapshot()
        )
        wanted = {key: text for key, text in theirs.items() if re.match(r"slot\d_", key)}
        assert len(wanted) == 6
        assert {key: unparse(ad[key]) for key in wanted} == wanted


@together(
    "text, words",
    [
        ("NUM_SLOTS = -1", "NUM_SLOTS = -1: a machine has from 0 to 10000 slots of a type"),
        ("NUM_SLOTS = 1000000000", "NUM_SLOTS = 1000000000"),
        ("NUM_SLOTS_TYPE_1 = 1000000000", "NUM_SLOTS_TYPE_1 = 1000000000"),
        ("SLOT_TYPE_0 = 50%", "SLOT_TYPE_0: type 0 is reserved for evenly divided machines"),
        ("MEMORY = 10\nRESERVED_MEMORY = 10", "RESERVED_MEMORY leaves no memory for jobs"),
        ("NUM_SLOTS_TYPE_1 = 1\nSLOT_TYPE_1_BACKFILL = true", "backfill slots are not supported"),
        ("STARTD_ATTRS = CPUS\nCPUS = 3", "STARTD_ATTRS: CPUS is an attribute that the startd sets"),
        ("MACHINE_RESOURCE_RAM = 3", "MACHINE_RESOURCE_RAM: RAM is a standard resource"),
        ("STARTD_ATTRS = Color\nColor = (1", "Color: (1 is not an expression"),
        ("SLOT1_START = (1", "SLOT1_START: (1 is not an expression"),
        ("POLLING_INTERVAL = 0", "POLLING_INTERVAL: 0 is out of range; it must be at least 1"),
        ("UPDATE_INTERVAL = 0.5", "UPDATE_INTERVAL: 0.5 is out of range; it must be at least 1"),
        ("MUST_MODIFY_REQUEST_EXPRS = maybe", "MUST_MODIFY_REQUEST_EXPRS: maybe is neither true nor false"),
    ],
)
def test_what_cannot_be_offered_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises((SlotTypeError, ConfigError)) as refused:
        offered(text)
    assert words in str(refused.value)


def idle_of(found: TestPool, name: str) -> list[int]:
    """An attribute of the moment of slot1 and slot2."""
    slots = [found.state.slots[f"slot{number}@h"] for number in (1, 2)]
    now = found.world.now()
    return [
        snapshot_ad(
            PolicyEvaluation(found.state, slot, found.world.sense, now, Context(), Caches()).snapshot(), whole=True
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
def test_slots_notice_the_keyboard_and_the_console_that_they_are_connected_to(
    text: str, keyboard: list[int], console: list[int]
) -> None:
    found = pool("NUM_SLOTS = 2\n" + text)
    found.advance(100)
    now = found.world.now()
    found.world.set_readings("h", Readings(last_input=now - 10_000_000, last_console=now - 40_000_000))
    assert (idle_of(found, "KeyboardIdle"), idle_of(found, "ConsoleIdle")) == (keyboard, console)


def test_the_owners_load_is_in_the_slots_ads() -> None:
    found = pool("NUM_SLOTS = 2\nIS_OWNER = SlotID == 2")
    found.world.set_readings("h", Readings(load=1.2549, condor_load={"slot1@h": 0.996}))
    found.advance(1)
    assert [found.state.slots[f"slot{number}@h"].state for number in (1, 2)] == ["Unclaimed", "Owner"]
    assert idle_of(found, "LoadAvg") == [1.0, 0.26]
    assert idle_of(found, "CondorLoadAvg") == [1.0, 0.0]


@pytest.mark.parametrize(
    "text, worklife, vacate",
    [
        ("", None, None),
        ("CLAIM_WORKLIFE = 60\nMachineMaxVacateTime = 5 * $(MINUTE)", "60", "5 * 60"),
        ("MaxVacateTime = 20", None, "20"),
        ("CLAIM_WORKLIFE =", "-1", None),
    ],
)
def test_what_the_pool_has_as_a_setting_is_in_the_ad_where_it_is_configured(
    text: str, worklife: str | None, vacate: str | None
) -> None:
    ad = whole_ads(offered(text))["slot1"]
    assert (ad.get("CLAIM_WORKLIFE"), ad.get("MachineMaxVacateTime")) == (worklife, vacate)
