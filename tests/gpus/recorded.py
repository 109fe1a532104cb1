"""NVIDIA's libraries as a machine with an H100 recorded their answers: NVML (the module ``pynvml``) and CUDA."""

from __future__ import annotations

import json
from collections.abc import Mapping
from ctypes import Array, c_char
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from poolbook.adapters.gpus.hip import SimulatedHip

DATA: Final = Path(__file__).parents[1] / "data" / "gpus"
H100: Final[dict[str, Any]] = json.loads((DATA / "nvml.json").read_text())["devices"][0]
USABLE_MEMORY: Final = 85017493504  #: which CUDA reports in a recorded message
_ERRORS: Final = {
    4: "Insufficient Permissions", 9: "Driver Not Loaded", 12: "NVML Shared Library Not Found", 3: "Not Supported",
    6: "Not Found", 10: "Timeout", 13: "Function Not Found", 15: "GPU is lost",
}  # fmt: skip


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(_ERRORS[value])
        self.value = value


def error(value: int) -> dict[str, str]:
    """Return the answer of a call that fails."""
    return {"error": _ERRORS[value]}


def _answer(recorded: Any) -> Any:
    if isinstance(recorded, dict) and "error" in recorded:
        raise NVMLError(next(code for code, text in _ERRORS.items() if text == recorded["error"]))
    return SimpleNamespace(**recorded) if isinstance(recorded, dict) else recorded


class RecordedNvml:
    """The module ``pynvml``. The GPUs are the recorded answers by function, and the MIG ``Instances``."""

    NVMLError = NVMLError
    NVML_CLOCK_GRAPHICS = NVML_TEMPERATURE_GPU = NVML_VOLATILE_ECC = NVML_SINGLE_BIT_ECC = 0
    NVML_DOUBLE_BIT_ECC = NVML_GPU_UTILIZATION_SAMPLES = 1
    nvmlMemory_v2 = 2

    def __init__(self, *gpus: Mapping[str, Any], init: Any = None) -> None:
        self.gpus, self.init = gpus, init

    def nvmlInit(self) -> None:
        _answer(self.init)

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.159.04"

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        return 13000

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Mapping[str, Any]:
        return self.gpus[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Mapping[str, Any]:
        for gpu in self.gpus:
            if gpu["UUID"] == uuid:
                return gpu
        raise NVMLError(6)

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: Mapping[str, Any], index: int) -> Any:
        instances = gpu["Instances"]
        return instances[index] if index < len(instances) else _answer(error(6))

    def nvmlDeviceGetMemoryInfo(self, gpu: Mapping[str, Any], version: int | None = None) -> Any:
        return _answer(gpu["MemoryInfo"] if version is None else gpu.get("MemoryInfo_v2", error(13)))

    def nvmlDeviceGetMaxClockInfo(self, gpu: Mapping[str, Any], clock: int) -> Any:
        return _answer(gpu["MaxClockSM"])

    def nvmlDeviceGetTotalEccErrors(self, gpu: Mapping[str, Any], kind: int, counter: int) -> Any:
        return _answer(gpu["EccDouble" if kind else "EccSingle"])

    def __getattr__(self, function: str) -> Any:
        name = {"Attributes": "Attributes_v2"}.get(function[13:], function[13:])
        return lambda gpu, *arguments: _answer(gpu[name])


class RecordedCuda:
    """The library ``libcuda.so``: its functions store their answers in their arguments."""

    def __init__(self, *gpus: Mapping[str, Any], init: int = 0, count_code: int = 0) -> None:
        self.gpus, self.init, self.count_code = gpus, init, count_code

    def cuInit(self, flags: int) -> int:
        return self.init

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = len(self.gpus)
        return self.count_code

    def cuDeviceGet(self, device: Any, index: int) -> int:
        device._obj.value = index
        return 0

    def cuDriverGetVersion(self, version: Any) -> int:
        version._obj.value = 13000
        return 0

    def cuDeviceTotalMem_v2(self, memory: Any, device: Any) -> int:
        return _store(memory, self.gpus[device].get("UsableMemory", USABLE_MEMORY))

    def cuDeviceGetName(self, name: Array[c_char], length: int, device: Any) -> int:
        name.value = self.gpus[device]["Name"].encode()
        return 0

    def cuDeviceGetUuid(self, uuid: Array[c_char], device: Any) -> int:
        uuid.raw = bytes.fromhex(self.gpus[device]["UUID"].removeprefix("GPU-").replace("-", ""))
        return 0

    def cuDeviceGetPCIBusId(self, pci_id: Array[c_char], length: int, device: Any) -> int:
        pci_id.value = self.gpus[device]["PciInfo"]["busIdLegacy"].encode()
        return 0

    def cuDeviceComputeCapability(self, major: Any, minor: Any, device: Any) -> int:
        capability = self.gpus[device]["CudaComputeCapability"]
        return int("error" in capability) or _store(major, capability[0]) or _store(minor, capability[1])

    def cuDeviceGetAttribute(self, value: Any, number: int, device: Any) -> int:
        gpu = self.gpus[device]
        if number == 16:
            return _store(value, gpu["NumGpuCores"] // 128)
        answer = gpu["MaxClockSM"] if number == 13 else gpu["EccMode"]
        return int("error" in str(answer)) or _store(value, answer * 1000 if number == 13 else answer[0])


def _store(value: Any, answer: int | None) -> int:
    """Store an answer as CUDA does, and return its code. None: the function fails."""
    if answer is not None:
        value._obj.value = answer
    return int(answer is None)


class RecordedHip(SimulatedHip):
    """The library of HIP with a device that has a UUID."""

    def __init__(self) -> None:
        super().__init__(1)

    def hipDeviceGetUuid(self, uuid: Array[c_char], index: int) -> int:
        uuid.raw = b"\x93" * 16
        return 0


class StubOpenCl:
    """The library of OpenCL with a platform that has a GPU."""

    TEXTS: Final = {0x102B: b"A100", 0x102F: b"OpenCL 3.0 CUDA"}
    NUMBERS: Final = {0x1002: 108, 0x100C: 1410, 0x101F: 42505273344, 0x1024: 1}

    def clGetPlatformIDs(self, length: Any, platforms: Any, count: Any) -> int:
        count._obj.value = 1
        return 0

    def clGetDeviceIDs(self, platform: Any, kind: Any, length: Any, devices: Any, count: Any) -> int:
        if count is not None:
            count._obj.value = 1
        return 0

    def clGetDeviceInfo(self, device: Any, fact: int, length: Any, value: Any, needed: Any) -> int:
        if fact in self.NUMBERS:
            value._obj.value = self.NUMBERS[fact]
        elif value is None:
            needed._obj.value = len(self.TEXTS[fact]) + 1
        else:
            value.value = self.TEXTS[fact]
        return 0
