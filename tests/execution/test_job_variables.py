"""golden: the variables that a machine's configuration adds to its jobs' environment, by the slot's devices. The values
for GPUs are the same as in HTCondor's starter."""

from __future__ import annotations

import pytest

from poolbook.adapters.machine.job_variables import JobVariables, variables_of
from poolbook.domain.config import read

from ..together import together

GPUS = {"MachineResources": '"Cpus Memory Disk Swap GPUs"', "GPUs": "2", "AssignedGPUs": '"CUDA0,CUDA3"'}
NONE = {"MachineResources": '"Cpus Memory Disk Swap GPUs"', "GPUs": "0"}
UUIDS = {
    "AvailableGPUs": "{ GPUs_a, GPUs_b }",
    "GPUs_a": '[ Id = "GPU-a"; DeviceUuid = "aaa-1" ]',
    "GPUs_b": '[ Id = "GPU-b"; DeviceUuid = "bbb-2" ]',
}
PART = {"AvailableGPUs": "{ GPUs_a }", "GPUs_a": '[ Id = "MIG-a"; DeviceUuid = "MIG-aaa" ]'}
KITS = {"MachineResources": '"Cpus Memory Disk Swap Kits"', "Kits": "1", "AssignedKits": '"kit7"'}
OF_KITS = "ENVIRONMENT_FOR_AssignedKits = KIT=/kit(.)/<$1>/, KITS\nENVIRONMENT_VALUE_FOR_UnAssignedKits = none\n"


# The configuration, the slot's ad, and the variables of its jobs.
@together(
    "text, slot, expected",
    [
        ("", {}, {}),
        ("", KITS, {"_CONDOR_AssignedKits": "kit7"}),
        (OF_KITS, KITS, {"_CONDOR_AssignedKits": "kit7", "KIT": "<7>", "KITS": "kit7"}),
        (
            OF_KITS,
            {name: text for name, text in KITS.items() if name != "AssignedKits"},
            {"_CONDOR_AssignedKits": "none", "KIT": "none", "KITS": "none"},
        ),
        (
            "",
            GPUS,
            {
                "_CONDOR_AssignedGPUs": "CUDA0,CUDA3", "CUDA_VISIBLE_DEVICES": "0,3", "GPU_DEVICE_ORDINAL": "0,3",
                "NVIDIA_VISIBLE_DEVICES": "none",
            },
        ),
        (
            "",
            NONE,
            {
                "_CONDOR_AssignedGPUs": "10000", "CUDA_VISIBLE_DEVICES": "10000", "GPU_DEVICE_ORDINAL": "10000",
                "NVIDIA_VISIBLE_DEVICES": "none",
            },
        ),
        (
            "",
            GPUS | UUIDS,
            {
                "_CONDOR_AssignedGPUs": "CUDA0,CUDA3", "CUDA_VISIBLE_DEVICES": "GPU-aaa-1,GPU-bbb-2",
                "GPU_DEVICE_ORDINAL": "0,3", "NVIDIA_VISIBLE_DEVICES": "GPU-aaa-1,GPU-bbb-2",
            },
        ),
        (
            "",
            GPUS | PART,
            {
                "_CONDOR_AssignedGPUs": "CUDA0,CUDA3", "CUDA_VISIBLE_DEVICES": "MIG-aaa",
                "GPU_DEVICE_ORDINAL": "0,3", "NVIDIA_VISIBLE_DEVICES": "MIG-aaa",
            },
        ),
        (
            "AUTO_SET_NVIDIA_VISIBLE_DEVICES = false\nENVIRONMENT_FOR_AssignedGPUs = CUDA_VISIBLE_DEVICES\n",
            GPUS | UUIDS,
            {"_CONDOR_AssignedGPUs": "CUDA0,CUDA3", "CUDA_VISIBLE_DEVICES": "0,3"},
        ),
    ],
)  # fmt: skip
def test_a_jobs_environment_names_its_assigned_devices(
    text: str, slot: dict[str, str], expected: dict[str, str]
) -> None:
    variables = JobVariables.from_configuration(read(text)).variables_of_slot(slot)
    assert variables == {"_CHIRP_DELAYED_UPDATE_PREFIX": "Chirp*", **expected}


# ENVIRONMENT_FOR_Assigned<name>, the ids, and the variables.
@together(
    "text, ids, expected",
    [
        ("A", "x1, y2", {"A": "x1, y2"}),
        ("A=/y/z/", "x1, y2", {"A": "x1,z2"}),
        ("A=|^(.)(.)|$2$1$0|B=/1//", "x1,y2", {"A": "1xx1,2yy2", "B": "x,y2"}),
        ("CUDA_VISIBLE_DEVICES=// /", "GPU-1,GPU-2", {"CUDA_VISIBLE_DEVICES": "1,2"}),
        ("A=/x/y/ B=/x", "x", {"A": "y"}),
        ("A=/x/y/ B=/(/y/ C", "x", {"A": "y"}),
    ],
)
def test_ids_become_variables_by_patterns(text: str, ids: str, expected: dict[str, str]) -> None:
    assert dict(variables_of(text, ids)) == expected


@together(
    "text, expected",
    [
        ("", ""),
        ("false", ""),
        ("true", "PB_ONE PB_TWO pb_lines"),
        ("pb_one, *two", "PB_ONE PB_TWO"),
        ("PB_* !*One", "PB_TWO"),
        ("!PB_ONE", "PB_TWO"),
    ],
)
def test_jobs_inherit_the_pools_variables_as_configured(text: str, expected: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"PB_ONE": "1", "PB_TWO": "2", "pb_lines": "a\nb"}.items():
            patch.setenv(name, value)
        inherited = JobVariables.from_configuration(read(f"JOB_INHERITS_STARTER_ENVIRONMENT = {text}\n")).inherits
    assert sorted(name for name in inherited if name.lower().startswith("pb_")) == sorted(expected.split())
