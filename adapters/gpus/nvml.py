"""NVML, NVIDIA's management library, through the package nvidia-ml-py: the GPUs and MIG instances that it lists, their
sensors, and their use. Source of the messages: HTCondor's cuda_device_enumeration.cpp."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import CDLL
from typing import Any, Final, TypeAlias

from attrs import frozen

from .devices import Device, OpenLibrary, ProgressReport, open_reported

NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, FUNCTION_NOT_FOUND, GPU_LOST = 3, 4, 6, 13, 15
"""Error numbers of NVML. A lost GPU fell off the bus, or does not answer."""
_SUCCESS, _LIBRARY_NOT_FOUND = 0, 12
_LIBRARIES: Final = ("libnvidia-ml.so.1", "libnvidia-ml.so")
_MEMORY_V2: Final = 0x2000028  #: nvmlMemory_v2, which reports the driver's memory apart
_GRAPHICS_CLOCK = _GPU_TEMPERATURE = _VOLATILE = _SINGLE_BIT = 0
_DOUBLE_BIT = _GPU_UTILIZATION = 1

_SENSORS: Final = (
    ("FanSpeedPct", "DeviceGetFanSpeed"),
    ("PowerUsage_mw", "DeviceGetPowerUsage"),
    ("DieTempC", "DeviceGetTemperature", _GPU_TEMPERATURE),
    ("EccErrorsSingleBit", "DeviceGetTotalEccErrors", _SINGLE_BIT, _VOLATILE),
    ("EccErrorsDoubleBit", "DeviceGetTotalEccErrors", _DOUBLE_BIT, _VOLATILE),
)

Handle: TypeAlias = Any
"""A GPU or a MIG instance in calls of NVML."""


class GpuError(Exception):
    """A call of NVML failed; ``code`` is NVML's error number."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


@frozen
class Sample:
    """The utilization of a GPU, in the time that ended at an instant (microseconds since the epoch)."""

    time_us: int
    percent: int
    pid: int = 0  #: of the process that caused this utilization; 0: all processes


