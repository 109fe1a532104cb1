"""The sensors of this machine: its owner's activity, its load, its speed.

``idle`` reads when a key was pressed last, ``cron`` runs the STARTD_CRON jobs, ``benchmarks`` measures the machine in a
process of its own. ``Sensors`` combines what the policy reads, and the load of the slots' jobs.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping

from attrs import define, field, frozen

from ....domain.config import Configuration
from ....domain.ports.sensor_readings import Readings
from . import benchmarks
from .idle import Idle

__all__ = ["CondorLoad", "Sensors", "benchmarks", "machine_load"]

# The load of each slot's jobs: the cores that they kept busy over the last minute.
#
# HTCondor's rule: the mean over a minute of the CPU time of a job's processes, at most the machine's own load.

WINDOW = 60_000_000  #: microseconds over which the mean is taken


@define
class _Used:
    """A job's CPU time (microseconds) at the instants of its measurements, ascending."""

    slot: str
    samples: deque[tuple[int, int]] = field(factory=deque)

    def add(self, at: int, used: int) -> None:
        self.samples.append((at, used))
        while len(self.samples) > 2 and self.samples[1][0] <= at - WINDOW:
            self.samples.popleft()

    def cores(self, now: int) -> float:
        """Return the mean over the window: the time before the first measurement counts as idle."""
        first, last = self.samples[0], self.samples[-1]
        return max(0, last[1] - first[1]) / max(WINDOW, now - first[0], 1)


@define
class CondorLoad:
    """The load of the slots' jobs, from their measured usage."""

    _jobs: dict[str, _Used] = field(factory=dict)

    def began(self, key: str, slot: str, at: int) -> None:
        """Add an activation that has started."""
        self._jobs[key] = _Used(slot)
        self._jobs[key].add(at, 0)

    def measured(self, key: str, at: int, used: int) -> None:
        """Record the microseconds of CPU time that an activation has used in all."""
        if key in self._jobs:
            self._jobs[key].add(at, used)

    def ended(self, key: str) -> None:
        self._jobs.pop(key, None)

    def loads(self, now: int, most: float) -> Mapping[str, float]:
        """Return the load of each slot, at most ``most``, the machine's load."""
        return {job.slot: min(job.cores(now), most) for job in self._jobs.values()}


@frozen
class Sensors:
    """The sensors of this machine."""

    _idle: Idle

    @classmethod
    def configured(cls, configuration: Configuration) -> Sensors:
        """Return the sensors of a configuration: CONSOLE_DEVICES, STARTD_HAS_BAD_UTMP."""
        devices = configuration.get("CONSOLE_DEVICES").replace(",", " ").split()
        console = [device.removeprefix("/dev/") for device in devices]
        return cls(Idle(console, bad_utmp=configuration.boolean("STARTD_HAS_BAD_UTMP", False)))

    def read(self, now: int, condor_load: Mapping[str, float]) -> Readings:
        """Return the readings at the instant ``now``."""
        last_input, last_console = self._idle.read(now)
        return Readings(last_input, last_console, machine_load(), condor_load)

    def close(self) -> None:
        self._idle.close()


def machine_load() -> float:
    """Return the machine's load average over a minute; 0 where the system has none."""
    try:
        return os.getloadavg()[0]
    except OSError:
        return 0.0
