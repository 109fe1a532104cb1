"""AMD's GPUs, through the HIP library of ROCm 6 or 7. Source: HTCondor's hip_device_enumeration.cpp."""

from __future__ import annotations

import struct
from ctypes import Array, byref, c_char, c_int, create_string_buffer
from typing import Any, Final

from attrs import evolve

from .devices import (
    CLOCK_TO_UNITS,
    ECC_TO_ADDRESSING,
    MEMORY_AND_WARP,
    NAME_AND_UUID,
    Device,
    OpenLibrary,
    ProgressReport,
    format_uuid,
    new_structure,
    open_reported,
    parse_structure,
)
from .options import DiscoveryOptions

_LIBRARIES: Final = (("libamdhip64.so.7", 7), ("libamdhip64.so.6", 6), ("libamdhip64.so", 0))
_VERSIONS_PER_MAJOR: Final = 10_000_000
_SUCCESS: Final = 0
_UUID_LENGTH: Final = 16


def load_hip(options: DiscoveryOptions, report: ProgressReport, open_library: OpenLibrary) -> Hip | None:
    """Load the HIP library, or the simulated one of -fix-hip-guid; None: it is not installed."""
    if options.simulated_hip:
        return Hip(SimulatedHip(options.simulated_hip), 0, report)
    for name, version in _LIBRARIES:
        library = open_reported(name, open_library, report)
        if library is not None:
            report.diagnose(f"Loaded HIP library '{name}'\n")
            return Hip(library, version, report)
    return None


class Hip:
    """The devices that HIP lists."""

    def __init__(self, library: Any, version: int, report: ProgressReport) -> None:
        self._driver_version = c_int(-1)
        if library.hipDriverGetVersion(byref(self._driver_version)) == _SUCCESS and self._driver_version.value > 0:
            version = self._driver_version.value // _VERSIONS_PER_MAJOR
        self._version = version
        report.diagnose("diag: hip_Init()\n")
        count = c_int()
        library.hipGetDeviceCount(byref(count))
        self.device_count = count.value
        report.diagnose(f"diag: hipDevice count: {count.value} \n")
        descriptions = (self._read(library, index, report) for index in range(count.value))
        self._descriptions = [description for description in descriptions if description is not None]

    def _read(self, library: Any, index: int, report: ProgressReport) -> tuple[Device, bytes] | None:
        if not hasattr(library, "hipGetDevicePropertiesR0600"):  # ROCm 5
            report.diagnose("diag: hipGetDevicePropertiesR0600 function ptr is NULL!\n")
            return None
        structure = new_structure()
        code = library.hipGetDevicePropertiesR0600(structure, index)
        device, uuid = parse_structure(structure)
        report.diagnose(
            f"diag: prop query [{index}] result:{code} -> {device.name[:64]} {_as_characters(uuid[:4])}...\n"
        )
        if not hasattr(library, "hipDeviceGetUuid"):
            return device, uuid
        own_uuid = create_string_buffer(_UUID_LENGTH)
        code = library.hipDeviceGetUuid(own_uuid, index)
        parts = struct.unpack("4s2s2s2s6s", own_uuid.raw)
        report.diagnose(f"diag: uuid query [{index}] result:{code} -> {'-'.join(map(_as_characters, parts))}\n")
        return device, own_uuid.raw

    def devices(self, guid_model: int, report: ProgressReport) -> list[Device]:
        """Return the devices; ``guid_model`` completes UUIDs that consist of 16 digits, as ROCm 6 reports them."""
        report.diagnose(f"diag: enumerateHIPDevices {self.device_count}\n")
        report.diagnose("diag: hip_Init()\n")
        report.diagnose(f"diag: {self.device_count} devices found by hip_Init()\n")
        version, rocm = self._driver_version.value, self._version
        return [
            evolve(device, uuid=_uuid(index, uuid, guid_model, report), driver_version=version, rocm=rocm)
            for index, (device, uuid) in enumerate(self._descriptions)
        ]


def _as_characters(data: bytes) -> str:
    """Return the bytes as C's printf shows signed characters with %02x."""
    return "".join(f"{byte if byte < 0x80 else byte | 0xFFFFFF00:02x}" for byte in data)


def _uuid(index: int, uuid: bytes, guid_model: int, report: ProgressReport) -> str:
    if uuid == bytes(_UUID_LENGTH):
        report.diagnose(f"diag: dev({index}) UUID is NULL-GUID, ignoring\n")
        return ""
    if uuid == b"\xff" * _UUID_LENGTH:
        report.diagnose(f"diag: dev({index}) UUID is MAX-GUID, ignoring\n")
        return ""
    if set(uuid) - set(b"0123456789abcdef"):
        return format_uuid(uuid)
    if guid_model:
        digits = bytes.fromhex(uuid.decode())
        model = (guid_model & 0xFFFF).to_bytes(2, "big")
        return format_uuid(digits[:1] + b"\xff" + model + b"\0\0\x10\0\x80" + digits[1:])
    report.diagnose(f"diag: dev({index}) UUID 0x{uuid.decode()} is not a GUID, ignoring\n")
    return ""


class SimulatedHip:
    """A library with the simulated devices of -fix-hip-guid."""

    def __init__(self, device_count: int) -> None:
        self._device_count = device_count

    def hipDriverGetVersion(self, version: Any) -> int:
        version._obj.value = 60342131
        return _SUCCESS

    def hipGetDeviceCount(self, count: Any) -> int:
        count._obj.value = self._device_count
        return _SUCCESS

    def hipGetDevicePropertiesR0600(self, structure: Array[c_char], index: int) -> int:
        name, uuid = b"AMD Instinct MI300A", bytes([ord("1") + index & 0xFF]) * _UUID_LENGTH
        struct.pack_into(NAME_AND_UUID, structure, 0, name, uuid)
        struct.pack_into(MEMORY_AND_WARP, structure, 288, 131072 << 20, 64)
        struct.pack_into(CLOCK_TO_UNITS, structure, 348, 2_100_000, 9, 4, 228)
        struct.pack_into(ECC_TO_ADDRESSING, structure, 580, 1, 2, 0, index, 1)
        return _SUCCESS
