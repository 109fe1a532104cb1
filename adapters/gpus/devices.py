"""A machine's GPUs as their libraries describe them, and the interface to these libraries.

`Cuda` and `Nvml` have three implementations each: NVIDIA's libraries (``nvidia``), simulated GPUs (``simulated``), and
the recorded answers of the tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from attrs import frozen


@frozen
class Device:
    """A GPU, or a MIG instance of one. None, or an empty text: its library does not report this fact."""

    uuid: str = ""  #: from CUDA and HIP without a prefix, from NVML with ``GPU-`` or ``MIG-``
    name: str = ""
    pci_id: str = ""
    memory: int | None = None  #: bytes
    capability: tuple[int, int] | None = None
    multiprocessors: int | None = None
    clock_khz: int | None = None
    ecc: bool | None = None
    driver: str = ""  #: the version of NVIDIA's driver
    driver_version: int | None = None  #: the version of CUDA or HIP that the driver supports
    unified_addressing: int | None = None
    warp_size: int | None = None
    rocm: int = 0  #: major version of the HIP library that found this device; 0 for other libraries


@frozen
class Readings:
    """What a GPU's sensors report. None: the GPU has no such sensor."""

    fan_percent: int | None = None
    power_mw: int | None = None
    temperature_c: int | None = None
    ecc_single_bit: int | None = None
    ecc_double_bit: int | None = None


@frozen
class Sample:
    """The utilization of a GPU (percent) in the time that ended at an instant (microseconds since the epoch)."""

    time_us: int
    percent: int


@frozen
class ProcessSample:
    """The utilization of a GPU by one process, like a `Sample`."""

    pid: int
    time_us: int
    percent: int


class GpuError(Exception):
    """A call of NVML failed; ``code`` is NVML's error number."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


NOT_SUPPORTED, NOT_FOUND, FUNCTION_NOT_FOUND, GPU_LOST = 3, 6, 13, 15
"""Error numbers of NVML. A lost GPU fell off the bus, or does not answer."""
NO_PERMISSION = 4

Handle: TypeAlias = Any
"""A device of NVML; its type depends on the implementation."""


_CORES: Final = {
    (1, 0): 8, (1, 1): 8, (1, 2): 8, (1, 3): 8, (2, 0): 32, (2, 1): 48, (3, 0): 192, (3, 2): 192, (3, 5): 192,
    (3, 7): 192, (6, 0): 64, (7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64,
}  # fmt: skip
_CORES_OF_OTHERS: Final = 128


def cores_per_unit(capability: tuple[int, int]) -> int:
    """Return the number of CUDA cores of a multiprocessor, which depends on the compute capability."""
    return _CORES.get(capability, _CORES_OF_OTHERS)


class Report(Protocol):
    """The output of the progress of discovery."""

    def error(self, text: str) -> None: ...

    def diagnose(self, text: str) -> None: ...


class Cuda(Protocol):
    """The GPUs that CUDA programs can use."""

    @property
    def device_count(self) -> int: ...

    def devices(self, report: Report) -> list[Device] | None:
        """Return the devices in CUDA's order. None: CUDA cannot list them."""


class Nvml(Protocol):
    """NVIDIA's management library. Each method raises `GpuError` if NVML does not know the answer."""

    lists_instances: bool  #: False: this library is too old for MIG instances

    def gpu_count(self) -> int: ...

    def handle(self, index: int) -> Handle: ...

    def find(self, uuid: str) -> Handle:
        """Return the GPU or MIG instance with a UUID, with or without the prefix ``GPU-``."""

    def max_mig_count(self, device: Handle) -> int: ...

    def mig_handle(self, device: Handle, index: int) -> Handle: ...

    def uuid(self, device: Handle) -> str: ...

    def name(self, device: Handle) -> str: ...

    def pci_id(self, device: Handle) -> str: ...

    def memory(self, device: Handle) -> int: ...

    def capability(self, device: Handle) -> tuple[int, int]: ...

    def max_clock_khz(self, device: Handle) -> int: ...

    def multiprocessors(self, device: Handle) -> int:
        """Return the number of multiprocessors of a MIG instance."""

    def ecc(self, device: Handle) -> bool: ...

    def fan_percent(self, device: Handle) -> int: ...

    def power_mw(self, device: Handle) -> int: ...

    def temperature_c(self, device: Handle) -> int: ...

    def ecc_errors(self, device: Handle, double_bit: bool) -> int: ...


class NvmlMonitor(Protocol):
    """What NVML measures of a GPU's use. Each method raises `GpuError` if NVML fails: `GPU_LOST`, for example."""

    def find(self, uuid: str) -> Handle: ...

    def samples(self, device: Handle, since_us: int) -> Sequence[Sample]:
        """Return the utilization samples after an instant; not always in order."""

    def memory_used(self, device: Handle) -> int: ...

    def process_memory(self, device: Handle) -> Mapping[int, int]:
        """Return the bytes of a GPU's memory that each process uses, by pid."""

    def process_samples(self, device: Handle, since_us: int) -> Sequence[ProcessSample]:
        """Return the processes' utilization samples after an instant. An answer often lacks some of the processes."""
