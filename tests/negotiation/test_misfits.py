"""Golden: jobs that no slot could ever run, which of their requests cannot be satisfied, and the sentence that explains
it."""

from __future__ import annotations

from pathlib import Path

import pytest

from poolbook.adapters.cli.run_report import unmatchable_reason
from poolbook.domain.events import Ad
from poolbook.replay.narration.rejection_words import lacks_attribute, misfit_text, short_misfit
from poolbook.replay.narration.unmatchable_jobs import misfit

from .. import forked
from ..policy.points import Point
from ..pool.real import POOLBOOK
from ..together import together

NOW = 1_800_000_000
SMALL = {"Cpus": "2", "Memory": "2048", "Disk": "100000", "GPUs": "0", "OpSys": '"LINUX"', "HasBlas": "true"}
LARGE = {**SMALL, "Memory": "8192", "Cpus": "1", "OpSys": '"WINDOWS"'}
# A partitionable slot whose cores are all in use.
CARVED = {**SMALL, "Cpus": "0", "Memory": "10", "TotalSlotCpus": "2", "TotalSlotMemory": "2048", "TotalSlots": "1"}
ONE = [("slot1@a", SMALL)]
TWO = [("slot1@a", SMALL), ("slot1@b", LARGE)]

NEVER: list[tuple[Ad, list[tuple[str, Ad]], str]] = [
    ({"RequestCpus": "64"}, TWO, "it requests 64 cores; the largest slot has 2 (request_cpus)"),
    ({"RequestCpus": "64"}, [("slot1@a", CARVED)], "it requests 64 cores; the largest slot has 2 (request_cpus)"),
    ({"RequestMemory": "900 * 1024"}, TWO,
     "it requests 900.0 GiB of memory; the largest slot has 8.0 GiB (request_memory)"),
    ({"RequestMemory": "8193"}, TWO, "it requests 8,193 of Memory; the largest slot has 8,192 (request_memory)"),
    ({"RequestGPUs": "2"}, TWO, "it requests 2 GPUs; no slot has any (request_gpus)"),
    ({"RequestCpus": "4", "RequestDisk": "1048576"}, TWO,
     "it requests 4 cores; the largest slot has 2 (request_cpus); and 1.0 GiB of disk; "
     "the largest slot has 97.7 MiB (request_disk)"),
    ({"RequestCpus": "2", "RequestMemory": "4096"}, TWO, "none of 2 slots has everything that it requests"),
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


@together(("job", "slots", "message"), NEVER)
def test_a_job_that_no_slot_could_run_is_explained_by_what_is_missing(
    job: Ad, slots: list[tuple[str, Ad]], message: str
) -> None:
    found_misfit = misfit({"Requirements": "true", **job}, slots, NOW)
    assert found_misfit is not None
    assert misfit_text(found_misfit) == f"no slot can run it: {message}"


REFUSED: list[tuple[list[str], str]] = [
    (["RequestMemory > 5000"], "slot1@a would fit it, but its START is false for this job: RequestMemory > 5000"),
    (["false"], "slot1@a would fit it, but its START is false for this job: false"),
    (["KeyboardIdle > 900 && (Department == \"x\")"],
     'no slot can run it: the job lacks Department, without which Department == "x" of slot1@a is undefined'),
    (["TARGET.Foo > 1 || TARGET.Bar", "false"],
     "no slot can run it: the job lacks Bar and Foo, "
     "without which TARGET.Foo > 1 || TARGET.Bar of slot1@a is undefined"),
    (["false", "Owner"],
     "slot1@a and 1 other would fit it, but START rejects this job; on slot1@a it is false: false"),
]  # fmt: skip


@pytest.mark.parametrize(("starts", "message"), REFUSED)
def test_if_slots_fit_the_owners_condition_that_rejects_the_job_is_named(starts: list[str], message: str) -> None:
    slots = [(f"slot1@{name}", {**SMALL, "Start": start}) for name, start in zip("ab", starts, strict=False)]
    found_misfit = misfit({"Requirements": "true", "RequestMemory": "100"}, slots, NOW)
    assert found_misfit is not None
    assert misfit_text(found_misfit) == message


@pytest.mark.parametrize("start", ["true", "KeyboardIdle > 900", "RequestMemory < 5000", "time() > 2000000000"])
def test_a_slot_whose_owner_may_accept_the_job_later_keeps_it_idle(start: str) -> None:
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
def test_a_job_that_is_only_waiting_has_no_misfit(job: Ad, slots: list[tuple[str, Ad]]) -> None:
    assert misfit({"Requirements": "true", **job}, slots, NOW) is None


WITHIN: list[tuple[Ad, str, str]] = [
    ({}, "TARGET.RequestGPUs <= MY.GPUs", "the job lacks RequestGPUs"),
    ({}, "quantize(TARGET.RequestGPUs, {0}) <= MY.GPUs", "the job lacks RequestGPUs"),
    ({}, "TARGET.RequestFoo <= MY.Cpus && TARGET.RequestBar <= MY.Cpus", "the job lacks RequestBar and RequestFoo"),
    ({}, "(TARGET.RequestFoo is undefined || TARGET.RequestFoo < 1) && TARGET.Bar", "the job lacks Bar"),
    ({"RequestGPUs": "0"}, "TARGET.RequestGPUs <= MY.GPUs", ""),
]


@together(("job", "within", "message"), WITHIN)
def test_a_condition_that_htcondor_adds_to_a_slot_is_named_if_the_job_leaves_it_undefined(
    job: Ad, within: str, message: str
) -> None:
    slot = {**SMALL, "Start": "true", "Requirements": "Start && WithinResourceLimits", "WithinResourceLimits": within}
    found_misfit = misfit({"Requirements": "true", **job}, [("slot1@a", slot)], NOW)
    sentence = "" if found_misfit is None else misfit_text(found_misfit)
    value = "error" if "quantize" in within else "undefined"
    full_sentence = f"no slot can run it: {message}, without which WithinResourceLimits of slot1@a is {value}"
    assert sentence == (full_sentence if message else "")
    assert found_misfit is None or short_misfit(found_misfit) == sentence


@together(
    ("requirements", "message"),
    [
        ("TARGET.Memory >= MyNeed", "its Requirements read MyNeed, which neither it nor a slot has"),
        ("TARGET.Memory >= MyNeed && Other", "its Requirements read MyNeed and Other, which neither it nor a slot has"),
        ("Other", "it needs Other, which no slot has"),
        ("TARGET.Memory >= TARGET.Other", "the slot does not meet TARGET.Memory >= TARGET.Other (slot1@a has"),
    ],
)
def test_the_cause_of_undefined_requirements_is_named(requirements: str, message: str) -> None:
    found_misfit = misfit({"Requirements": requirements}, ONE, NOW)
    assert found_misfit is not None and lacks_attribute(found_misfit)
    assert misfit_text(found_misfit).startswith(f"no slot can run it: {message}")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            "MACHINE_RESOURCE_GPUs = 2\nSLOT_TYPE_1 = 100%\nSLOT_TYPE_1_PARTITIONABLE = True\nNUM_SLOTS_TYPE_1 = 1\n"
            "SLOT_TYPE_1_CONSUMPTION_POLICY = True\n"
            "SLOT_TYPE_1_CONSUMPTION_GPUs = quantize(TARGET.RequestGPUs, {0})",
            "No slot can run it: the job lacks RequestGPUs, without which WithinResourceLimits of slot1@w is",
        ),
        ("JOB_DEFAULT_REQUESTMEMORY =", "No slot can run it: the job lacks RequestMemory, without which"),
        ('START = TARGET.Project == "x"', "No slot can run it: the job lacks Project, without which"),
    ],
)
def test_why_and_better_analyze_and_unmatchable_agree(config: str, message: str, tmp_path: Path) -> None:
    indented = "\n    ".join(["config", *config.splitlines()])
    scenario = (
        f"{indented}\nend\nmachine w cores=4 memory=8000 disk=50000000\nuntil 10:00\nat 0:10 submit ann run=5:00\n"
    )
    (tmp_path / "lacks.play").write_text(scenario)
    (tmp_path / "played").mkdir()
    log = ("-log", str(tmp_path / "played/pool.db"))
    forked.run([*POOLBOOK, "play", str(tmp_path / "lacks.play"), *log], cwd=tmp_path, timeout=60)
    why, analysis, unmatchable = (
        forked.run([*POOLBOOK, *command, *log], cwd=tmp_path, timeout=60).stdout
        for command in (("why", "1.0"), ("q", "-better-analyze", "1.0"), ("q", "-unmatchable", "-all"))
    )
    assert message.removesuffix("of slot1@w is") in why
    assert message in analysis
    assert " ann " in unmatchable


def test_a_start_that_rejects_the_job_is_named_even_if_requirements_read_published_attributes() -> None:
    point = Point("manual")
    point.read(load=0.25)
    point.say(Noise="3")
    point.point({"Start": 'TARGET.Owner == "bob"'})
    point.job("alice", Requirements="TARGET.Noise < 5")
    assert point.state.slots["slot1@h"].published_ad["Noise"] == "3"
    message = 'slot1@h would fit it, but its START is false for this job: TARGET.Owner == "bob"'
    assert unmatchable_reason(point.engine, 1, 0) == message
