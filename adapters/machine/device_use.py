"""The use of devices by jobs, from what the monitors of devices print (STARTD_CRON_<name>_METRICS).

As in HTCondor, a job's average starts with the first complete interval between two records of its devices. Beyond
HTCondor: if several jobs run on a device, each is charged for its own processes only, which the monitor lists.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field

from ...domain.classad import ClassAd, EvaluationError
from ...domain.events import Ad
from ...domain.startd.slot_records import applies_to
from ...domain.units import SECOND
from .cron import PROCESSES, DeviceSample


@define
class _Interval:
    """The time since a job's first record of a device, and the seconds of use in this time."""

    began: int
    ended: int
    used: float = 0.0

    @property
    def average(self) -> float:
        return self.used / ((self.ended - self.began) / SECOND)


@define
class _Run:
    slot: str
    slot_ad: Ad
    pid: int = 0
    intervals: dict[str, dict[tuple[str, str], _Interval]] = field(factory=dict)  #: by resource and device
    peaks: dict[str, float] = field(factory=dict)

    def usage(self) -> Ad:
        usage: Ad = {}
        for resource, intervals in self.intervals.items():
            complete = [interval.average for interval in intervals.values() if interval.ended > interval.began]
            if complete:
                usage[f"{resource}AverageUsage"] = repr(round(sum(complete), 6))
        return usage | {f"{resource}Usage": repr(float(peak)) for resource, peak in self.peaks.items()}


class DeviceUse:
    """The use of devices by the running jobs."""

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}

    def add_run(self, key: str, slot: str, slot_ad: Ad) -> None:
        self._runs[key] = _Run(slot, slot_ad)

    def set_pid(self, key: str, pid: int) -> None:
        """Set the id of the process whose descendants are the run's processes."""
        if key in self._runs:
            self._runs[key].pid = pid

    def remove_run(self, key: str) -> None:
        self._runs.pop(key, None)

    def usage(self, key: str) -> Ad:
        """Return the attributes of a run's job that describe its use of devices."""
        return self._runs[key].usage() if key in self._runs else {}

    def of_slots(self) -> Mapping[str, Ad]:
        """Return the same attributes by slot."""
        return {run.slot: usage for run in self._runs.values() if (usage := run.usage())}

    def take_sample(self, sample: DeviceSample) -> None:
        runs = [run for run in self._runs.values() if applies_to(sample.record, run.slot, run.slot_ad)]
        for run in runs:
            own = _own_processes(sample, run.pid) if len(runs) > 1 else None
            for resource, seconds in sample.seconds.items():
                used = sum(_real(process, "Seconds") for process in own) if own is not None else seconds
                intervals = run.intervals.setdefault(resource, {})
                interval = intervals.setdefault(sample.source, _Interval(sample.at, sample.at))
                if sample.at > interval.began:
                    interval.used, interval.ended = interval.used + used, sample.at
            for resource, peak in sample.peaks.items():
                memory = sum(_real(process, "MemoryMb") for process in own) if own is not None else peak
                run.peaks[resource] = max(run.peaks.get(resource, 0.0), memory)


def _own_processes(sample: DeviceSample, pid: int) -> list[ClassAd] | None:
    """Return the processes of a sample that are the run's, or None if the monitor does not list processes."""
    for resource in sample.seconds:
        name = PROCESSES.format(resource)
        if name in sample.printed:
            processes = [process for process in sample.printed.eval(name) if isinstance(process, ClassAd)]
            return [process for process in processes if pid in (process.eval("Pid"), *process.eval("Ancestors"))]
    return None


def _real(ad: ClassAd, name: str) -> float:
    try:
        return float(ad.eval(name))
    except (EvaluationError, TypeError, ValueError):
        return 0.0
