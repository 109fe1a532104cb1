"""Discovery of a machine's GPUs, with the results and the messages of condor_gpu_discovery (condor_gpu_discovery.cpp).

`discover` returns the GPUs and their properties; `Discovery.lines` formats them as condor_gpu_discovery prints them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from ctypes import CDLL, c_float
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from attrs import define, evolve, field, frozen

from .cuda import load_nvidia
from .devices import Cuda, Device, OpenLibrary, ProgressReport, cores_per_unit, gpu_id
from .nvml import GpuError, Nvml, list_devices, list_instances
from .options import DiscoveryOptions, device_names
from .simulated import SimulatedCuda, SimulatedNvml

if TYPE_CHECKING:
    from .hip import Hip
    from .opencl import OpenCl

VISIBLE_DEVICES: Final = ("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
"""Environment variables with lists of the devices to report."""
_LIBRARY_VARIABLES: Final = (*VISIBLE_DEVICES, "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")

_MIB: Final = 1 << 20

Properties = dict[str, str]
"""A device's attributes; the values are ClassAd expressions."""


@frozen
class Discovery:
    """The GPUs of a machine."""

    ids: tuple[str, ...] = ()  #: the detected GPUs, as often as -repeat and -divide ask
    gpu_count: int = 0  #: the number of detected GPUs, without repetitions
    properties: Mapping[str, Properties] = field(factory=dict)  #: all properties of each GPU, sorted by id and name
    common: Properties = field(factory=dict)  #: the properties that all GPUs share
    prefix: str = "CUDA"  #: of shared properties in the output of -not-nested
    has_any: bool = False  #: True if the libraries list GPUs, even if none of them was selected

    def own_properties(self, id: str) -> Properties:
        """Return the properties of a GPU that not all GPUs share."""
        return {name: value for name, value in self.properties[id].items() if name not in self.common}

    def lines(self, options: DiscoveryOptions) -> Iterator[str]:
        """Yield the output of condor_gpu_discovery."""
        ids = ", ".join(self.ids) or ", " * (options.repeat - 1)
        if not options.cron:
            yield f"Detected{options.tag}=" + ("0" if not self.has_any else ids if options.config else f'"{ids}"')
        if options.config:
            yield f"NUM_DETECTED_{options.tag}={self.gpu_count}"
        if self.common and options.nested:
            yield f"Common=[ {_nested(self.common)}]"
        elif self.common:
            yield from (f"{self.prefix}{name}={value}" for name, value in self.common.items())
        for id in self.properties:
            attribute, own = re.sub("[-/]", "_", id), self.own_properties(id)
            if not self.properties[id]:
                continue
            if options.nested:
                yield f'{attribute}=[ id="{id}"; {_nested(own)}]'
            else:
                yield from (f"{attribute}{name}={value}" for name, value in own.items())


def _nested(properties: Properties) -> str:
    return "".join(f"{name}={value}; " for name, value in properties.items())


class DiscoveryFailed(Exception):
    """A library cannot list its GPUs. ``detail`` is the message on standard error."""

    def __init__(self, problem: str, detail: str) -> None:
        super().__init__(problem)
        self.detail = detail


class _Selection:
    """The devices to report: those whose index, or whose UUID's beginning, is in the list; all if it is empty."""

    def __init__(self, names: set[str]) -> None:
        indexes = {name: re.fullmatch(r"[A-Za-z]*([0-9]+)", name) for name in names}
        self._indexes = {int(match[1]) for match in indexes.values() if match}
        self._prefixes = {name for name, match in indexes.items() if not match}

    def excludes_index(self, index: int) -> bool:
        """Return True if the list consists of indexes and lacks this one."""
        return not self._prefixes and not self._has_index(index)

    def _has_index(self, index: int) -> bool:
        return not self._indexes or index in self._indexes

    def has(self, uuid: str, index: int = -1) -> bool:
        if uuid.startswith(tuple(self._prefixes)):
            return True
        return index in self._indexes if self._indexes else not self._prefixes

    def add_instances(self, gpu: str, index: int, report: ProgressReport) -> None:
        """Select the MIG instances of a GPU whose index is selected, if their UUIDs contain the GPU's."""
        if (self._indexes or self._prefixes) and self._has_index(index):
            report.diagnose(f"diag: adding MIG-{gpu} as prefix to whitelist\n")
            self._prefixes.add(f"MIG-{gpu}")


