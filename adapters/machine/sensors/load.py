"""What load the jobs of each slot make: the cores that they kept busy over the last minute.

The reference's rule: of the processor time that a job's processes used, sampled as it is measured, the mean over a
minute; no job makes more load than the machine has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from attrs import define, field

WINDOW = 60_000_000
"""Microseconds over which the mean is taken."""


@define
class _Used:
    """A job's processor time (microseconds) at the instants at which it was measured, ascending."""

    slot: str
    samples: deque[tuple[int, int]] = field(factory=deque)

    def add(self, at: int, used: int) -> None:
        self.samples.append((at, used))
        while len(self.samples) > 2 and self.samples[1][0] <= at - WINDOW:
            self.samples.popleft()

    def cores(self, now: int) -> float:
        """The mean over the window: the time before the first measurement counts as idle."""
        first, last = self.samples[0], self.samples[-1]
        return max(0, last[1] - first[1]) / max(WINDOW, now - first[0], 1)


@define
class CondorLoad:
    """The load of the slots' jobs, by what is measured of them."""

    _jobs: dict[str, _Used] = field(factory=dict)

    def began(self, key: str, slot: str, at: int) -> None:
        """An activation's processes are there."""
        self._jobs[key] = _Used(slot)
        self._jobs[key].add(at, 0)

    def measured(self, key: str, at: int, used: int) -> None:
        """An activation's processes have used so many microseconds of processor time in all."""
        if key in self._jobs:
            self._jobs[key].add(at, used)

    def ended(self, key: str) -> None:
        self._jobs.pop(key, None)

    def loads(self, now: int, most: float) -> Mapping[str, float]:
        """The load of each slot; ``most`` is the machine's."""
        return {job.slot: min(job.cores(now), most) for job in self._jobs.values()}
