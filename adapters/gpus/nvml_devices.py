"""The GPUs and MIG instances that NVML lists, with the messages of HTCondor's cuda_device_enumeration.cpp."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from .devices import FUNCTION_NOT_FOUND, Device, GpuError, Handle, Nvml, Readings
from .report import ProgressReport

_T = TypeVar("_T")
_SHORT_LENGTH: Final = len("GPU-01234567")


def gpu_id(uuid: str, is_short: bool = False) -> str:
    """Return the name of a GPU for CUDA_VISIBLE_DEVICES. A MIG instance's name is not shortened."""
    if uuid.startswith("MIG-"):
        return uuid
    id = uuid if "GPU-" in uuid else f"GPU-{uuid}"
    return id[:_SHORT_LENGTH] if is_short and id.startswith("GPU-") else id


def nvml_devices(nvml: Nvml, report: ProgressReport) -> list[Device]:
    """Return the MIG instances, sorted by UUID, and then the GPUs that do not support MIG or have it disabled. Raise
    `GpuError` if NVML cannot list them."""
    instances = {nvml.uuid(instance): instance for instance in list_instances(nvml)}
    devices = []
    for uuid, instance in sorted(instances.items()):
        devices.append(_device(nvml, uuid, instance, report))
        report.diagnose(f"# nvml_getBasicProps() for MIG {uuid} returns 0\n")
    for gpu in _gpus(nvml):
        if _max_mig_count(nvml, gpu) == 0:
            uuid = nvml.uuid(gpu)
            devices.append(_device(nvml, uuid, gpu, report))
            report.diagnose(f"# nvml_getBasicProps() for {uuid} returns 0\n")
    return devices


def list_instances(nvml: Nvml) -> Iterator[Handle]:
    """Yield the MIG instances of all GPUs."""
    return (instance for gpu in _gpus(nvml) for instance in _instances(nvml, gpu, None))


def mig_instances(nvml: Nvml, report: ProgressReport) -> dict[str, list[str]]:
    """Return the UUIDs of the MIG instances of each GPU that has some, sorted by the GPU's UUID."""
    instances = {}
    for gpu in _gpus(nvml):
        uuids = []
        for instance in _instances(nvml, gpu, report):
            uuid = _ask(report, "[MIG child] nvmlDeviceGetUUID", nvml.uuid, instance)
            if uuid is not None:
                uuids.append(uuid)
        if uuids:
            instances[nvml.uuid(gpu)] = uuids
    return dict(sorted(instances.items()))


def sensor_readings(nvml: Nvml, uuid: str) -> Readings:
    """Return what the sensors of a GPU or MIG instance report."""
    try:
        device = nvml.find(uuid)
    except GpuError:
        return Readings()
    return Readings(
        optional(nvml.fan_percent, device),
        optional(nvml.power_mw, device),
        optional(nvml.temperature_c, device),
        optional(nvml.ecc_errors, device, False),
        optional(nvml.ecc_errors, device, True),
    )


def _gpus(nvml: Nvml) -> Iterator[Handle]:
    return map(nvml.handle, range(nvml.gpu_count()))


def _max_mig_count(nvml: Nvml, gpu: Handle) -> int | None:
    """Return the greatest possible number of MIG instances; 0 if this NVML knows no MIG, None if the GPU does not."""
    try:
        return nvml.max_mig_count(gpu)
    except GpuError as error:
        return 0 if error.code == FUNCTION_NOT_FOUND else None


def _instances(nvml: Nvml, gpu: Handle, report: ProgressReport | None) -> Iterator[Handle]:
    for index in range(_max_mig_count(nvml, gpu) or 0):
        try:
            yield nvml.mig_handle(gpu, index)
        except GpuError as error:
            if report is not None:
                _report_failure("nvmlDeviceGetMigDeviceHandleByIndex", error, report)


def _device(nvml: Nvml, uuid: str, device: Handle, report: ProgressReport) -> Device:
    return Device(
        uuid,
        _ask(report, "nvmlDeviceGetName", nvml.name, device) or "",
        _ask(report, "nvmlDeviceGetPciInfo_v3", nvml.pci_id, device) or "",
        _ask(report, "nvmlDeviceGetMemoryInfo", nvml.memory, device),
        _ask(report, "nvmlDeviceGetCudaComputeCapability", nvml.capability, device),
        clock_khz=_ask(report, "nvmlDeviceGetMaxClockInfo", nvml.max_clock_khz, device),
        multiprocessors=_ask(report, "nvmlDeviceGetAttributes", nvml.multiprocessors, device),
        ecc=_ask(report, "nvmlDeviceGetEccMode", nvml.ecc, device),
    )


def _ask(report: ProgressReport, function: str, ask: Callable[[Handle], _T], device: Handle) -> _T | None:
    try:
        return ask(device)
    except GpuError as error:
        if error.code != FUNCTION_NOT_FOUND:
            _report_failure(function, error, report)
        return None


def _report_failure(function: str, error: GpuError, report: ProgressReport) -> None:
    report.diagnose(f"# {function}() failed with {error.code} ({error})\n")


def optional(ask: Callable[..., _T], device: Handle, *arguments: object) -> _T | None:
    """Return the answer of NVML, or None if it has none."""
    try:
        return ask(device, *arguments)
    except GpuError:
        return None
