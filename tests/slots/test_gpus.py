"""Devices of slots: which device a job gets, devices that several jobs share, and slots whose devices are missing."""

from __future__ import annotations

import pytest

from poolbook.domain.config import ConfigError
from poolbook.domain.ports import stimuli as s
from poolbook.domain.startd.slot_types import SlotTypeError
from poolbook.replay.validation import validate
from poolbook.replay.why.job import why_job
from poolbook.replay.why.slot import why_slot

from ..domain.pools import TestPool
from .machines import equipment, new_pool, offer, reconfigure

TWO_CARDS = """\
DetectedGPUs = "GPU-old, GPU-new"
Common = [ DriverVersion = 13.0 ]
GPU_old = [ id = "GPU-old"; Capability = 7.5; GlobalMemoryMb = 16000 ]
GPU_new = [ id = "GPU-new"; Capability = 9.0; GlobalMemoryMb = 81079 ]
"""
SHARED_CARD = """\
DetectedGPUs = "GPU-one, GPU-one"
Common = [ Capability = 9.0 ]
GPU_one = [ id = "GPU-one" ]
"""
COUNTED = "countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= RequestGPUs"


def pool_with(inventory: str, text: str = "", dialect: str = "manual") -> TestPool:
    configuration = f"MACHINE_RESOURCE_INVENTORY_GPUs = discovery\n{text}"
    return new_pool(configuration, equipment(GPUs=inventory), dialect)


def assigned(pool: TestPool) -> dict[str, str]:
    return {
        name.partition("@")[0]: slot.ad.get("AssignedGPUs", "") for name, slot in pool.state.slots.items() if slot.user
    }


def test_a_job_gets_the_first_free_device_that_meets_its_requirements() -> None:
    pool = pool_with(TWO_CARDS)
    condition = "Capability >= MinCapability"
    pool.submit(Requirements=COUNTED, RequestGPUs="1", RequireGPUs=condition, MinCapability="8.0")
    pool.advance(10)
    assert assigned(pool) == {"slot1_1": '"GPU-new"'}
    pool.submit(RequestGPUs="1")
    pool.advance(10)
    assert assigned(pool) == {"slot1_1": '"GPU-new"', "slot1_2": '"GPU-old"'}
    parent = pool.state.slots["slot1@h"].ad
    assert (parent["GPUs"], parent["AvailableGPUs"], parent["AssignedGPUs"]) == ("0", "{}", '"GPU-old,GPU-new"')


def test_a_job_gets_no_slot_if_too_few_free_devices_meet_its_requirements() -> None:
    pool = pool_with(TWO_CARDS)
    pool.submit(Requirements="TARGET.GPUs >= RequestGPUs", RequestGPUs="2", RequireGPUs="Capability > 8")
    pool.advance(10)
    assert assigned(pool) == {} and pool.status("1.0") == "Idle"
    assert pool.state.slots["slot1@h"].ad["AvailableGPUs"] == "{GPUs_GPU_old,GPUs_GPU_new}"


def test_jobs_of_one_cycle_get_different_devices() -> None:
    pool = pool_with(TWO_CARDS)
    pool.submit(3, Requirements=COUNTED, RequestGPUs="1", RequireGPUs="Capability > 8")
    pool.advance(10)
    assert assigned(pool) == {"slot1_1": '"GPU-new"'}
    pool.submit(Requirements=COUNTED, RequestGPUs="1", RequireGPUs="Capability > 5")
    pool.advance(10)
    assert assigned(pool) == {"slot1_1": '"GPU-new"', "slot1_2": '"GPU-old"'}


def test_jobs_share_a_device_that_is_listed_several_times() -> None:
    pool = pool_with(SHARED_CARD)
    pool.submit(3, RequestGPUs="1")
    pool.advance(10)
    assert assigned(pool) == {"slot1_1": '"GPU-one"', "slot1_2": '"GPU-one"'}
    assert pool.state.slots["slot1@h"].ad["AvailableGPUs"] == "{}"
    pool.act("remove", "1.0", "1.2")
    pool.advance(10)
    parent = pool.state.slots["slot1@h"].ad
    assert assigned(pool) == {"slot1_2": '"GPU-one"'}
    assert (parent["GPUs"], parent["AvailableGPUs"]) == ("1", "{GPUs_GPU_one}")


