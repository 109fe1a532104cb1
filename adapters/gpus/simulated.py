"""Simulated GPUs: the facts of condor_gpu_discovery -simulate (HTCondor's simulated_device_enumeration.cpp)."""

from __future__ import annotations

import re
from typing import Final, NamedTuple, NoReturn

from .devices import FUNCTION_NOT_FOUND, NOT_FOUND, NOT_SUPPORTED, Device, GpuError, Report

_FIRST_VERSION_WITH_MIG, _FIRST_VERSION_WITH_MIG_UUIDS = 10000, 11040
_WHOLE_GPU: Final = 0x34  #: in place of the index of a MIG instance


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
            found = re.match(r"\s*[+-]?\d+|", text[1:])
            assert found is not None
            count, text = int(found[0] or 0), text[1 + found.end() :]
        text = text.removeprefix(",")
        models += [int(number[0])] * count
    return models


class _Simulated(NamedTuple):
    """The handle of a simulated GPU, or of a MIG instance of one."""

    gpu: int
    instance: int = _WHOLE_GPU

    @property
    def number(self) -> int:
        return self.gpu | 0x100 | self.instance * 0x1000


def _uuid(index: int, instance: int = _WHOLE_GPU) -> str:
    return f"{(index * 0x11 + 0xA0) & 0xFF:02x}2233{instance:02x}-4445-5667-899a-abbccddeeff0"


class SimulatedGpus:
    """Simulated GPUs, in place of both CUDA and NVML."""

    def __init__(self, models: list[int]) -> None:
        self._models = [MODELS[model] for model in models]
        self.device_count = len(models)
        self.lists_instances = any(model > _LAST_MODEL_WITHOUT_NVML for model in models)

    def devices(self, report: Report) -> list[Device]:
        return [
            Device(
                _uuid(index), model.name, f"0000:{index + 0x40:02x}:00.0", model.memory, model.capability,
                model.multiprocessors, model.clock_mhz * 1000, model.ecc,
            )
            for index, model in enumerate(self._models)
        ]  # fmt: skip

    def gpu_count(self) -> int:
        return len(self._models)

    def handle(self, index: int) -> _Simulated:
        return _Simulated(index)

    def find(self, uuid: str) -> _Simulated:
        numbers = re.match("([0-9a-f]{2})2233([0-9a-f]{2})", uuid)
        if numbers is None:
            raise GpuError(NOT_FOUND, "A query to find an object was unsuccessful")
        return _Simulated(int(numbers[1], 16) & 0x0F, 0)

    def max_mig_count(self, device: _Simulated) -> int:
        model = self._models[device.gpu]
        if model.driver_version < _FIRST_VERSION_WITH_MIG:
            raise GpuError(NOT_SUPPORTED, "The requested operation is not available on target device")
        return len(model.instances_mb)

    def mig_handle(self, device: _Simulated, index: int) -> _Simulated:
        return _Simulated(device.gpu, index)

    def uuid(self, device: _Simulated) -> str:
        if device.instance == _WHOLE_GPU:
            return f"GPU-{_uuid(device.gpu)}"
        if self._models[device.gpu].driver_version >= _FIRST_VERSION_WITH_MIG_UUIDS:
            return f"MIG-{_uuid(*device)}"
        return f"MIG-GPU-{_uuid(device.gpu)}/{device.instance}/0"

    def name(self, device: _Simulated) -> str:
        if device.instance != _WHOLE_GPU:
            raise GpuError(NOT_FOUND, "A query to find an object was unsuccessful")
        return self._models[device.gpu].name

    def memory(self, device: _Simulated) -> int:
        model = self._models[device.gpu]
        return model.memory if device.instance == _WHOLE_GPU else model.instances_mb[device.instance] << 20

    def max_clock_khz(self, device: _Simulated) -> int:
        return self._models[device.gpu].clock_mhz * 1000

    def ecc(self, device: _Simulated) -> bool:
        return self._models[device.gpu].ecc

    def fan_percent(self, device: _Simulated) -> int:
        return 9 + device.number

    def power_mw(self, device: _Simulated) -> int:
        return 29 + device.number

    def temperature_c(self, device: _Simulated) -> int:
        return 89 + device.number

    def ecc_errors(self, device: _Simulated, double_bit: bool) -> int:
        return 0

    def pci_id(self, device: _Simulated) -> str:
        return _missing()

    def capability(self, device: _Simulated) -> tuple[int, int]:
        return _missing()

    def multiprocessors(self, device: _Simulated) -> int:
        return _missing()


def _missing() -> NoReturn:
    raise GpuError(FUNCTION_NOT_FOUND, "Local version of NVML doesn't implement this function")
