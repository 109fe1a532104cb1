"""golden: slots, jobs and environments with GPUs are the same as in two HTCondor pools that were recorded on a machine
with an H100."""

from __future__ import annotations

import re

from poolbook.adapters.condor_tools import status
from poolbook.adapters.machine.job_variables import JobVariables
from poolbook.domain.classad import ClassAd, Context, parse, unparse
from poolbook.domain.events import SlotCreated
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.world import Launch
from poolbook.domain.startd.public_ad import PublishedSlots
from poolbook.domain.state.caches import Caches
from poolbook.replay.virtual_world import Behaviour

from ..domain.pools import TestPool
from ..together import together
from ..tools.captures import printed, surroundings_at
from .gpu_pools import JOBS, GpuPool, gpu_pool, recorded_ads
from .machines import configuration
from .test_offers import CATALOGS

POOLS = [gpu_pool("a"), gpu_pool("b")]
RESOURCES = re.compile(
    r"(Assigned|Available|Detected|Offline|Total|TotalSlot|Child)?GPUs|GPUs_.*|SlotBroken.*|(TotalSlot)?(Cpus|Memory|Disk)"
    r"|Total(Cpus|Memory|Disk)|MachineResources|PartitionableSlot|Slot(ID|Type|TypeID|Weight)|Requirements|State|Start"
    r"|Activity|ParentSlotId|DSlotId|WithinResourceLimits",
)
"""The attributes that are compared: all others of a slot do not depend on its resources."""


def resources(ad: dict[str, str]) -> dict[str, str]:
    return {
        name: unparse(parse(CATALOGS.sub("TARGET.RequestDisk", text))).replace("(", "").replace(")", "")
        for name, text in ad.items()
        if RESOURCES.fullmatch(name)
    }


def published_ads(pool: TestPool) -> dict[str, dict[str, str]]:
    slots = PublishedSlots(pool.state, Caches(), pool.world.now(), Context())
    ads = {name.partition("@")[0]: slots.ad(slot) for name, slot in pool.state.slots.items()}
    return {name: {key: unparse(ad[key]) for key in ad} for name, ad in ads.items()}


def behave(launch: Launch) -> Behaviour:
    """A job without a GPU fails at once, as in the recording."""
    return Behaviour(seconds=24 if "RequestGPUs" in launch.job_ad else 1)


def submission(pool: TestPool, recorded: GpuPool, name: str) -> s.Submit:
    ads = recorded.job_ads(name)
    unset = {"ClusterId", "ProcId", "Owner"}
    ad = {key: text for key, text in ads[0].items() if key not in unset and text != "undefined"}
    return s.Submit(pool.id(), "alice", 0, ad, len(ads), ())


def joined(recorded: GpuPool) -> TestPool:
    pool = TestPool(dialect="htcondor-25", behave=behave)
    answer = pool.handle(recorded.offer())
    assert not answer.refusal
    return pool


@together("recorded", POOLS)
def test_idle_slots_have_the_same_resources_as_in_htcondor(recorded: GpuPool) -> None:
    pool = joined(recorded)
    pool.advance(10)
    expected = {name: resources(ad) for name, ad in recorded.slots("1-empty").items()}
    assert {name: resources(ad) for name, ad in published_ads(pool).items()} == expected


@together("recorded", POOLS)
def test_slots_of_jobs_with_gpus_have_the_same_resources_as_in_htcondor(recorded: GpuPool) -> None:
    pool = joined(recorded)
    pool.engine.handle([submission(pool, recorded, name) for name in JOBS])
    pool.advance(14)
    expected = {name: resources(ad) for name, ad in recorded.slots("2-running").items()}
    assert {name: resources(ad) for name, ad in published_ads(pool).items()} == expected


@together(
    "pool, slot, output",
    [
        ("a", "slot1_1", "out.0"),
        ("b", "slot1_1", "out.0"),
        ("b", "slot2_1", "out.1"),
        ("b", "slot4", "yout.0"),
    ],
)
def test_a_job_has_the_same_variables_for_its_gpus_as_in_htcondor(pool: str, slot: str, output: str) -> None:
    recorded = gpu_pool(pool)
    variables = JobVariables.from_configuration(configuration(recorded.conf))
    set_variables = variables.variables_of_slot(recorded.slots("2-running")[slot])
    lines = [line.split("=", 1) for line in recorded.files[output].splitlines() if "=" in line]
    expected = {name: value for name, value in lines if re.search("DEVICE|AssignedGPUs", name)}
    assert {name: value for name, value in set_variables.items() if name in expected} == expected
    assert expected.keys() >= {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"}


def test_a_job_without_a_gpu_on_a_slot_of_the_gpus_machine_sees_none() -> None:
    recorded = gpu_pool("a")
    pool = joined(recorded)
    pool.handle(submission(pool, recorded, "five"))
    pool.advance(14)
    ad = next(event.ad for event in pool.events() if isinstance(event, SlotCreated) and event.kind == "dynamic")
    variables = JobVariables.from_configuration(configuration(recorded.conf)).variables_of_slot(ad)
    expected = [line.split("=", 1) for line in recorded.files["yout.0"].splitlines() if "=" in line]
    assert variables.items() >= {(name, value) for name, value in expected if re.search("DEVICE|AssignedGPUs", name)}


@together("name", JOBS)
def test_a_job_that_requests_gpus_has_the_same_ad_as_from_condor_submit(name: str) -> None:
    recorded = gpu_pool("a")
    queue = recorded_ads(recorded.status["2-running"]["condor_q -all -long"])
    same_command = [ad for ad in queue if ad["JobSubmitFile"] == f'"{name}.sub"']
    submitted = recorded.job_ads(name)
    idle = [ad for ad in same_command if ad["JobStatus"] == "1"]
    for ad in idle:
        ours = submitted[int(ad["ProcId"])]
        differing = {key for key in ours | ad if ours.get(key) != ad.get(key)}
        assert differing <= SET_IN_THE_QUEUE, differing
    assert idle or name == "five"


SET_IN_THE_QUEUE = {
    *("AutoClusterAttrs", "AutoClusterId", "ClusterId", "DiskUsage_RAW", "EnteredCurrentStatus", "ExecutableSize_RAW"),
    *("FirstJobMatchDate", "GlobalJobId", "ImageSize_RAW", "LastRejMatchNegotiator", "LastRejMatchReason"),
    *("LastRejMatchTime", "NumCkpts_RAW", "Owner", "QDate", "ServerTime", "TotalSubmitProcs", "User"),
}
"""Attributes that the schedd adds or changes."""


STATUS_COMMANDS = [
    (pool.name, time, command)
    for pool in POOLS
    for time, commands in pool.status.items()
    for command in commands
    if command.startswith("condor_status") and "-long" not in command
]


@together("pool, time, command", STATUS_COMMANDS)
def test_status_prints_the_slots_of_a_gpu_as_condor_status_does(pool: str, time: str, command: str) -> None:
    outputs = gpu_pool(pool).status[time]
    ads = [ClassAd.from_old(text) for text in outputs["condor_status -long"].split("\n\n") if text.strip()]
    query = status.parse_arguments(command.split()[1:])
    assert printed(status.render(ads, query, surroundings_at())).strip("\n") == outputs[command].strip("\n")


def test_there_are_recordings_of_all_forms_of_status() -> None:
    assert {command for _, _, command in STATUS_COMMANDS} == {
        f"condor_status{options}" for options in ("", " -compact", " -gpus", " -gpus -compact", " -gpus -wide")
    }
