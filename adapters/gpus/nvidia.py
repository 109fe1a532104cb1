"""NVIDIA's libraries: CUDA through ctypes, and NVML through nvidia-ml-py.

CUDA lists the GPUs that programs can use, in the order of its indexes. If CUDA is not installed, NVML describes the
GPUs instead. Source of the calls and messages: HTCondor's cuda_device_enumeration.cpp."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from ctypes import CDLL, byref, c_int, c_size_t, create_string_buffer
from typing import Any, Final

from .devices import (
    FUNCTION_NOT_FOUND,
    NOT_FOUND,
    Cuda,
    Device,
    GpuError,
    Handle,
    ProcessSample,
    Report,
    Sample,
    cores_per_unit,
)
from .nvml_devices import list_instances, optional
from .options import DiscoveryOptions
from .report import ProgressReport

CUDA_LIBRARY, CUDA_RUNTIME_LIBRARY = "libcuda.so", "libcudart.so"
NVML_LIBRARIES: Final = ("libnvidia-ml.so.1", "libnvidia-ml.so")
_CUDA_SUCCESS, _CUDA_NO_DEVICE = 0, 100
_CLOCK_RATE, _MULTIPROCESSOR_COUNT, _ECC_ENABLED = 13, 16, 32  #: attributes of a device in CUDA
_LIBRARY_NOT_FOUND: Final = 12
_WITHOUT_PACKAGE: Final = (
    "The Python package nvidia-ml-py is not installed, which reads temperatures and MIG instances of NVIDIA's GPUs: "
    "pip install 'poolbook[gpu]'\n"
)

OpenLibrary = Callable[[str], Any]


def load_nvidia(
    options: DiscoveryOptions,
    environment: Mapping[str, str],
    report: ProgressReport,
    open_library: OpenLibrary = CDLL,
    pynvml: Any = None,
) -> tuple[Cuda | None, Management | None]:
    """Load CUDA and NVML; None: the library is not available, or its GPUs are not. ``pynvml`` is the module of that
    name in the package nvidia-ml-py."""
    cuda, has_library = _load_cuda(options, report, open_library)
    nvml = load_management(report, options.dynamic, open_library, pynvml)
    if nvml is not None and cuda is not None:
        cuda.driver = nvml.driver()
    if nvml is not None and not has_library and not options.cudart:
        return GpusWithoutCuda(nvml, environment), nvml
    return cuda, nvml


def _try_open(name: str, open_library: OpenLibrary, report: ProgressReport) -> Any:
    try:
        return open_library(name)
    except OSError as error:
        report.diagnose(f"Can't open library '{name}': '{error}'\n")
        return None


def _load_cuda(
    options: DiscoveryOptions, report: ProgressReport, open_library: OpenLibrary
) -> tuple[CudaLibrary | None, bool]:
    library = _try_open(CUDA_LIBRARY, open_library, report)
    runtime = _try_open(CUDA_RUNTIME_LIBRARY, open_library, report)
    if library is not None and not options.cudart:
        report.diagnose("diag: using nvcuda for gpu discovery\n")
        code = library.cuInit(0)
        if code == _CUDA_SUCCESS:
            return DriverCuda(library), True
        if code == _CUDA_NO_DEVICE:
            report.diagnose(f"diag: cuInit found no CUDA-capable devices. code={code}\n")
        else:
            report.error(f"Error: cuInit returned {code}\n")
        return None, True
    if runtime is not None and not options.nvcuda:
        report.diagnose("diag: using cudart for gpu discovery\n")
        return RuntimeCuda(runtime), True
    report.diagnose(f"# Unable to load a CUDA library ({CUDA_LIBRARY} or {CUDA_RUNTIME_LIBRARY}).\n")
    return None, False


class CudaLibrary:
    """A library that lists CUDA's devices."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.driver = ""
        count = c_int()
        self.is_working = self._count(byref(count)) == _CUDA_SUCCESS
        self.device_count = count.value if self.is_working else 0

    def devices(self, report: Report) -> list[Device] | None:
        if not self.is_working:
            report.diagnose("# enumerateCUDADevices: cuDeviceGetCount failed\n")
            return None
        devices = []
        for index in range(self.device_count):
            device = self._device(index, report)
            if device is None:
                report.diagnose(f"# enumerateCUDADevices: failed to get props for device {index}\n")
            else:
                devices.append(device)
        return devices

    def _count(self, count: Any) -> int:
        raise NotImplementedError

    def _device(self, index: int, report: Report) -> Device | None:
        raise NotImplementedError


