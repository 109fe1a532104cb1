"""CUDA: the GPUs that CUDA programs can use, in the order of CUDA's indexes.

If CUDA is not installed, NVML describes the GPUs instead. Source of the calls and messages: HTCondor's
cuda_device_enumeration.cpp."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from ctypes import CDLL, byref, c_int, c_size_t, create_string_buffer
from typing import Any

from attrs import evolve

from .devices import (
    Cuda,
    Device,
    OpenLibrary,
    ProgressReport,
    cores_per_unit,
    format_uuid,
    new_structure,
    open_reported,
    parse_structure,
)
from .nvml import GpuError, Handle, Nvml, describe, load_nvml
from .options import DiscoveryOptions

_DRIVER_LIBRARY, _RUNTIME_LIBRARY = "libcuda.so", "libcudart.so"
NO_CUDA_LIBRARY = f"# Unable to load a CUDA library ({_DRIVER_LIBRARY} or {_RUNTIME_LIBRARY}).\n"
_SUCCESS, _NO_DEVICE = 0, 100
_CLOCK_RATE, _MULTIPROCESSOR_COUNT, _ECC_ENABLED = 13, 16, 32  #: attributes of a device
_FIRST_VERSION_WITH_UUIDS = 10_000


def load_nvidia(
    options: DiscoveryOptions, environment: Mapping[str, str], report: ProgressReport,
    open_library: OpenLibrary = CDLL, pynvml: Any = None,
) -> tuple[Cuda | None, Nvml | None]:  # fmt: skip
    """Load CUDA and NVML; None: the library is not available, or CUDA finds no GPU."""
    driver = open_reported(_DRIVER_LIBRARY, open_library, report)
    runtime = open_reported(_RUNTIME_LIBRARY, open_library, report)
    cuda: DriverCuda | RuntimeCuda | None = None
    if driver is not None and not options.cudart:
        report.diagnose("diag: using nvcuda for gpu discovery\n")
        code = driver.cuInit(0)
        if code == _SUCCESS:
            cuda = DriverCuda(driver)
        elif code == _NO_DEVICE:
            report.diagnose(f"diag: cuInit found no CUDA-capable devices. code={code}\n")
        else:
            report.error(f"Error: cuInit returned {code}\n")
    elif runtime is not None and not options.nvcuda:
        report.diagnose("diag: using cudart for gpu discovery\n")
        cuda = RuntimeCuda(runtime)
    else:
        report.diagnose(NO_CUDA_LIBRARY)
    nvml = load_nvml(report, options.dynamic, open_library, pynvml)
    if nvml is not None and isinstance(cuda, DriverCuda):
        cuda.nvidia_driver = nvml.ask("SystemGetDriverVersion") or ""
    has_cuda = driver is not None or (cuda is not None and cuda.device_count > 0)
    if nvml is None or has_cuda or options.cudart:
        return cuda, nvml
    try:
        return CudaByNvml(nvml, environment.get("CUDA_VISIBLE_DEVICES")), nvml
    except GpuError as error:
        report.error(f"Warning: NVML cannot list the GPUs: {error}\n")
        return None, nvml


def _int(call: Callable[..., int], *arguments: Any) -> int | None:
    """Return the integer that a function stores in its first argument; None if the function fails."""
    number = c_int()
    return number.value if call(byref(number), *arguments) == _SUCCESS else None


class _CudaLibrary(ABC):
    def __init__(self, library: Any, count: int | None) -> None:
        self._library, self._count = library, count
        self.device_count = count or 0

    def devices(self, report: ProgressReport) -> list[Device] | None:
        if self._count is None:
            report.diagnose("# enumerateCUDADevices: cuDeviceGetCount failed\n")
            return None
        devices = []
        for index in range(self._count):
            device = self._describe(index, report)
            if device is None:
                report.diagnose(f"# enumerateCUDADevices: failed to get props for device {index}\n")
            else:
                devices.append(device)
        return devices

    @abstractmethod
    def _describe(self, index: int, report: ProgressReport) -> Device | None: ...


class DriverCuda(_CudaLibrary):
    """The library of the CUDA driver."""

    def __init__(self, library: Any) -> None:
        super().__init__(library, _int(library.cuDeviceGetCount))
        self.nvidia_driver = ""

    def _describe(self, index: int, report: ProgressReport) -> Device | None:
        cuda, device = self._library, _int(self._library.cuDeviceGet, index)
        if device is None:
            return None
        memory, major, minor = c_size_t(), c_int(-1), c_int(-1)
        name, uuid, pci_id = create_string_buffer(1028), create_string_buffer(16), create_string_buffer(32)
        code = cuda.cuDeviceTotalMem_v2(byref(memory), device)
        total = memory.value if code == _SUCCESS else None
        cuda.cuDeviceGetName(name, 1024, device)
        has_uuid = hasattr(cuda, "cuDeviceGetUuid") and cuda.cuDeviceGetUuid(uuid, device) == _SUCCESS
        if hasattr(cuda, "cuDeviceGetPCIBusId"):
            cuda.cuDeviceGetPCIBusId(pci_id, len(pci_id), device)
        cuda.cuDeviceComputeCapability(byref(major), byref(minor), device)
        address = f"{device:#x}" if device else "(nil)"
        for text in (
            f"querying ordinal:{index}, dev:{address} using cuDevice* API",
            f"cuDeviceTotalMem({index}) returns {code}, value = {memory.value}",
            f"cuDeviceComputeCapability({address}) returns {major.value}.{minor.value}",
            f"cuDeviceTotalMem({address}) returns {code}, value = {c_size_t(-1).value if total is None else total}",
        ):
            report.diagnose(f"# {text}\n")
        ecc = _int(cuda.cuDeviceGetAttribute, _ECC_ENABLED, device)
        return Device(
            format_uuid(uuid.raw) if has_uuid else "", name.value.decode(errors="replace"), pci_id.value.decode(),
            total, (major.value, minor.value) if -1 not in (major.value, minor.value) else None,
            _int(cuda.cuDeviceGetAttribute, _MULTIPROCESSOR_COUNT, device),
            _int(cuda.cuDeviceGetAttribute, _CLOCK_RATE, device), None if ecc is None else bool(ecc),
            self.nvidia_driver, _int(cuda.cuDriverGetVersion),
        )  # fmt: skip


class RuntimeCuda(_CudaLibrary):
    """The library of CUDA's runtime. It reports neither the driver's version nor, before version 10, UUIDs.

    HTCondor forms a UUID of other bytes in this case."""

    def __init__(self, library: Any) -> None:
        super().__init__(library, _int(library.cudaGetDeviceCount))

    def _describe(self, index: int, report: ProgressReport) -> Device | None:
        cuda, structure = self._library, new_structure()
        if cuda.cudaGetDeviceProperties(structure, index) != _SUCCESS:
            return None
        has_uuid = (_int(cuda.cudaRuntimeGetVersion) or 0) >= _FIRST_VERSION_WITH_UUIDS
        device, uuid = parse_structure(structure, has_uuid)
        return evolve(
            device, uuid=format_uuid(uuid) if has_uuid else "", driver_version=_int(cuda.cudaDriverGetVersion),
            unified_addressing=None, warp_size=None,
        )  # fmt: skip


class CudaByNvml:
    """The GPUs as CUDA would list them, for a machine on which only NVML is installed."""

    def __init__(self, nvml: Nvml, visible_devices: str | None) -> None:
        self._nvml = nvml
        gpus = list(nvml.gpus())
        self._gpus = gpus if visible_devices is None else _visible(nvml, gpus, visible_devices)
        self.device_count = len(self._gpus)

    def devices(self, report: ProgressReport) -> list[Device]:
        nvml = self._nvml
        driver, version = nvml.ask("SystemGetDriverVersion") or "", nvml.ask("SystemGetCudaDriverVersion")
        devices = []
        for gpu in self._gpus:
            device, cores = describe(nvml, gpu), nvml.ask("DeviceGetNumGpuCores", gpu)
            units = cores // cores_per_unit(device.capability) if cores and device.capability else None
            devices.append(evolve(
                device, uuid=device.uuid.removeprefix("GPU-"), multiprocessors=units, ecc=bool(device.ecc),
                driver=driver, driver_version=version,
            ))  # fmt: skip
        return devices


def _visible(nvml: Nvml, gpus: Sequence[Handle], visible_devices: str) -> list[Handle]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES selects. CUDA ignores the rest of the list after an invalid name."""
    selected: list[Handle] = []
    for name in (name.strip() for name in visible_devices.split(",")):
        matches = [gpu for gpu in gpus if name.startswith("GPU-") and nvml.uuid(gpu).startswith(name)]
        if name.isdecimal():
            matches = list(gpus[int(name) : int(name) + 1])
        if len(matches) != 1:
            break
        selected += matches
    return selected