SLOTS = """
SLOT_TYPE_1 = Cpus=2, GPUs=1:Capability > 20
NUM_SLOTS_TYPE_1 = 1
SLOT_TYPE_2 = Cpus=2, GPUs=1:Capability >= 8.0
NUM_SLOTS_TYPE_2 = 1
"""


def test_a_slot_without_its_devices_is_broken_and_runs_no_job() -> None:
    pool = pool_with(TWO_CARDS, SLOTS)
    broken = pool.state.slots["slot1@h"]
    assert broken.ad["SlotBrokenReason"] == '"Not enough instances of resource GPUs"'
    pool.submit(2)
    pool.advance(10)
    assert assigned(pool) == {"slot2": '"GPU-new"'}
    assert broken.state_activity == "Unclaimed/Idle" and pool.status("1.1") == "Idle"


def test_a_machine_whose_slots_lack_devices_is_rejected_if_so_configured() -> None:
    configuration = f"MACHINE_RESOURCE_INVENTORY_GPUs = discovery\n{SLOTS}SLOT_CONFIG_FAILURE_MODE = "
    with pytest.raises(SlotTypeError, match="needs 1 GPUs that satisfy Capability > 20"):
        offer(f"{configuration}ABORT", equipment(GPUs=TWO_CARDS))
    with pytest.raises(ConfigError, match="CLEAR is not supported; use CONTINUE or ABORT"):
        offer(f"{configuration}CLEAR", equipment(GPUs=TWO_CARDS))


def fail(pool: TestPool, *devices: str) -> None:
    assert not pool.handle(s.DevicesFailed(pool.id(), "h", "GPUs", devices, "Xid 79")).refusal


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_a_job_whose_device_fails_is_vacated_and_runs_on_another(dialect: str) -> None:
    pool = pool_with(TWO_CARDS, dialect=dialect)
    pool.submit(2, RequestGPUs="1")
    pool.advance(10)
    assert assigned(pool) == {"slot1_1": '"GPU-old"', "slot1_2": '"GPU-new"'}
    fail(pool, "CUDA1", "GPU-new")
    pool.advance(5)
    assert assigned(pool) == {"slot1_1": '"GPU-old"'} and pool.status("1.1") == "Idle"
    parent = pool.state.slots["slot1@h"].ad
    assert {name: parent[name] for name in ("OfflineGPUs", "OfflineGPUsReason", "AssignedGPUs", "GPUs")} == {
        "OfflineGPUs": '"GPU-new"',
        "OfflineGPUsReason": '"Xid 79"',
        "AssignedGPUs": '"GPU-old,GPU-new"',
        "GPUs": "0",
    }
    pool.advance(25)
    assert assigned(pool) == {"slot1_1": '"GPU-old"'} and pool.status("1.1") == "Running"
    assert list(validate(pool.log.read())) == []


def test_an_idle_device_that_fails_is_not_offered_any_more() -> None:
    pool = pool_with(TWO_CARDS)
    fail(pool, "GPU-old")
    before = len(pool.events())
    fail(pool, "GPU-old")
    fail(pool, "GPU-unknown")
    assert len(pool.events()) == before, "a device fails only once"
    pool.submit(2, RequestGPUs="1")
    pool.advance(10)
    assert assigned(pool) == {"slot1_1": '"GPU-new"'}
    assert pool.state.slots["slot1@h"].ad["AvailableGPUs"] == "{}"


def test_a_static_slot_whose_device_fails_runs_only_jobs_without_gpus() -> None:
    pool = pool_with(TWO_CARDS, "SLOT_TYPE_1 = GPUs=1, 50%\nNUM_SLOTS_TYPE_1 = 2")
    pool.submit(2, RequestGPUs="1")
    pool.advance(10)
    fail(pool, "GPU-new")
    pool.advance(5)
    assert assigned(pool) == {"slot1": '"GPU-old"'}
    pool.submit()
    pool.advance(10)
    assert assigned(pool) == {"slot1": '"GPU-old"', "slot2": '"GPU-new"'} and pool.status("1.1") == "Idle"
    assert pool.state.slots["slot2@h"].ad["GPUs"] == "0"


def why(pool: TestPool, cluster: int) -> list[str]:
    return why_job(pool.log.read(), cluster, 0).texts


