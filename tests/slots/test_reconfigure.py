"""A machine is reconfigured: its policy changes at once, its slots after a drain."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from poolbook.domain.events import MachineConfigured, SlotAdChanged
from poolbook.domain.ports import stimuli as s
from poolbook.replay.why.slot import why_slot

from ..together import together
from .machines import equipment, new_pool, reconfigure

BEFORE = """\
START = KeyboardIdle > 10
STARTD_ATTRS = Color
Color = "blue"
MATCH_TIMEOUT = 50
MACHINE_RESOURCE_Fans = a, b
"""


def test_a_reconfiguration_changes_expressions_attributes_and_settings() -> None:
    pool = new_pool(BEFORE)
    after = 'START = KeyboardIdle > 20\nSTARTD_ATTRS = Season\nSeason = "spring"\nMACHINE_RESOURCE_Fans = a, b\n'
    answer = pool.handle(reconfigure(pool, after))
    assert not answer.refusal
    ad, machine = pool.state.slots["slot1@h"].ad, pool.state.machines["h"]
    assert (ad["Start"], ad.get("Color"), ad["Season"]) == ("KeyboardIdle > 20", None, '"spring"')
    assert "MATCH_TIMEOUT" not in machine.settings
    assert [type(event) for event in pool.events()[-2:]] == [MachineConfigured, SlotAdChanged]


def test_the_same_configuration_changes_nothing_even_with_another_free_disk_space() -> None:
    pool = new_pool(BEFORE)
    pool.submit(Args='"100"', RequestFans="1")
    pool.advance(1)
    before = len(pool.events())
    assert not pool.handle(reconfigure(pool, BEFORE, equipment(disk=1_234_567))).refusal
    assert len(pool.events()) == before


@together(
    "text, message",
    [
        (BEFORE + "NUM_SLOTS = 2", "slot2@h would be added or removed"),
        (BEFORE + "SLOT_TYPE_0_PARTITIONABLE = false\nNUM_SLOTS = 1", "slot slot1@h would become static"),
        (BEFORE + "MEMORY = 8000", "slot slot1@h: TotalSlotMemory would change from 16000 to 8000"),
        (BEFORE + "RESERVED_DISK = 100", "slot slot1@h: TotalSlotDisk would change from 1000000.0 to 897600.0"),
        (BEFORE.replace("a, b", "a, c"), 'slot slot1@h: AssignedFans would change from "a,b" to "a,c"'),
        (BEFORE.replace("a, b", ""), 'slot slot1@h: AssignedFans would change from "a,b" to None'),
    ],
)
def test_a_change_of_the_slots_drains_the_machine_if_it_may_and_is_rejected_otherwise(text: str, message: str) -> None:
    pool = new_pool(BEFORE)
    answer = pool.handle(reconfigure(pool, text))
    assert answer.refusal.startswith(f"machine h: {message}")
    assert "restart the execution point" in answer.refusal
    assert not pool.handle(replace(reconfigure(pool, text), drains=True)).refusal
    drain = pool.state.machines["h"].drain
    assert drain is not None
    assert (drain.cause, drain.completion, drain.state) == ("slots_changed", "restart", "Stopped")
    assert drain.reason == f"the configuration changes the slots: {message}"


def test_a_machine_that_drains_for_another_reason_keeps_its_slots() -> None:
    pool = new_pool(BEFORE)
    pool.handle(s.Drain(pool.id(), "root", "h", reason="new kernel"))
    answer = pool.handle(replace(reconfigure(pool, BEFORE + "NUM_SLOTS = 2"), drains=True))
    assert answer.refusal == (
        "slot2@h would be added or removed, so the machine must be drained, but Draining already in progress on h "
        "(request 1): cancel it first"
    )


def test_a_drain_that_a_reconfiguration_ends_is_not_explained_as_a_request_to_cancel_it() -> None:
    pool = new_pool(BEFORE)
    pool.submit(Args='"100"')
    pool.advance(1)
    pool.handle(replace(reconfigure(pool, BEFORE + "NUM_SLOTS = 2"), drains=True))
    pool.handle(replace(reconfigure(pool, BEFORE), drains=True))
    lives = [sentence.text for sentence in why_slot(enumerate(pool.events(), 1), "slot1@h").life]
    assert [text for text in lives if "cancel" in text] == [
        "The drain of its machine was cancelled: the machine's configuration was read again.",
        "The drain was cancelled; the slot returned to its owner.",
    ]


def test_a_reconfiguration_does_not_end_the_drain_of_a_user() -> None:
    pool = new_pool(BEFORE)
    pool.submit(Args='"100"')
    pool.advance(1)
    pool.handle(s.Drain(pool.id(), "root", "h"))
    pool.handle(replace(reconfigure(pool, BEFORE + "START = false"), drains=True))
    assert pool.state.machines["h"].drain is not None
    assert pool.state.slots["slot1@h"].ad["Start"] == "false"


SHARES = "NUM_SLOTS_TYPE_1 = 1\nSLOT_TYPE_1 = cpus=4, disk={}, swap={}\n"


@pytest.mark.parametrize(
    "disk, swap, message",
    [
        ("50%", "1/2", ""),
        ("25%", "50%", "machine h: slot slot1@h: TotalSlotDisk would change from 500000.0 to 250000.0"),
        ("50%", "25%", "machine h: slot slot1@h: VirtualMemory would change from "),
    ],
)
def test_a_changed_share_of_disk_or_swap_space_is_rejected(disk: str, swap: str, message: str) -> None:
    pool = new_pool(SHARES.format("50%", "50%"))
    answer = pool.handle(reconfigure(pool, SHARES.format(disk, swap), equipment(disk=400_000)))
    assert answer.refusal.startswith(message) and bool(answer.refusal) == bool(message)


def test_an_amount_of_disk_space_that_is_no_longer_free_is_accepted() -> None:
    text = "NUM_SLOTS_TYPE_1 = 1\nSLOT_TYPE_1 = disk=900000\n"
    pool = new_pool(text)
    answer = pool.handle(reconfigure(pool, text + "START = false", equipment(disk=400_000)))
    assert not answer.refusal
    assert pool.state.slots["slot1@h"].ad["Start"] == "false"
