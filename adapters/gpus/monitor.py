"""The monitor of this machine's GPUs for the startd: what condor_gpu_utilization prints, and beyond HTCondor the use by
each process, and which GPUs have failed.

It is a separate program, because a call of NVML may never return if a GPU fails."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Final, TextIO

import psutil
from attrs import define

from .cuda import load_nvidia
from .devices import ProgressReport, gpu_id
from .discovery import VISIBLE_DEVICES
from .nvml import GPU_LOST, GpuError, Handle, Nvml
from .options import DiscoveryOptions
from .utilization import REPORT_INTERVAL, MonitorFailed, UsageMeter, start_meters, usage_ad

RESET_REQUIRED: Final = 16  #: NVML's error for a GPU that works again only after a reset
FATAL_XIDS: Final = frozenset({48, 62, 64, 79, 95, 119, 120, 140})
"""The errors of NVIDIA's driver after which a GPU must be reset: memory errors that it cannot contain or repair, a
halted processor, a GPU that fell off the bus. Most others are errors of programs, which end these programs only."""
_XID_EVENT, _AT_ONCE = 8, 0
_POLL_INTERVAL: Final = 1.0
_MIB: Final = 1 << 20


@define
class ProcessUse:
    """The use of a GPU by a process since the last report."""

    ancestors: tuple[int, ...]
    busy_us: float = 0.0  #: half busy counts half
    memory: int = 0  #: peak, in bytes
    measured_us: int = 0  #: the time for which NVML reported its utilization, since it began
    measured_busy_us: float = 0.0  #: the busy part of this time

    def usual_use(self) -> float:
        return self.measured_busy_us / self.measured_us if self.measured_us else 0.0


class ProcessMeter:
    """Measures the use of a GPU by each process.

    NVML's answers often lack some of the running processes, although these use the GPU. Such a process is counted with
    its usual use, the average of what NVML has reported of it, or with its share of the GPU's use by no other process
    if that is more; but not with more than the use of the whole GPU.
    """

    def __init__(self, nvml: Nvml, device: Handle, now_us: int) -> None:
        self._nvml, self._device, self._updated_us = nvml, device, now_us
        self._processes: dict[int, ProcessUse] = {}

    def update(self, now_us: int, whole_use: float) -> None:
        """Add the use since the last call. Raise `GpuError` if NVML does not measure it.

        :param whole_use: the busy part of the time since then, from 0 to 1
        """
        elapsed_us, since_us, self._updated_us = now_us - self._updated_us, self._updated_us, now_us
        percents: dict[int, list[int]] = {}
        for sample in self._nvml.process_samples(self._device, since_us):
            percents.setdefault(sample.pid, []).append(sample.percent)
        memory = self._nvml.process_memory(self._device)
        reported = {pid: sum(values) / len(values) / 100 for pid, values in percents.items()}
        missing = [pid for pid in memory if pid not in reported]
        rest = max(0.0, whole_use - sum(reported.values())) / max(1, len(missing))
        for pid in dict.fromkeys((*memory, *percents)):
            process = self._processes.setdefault(pid, ProcessUse(ancestors(pid)))
            process.memory = max(process.memory, memory.get(pid, 0))
            if pid in reported:
                busy_us = elapsed_us * reported[pid]
                process.measured_us += elapsed_us
                process.measured_busy_us += busy_us
            else:
                busy_us = elapsed_us * min(max(process.usual_use(), rest), whole_use)
            process.busy_us += busy_us

    def take(self) -> dict[int, ProcessUse]:
        """Return the use since the last call, by pid."""
        taken, running = self._processes, self._nvml.process_memory(self._device)
        self._processes = {
            pid: ProcessUse(use.ancestors, 0.0, 0, use.measured_us, use.measured_busy_us)
            for pid, use in taken.items()
            if pid in running
        }
        return taken


def ancestors(pid: int) -> tuple[int, ...]:
    """Return a process's ancestors, from its parent on, then its process group and its session."""
    try:
        return (*(parent.pid for parent in psutil.Process(pid).parents()), os.getpgid(pid), os.getsid(pid))
    except (OSError, psutil.Error):  # it has ended
        return ()


