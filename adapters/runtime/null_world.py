"""The world of a command that writes the log for a moment: a clock that starts and ends no process.

A pool that serves the log derives from it again what a decision asks of processes, so nothing is lost.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from ...domain.ports.sensor_readings import NOTHING_READ, Readings
from ...domain.ports.stimuli import Stimulus
from ...domain.ports.world import ClientLaunch, How, Launch, Mail


class NullWorld:
    simulated = False

    def now(self) -> int:
        return time.time_ns() // 1000

    def start(self, launches: Sequence[Launch | ClientLaunch]) -> None:
        pass

    def signal(self, key: str, how: How) -> None:
        pass

    def acknowledge(self, keys: Iterable[str]) -> None:
        pass

    def wait(self, until: int | None) -> list[Stimulus]:
        return []

    def recover(self, launches: Sequence[Launch | ClientLaunch]) -> list[Stimulus]:
        return []

    def sense(self, machine: str) -> Readings:
        return NOTHING_READ

    def changed_machines(self) -> set[str]:
        return set()

    def benchmark(self, slot: str) -> None:
        pass

    def send(self, mail: Mail) -> None:
        pass

    def close(self) -> None:
        pass