class DriverCuda(CudaLibrary):
    """The CUDA driver's library."""

    def _count(self, count: Any) -> int:
        return int(self._library.cuDeviceGetCount(count))

    def _device(self, index: int, report: Report) -> Device | None:
        cuda, device, memory = self._library, c_int(), c_size_t()
        if cuda.cuDeviceGet(byref(device), index) != _CUDA_SUCCESS:
            return None
        address = f"{device.value:#x}" if device.value else "(nil)"
        code = cuda.cuDeviceTotalMem_v2(byref(memory), device)
        name, uuid, pci_id = create_string_buffer(1028), create_string_buffer(16), create_string_buffer(32)
        cuda.cuDeviceGetName(name, 1024, device)
        cuda.cuDeviceGetUuid(uuid, device)
        cuda.cuDeviceGetPCIBusId(pci_id, len(pci_id), device)
        major, minor, version = c_int(-1), c_int(-1), c_int(-1)
        cuda.cuDeviceComputeCapability(byref(major), byref(minor), device)
        cuda.cuDriverGetVersion(byref(version))
        for text in (
            f"# querying ordinal:{index}, dev:{address} using cuDevice* API\n",
            f"# cuDeviceTotalMem({index}) returns {code}, value = {memory.value}\n",
            f"# cuDeviceComputeCapability({address}) returns {major.value}.{minor.value}\n",
            f"# cuDeviceTotalMem({address}) returns {code}, value = {memory.value}\n",
        ):
            report.diagnose(text)
        ecc = self._attribute(_ECC_ENABLED, device)
        return Device(
            format_uuid(uuid.raw), name.value.decode(errors="replace"), pci_id.value.decode(),
            memory.value if code == _CUDA_SUCCESS else None,
            (major.value, minor.value) if -1 not in (major.value, minor.value) else None,
            self._attribute(_MULTIPROCESSOR_COUNT, device), self._attribute(_CLOCK_RATE, device),
            None if ecc is None else bool(ecc), self.driver, version.value if version.value != -1 else None,
        )  # fmt: skip

    def _attribute(self, number: int, device: c_int) -> int | None:
        value = c_int()
        return value.value if self._library.cuDeviceGetAttribute(byref(value), number, device) == 0 else None


class RuntimeCuda(CudaLibrary):
    """The library of CUDA's runtime, version 10 or later. It does not report NVIDIA's driver."""

    _FIRST_VERSION: Final = 10_000
    _LENGTH: Final = 2048  #: more than any version's structure needs

    def _count(self, count: Any) -> int:
        return int(self._library.cudaGetDeviceCount(count))

    def _device(self, index: int, report: Report) -> Device | None:
        version, runtime_version, buffer = c_int(-1), c_int(), create_string_buffer(self._LENGTH)
        self._library.cudaRuntimeGetVersion(byref(runtime_version))
        if runtime_version.value < self._FIRST_VERSION or self._library.cudaGetDeviceProperties(buffer, index):
            return None
        self._library.cudaDriverGetVersion(byref(version))
        name, uuid, memory = struct.unpack_from("256s16s16xQ", buffer)
        clock, major, minor, multiprocessors = (struct.unpack_from("i", buffer, at)[0] for at in (348, 360, 364, 388))
        ecc, bus, device, domain = struct.unpack_from("4i", buffer, 580)
        return Device(
            format_uuid(uuid), name.partition(b"\0")[0].decode(errors="replace"),
            f"{domain:04X}:{bus:02X}:{device:02X}.0" if bus or device else "", memory, (major, minor), multiprocessors,
            clock, bool(ecc), driver_version=version.value if version.value != -1 else None,
        )  # fmt: skip


