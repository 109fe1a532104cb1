"""The structure in which the runtimes of CUDA and HIP describe a device: cudaDeviceProp and hipDeviceProp_t."""

from __future__ import annotations

import struct
from ctypes import Array, c_char, create_string_buffer
from typing import NamedTuple


class DeviceStructure(NamedTuple):
    """The fields that discovery reads."""

    name: str
    uuid: bytes
    memory: int
    warp_size: int
    clock_khz: int
    capability: tuple[int, int]
    multiprocessors: int
    ecc: bool
    pci_id: str
    unified_addressing: int


def new_structure() -> Array[c_char]:
    """Return an empty structure; it has more bytes than any version of the runtimes fills."""
    return create_string_buffer(8192)


def parse_structure(structure: Array[c_char]) -> DeviceStructure:
    name, uuid, memory, warp_size = struct.unpack_from("256s16s16xQ12xi", structure)
    clock, major, minor, multiprocessors = struct.unpack_from("i8x2i20xi", structure, 348)
    ecc, bus, device, domain, unified_addressing = struct.unpack_from("4i8xi", structure, 580)
    return DeviceStructure(
        name.partition(b"\0")[0].decode(errors="replace"), uuid, memory, warp_size, clock, (major, minor),
        multiprocessors, bool(ecc), f"{domain:04X}:{bus:02X}:{device:02X}.0" if bus or device else "",
        unified_addressing,
    )  # fmt: skip


def format_uuid(uuid: bytes) -> str:
    digits = uuid.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
