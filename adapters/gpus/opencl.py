"""GPUs that OpenCL lists. Source: HTCondor's opencl_device_enumeration.cpp."""

from __future__ import annotations

from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p, create_string_buffer, sizeof
from typing import Any, Final

from .devices import OpenLibrary, ProgressReport, open_reported

_LIBRARY: Final = "libOpenCL.so"
_SUCCESS, _DEVICE_NOT_FOUND, _NO_PLATFORM = 0, -1, -1001
_GPU_TYPE: Final = 4
_NAME, _VERSION, _VENDOR, _PROFILE, _EXTENSIONS = 0x902, 0x901, 0x903, 0x900, 0x904
_PLATFORM_FACTS: Final = {
    _NAME: "NAME", _VERSION: "VERSION", _VENDOR: "VENDOR", _PROFILE: "PROFILE", _EXTENSIONS: "EXTENSIONS"
}  # fmt: skip
_DEVICE_NAME, _DEVICE_VERSION = 0x102B, 0x102F
_COMPUTE_UNITS, _CLOCK_MHZ, _MEMORY, _ECC = 0x1002, 0x100C, 0x101F, 0x1024
_DEVICE_FACTS: Final[dict[int, tuple[str, Any]]] = {
    _DEVICE_NAME: ("NAME", None), 0x1000: ("DEVICE_TYPE", c_uint64), 0x1001: ("VENDOR_ID", c_uint),
    0x102C: ("VENDOR", None), _DEVICE_VERSION: ("VERSION", None), 0x102D: ("DRIVER", None),
    _COMPUTE_UNITS: ("MAX_COMPUTE_UNITS", c_uint), 0x1004: ("MAX_WORK_GROUP_SIZE", c_uint64),
    _CLOCK_MHZ: ("MAX_CLOCK_FREQUENCY", c_uint), _MEMORY: ("GLOBAL_MEM_SIZE", c_uint64),
    _ECC: ("ERROR_CORRECTION_SUPPORT", c_int),
}  # fmt: skip
"""The facts about a device: names in messages, and types; None is a text. -verbose prints them in this order."""


def load_opencl(report: ProgressReport, open_library: OpenLibrary) -> OpenCl | None:
    """Load the OpenCL library; None: it is not installed."""
    library = open_reported(_LIBRARY, open_library, report)
    return None if library is None else OpenCl(library, report)


class OpenCl:
    """The GPUs that OpenCL lists."""

    def __init__(self, library: Any, report: ProgressReport) -> None:
        self._library, self._report = library, report
        report.diagnose("diag: ocl_Init()\n")
        self._devices: list[c_void_p] = []
        for index, platform in enumerate(self._platforms()):
            report.diagnose(f"ocl platform {index} = {(platform.value or 0) & 0xFFFFFFFF:x}\n")
            for fact, name in _PLATFORM_FACTS.items() if report.is_verbose else ():
                text = self._text(library.clGetPlatformInfo, platform, fact)
                if text is not None:
                    report.verbose(f'\t{name}: "{text}"\n')
            self._devices += self._gpus(platform)
        self.device_count = len(self._devices)

    def _platforms(self) -> list[c_void_p]:
        count = c_uint()
        code = self._library.clGetPlatformIDs(0, None, byref(count))
        if code != _SUCCESS:
            is_error = code not in (_DEVICE_NOT_FOUND, _NO_PLATFORM)
            report = self._report.error if is_error else self._report.diagnose
            report(f"ocl.GetPlatformIDs returned error={code} and {count.value} platforms\n")
        platforms = (c_void_p * count.value)()
        if count.value:
            self._library.clGetPlatformIDs(count, platforms, byref(count))
        return [c_void_p(platform) for platform in platforms]

    def _gpus(self, platform: c_void_p) -> list[c_void_p]:
        count, get = c_uint(), self._library.clGetDeviceIDs
        code = get(platform, c_uint64(_GPU_TYPE), 0, None, byref(count))
        self._report.verbose(f"\tDEVICES = {count.value}\n")
        gpus = (c_void_p * count.value)()
        if code != _SUCCESS or not count.value or get(platform, c_uint64(_GPU_TYPE), count, gpus, None) != _SUCCESS:
            return []
        devices = [c_void_p(gpu) for gpu in gpus]
        for device in devices if self._report.is_verbose else ():
            for fact, (name, type) in _DEVICE_FACTS.items():
                text = self._text(self._library.clGetDeviceInfo, device, fact) if type is None else None
                if text is not None:
                    self._report.verbose(f'\t\t{name}: "{text}"\n')
                elif type is not None:
                    self._number(device, fact)
        return devices

    def _text(self, get: Any, owner: c_void_p, fact: int) -> str | None:
        length = c_size_t()
        if get(owner, fact, c_size_t(0), None, byref(length)) != _SUCCESS:
            return None
        text = create_string_buffer(length.value + 1)
        get(owner, fact, c_size_t(length.value), text, None)
        return text.value.decode(errors="replace")

    def _number(self, device: c_void_p, fact: int) -> int | None:
        name, type = _DEVICE_FACTS[fact]
        number = type()
        if self._library.clGetDeviceInfo(device, fact, c_size_t(sizeof(number)), byref(number), None) != _SUCCESS:
            return None
        self._report.verbose(f"\t\t{name}: {number.value}\n")
        return int(number.value)

    def properties(self, index: int, extra: bool) -> dict[str, str]:
        """Return the properties of a device, as -properties and -extra print them."""
        device, get = self._devices[index], self._library.clGetDeviceInfo
        name, version = self._text(get, device, _DEVICE_NAME), self._text(get, device, _DEVICE_VERSION)
        memory, ecc = self._number(device, _MEMORY), self._number(device, _ECC)
        units, clock_mhz = (self._number(device, fact) if extra else None for fact in (_COMPUTE_UNITS, _CLOCK_MHZ))
        values: dict[str, object] = {
            "DeviceName": None if name is None else f'"{name}"',
            "GlobalMemoryMb": None if memory is None else f"{memory / (1 << 20):.0f}",
            "ECCEnabled": None if ecc is None else str(bool(ecc)).lower(),
            "OpenCLVersion": None if version is None else version[version.find(" ") + 1 :].partition(" ")[0],
            "ComputeUnits": units,
            "ClockMhz": clock_mhz,
        }
        return {attribute: str(value) for attribute, value in values.items() if value is not None}