@define
class _Libraries:
    """What the GPU libraries list."""

    ids: str
    prefix: str = "CUDA"
    count: int = 0  #: the number of devices of CUDA, HIP and OpenCL; some may be missing in ``devices``
    is_cuda_required: bool = False
    cuda: Cuda | None = None
    nvml: Nvml | None = None
    hip: Hip | None = None
    opencl: OpenCl | None = None
    devices: list[Device] = field(factory=list)  #: of CUDA, then of HIP
    cuda_indexes: dict[str, int] = field(factory=dict)  #: by UUID
    nvml_devices: list[Device] = field(factory=list)
    instances: Mapping[str, Sequence[str]] = field(factory=dict)  #: the MIG instances of each GPU that has some

    def uuid(self, index: int) -> str:
        return self.devices[index].uuid if index < len(self.devices) else ""

    def id(self, index: int) -> str:
        uuid = self.uuid(index)
        if self.ids == "index" or not uuid:
            return f"{self.prefix}{index}"
        return gpu_id(uuid, self.is_short)

    @property
    def is_short(self) -> bool:
        return self.ids in ("", "short")


@frozen
class _Selected:
    id: str
    index: int  #: among the devices of CUDA, HIP and OpenCL; -1: only NVML lists it
    device: Device | None  #: None: only OpenCL describes it, or none of the libraries


def discover(
    options: DiscoveryOptions, environment: MutableMapping[str, str], report: ProgressReport,
    open_library: OpenLibrary = CDLL, pynvml: Any = None,
) -> Discovery:  # fmt: skip
    """Return the GPUs of this machine. Unless -dirty-environment is given, remove from the environment the variables
    that the libraries read. Raise `DiscoveryFailed` if a library cannot list its GPUs.

    ``open_library`` opens a shared library, and ``pynvml`` is the module of that name; tests replace them."""
    names = options.devices.union(*(device_names(environment.get(name, "")) for name in VISIBLE_DEVICES))
    if options.clean_environment:
        report.diagnose("diag: clearing environment before device enumeration\n")
        for name in _LIBRARY_VARIABLES:
            environment.pop(name, None)
    libraries = _load_libraries(options, environment, report, open_library, pynvml)
    if not libraries.count:
        return Discovery()
    if options.prefix is not None:
        libraries.prefix = options.prefix
    _list_devices(libraries, options, report)
    selection = _Selection(names)
    selected = list(_select_devices(libraries, selection, report))
    selected += _select_nvml_devices(libraries, selection, report)
    properties = {each.id: _properties(libraries, each, options) for each in sorted(selected, key=attrgetter("id"))}
    common = {} if options.mixed else _common_properties(list(properties.values()), options)
    if options.dynamic and libraries.nvml is not None:
        for each in selected:
            if each.device is not None:
                readings = libraries.nvml.readings(each.device.uuid)
                properties[each.id] |= {name: str(value) for name, value in readings.items()}
    ids = [each.id for each in selected]
    if options.divide and options.repeat:
        for own in properties.values():
            _divide_memory(own, options.repeat)
    properties = {id: dict(sorted(own.items())) for id, own in properties.items()}
    return Discovery(tuple(_repeated(ids, options)), len(ids), properties, common, libraries.prefix, True)


def _load_libraries(
    options: DiscoveryOptions, environment: Mapping[str, str], report: ProgressReport, open_library: OpenLibrary,
    pynvml: Any,
) -> _Libraries:  # fmt: skip
    libraries = _Libraries(options.ids)
    cuda_only = options.cuda and not options.opencl and not options.hip
    if options.simulate:
        libraries.cuda, libraries.nvml = SimulatedCuda(options.models), SimulatedNvml(options.models)
        cuda_only = True
    elif options.cuda or not options.has_order:
        libraries.cuda, libraries.nvml = load_nvidia(options, environment, report, open_library, pynvml)
    if libraries.cuda is not None:
        libraries.count = libraries.cuda.device_count
        cuda_only = cuda_only or (libraries.count > 0 and not options.hip)
    libraries.is_cuda_required = cuda_only
    if cuda_only:
        return libraries
    if options.hip or (libraries.count == 0 and not options.opencl):
        from .hip import load_hip

        libraries.hip = load_hip(options, report, open_library)
        if libraries.hip is not None:
            libraries.count += libraries.hip.device_count
            libraries.prefix = "GPU"
    if libraries.count == 0 and (options.opencl or not options.hip):
        from .opencl import load_opencl

        libraries.opencl = load_opencl(report, open_library)
        if libraries.opencl is not None:
            libraries.count = libraries.opencl.device_count
            libraries.prefix = "OCL"
            if not libraries.ids:
                libraries.ids = "index"
    return libraries


