"""The readings of this machine, at an instant, for the policy of its slots."""

from __future__ import annotations

import os
from collections.abc import Mapping

from attrs import frozen

from ....domain.config import Configuration
from ....domain.ports.sensor_readings import Readings
from .idle import Idle


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