def process_list(processes: Mapping[int, ProcessUse]) -> str:
    """Return the use by processes, as a ClassAd list."""
    ads = (
        f"[ Pid = {pid}; Ancestors = {{ {', '.join(map(str, use.ancestors))} }}; Seconds = {use.busy_us / 1e6:.6f}; "
        f"MemoryMb = {-(-use.memory // _MIB)} ]"
        for pid, use in processes.items()
    )
    return f"{{ {', '.join(ads)} }}"


class XidWatch:
    """Waits for the critical errors of the driver (Xid)."""

    def __init__(self, nvml: Nvml, devices: Mapping[tuple[int, str], Handle]) -> None:
        self._nvml, self._events = nvml, None
        try:
            events = nvml.call("EventSetCreate")
            for device in devices.values():
                nvml.call("DeviceRegisterEvents", device, _XID_EVENT, events)
            self._events = events
        except GpuError:
            return  # this GPU reports no events

    def errors(self) -> Iterator[tuple[str, int]]:
        """Yield the UUIDs of GPUs and the Xids of their errors since the last call."""
        while self._events is not None:
            try:
                event = self._nvml.call("EventSetWait_v2", self._events, _AT_ONCE)
                yield self._nvml.uuid(event.device), int(event.eventData)
            except GpuError:  # usually a timeout: there are no more events
                return


class GpuMonitor:
    """Measures the GPUs of this machine."""

    def __init__(self, nvml: Nvml, meters: Mapping[tuple[int, str], UsageMeter], now_us: int) -> None:
        self._meters, self._updated_us = dict(meters), now_us
        devices = {key: nvml.find(key[1]) for key in meters}
        self._processes = {key: ProcessMeter(nvml, device, now_us) for key, device in devices.items()}
        self._xids = XidWatch(nvml, devices)

    def update(self, now_us: int) -> Iterator[str]:
        """Measure, and yield a record for each GPU that has failed since the last call."""
        errors = {uuid.removeprefix("GPU-"): xid for uuid, xid in self._xids.errors() if xid in FATAL_XIDS}
        for key in list(self._meters):
            index, uuid = key
            before_us, elapsed_us = self._meters[key].busy_us, max(1, now_us - self._updated_us)
            reason = f"Xid {errors[uuid.removeprefix('GPU-')]}" if uuid.removeprefix("GPU-") in errors else ""
            try:
                self._meters[key].update()
            except GpuError as error:
                reason = reason or (str(error) if error.code in (GPU_LOST, RESET_REQUIRED) else "")
            if reason:
                names = ",".join((f"CUDA{index}", gpu_id(uuid, is_short=True), gpu_id(uuid)))
                yield self._record(key, f'FailedGPUs = "{names}"\nFailedGPUsReason = "{reason}"\n')
                del self._meters[key]
            elif key in self._processes:
                try:
                    self._processes[key].update(now_us, (self._meters[key].busy_us - before_us) / elapsed_us)
                except GpuError:  # for example, with MIG instances
                    del self._processes[key]
        self._updated_us = now_us

    def records(self) -> Iterator[str]:
        """Yield a record of each GPU's use since the last call."""
        for key in self._meters:
            try:
                processes = f"GPUsProcesses = {process_list(self._processes[key].take())}\n"
            except (GpuError, KeyError):
                processes = ""
            yield self._record(key, processes)

    def _record(self, key: tuple[int, str], attributes: str) -> str:
        index, uuid = key
        record, dash, tag = usage_ad(index, uuid, self._meters[key].take()).rpartition("- ")
        return f"{record}{attributes}{dash}{tag}"


def run(monitor: GpuMonitor, out: TextIO) -> None:
    """Print the use of the GPUs every `REPORT_INTERVAL` seconds, and failures at once."""
    next_report = time.monotonic() + REPORT_INTERVAL
    while True:
        time.sleep(_POLL_INTERVAL)
        out.writelines(monitor.update(time.time_ns() // 1000))
        if time.monotonic() >= next_report:
            out.writelines(monitor.records())
            next_report += REPORT_INTERVAL
        out.flush()


def main() -> None:
    for name in VISIBLE_DEVICES:
        os.environ.pop(name, None)
    report = ProgressReport(sys.stdout, sys.stderr)
    cuda, nvml = load_nvidia(DiscoveryOptions(), os.environ, report)
    try:
        meters = start_meters(cuda, nvml, report)
    except MonitorFailed as failure:
        sys.exit(str(failure))
    assert nvml is not None
    run(GpuMonitor(nvml, meters, time.time_ns() // 1000), sys.stdout)


if __name__ == "__main__":
    main()
