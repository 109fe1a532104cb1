"""A machine's GPUs as their libraries describe them, and the progress messages of condor_gpu_discovery (HTCondor's
print_error.cpp)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from ctypes import Array, c_char, create_string_buffer
from typing import Any, Final, Protocol, TextIO

from attrs import frozen

OpenLibrary = Callable[[str], Any]
"""Opens a shared library by its name. Raises `OSError` if it is not installed."""


@frozen
class ProgressReport:
    """Prints messages as -verbose and -diagnostic select; in the output of -config, they are comments."""

    out: TextIO
    err: TextIO
    is_verbose: bool = False
    is_diagnostic: bool = False
    is_config: bool = False

    def error(self, text: str) -> None:
        self._print(text, self.out if self.is_config else self.err)

    def verbose(self, text: str) -> None:
        if self.is_verbose:
            self._print(text, self.out)

    def diagnose(self, text: str) -> None:
        if self.is_diagnostic:
            self._print(text, self.out)

    def _print(self, text: str, stream: TextIO) -> None:
        stream.write(f"#{text}" if self.is_config else text)


def open_reported(name: str, open_library: OpenLibrary, report: ProgressReport) -> Any:
    """Return a shared library, or None if it is not installed."""
    try:
        return open_library(name)
    except OSError as error:
        report.diagnose(f"Can't open library '{name}': '{error}'\n")
        return None


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
    """The GPUs that CUDA programs can use: as the CUDA library lists them (``cuda``), or simulated."""

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


# The structure in which the runtimes of CUDA and HIP describe a device: cudaDeviceProp and hipDeviceProp_t

NAME_AND_UUID, MEMORY_AND_WARP, CLOCK_TO_UNITS, ECC_TO_ADDRESSING = "256s16s", "Q12xi", "i8x2i20xi", "4i8xi"
"""The members that are read, at the offsets 0, 288, 348 and 580."""
_ID_LENGTH: Final = 288 - 256  #: of the members between the name and the memory, which CUDA 9 lacks


def new_structure() -> Array[c_char]:
    """Return an empty structure; it has more bytes than any version of the runtimes fills."""
    return create_string_buffer(8192)


def parse_structure(structure: Array[c_char], has_uuid: bool = True) -> tuple[Device, bytes]:
    """Return the device, without a UUID, and the bytes of its UUID."""
    moved = 0 if has_uuid else _ID_LENGTH
    name, uuid = struct.unpack_from(NAME_AND_UUID, structure)
    memory, warp_size = struct.unpack_from(MEMORY_AND_WARP, structure, 288 - moved)
    clock_khz, major, minor, multiprocessors = struct.unpack_from(CLOCK_TO_UNITS, structure, 348 - moved)
    ecc, bus, slot, domain, unified_addressing = struct.unpack_from(ECC_TO_ADDRESSING, structure, 580 - moved)
    return Device(
        "", name.partition(b"\0")[0].decode(errors="replace"),
        f"{domain:04X}:{bus:02X}:{slot:02X}.0" if bus or slot else "", memory, (major, minor), multiprocessors,
        clock_khz, bool(ecc), unified_addressing=unified_addressing, warp_size=warp_size,
    ), uuid  # fmt: skip


def format_uuid(uuid: bytes) -> str:
    digits = uuid.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