class Nvml:
    """NVML. ``module`` is ``pynvml``, or has the same functions: for simulated GPUs, or for tests."""

    def __init__(self, module: Any, lists_instances: bool = True) -> None:
        self._module = module
        self.lists_instances = lists_instances  #: False: this NVML is too old for MIG instances

    def call(self, function: str, *arguments: Any, **options: Any) -> Any:
        """Return the answer of ``nvmlFUNCTION``. Raise `GpuError` if it fails."""
        known_function = getattr(self._module, f"nvml{function}", None)
        if known_function is None:
            raise GpuError(FUNCTION_NOT_FOUND, "Function Not Found")
        try:
            return known_function(*arguments, **options)
        except self._module.NVMLError as error:
            raise GpuError(error.value, str(error)) from None

    def ask(self, function: str, *arguments: Any) -> Any:
        """Return the answer of ``nvmlFUNCTION``, or None if it fails."""
        try:
            return self.call(function, *arguments)
        except GpuError:
            return None

    def gpus(self) -> Iterator[Handle]:
        for index in range(self.call("DeviceGetCount")):
            yield self.call("DeviceGetHandleByIndex", index)

    def find(self, uuid: str) -> Handle:
        """Return the GPU or MIG instance with a UUID, with or without the prefix ``GPU-``."""
        if not uuid.startswith("MIG-"):
            return self.call("DeviceGetHandleByUUID", uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")
        for instance in self.instances():
            if self.uuid(instance) == uuid:
                return instance
        raise GpuError(NOT_FOUND, "Not Found")

    def uuid(self, device: Handle) -> str:
        return str(self.call("DeviceGetUUID", device))

    def instances(self) -> Iterator[Handle]:
        """Yield the MIG instances of all GPUs."""
        for gpu in self.gpus():
            yield from self.instances_of(gpu)

    def instances_of(self, gpu: Handle, report: ProgressReport | None = None) -> Iterator[Handle]:
        for index in range(self.max_instances(gpu) or 0):
            try:
                yield self.call("DeviceGetMigDeviceHandleByIndex", gpu, index)
            except GpuError as error:
                _report_failure("nvmlDeviceGetMigDeviceHandleByIndex", error, report)

    def max_instances(self, gpu: Handle) -> int | None:
        """Return the greatest possible number of MIG instances; None if the GPU does not support MIG."""
        try:
            return int(self.call("DeviceGetMaxMigDeviceCount", gpu))
        except GpuError as error:
            return 0 if error.code == FUNCTION_NOT_FOUND else None

    def readings(self, uuid: str) -> dict[str, int]:
        """Return what the sensors of a GPU or MIG instance report, by the names that -dynamic prints."""
        try:
            device = self.find(uuid)
        except GpuError:
            return {}
        readings = {name: self.ask(function, device, *arguments) for name, function, *arguments in _SENSORS}
        return {name: value for name, value in readings.items() if value is not None}

    def memory_used(self, device: Handle) -> int:
        """Return the bytes of a GPU's memory that are in use. Raise `GpuError` if NVML fails, as the methods below."""
        return int(self.call("DeviceGetMemoryInfo", device).used)

    def process_memory(self, device: Handle) -> dict[int, int]:
        """Return the bytes of a GPU's memory that each process uses, by pid."""
        processes = self.call("DeviceGetComputeRunningProcesses_v3", device)
        return {process.pid: process.usedGpuMemory or 0 for process in processes}

    def samples(self, device: Handle, since_us: int) -> list[Sample]:
        """Return the utilization samples after an instant; not always in order."""
        _, samples = self._recent("DeviceGetSamples", device, _GPU_UTILIZATION, since_us) or (0, ())
        return [Sample(sample.timeStamp, sample.sampleValue.uiVal) for sample in samples]

    def process_samples(self, device: Handle, since_us: int) -> list[Sample]:
        """Return the processes' utilization samples after an instant. An answer often lacks some of the processes."""
        samples = self._recent("DeviceGetProcessUtilization", device, since_us)
        return [Sample(sample.timeStamp, sample.smUtil, sample.pid) for sample in samples]

    def _recent(self, function: str, device: Handle, *arguments: int) -> Any:
        try:
            return self.call(function, device, *arguments)
        except GpuError as error:
            if error.code in (_SUCCESS, NOT_FOUND):  # there are no samples
                return ()
            raise


def list_devices(nvml: Nvml, report: ProgressReport) -> list[Device]:
    """Return the MIG instances, sorted by UUID, and then the GPUs without MIG. Raise `GpuError` if NVML fails."""
    devices = []
    for uuid, instance in sorted({nvml.uuid(instance): instance for instance in nvml.instances()}.items()):
        devices.append(describe(nvml, instance, report))
        report.diagnose(f"# nvml_getBasicProps() for MIG {uuid} returns 0\n")
    for gpu in nvml.gpus():
        if nvml.max_instances(gpu) == 0:
            devices.append(describe(nvml, gpu, report))
            report.diagnose(f"# nvml_getBasicProps() for {devices[-1].uuid} returns 0\n")
    return devices


def list_instances(nvml: Nvml, report: ProgressReport) -> dict[str, list[str]]:
    """Return the UUIDs of the MIG instances of each GPU that has some. Raise `GpuError` if NVML fails."""
    instances = {}
    for gpu in nvml.gpus():
        uuids = [nvml.uuid(instance) for instance in nvml.instances_of(gpu, report)]
        if uuids:
            instances[nvml.uuid(gpu)] = uuids
    return dict(sorted(instances.items()))


def describe(nvml: Nvml, device: Handle, report: ProgressReport | None = None) -> Device:
    """Return what NVML reports about a GPU or MIG instance. Raise `GpuError` if it has no UUID."""

    def ask(function: str, *arguments: int) -> Any:
        try:
            return nvml.call(function.removesuffix("_v3"), device, *arguments)
        except GpuError as error:
            if error.code != FUNCTION_NOT_FOUND:
                _report_failure(f"nvml{function}", error, report)
            return None

    uuid, name = nvml.uuid(device), ask("DeviceGetName") or ""
    pci, memory = ask("DeviceGetPciInfo_v3"), ask("DeviceGetMemoryInfo")
    capability, clock = ask("DeviceGetCudaComputeCapability"), ask("DeviceGetMaxClockInfo", _GRAPHICS_CLOCK)
    attributes, ecc = ask("DeviceGetAttributes"), ask("DeviceGetEccMode")
    return Device(
        uuid, name, pci.busIdLegacy if pci else "", memory and _usable_memory(nvml, device, memory),
        tuple(capability) if capability else None, attributes.multiprocessorCount if attributes else None,
        None if clock is None else clock * 1000, bool(ecc[0]) if ecc else None,
    )  # fmt: skip


def _usable_memory(nvml: Nvml, device: Handle, memory: Any) -> int:
    """Return the memory that programs can use: all but the driver's own. HTCondor prints the free memory, which is the
    same while no program uses the device."""
    try:
        return int(memory.total - nvml.call("DeviceGetMemoryInfo", device, version=_MEMORY_V2).reserved)
    except (GpuError, TypeError):  # older drivers and packages count the memory of the driver as used
        processes = nvml.ask("DeviceGetComputeRunningProcesses_v3", device) or ()
        return int(memory.total - memory.used) + sum(process.usedGpuMemory or 0 for process in processes)


def _report_failure(function: str, error: GpuError, report: ProgressReport | None) -> None:
    if report is not None:
        report.diagnose(f"# {function}() failed with {error.code} ({error})\n")


_WITHOUT_PACKAGE: Final = (
    "The Python package nvidia-ml-py is not installed, which reads temperatures and MIG instances of NVIDIA's GPUs: "
    "pip install 'poolbook[gpu]'\n"
)


def load_nvml(
    report: ProgressReport, is_needed: bool = False, open_library: OpenLibrary = CDLL, module: Any = None
) -> Nvml | None:
    """Return NVML, or None if it is not available. ``is_needed``: report this as an error."""
    module = module or _import_pynvml()
    if module is not None:
        try:
            module.nvmlInit()
            return Nvml(module)
        except module.NVMLError as error:
            if error.value != _LIBRARY_NOT_FOUND:
                report.error(
                    f"Warning: nvmlInit() failed with error {error.value}; "
                    "will not discover dynamic properties or MIG instances.\n"
                )
                return None
    has_library = any(open_reported(name, open_library, report) for name in _LIBRARIES)
    if module is None and has_library:
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
