"""The structure in which the runtimes of CUDA and HIP describe a device: cudaDeviceProp and hipDeviceProp_t."""

from __future__ import annotations

import struct
from ctypes import Array, c_char, create_string_buffer

from .devices import Device


def new_structure() -> Array[c_char]:
    """Return an empty structure; it has more bytes than any version of the runtimes fills."""
    return create_string_buffer(8192)


def parse_structure(structure: Array[c_char]) -> tuple[Device, bytes]:
    """Return the device, without a UUID, and the bytes of its UUID."""
    name, uuid, memory, warp_size = struct.unpack_from("256s16s16xQ12xi", structure)
    clock_khz, major, minor, multiprocessors = struct.unpack_from("i8x2i20xi", structure, 348)
    ecc, bus, slot, domain, unified_addressing = struct.unpack_from("4i8xi", structure, 580)
    return Device(
        "", name.partition(b"\0")[0].decode(errors="replace"),
        f"{domain:04X}:{bus:02X}:{slot:02X}.0" if bus or slot else "", memory, (major, minor), multiprocessors,
        clock_khz, bool(ecc), unified_addressing=unified_addressing, warp_size=warp_size,
    ), uuid  # fmt: skip


def format_uuid(uuid: bytes) -> str:
    digits = uuid.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
