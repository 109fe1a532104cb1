"""Simulated GPUs: the facts of condor_gpu_discovery -simulate (HTCondor's simulated_device_enumeration.cpp)."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from .devices import Device, ProgressReport
from .nvml import FUNCTION_NOT_FOUND, NOT_FOUND, NOT_SUPPORTED, GpuError, Handle, Nvml

_FIRST_VERSION_WITH_MIG, _FIRST_VERSION_WITH_MIG_UUIDS = 10000, 11040


class _Model(NamedTuple):
    name: str
    capability: tuple[int, int]
    clock_mhz: int
    multiprocessors: int
    ecc: bool
    memory: int
    driver_version: int
    instances_mb: tuple[int, ...] = ()


_A100_MIB: Final = 1024 * 1204  #: HTCondor's table of the A100s has this number
_THREE_GIGABYTE: Final = (20086, 20082)
_AMPERE: Final = (8, 0)
MODELS: Final = (
    _Model("GeForce GT 330", (1, 2), 1340, 12, False, 1024 << 20, 6000),
    _Model("GeForce GTX 480", (2, 0), 1400, 15, False, 1536 << 20, 4020),
    _Model("Tesla V100-PCIE-16GB", (7, 0), 1380, 80, True, 24220 << 20, 11020),
    _Model("TITAN RTX", (7, 5), 1770, 72, False, 24220 << 20, 11020),
    _Model("A100-SXM4-40GB", _AMPERE, 1410, 42, True, 40536 * _A100_MIB, 11020),
    _Model("NVIDIA A100-SXM4-40GB MIG 3g.20gb", _AMPERE, 1410, 42, True, 20096 * _A100_MIB, 11020, _THREE_GIGABYTE),
    _Model("NVIDIA A100-SXM4-40GB MIG 1g.5gb", _AMPERE, 1410, 42, True, 4864 * _A100_MIB, 11040, (4861,) * 7),
    _Model("NVIDIA A100-SXM4-40GB MIG 3g.20gb", _AMPERE, 1410, 42, True, 20096 * _A100_MIB, 11040, _THREE_GIGABYTE),
)
_LAST_MODEL_WITHOUT_NVML: Final = 1


def simulated_models(text: str | None) -> list[int] | None:
    """Return the models that ``-simulate:TEXT`` names, as pairs of a model and a count. None: it is not valid."""
    if text is None:
        return [0]
    if re.match(rf"\s*\+?0*{len(MODELS)}(?!\d)", text):
        return list(range(len(MODELS)))
    models: list[int] = []
    while text:
        number = re.match(r"\s*[+-]?\d+", text)
        if number is None or not 0 <= int(number[0]) < len(MODELS):
            return None
        text, count = text[number.end() :], 1
        if text.startswith(","):
            digits = re.match(r"\s*[+-]?\d+|", text[1:])
            assert digits is not None
            count, text = int(digits[0] or 0), text[1 + digits.end() :]
        text = text.removeprefix(",")
        models += [int(number[0])] * count
    return models


class _Handle(NamedTuple):
    """A simulated GPU, or a MIG instance of one."""

    gpu: int
    instance: int | None = None

    @property
    def number(self) -> int:
        return self.gpu | 0x100


def _uuid(gpu: int, instance: int = 0x34) -> str:
    return f"{(gpu * 0x11 + 0xA0) & 0xFF:02x}2233{instance:02x}-4445-5667-899a-abbccddeeff0"


class SimulatedCuda:
    """CUDA with simulated GPUs."""

    def __init__(self, models: list[int]) -> None:
        self._models = [MODELS[model] for model in models]
        self.device_count = len(models)

    def devices(self, report: ProgressReport) -> list[Device]:
        return [
            Device(
                _uuid(gpu), model.name, f"0000:{gpu + 0x40:02x}:00.0", model.memory, model.capability,
                model.multiprocessors, model.clock_mhz * 1000, model.ecc,
            )
            for gpu, model in enumerate(self._models)
        ]  # fmt: skip


class SimulatedNvml(Nvml):
    """NVML with simulated GPUs. It does not find MIG instances by their UUIDs."""

    def __init__(self, models: list[int]) -> None:
        super().__init__(None, lists_instances=any(model > _LAST_MODEL_WITHOUT_NVML for model in models))
        self._models = [MODELS[model] for model in models]

    def find(self, uuid: str) -> Handle:
        return self.call("DeviceGetHandleByUUID", uuid)

    def call(self, function: str, *arguments: Any, **options: Any) -> Any:
        if function == "DeviceGetCount":
            return len(self._models)
        if function == "DeviceGetHandleByIndex":
            return _Handle(*arguments)
        if function == "DeviceGetHandleByUUID":
            (uuid,) = arguments
            if not re.match("[0-9a-f]{2}2233", uuid):
                raise GpuError(*_NOT_FOUND)
            return _Handle(int(uuid[1], 16))
        if function == "DeviceGetMigDeviceHandleByIndex":
            gpu, index = arguments
            return _Handle(gpu.gpu, index)
        if function not in _ANSWERS:
            raise GpuError(FUNCTION_NOT_FOUND, "Function Not Found")
        device = arguments[0]
        return _ANSWERS[function](self._models[device.gpu], device)


_NOT_FOUND: Final = NOT_FOUND, "A query to find an object was unsuccessful"
_NOT_SUPPORTED: Final = NOT_SUPPORTED, "The requested operation is not available on target device"


def _name(model: _Model, device: _Handle) -> str:
    if device.instance is not None:
        raise GpuError(*_NOT_FOUND)
    return model.name


def _full_uuid(model: _Model, device: _Handle) -> str:
    if device.instance is None:
        return f"GPU-{_uuid(device.gpu)}"
    if model.driver_version >= _FIRST_VERSION_WITH_MIG_UUIDS:
        return f"MIG-{_uuid(device.gpu, device.instance)}"
    return f"MIG-GPU-{_uuid(device.gpu)}/{device.instance}/0"


def _memory(model: _Model, device: _Handle) -> SimpleNamespace:
    total = model.memory if device.instance is None else model.instances_mb[device.instance] << 20
    return SimpleNamespace(total=total, reserved=0)


def _instance_count(model: _Model, device: _Handle) -> int:
    if model.driver_version < _FIRST_VERSION_WITH_MIG:
        raise GpuError(*_NOT_SUPPORTED)
    return len(model.instances_mb)


_ANSWERS: Final[dict[str, Callable[[_Model, _Handle], Any]]] = {
    "DeviceGetEccMode": lambda model, device: (int(model.ecc), int(model.ecc)),
    "DeviceGetFanSpeed": lambda model, device: 9 + device.number,
    "DeviceGetMaxClockInfo": lambda model, device: model.clock_mhz,
    "DeviceGetMaxMigDeviceCount": _instance_count,
    "DeviceGetMemoryInfo": _memory,
    "DeviceGetName": _name,
    "DeviceGetPowerUsage": lambda model, device: 29 + device.number,
    "DeviceGetTemperature": lambda model, device: 89 + device.number,
    "DeviceGetTotalEccErrors": lambda model, device: 0,
    "DeviceGetUUID": _full_uuid,
}
"""The functions about a device that HTCondor simulates."""
