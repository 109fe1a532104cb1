"""Simulated GPUs: the facts of condor_gpu_discovery -simulate (HTCondor's simulated_device_enumeration.cpp)."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Final, NamedTuple

from .devices import Device
from .nvml import NOT_FOUND, NOT_SUPPORTED, Handle, Nvml
from .report import ProgressReport

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
        has_new_models = any(model > _LAST_MODEL_WITHOUT_NVML for model in models)
        super().__init__(_SimulatedModule([MODELS[model] for model in models]), has_new_models)

    def find(self, uuid: str) -> Handle:
        return self.call("DeviceGetHandleByUUID", uuid)


class _NvmlError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(_ERROR_TEXTS[value])
        self.value = value


_ERROR_TEXTS: Final = {
    NOT_SUPPORTED: "The requested operation is not available on target device",
    NOT_FOUND: "A query to find an object was unsuccessful",
}


class _SimulatedModule:
    """The functions of the module ``pynvml`` that HTCondor simulates."""

    NVMLError = _NvmlError

    def __init__(self, models: list[_Model]) -> None:
        self._models = models

    def nvmlDeviceGetCount(self) -> int:
        return len(self._models)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> _Handle:
        return _Handle(index)

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> _Handle:
        first_digits = re.match("[0-9a-f]{2}2233", uuid)
        if first_digits is None:
            raise _NvmlError(NOT_FOUND)
        return _Handle(int(uuid[1], 16))

    def nvmlDeviceGetMaxMigDeviceCount(self, device: _Handle) -> int:
        model = self._models[device.gpu]
        if model.driver_version < _FIRST_VERSION_WITH_MIG:
            raise _NvmlError(NOT_SUPPORTED)
        return len(model.instances_mb)

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: _Handle, index: int) -> _Handle:
        return _Handle(device.gpu, index)

    def nvmlDeviceGetUUID(self, device: _Handle) -> str:
        if device.instance is None:
            return f"GPU-{_uuid(device.gpu)}"
        if self._models[device.gpu].driver_version >= _FIRST_VERSION_WITH_MIG_UUIDS:
            return f"MIG-{_uuid(device.gpu, device.instance)}"
        return f"MIG-GPU-{_uuid(device.gpu)}/{device.instance}/0"

    def nvmlDeviceGetName(self, device: _Handle) -> str:
        if device.instance is not None:
            raise _NvmlError(NOT_FOUND)
        return self._models[device.gpu].name

    def nvmlDeviceGetMemoryInfo(self, device: _Handle) -> SimpleNamespace:
        model = self._models[device.gpu]
        instance = device.instance
        return SimpleNamespace(total=model.memory if instance is None else model.instances_mb[instance] << 20)

    def nvmlDeviceGetMaxClockInfo(self, device: _Handle, clock: int) -> int:
        return self._models[device.gpu].clock_mhz

    def nvmlDeviceGetEccMode(self, device: _Handle) -> tuple[int, int]:
        ecc = int(self._models[device.gpu].ecc)
        return ecc, ecc

    def nvmlDeviceGetFanSpeed(self, device: _Handle) -> int:
        return 9 + device.number

    def nvmlDeviceGetPowerUsage(self, device: _Handle) -> int:
        return 29 + device.number

    def nvmlDeviceGetTemperature(self, device: _Handle, sensor: int) -> int:
        return 89 + device.number

    def nvmlDeviceGetTotalEccErrors(self, device: _Handle, kind: int, counter: int) -> int:
        return 0