def _list_devices(libraries: _Libraries, options: DiscoveryOptions, report: ProgressReport) -> None:
    devices = None
    if libraries.cuda is not None and not options.opencl:
        devices = libraries.cuda.devices(report)
    if devices is not None:
        libraries.devices += devices
        _list_nvml_devices(libraries, report)
    elif libraries.is_cuda_required:
        problem = "Failed to enumerate GPU devices"
        raise DiscoveryFailed(problem, f"# {problem}, aborting.\n")
    if report.is_diagnostic:
        report.error(f"diag: got properties for {len(libraries.devices)} devices before hip\n")
    if libraries.hip is not None and (options.hip or not libraries.devices):
        libraries.devices += libraries.hip.devices(options.hip_guid_model, report)


_NO_UUID: Final = (
    "Not enumerating NVML devices because a CUDA device has no UUID.  "
    "This usually means you should upgrade your CUDA libaries."
)


def _list_nvml_devices(libraries: _Libraries, report: ProgressReport) -> None:
    """List MIG instances, and devices that CUDA does not list because another GPU has MIG instances."""
    for index, device in enumerate(libraries.devices):
        if device.uuid:
            libraries.cuda_indexes[device.uuid] = index
            continue
        if libraries.ids != "index":
            report.err.write(f"# {_NO_UUID}\n")
            report.out.write(error_line(_NO_UUID))
        if not libraries.ids:
            libraries.ids = "index"
    nvml = libraries.nvml
    if nvml is None or not nvml.lists_instances or not all(device.uuid for device in libraries.devices):
        return
    try:
        libraries.nvml_devices = list_devices(nvml, report)
    except GpuError as error:
        problem = "Failed to enumerate MIG devices"
        raise DiscoveryFailed(problem, f"# {problem} ({error.code}: {error})\n") from None
    try:
        libraries.instances = list_instances(nvml, report)
    except GpuError:
        problem = "Failed to enumerate MIG parent devices"
        raise DiscoveryFailed(problem, f"# {problem} (0: Success)\n") from None
    for gpu, instances in libraries.instances.items():
        for text in (f"diag: MIG parent uuid: {gpu}, children:", *(f" {uuid}" for uuid in instances), "\n"):
            report.diagnose(text)
    gpus = {uuid: gpu for gpu, instances in libraries.instances.items() for uuid in instances}
    for position, device in enumerate(libraries.nvml_devices):
        gpu_index = libraries.cuda_indexes.get(gpus.get(device.uuid, "").removeprefix("GPU-"))
        if gpu_index is not None:
            libraries.nvml_devices[position] = inherited(device, libraries.devices[gpu_index], report)


def inherited(instance: Device, gpu: Device, report: ProgressReport) -> Device:
    """Return a MIG instance with its GPU's facts where NVML does not report the instance's own."""
    major, minor = gpu.capability or (-1, -1)
    facts: tuple[tuple[str, str], ...] = (
        ("capability", f"compute capability {major}.{minor}"),
        ("clock_khz", f"clock rate {_number(gpu.clock_khz)}"),
        ("ecc", f"ECC enabled {'false' if gpu.ecc is False else 'true'}"),
        ("driver_version", f"driver version {_number(gpu.driver_version)}"),
        ("driver", f"driver '{gpu.driver}'"),
        ("pci_id", f"PCI ID {gpu.pci_id}"),
        ("unified_addressing", f"xNACK {_number(gpu.unified_addressing)}"),
        ("warp_size", f"warp size {_number(gpu.warp_size)}"),
    )
    changes = {}
    for name, text in facts:
        if getattr(instance, name) in (None, ""):
            changes[name] = getattr(gpu, name)
            report.diagnose(f"diag: inherited {text} for MIG device {instance.uuid} from parent\n")
    return evolve(instance, **changes)


def _number(value: int | None) -> int:
    return -1 if value is None else value


def _select_devices(libraries: _Libraries, selection: _Selection, report: ProgressReport) -> Iterator[_Selected]:
    for index in range(libraries.count):
        uuid = libraries.uuid(index)
        if selection.excludes_index(index):
            report.diagnose(
                f"diag: skipping {index} uuid={uuid or '<none>'} during CUDA enumeration because of index\n"
            )
            continue
        id = gpu_id(uuid)
        if uuid and not selection.has(id, index):
            report.diagnose(f"diag: skipping {index} GPUid={id} during CUDA enumeration because of whitelist\n")
            continue
        gpu = f"GPU-{uuid}"
        if gpu in libraries.instances:
            report.diagnose(f"diag: skipping {index} GPUid={gpu} during CUDA enumeration because it is MIG parent\n")
            selection.add_instances(gpu, index, report)
            continue
        device = libraries.devices[index] if index < len(libraries.devices) else None
        yield _Selected(libraries.id(index), index, device)


