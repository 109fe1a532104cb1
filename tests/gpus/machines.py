"""Machines with cards that no recording has: the libraries' answers in the form of the recorded ones. What HTCondor's
25.14.1 condor_gpu_discovery printed for them, with libraries that give these answers, is in ``machines.txt``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from .recorded import H100, error

Gpu = Mapping[str, Any]
_MIB: Final = 1 << 20
_ABSENT: Final = error(3)


class Machine(NamedTuple):
    cuda: Sequence[Gpu]  #: the GPUs that CUDA lists
    nvml: Sequence[Gpu]


def _card(digit: str, name: str, capability: Any, mib: int, **answers: Any) -> Gpu:
    return H100 | {
        "UUID": f"GPU-{digit}a1c0de0-7b3e-4f21-9c64-0123456789ab", "Name": name, "CudaComputeCapability": capability,
        "UsableMemory": mib * _MIB, "MemoryInfo": {"total": (mib + 9) * _MIB, "used": 9 * _MIB},
        "PciInfo": {"busIdLegacy": f"0000:{int(digit, 16):02X}:00.0"}, "MaxClockSM": 1500 + mib % 7,
        "Temperature": 30 + int(digit, 16), "PowerUsage": 60000 + mib, **answers,
    }  # fmt: skip


def _instance(uuid: str, mib: int, **answers: Any) -> Gpu:
    unknown = (
        "Name",
        "PciInfo",
        "CudaComputeCapability",
        "MaxClockSM",
        "EccMode",
        "FanSpeed",
        "PowerUsage",
        "EccSingle",
    )
    return dict.fromkeys(unknown, _ABSENT) | {
        "UUID": uuid, "MemoryInfo": {"total": (mib + 5) * _MIB, "used": 5 * _MIB}, "ComputeRunningProcesses_v3": [],
        "Attributes_v2": {"multiprocessorCount": 14}, "EccDouble": _ABSENT, "Temperature": 41,
        "MaxMigDeviceCount": _ABSENT, **answers,
    }  # fmt: skip


_A100: Final = "NVIDIA A100-SXM4-40GB"
_HOPPER = _card("5", "NVIDIA H100 80GB HBM3", [9, 0], 81079)
_TITAN = _card("7", "TITAN RTX", [7, 5], 24220, EccMode=[0, 0], FanSpeed=41)
_PASCAL = _card("1", "GeForce GTX 1080", [6, 1], 8117, EccMode=_ABSENT, FanSpeed=27, EccSingle=_ABSENT,
                EccDouble=_ABSENT)  # fmt: skip
_AMPERE = _card("8", _A100, [8, 0], 40536)
_OTHER_AMPERE = _card("9", _A100, [8, 0], 40536)
_DIVIDED = _card("a", _A100, [8, 0], 40536, MaxMigDeviceCount=7, Instances=[
    _instance("MIG-2a1c0de0-0000-4f21-9c64-0123456789ab", 20086, Name=f"{_A100} MIG 3g.20gb"),
    _instance("MIG-1a1c0de0-0000-4f21-9c64-0123456789ab", 4861, Temperature=_ABSENT),
])  # fmt: skip
_DIVIDED_BY_AN_OLD_DRIVER = _card("b", _A100, [8, 0], 40536, EccMode=[0, 0], MaxMigDeviceCount=7, Instances=[
    _instance(f"MIG-GPU-ba1c0de0-7b3e-4f21-9c64-0123456789ab/{number}/0", 20086 - number) for number in (2, 1)
])  # fmt: skip
_EMPTY = _card("c", _A100, [8, 0], 40536, MaxMigDeviceCount=7, Instances=[])
_WITHOUT_MIG = {"MaxMigDeviceCount": error(13), "Attributes_v2": error(13)}
_TESLA = _card("3", "Tesla C1060", [1, 3], 4095, EccMode=_ABSENT, FanSpeed=error(13), **_WITHOUT_MIG)
_FERMI = _card("2", "GeForce GTX 460", [2, 1], 1023, **_WITHOUT_MIG)
_SILENT = _card("d", "Quadro", _ABSENT, 0, UsableMemory=None, MaxClockSM=_ABSENT, EccMode=_ABSENT, NumGpuCores=0,
                FanSpeed=_ABSENT, Temperature=_ABSENT, PowerUsage=_ABSENT)  # fmt: skip

MACHINES: Final = {
    "two alike": Machine((_AMPERE, _OTHER_AMPERE), (_AMPERE, _OTHER_AMPERE)),
    "three kinds": Machine((_HOPPER, _TITAN, _PASCAL), (_PASCAL, _TITAN, _HOPPER)),
    "old cards": Machine((_TESLA, _FERMI), (_TESLA, _FERMI)),
    "few answers": Machine((_SILENT, _TITAN), (_SILENT, _TITAN)),
    "MIG instances": Machine((_DIVIDED,), (_DIVIDED, _AMPERE)),
    "MIG instances of an old driver": Machine(
        (_DIVIDED_BY_AN_OLD_DRIVER, _DIVIDED), (_DIVIDED_BY_AN_OLD_DRIVER, _DIVIDED)
    ),
    "MIG without instances": Machine((_EMPTY, _AMPERE), (_EMPTY, _AMPERE)),
    "no cards": Machine((), ()),
}
