"""Golden: which jobs no slot could ever have, what they ask for that there is not, and the sentence that says so."""

from __future__ import annotations

import pytest

from poolbook.domain.events import Ad
from poolbook.domain.negotiator.unmatchable import misfit
from poolbook.replay.narration.unmatchable_words import no_slot

from ..together import together

NOW = 1_800_000_000
SMALL = {"Cpus": "2", "Memory": "2048", "Disk": "100000", "GPUs": "0", "OpSys": '"LINUX"', "HasBlas": "true"}
LARGE = {**SMALL, "Memory": "8192", "Cpus": "1", "OpSys": '"WINDOWS"'}
# Of a partitionable slot whose cores are all in use.
CARVED = {**SMALL, "Cpus": "0", "Memory": "10", "TotalSlotCpus": "2", "TotalSlotMemory": "2048", "TotalSlots": "1"}
ONE = [("slot1@a", SMALL)]
TWO = [("slot1@a", SMALL), ("slot1@b", LARGE)]

NEVER: list[tuple[Ad, list[tuple[str, Ad]], str]] = [
    ({"RequestCpus": "64"}, TWO, "it asks for 64 cores; the largest slot has 2 (request_cpus)"),
    ({"RequestCpus": "64"}, [("slot1@a", CARVED)], "it asks for 64 cores; the largest slot has 2 (request_cpus)"),
    ({"RequestMemory": "900 * 1024"}, TWO,
     "it asks for 900.0 GiB of memory; the largest slot has 8.0 GiB (request_memory)"),
    ({"RequestMemory": "8193"}, TWO, "it asks for 8,193 of Memory; the largest slot has 8,192 (request_memory)"),
    ({"RequestGPUs": "2"}, TWO, "it asks for 2 GPUs; no slot has any (request_gpus)"),
    ({"RequestCpus": "4", "RequestDisk": "1048576"}, TWO,
     "it asks for 4 cores; the largest slot has 2 (request_cpus); and for 1.0 GiB of disk; "
     "the largest slot has 97.7 MiB (request_disk)"),
    ({"RequestCpus": "2", "RequestMemory": "4096"}, TWO, "none of 2 slots has all that it asks for"),
    ({"Requirements": 'TARGET.OpSys == "MACOS"'}, TWO,
     'none of 2 slots meets TARGET.OpSys == "MACOS" (the nearest, slot1@a, has OpSys = "LINUX")'),
    ({"Requirements": 'TARGET.OpSys == "MACOS" && TARGET.HasBlas'}, ONE,
     'the slot does not meet TARGET.OpSys == "MACOS" (slot1@a has OpSys = "LINUX")'),
    ({"Requirements": "TARGET.HasDocker"}, TWO,
     "it needs HasDocker, which no slot has"),
    ({"Requirements": "TARGET.HasJobDeferral && time() >= DeferralTime", "DeferralTime": f"{NOW + 60}"}, ONE,
     "it needs HasJobDeferral, which no slot has"),
    ({"Requirements": "TARGET.Cpus > 2 && TARGET.KeyboardIdle > 600"}, ONE,
     "the slot does not meet TARGET.Cpus > 2 (slot1@a has Cpus = 2)"),
    ({"Requirements": 'TARGET.OpSys == "LINUX" && TARGET.Memory > 4096'}, TWO,
     "none of 2 slots has all conditions of its Requirements (the nearest is slot1@a)"),
    ({}, [], "the pool has no slots"),
]  # fmt: skip


@together(("job", "slots", "words"), NEVER)
def test_a_job_that_no_slot_could_have_is_told_what_is_missing(
    job: Ad, slots: list[tuple[str, Ad]], words: str
) -> None:
    found = misfit({"Requirements": "true", **job}, slots, NOW)
    assert found is not None
    assert no_slot(found) == f"no slot can run it: {words}"


REFUSED: list[tuple[list[str], str]] = [
    (["RequestMemory > 5000"], "slot1@a would fit it, but its START is false for this job: RequestMemory > 5000"),
    (["false"], "slot1@a would fit it, but its START is false for this job: false"),
    (["KeyboardIdle > 900 && (Department == \"x\")"],
     'slot1@a would fit it, but its START is undefined for this job: Department == "x"'),
    (["Memory > 9000", "false"],
     "slot1@a and 1 other would fit it, but START keeps this job out; on slot1@a it is false: Memory > 9000"),
]  # fmt: skip


@pytest.mark.parametrize(("starts", "words"), REFUSED)
def test_of_slots_that_fit_a_job_the_owners_condition_that_keeps_it_out_is_told(starts: list[str], words: str) -> None:
    slots = [(f"slot1@{name}", {**SMALL, "Start": start}) for name, start in zip("ab", starts, strict=False)]
    found = misfit({"Requirements": "true", "RequestMemory": "100"}, slots, NOW)
    assert found is not None
    assert no_slot(found) == words


@pytest.mark.parametrize("start", ["true", "KeyboardIdle > 900", "RequestMemory < 5000", "time() > 2000000000"])
def test_a_slot_whose_owner_may_let_the_job_start_keeps_it_waiting(start: str) -> None:
    slots = [("slot1@a", {**SMALL, "Start": "false"}), ("slot1@b", {**SMALL, "Start": start, "KeyboardIdle": "3"})]
    assert misfit({"Requirements": "true", "RequestMemory": "100"}, slots, NOW) is None


@together(
    ("job", "slots"),
    [
        ({"RequestCpus": "2"}, ONE),
        ({"RequestCpus": "2", "Requirements": "TARGET.Cpus >= RequestCpus"}, [("slot1@a", CARVED)]),
        ({"Requirements": "TARGET.KeyboardIdle > 600"}, ONE),
        ({"Requirements": "time() > 2000000000"}, ONE),
        ({"Requirements": "random() < 0.5"}, ONE),
        ({"RequestCpus": "undefined", "RequestMemory": "TARGET.Memory"}, ONE),
    ],
)
def test_of_a_job_that_merely_waits_nothing_is_said(job: Ad, slots: list[tuple[str, Ad]]) -> None:
    assert misfit({"Requirements": "true", **job}, slots, NOW) is None