def test_why_names_the_property_that_no_gpu_has() -> None:
    pool = pool_with(TWO_CARDS, "SLOT_TYPE_1 = GPUs=1, 50%\nNUM_SLOTS_TYPE_1 = 2")
    limits = "Capability >= GPUsMinCapability && GlobalMemoryMb >= 1000"
    pool.submit(Requirements=COUNTED, RequestGPUs="1", RequireGPUs=limits, GPUsMinCapability="9.5")
    pool.advance(10)
    unmet = "Capability >= GPUsMinCapability (Capability = 7.5, 9.0, GPUsMinCapability = 9.5)"
    assert why(pool, 1)[1] == f"No slot can run it: no GPU meets {unmet}."


def test_why_does_not_blame_the_properties_of_a_gpu_that_is_in_use() -> None:
    pool = pool_with(TWO_CARDS)
    pool.submit(2, Requirements=COUNTED, RequestGPUs="1", RequireGPUs="Capability > 8")
    pool.advance(10)
    pool.submit(Requirements=COUNTED, RequestGPUs="1", RequireGPUs="Capability > 8")
    pool.advance(10)
    assert not any("No slot can run it" in text for text in why(pool, 2))


def test_why_gives_the_reason_why_a_slot_is_broken() -> None:
    answer = why_slot(pool_with(TWO_CARDS, SLOTS).log.read(), "slot1@h").texts
    assert answer[-2] == "It is broken, and runs no jobs: Not enough instances of resource GPUs."
    assert answer[-1].startswith("Change its slot type in the configuration")


DEVICE_ATTRIBUTES = ("GPUs", "AssignedGPUs", "AvailableGPUs", "OfflineGPUs", "OfflineGPUsReason")


def devices(pool: TestPool, slot: str) -> dict[str, str]:
    ad = pool.state.slots[f"{slot}@h"].ad
    return {name: ad[name] for name in DEVICE_ATTRIBUTES if name in ad}


def test_a_reconfiguration_takes_a_gpu_offline_while_its_job_continues() -> None:
    pool = pool_with(TWO_CARDS)
    pool.submit(2, RequestGPUs="1")
    pool.advance(10)
    text = "MACHINE_RESOURCE_INVENTORY_GPUs = discovery\n"
    offline = f"{text}OFFLINE_MACHINE_RESOURCE_GPUs = GPU-new\n"
    assert not pool.handle(reconfigure(pool, offline, equipment(GPUs=TWO_CARDS))).refusal
    both = '"GPU-old,GPU-new"'
    taken = {"GPUs": "0", "AvailableGPUs": "{}", "OfflineGPUs": '"GPU-new"'}
    assert devices(pool, "slot1") == {**taken, "AssignedGPUs": both}
    assert devices(pool, "slot1_2") == {**taken, "AssignedGPUs": '"GPU-new"'}
    assert devices(pool, "slot1_1")["GPUs"] == "1" and pool.status("1.1") == "Running"
    pool.advance(60)
    assert devices(pool, "slot1") == {**taken, "AssignedGPUs": both, "GPUs": "1", "AvailableGPUs": "{GPUs_GPU_old}"}
    assert not pool.handle(reconfigure(pool, text, equipment(GPUs=TWO_CARDS))).refusal
    free = {"GPUs": "2", "AvailableGPUs": "{GPUs_GPU_old,GPUs_GPU_new}", "AssignedGPUs": both}
    assert devices(pool, "slot1") == free
    assert list(validate(pool.log.read())) == []


def test_a_reconfiguration_brings_a_repaired_gpu_back_even_if_it_is_not_detected_yet() -> None:
    pool = pool_with(TWO_CARDS)
    fail(pool, "GPU-old")
    assert devices(pool, "slot1")["OfflineGPUsReason"] == '"Xid 79"'
    text = "MACHINE_RESOURCE_INVENTORY_GPUs = discovery\n"
    answer = pool.handle(reconfigure(pool, text, equipment(GPUs="DetectedGPUs = 0\n")))
    assert not answer.refusal
    assert devices(pool, "slot1")["AvailableGPUs"] == "{GPUs_GPU_old,GPUs_GPU_new}"
    assert "OfflineGPUs" not in devices(pool, "slot1")
