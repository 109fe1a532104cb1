"""A machine takes another configuration: its policy changes, its slots do not."""

from __future__ import annotations

import pytest

from poolbook.domain.events import MachineConfigured, SlotAdChanged

from ..together import together
from .machines import equipment, pool, reconfigure

BEFORE = """\
START = KeyboardIdle > 10
STARTD_ATTRS = Color
Color = "blue"
MATCH_TIMEOUT = 50
MACHINE_RESOURCE_Fans = a, b
"""


def test_expressions_attributes_and_settings_change() -> None:
    found = pool(BEFORE)
    after = 'START = KeyboardIdle > 20\nSTARTD_ATTRS = Season\nSeason = "spring"\nMACHINE_RESOURCE_Fans = a, b\n'
    answer = found.handle(reconfigure(found, after))
    assert not answer.refusal
    ad, machine = found.state.slots["slot1@h"].ad, found.state.machines["h"]
    assert (ad["Start"], ad.get("Color"), ad["Season"]) == ("KeyboardIdle > 20", None, '"spring"')
    assert "MATCH_TIMEOUT" not in machine.settings
    assert [type(event) for event in found.events()[-2:]] == [MachineConfigured, SlotAdChanged]


def test_the_same_configuration_changes_nothing_though_other_space_is_free_now() -> None:
    found = pool(BEFORE)
    found.submit(Args='"100"', RequestFans="1")
    found.advance(1)
    before = len(found.events())
    assert not found.handle(reconfigure(found, BEFORE, equipment(disk=1_234_567))).refusal
    assert len(found.events()) == before


@together(
    "text, words",
    [
        (BEFORE + "NUM_SLOTS = 2", "machine h: slot2@h would be added or removed"),
        (BEFORE + "SLOT_TYPE_0_PARTITIONABLE = false\nNUM_SLOTS = 1", "slot slot1@h would become static"),
        (BEFORE + "MEMORY = 8000", "slot slot1@h: TotalSlotMemory would change from 16000 to 8000"),
        (BEFORE + "RESERVED_DISK = 100", "slot slot1@h: TotalSlotDisk would change from 1000000.0 to 897600.0"),
        (BEFORE.replace("a, b", "a, c"), 'slot slot1@h: AssignedFans would change from "a,b" to "a,c"'),
        (BEFORE.replace("a, b", ""), 'slot slot1@h: AssignedFans would change from "a,b" to None'),
    ],
)
def test_other_slots_take_a_restart_and_the_answer_says_so(text: str, words: str) -> None:
    found = pool(BEFORE)
    answer = found.handle(reconfigure(found, text))
    assert answer.refusal.startswith(words)
    assert "restart the execution point" in answer.refusal


SHARES = "NUM_SLOTS_TYPE_1 = 1\nSLOT_TYPE_1 = cpus=4, disk={}, swap={}\n"


@pytest.mark.parametrize(
    "disk, swap, words",
    [
        ("50%", "1/2", ""),
        ("25%", "50%", "slot slot1@h: TotalSlotDisk would change from 500000.0 to 250000.0"),
        ("50%", "25%", "slot slot1@h: VirtualMemory would change from "),
    ],
)
def test_a_share_of_disk_or_swap_space_cannot_change_though_what_is_free_does(disk: str, swap: str, words: str) -> None:
    found = pool(SHARES.format("50%", "50%"))
    answer = found.handle(reconfigure(found, SHARES.format(disk, swap), equipment(disk=400_000)))
    assert answer.refusal.startswith(words) and bool(answer.refusal) == bool(words)


def test_an_amount_of_disk_space_that_was_free_once_is_no_reason_to_refuse() -> None:
    text = "NUM_SLOTS_TYPE_1 = 1\nSLOT_TYPE_1 = disk=900000\n"
    found = pool(text)
    answer = found.handle(reconfigure(found, text + "START = false", equipment(disk=400_000)))
    assert not answer.refusal
    assert found.state.slots["slot1@h"].ad["Start"] == "false"