def format_uuid(uuid: bytes) -> str:
    digits = uuid.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def load_management(
    report: ProgressReport, is_needed: bool, open_library: OpenLibrary = CDLL, pynvml: Any = None
) -> Management | None:
    """Return NVML, or None if it is not available. ``is_needed``: report this as an error."""
    pynvml = pynvml or _import_pynvml()
    if pynvml is not None:
        try:
            pynvml.nvmlInit()
            return Management(pynvml)
        except pynvml.NVMLError as error:
            if error.value != _LIBRARY_NOT_FOUND:
                report.error(
                    f"Warning: nvmlInit() failed with error {error.value}; "
                    "will not discover dynamic properties or MIG instances.\n"
                )
                return None
    has_library = any(_try_open(name, open_library, report) for name in NVML_LIBRARIES)
    if pynvml is None and has_library:
        report.err.write(_WITHOUT_PACKAGE)
    else:
        absent = "# Unable to load NVML; will not discover dynamic properties or MIG instances.\n"
        (report.error if is_needed else report.diagnose)(absent)
    return None


def _import_pynvml() -> Any:
    try:
        import pynvml
    except ImportError:
        return None
    return pynvml


class Management:
    """NVML."""

    lists_instances = True

    def __init__(self, pynvml: Any) -> None:
        self._pynvml = pynvml

    def _call(self, function: str, *arguments: Any, **options: Any) -> Any:
        try:
            return getattr(self._pynvml, f"nvml{function}")(*arguments, **options)
        except self._pynvml.NVMLError as error:
            raise GpuError(error.value, str(error)) from None
        except AttributeError:
            raise GpuError(FUNCTION_NOT_FOUND, f"nvidia-ml-py lacks nvml{function}") from None

    def driver(self) -> str:
        return _text(self._call("SystemGetDriverVersion"))

    def cuda_version(self) -> int:
        return int(self._call("SystemGetCudaDriverVersion"))

    def gpu_count(self) -> int:
        return int(self._call("DeviceGetCount"))

    def handle(self, index: int) -> Handle:
        return self._call("DeviceGetHandleByIndex", index)

    def find(self, uuid: str) -> Handle:
        if not uuid.startswith("MIG-"):
            return self._call("DeviceGetHandleByUUID", uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")
        for instance in list_instances(self):
            if self.uuid(instance) == uuid:
                return instance
        raise GpuError(NOT_FOUND, "Not Found")

    def max_mig_count(self, device: Handle) -> int:
        return int(self._call("DeviceGetMaxMigDeviceCount", device))

    def mig_handle(self, device: Handle, index: int) -> Handle:
        return self._call("DeviceGetMigDeviceHandleByIndex", device, index)

    def uuid(self, device: Handle) -> str:
        return _text(self._call("DeviceGetUUID", device))

    def name(self, device: Handle) -> str:
        return _text(self._call("DeviceGetName", device))

    def pci_id(self, device: Handle) -> str:
        return _text(self._call("DeviceGetPciInfo", device).busIdLegacy)

    def memory(self, device: Handle) -> int:
        return int(self._call("DeviceGetMemoryInfo", device).total)

    def memory_used(self, device: Handle) -> int:
        return int(self._call("DeviceGetMemoryInfo", device).used)

    def usable_memory(self, device: Handle) -> int:
        """Return the memory that CUDA programs can use: all but the driver's."""
        try:
            memory = self._call("DeviceGetMemoryInfo", device, version=self._pynvml.nvmlMemory_v2)
            return int(memory.total - memory.reserved)
        except (GpuError, AttributeError):  # an older driver counts its memory as used
            memory = self._call("DeviceGetMemoryInfo", device)
            return int(memory.total - memory.used + sum(self.process_memory(device).values()))

    def capability(self, device: Handle) -> tuple[int, int]:
        major, minor = self._call("DeviceGetCudaComputeCapability", device)
        return int(major), int(minor)

    def max_clock_khz(self, device: Handle) -> int:
        return int(self._call("DeviceGetMaxClockInfo", device, self._pynvml.NVML_CLOCK_GRAPHICS)) * 1000

    def multiprocessors(self, device: Handle) -> int:
        return int(self._call("DeviceGetAttributes", device).multiprocessorCount)

    def cores(self, device: Handle) -> int:
        return int(self._call("DeviceGetNumGpuCores", device))

    def ecc(self, device: Handle) -> bool:
        current, _ = self._call("DeviceGetEccMode", device)
        return bool(current)

    def fan_percent(self, device: Handle) -> int:
        return int(self._call("DeviceGetFanSpeed", device))

    def power_mw(self, device: Handle) -> int:
        return int(self._call("DeviceGetPowerUsage", device))

    def temperature_c(self, device: Handle) -> int:
        return int(self._call("DeviceGetTemperature", device, self._pynvml.NVML_TEMPERATURE_GPU))

    def ecc_errors(self, device: Handle, double_bit: bool) -> int:
        kind = self._pynvml.NVML_DOUBLE_BIT_ECC if double_bit else self._pynvml.NVML_SINGLE_BIT_ECC
        return int(self._call("DeviceGetTotalEccErrors", device, kind, self._pynvml.NVML_VOLATILE_ECC))

    def samples(self, device: Handle, since_us: int) -> list[Sample]:
        try:
            _, samples = self._call("DeviceGetSamples", device, self._pynvml.NVML_GPU_UTILIZATION_SAMPLES, since_us)
        except GpuError as error:
            if error.code == NOT_FOUND:
                return []
            raise
        return [Sample(sample.timeStamp, sample.sampleValue.uiVal) for sample in samples]

    def process_memory(self, device: Handle) -> dict[int, int]:
        processes = self._call("DeviceGetComputeRunningProcesses", device)
        return {process.pid: process.usedGpuMemory or 0 for process in processes}

    def process_samples(self, device: Handle, since_us: int) -> list[ProcessSample]:
        try:
            samples = self._call("DeviceGetProcessUtilization", device, since_us)
        except GpuError as error:
            if error.code == NOT_FOUND:
                return []
            raise
        return [ProcessSample(sample.pid, sample.timeStamp, sample.smUtil) for sample in samples]


def _text(text: str | bytes) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else text


class GpusWithoutCuda:
    """The GPUs as CUDA would list them, on a machine where NVML is installed and CUDA is not."""

    def __init__(self, nvml: Management, environment: Mapping[str, str]) -> None:
        self._nvml = nvml
        gpus = [nvml.handle(index) for index in range(nvml.gpu_count())]
        self._gpus = _visible([nvml.uuid(gpu) for gpu in gpus], gpus, environment.get("CUDA_VISIBLE_DEVICES"))
        self.device_count = len(self._gpus)

    def devices(self, report: Report) -> list[Device]:
        nvml = self._nvml
        devices = []
        for gpu in self._gpus:
            capability, cores = optional(nvml.capability, gpu), optional(nvml.cores, gpu)
            units = cores // cores_per_unit(capability) if cores and capability else None
            devices.append(Device(
                nvml.uuid(gpu).removeprefix("GPU-"), nvml.name(gpu), nvml.pci_id(gpu), nvml.usable_memory(gpu),
                capability, units, optional(nvml.max_clock_khz, gpu), bool(optional(nvml.ecc, gpu)), nvml.driver(),
                nvml.cuda_version(),
            ))  # fmt: skip
        return devices


def _visible(uuids: Sequence[str], gpus: Sequence[Handle], names: str | None) -> list[Handle]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES selects: CUDA ignores the list from the first wrong name on."""
    if names is None:
        return list(gpus)
    selected: list[Handle] = []
    for name in (name.strip() for name in names.split(",")):
        matches = [uuid.startswith(name) for uuid in uuids] if name.startswith("GPU-") else []
        if name.isdecimal() and int(name) < len(gpus):
            index = int(name)
        elif matches.count(True) == 1:
            index = matches.index(True)
        else:
            break
        selected.append(gpus[index])
    return selected
