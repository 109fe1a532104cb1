"""The utilization and peak memory of GPUs, measured and printed as in HTCondor's condor_gpu_utilization.cpp."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TextIO

from .cuda import NO_CUDA_LIBRARY
from .devices import Cuda, ProgressReport, gpu_id
from .nvml import NO_PERMISSION, GpuError, Handle, Nvml

REPORT_INTERVAL: Final = 10  #: seconds between reports
_SAMPLES_PER_SECOND: Final = 6  #: the greatest rate at which NVML takes samples
_POLLS_PER_BUFFER: Final = 3
_MIB: Final = 1 << 20
_LONG_SLEEP: Final = 1024.0


class Usage(NamedTuple):
    """The use of a GPU since the last report."""

    busy_us: int  #: the time that the GPU was busy, in microseconds; half busy counts half
    peak_memory: int  #: bytes

    @property
    def peak_mib(self) -> int:
        return -(-self.peak_memory // _MIB)


class UsageMeter:
    """Measures the use of a GPU. It does not count the time before its creation."""

    def __init__(self, nvml: Nvml, device: Handle) -> None:
        """Raise `GpuError` if NVML does not measure this GPU, like the other methods."""
        self._nvml, self._device = nvml, device
        self._last_us = self._busy_us = self._peak_memory = 0
        self.poll_interval = max(1.0, self._add_samples() / _SAMPLES_PER_SECOND / _POLLS_PER_BUFFER)
        """Seconds after which to call `update` again, so that NVML does not discard samples."""
        self._busy_us = 0

    def _add_samples(self) -> int:
        samples = sorted(self._nvml.samples(self._device, self._last_us), key=lambda sample: sample.time_us)
        for sample in samples:
            self._busy_us += int((sample.time_us - (self._last_us or sample.time_us)) * (sample.percent / 100))
            self._last_us = sample.time_us
        return len(samples)

    @property
    def busy_us(self) -> int:
        """The busy time since the last `take`."""
        return self._busy_us

    def update(self) -> None:
        """Add the samples since the last call."""
        self._add_samples()
        self._peak_memory = max(self._peak_memory, self._nvml.memory_used(self._device))

    def take(self) -> Usage:
        """Return the use since the last call."""
        usage = Usage(self._busy_us, self._peak_memory)
        self._busy_us = self._peak_memory = 0
        return usage


class MonitorFailed(Exception):
    """The GPUs cannot be monitored."""


def start_meters(cuda: Cuda | None, nvml: Nvml | None, report: ProgressReport) -> dict[tuple[int, str], UsageMeter]:
    """Return a meter for each GPU, by CUDA's index and the UUID. Raise `MonitorFailed` if there are none."""
    if cuda is None:
        raise MonitorFailed(NO_CUDA_LIBRARY if nvml is None else "cuInit(0) failed, aborting.\n")
    if nvml is None:
        raise MonitorFailed
    devices = cuda.devices(report)
    if devices is None:
        raise MonitorFailed("Failed to enumerate CUDA devices, aborting.\n")
    if nvml.call("DeviceGetCount") != len(devices):
        raise MonitorFailed("nvmlDeviceGetCount() disagrees with CUDA device count, aborting.\n")
    if not devices:
        raise MonitorFailed("Found 0 or fewer devices, aborting.\n")
    meters = {}
    for index, device in enumerate(devices):
        function = f"findNVMLDeviceHandle() for device {index} failed"
        try:
            handle = nvml.find(device.uuid)
            function = f"nvmlDeviceGetSamples({index}) failed while querying for the max sample count"
            meters[index, device.uuid] = UsageMeter(nvml, handle)
        except GpuError as error:
            if error.code != NO_PERMISSION:
                raise MonitorFailed(f"{function} ({error.code}: {error}), aborting.\n") from None
    return meters


def print_utilization(
    meters: Mapping[tuple[int, str], UsageMeter], out: TextIO,
    sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.time,
) -> None:  # fmt: skip
    """Print the use of the GPUs every `REPORT_INTERVAL` seconds. Raise `MonitorFailed` if a GPU fails."""
    interval = min((meter.poll_interval for meter in meters.values()), default=_LONG_SLEEP)
    last_report = int(clock())
    while True:
        sleep(interval)
        for (index, _), meter in meters.items():
            try:
                meter.update()
            except GpuError as error:
                problem = f"getElapsedTimeForDevice({index}) failed ({error.code}: {error}), aborting.\n"
                raise MonitorFailed(problem) from None
        if int(clock()) - last_report >= REPORT_INTERVAL:
            for (index, uuid), meter in meters.items():
                out.write(usage_ad(index, uuid, meter.take()))
            out.flush()
            last_report = int(clock())


def usage_ad(index: int, uuid: str, usage: Usage) -> str:
    """Return a GPU's usage as an ad for the slots that use this GPU."""
    names = (f"CUDA{index}", gpu_id(uuid, is_short=True), gpu_id(uuid))
    constraint = " || ".join(f'StringListMember("{name}", AssignedGPUs)' for name in names[: 3 if uuid else 1])
    return (
        f"SlotMergeConstraint = {constraint}\n"
        f"UptimeGPUsSeconds = {usage.busy_us / 1e6:.6f}\n"
        f"UptimeGPUsMemoryPeakUsage = {usage.peak_mib}\n"
        f"- GPUsSlot{index}\n"
    )