def _select_nvml_devices(libraries: _Libraries, selection: _Selection, report: ProgressReport) -> Iterator[_Selected]:
    """Yield the MIG instances, and the GPUs that CUDA does not list because another GPU has MIG instances."""
    for device in libraries.nvml_devices:
        uuid = device.uuid
        index = libraries.cuda_indexes.get(uuid.removeprefix("MIG-").removeprefix("GPU-"))
        if index is not None:
            report.diagnose(f"diag: skipping uuid={uuid} during nvml enumeration because it matches CUDA{index}\n")
        elif not selection.has(uuid):
            report.diagnose(f"diag: skipping uuid={uuid} during nvml enumeration because of whitelist\n")
        elif uuid in libraries.instances:
            report.diagnose(f"diag: skipping MIG parent {uuid} during nvml enumeration\n")
        else:
            report.diagnose(f"diag: adding device uuid={uuid} which was not found during CUDA enum\n")
            yield _Selected(gpu_id(uuid, libraries.is_short), -1, device)


def _properties(libraries: _Libraries, selected: _Selected, options: DiscoveryOptions) -> Properties:
    if not options.properties:
        return {}
    if selected.device is not None:
        return device_properties(selected.device, options.extra)
    if libraries.opencl is not None:
        return libraries.opencl.properties(selected.index, options.extra)
    return {}


def device_properties(device: Device, extra: bool) -> Properties:
    """Return a device's properties, as -properties and -extra print them."""
    version, capability = device.driver_version, device.capability
    texts = {
        "DeviceUuid": device.uuid,
        "DeviceName": device.name,
        "DevicePciBusId": device.pci_id,
        "NvidiaDriver": device.driver,
        "AmdDriverVersion": _amd_version(version) if device.rocm and version else "",
    }
    numbers: dict[str, object] = {
        "Capability": None if capability is None else "{}.{}".format(*capability),
        "ECCEnabled": None if device.ecc is None else str(device.ecc).lower(),
        "GlobalMemoryMb": None if device.memory is None else f"{device.memory / _MIB:.0f}",
        "xNACK": device.unified_addressing,
        "WarpSize": device.warp_size,
        "Rocm": device.rocm or None,
    }
    if not device.rocm and version is not None:
        numbers |= {"DriverVersion": f"{version // 1000}.{version % 100}", "MaxSupportedVersion": version}
    if extra:
        numbers |= {
            "ClockMhz": None if device.clock_khz is None else _megahertz(device.clock_khz),
            "ComputeUnits": device.multiprocessors or None,
            "CoresPerCU": None if capability is None or device.rocm else cores_per_unit(capability),
        }
    properties = {name: f'"{text}"' for name, text in texts.items() if text}
    return properties | {name: str(value) for name, value in numbers.items() if value is not None}


def _amd_version(version: int) -> str:
    major, rest = divmod(version, 10_000_000)
    return "{}.{}.{}".format(major, *divmod(rest, 100_000))


def _megahertz(clock_khz: int) -> str:
    """Return the rate that HTCondor calculates with the precision of C's float."""
    return f"{c_float(clock_khz * c_float(1e-3).value).value:.2f}"


def _common_properties(devices: Sequence[Properties], options: DiscoveryOptions) -> Properties:
    first, *others = devices or [{}]
    return {
        name: value
        for name, value in sorted(first.items())
        if all(other.get(name) == value for other in others) and not (options.divide and name == "GlobalMemoryMb")
    }


def _repeated(ids: list[str], options: DiscoveryOptions) -> list[str]:
    times = max(options.repeat, 1)
    return [id for id in ids for _ in range(times)] if options.packed else ids * times


def _divide_memory(properties: Properties, parts: int) -> None:
    memory = int(properties.get("GlobalMemoryMb", "0"))
    if memory:
        properties["GlobalMemoryMb"] = str(int(memory / parts))
        properties["DeviceMemoryMb"] = str(memory)


def error_line(problem: str) -> str:
    """Return the attribute that reports a problem."""
    return f'condor_gpu_discovery_error = "{problem}"\n'
