"""A machine's GPUs as their libraries describe them."""

from __future__ import annotations

from typing import Final, Protocol

from attrs import frozen

from .report import ProgressReport


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


class Cuda(Protocol):
    """The GPUs that CUDA programs can use: those of the CUDA library (``cuda``), or simulated ones."""

    device_count: int

    def devices(self, report: ProgressReport) -> list[Device] | None:
        """Return the devices in CUDA's order. None: CUDA cannot list them."""


_CORES: Final = {
    (1, 0): 8, (1, 1): 8, (1, 2): 8, (1, 3): 8, (2, 0): 32, (2, 1): 48, (3, 0): 192, (3, 2): 192, (3, 5): 192,
    (3, 7): 192, (6, 0): 64, (7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64,
}  # fmt: skip
_CORES_OF_OTHERS: Final = 128


def cores_per_unit(capability: tuple[int, int]) -> int:
    """Return the number of CUDA cores of a multiprocessor, which depends on the compute capability."""
    return _CORES.get(capability, _CORES_OF_OTHERS)


_SHORT_LENGTH: Final = len("GPU-01234567")


def gpu_id(uuid: str, is_short: bool = False) -> str:
    """Return the name of a GPU for CUDA_VISIBLE_DEVICES. A MIG instance's name is not shortened."""
    if uuid.startswith("MIG-"):
        return uuid
    id = uuid if "GPU-" in uuid else f"GPU-{uuid}"
    return id[:_SHORT_LENGTH] if is_short else id
