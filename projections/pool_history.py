"""The history of a pool that HTCondor's collector keeps for condor_stats: averages at several resolutions.

A sample is taken every POOL_HISTORY_SAMPLING_INTERVAL seconds. Each level averages four times as many samples as the
level before it, beginning with four, and then appends a line per name to its file. Source: HTCondor's ``ViewServer``
(view_server.cpp).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from attrs import define, field

LEVELS: Final = 3
SUBMITTERS, SLOTS, GROUPS, USERS, CHECKPOINT_SERVERS = range(5)
"""The data sets: submitters by schedd, slots, slots by platform, submitters, and checkpoint servers, which no longer
exist, but have files."""
SETS: Final = 5
STATES: Final = ("Unclaimed", "Matched", "Claimed", "Preempting", "Owner", "Shutdown", "Delete", "Backfill", "Drained")
"""The states in the order of their numbers, from 1, and of the columns of a platform."""
TOTAL: Final = "Total"
_FORMATS: Final = {
    SUBMITTERS: "{:.0f}\t{:.0f}",
    SLOTS: "{:.0f}\t{:7.3f}\t{:.0f}",
    GROUPS: "\t".join(["{:.1f}"] * len(STATES)),
    USERS: "{:.0f}\t{:.0f}",
}


class SubmitterSample(NamedTuple):
    """A submitter's jobs in one schedd."""

    name: str
    schedd: str
    running: int
    idle: int


class SlotSample(NamedTuple):
    """A slot; ``idle``: seconds since the keyboard was used; ``platform``: ARCH/OPSYS."""

    name: str
    platform: str
    state: str
    idle: int
    load: float


Values = dict[str, tuple[float, ...]]


class Line(NamedTuple):
    """A line for the file of a data set at a level."""

    data_set: int
    level: int
    text: str


def values_of(submitters: Iterable[SubmitterSample], slots: Iterable[SlotSample]) -> list[Values]:
    """Return the values of one sample, by data set and name."""
    values: list[Values] = [{} for _ in range(SETS)]
    for submitter in submitters:
        counts = (float(submitter.running), float(submitter.idle))
        values[SUBMITTERS][f"{submitter.name}/{submitter.schedd}"] = counts
        for name in (TOTAL, submitter.name):
            values[USERS][name] = _sum(values[USERS].get(name), counts)
    for slot in slots:
        if slot.state in STATES:
            number = STATES.index(slot.state)
            values[SLOTS][slot.name] = (float(slot.idle), slot.load, number + 1.0)
            columns = tuple(float(index == number) for index in range(len(STATES)))
            for name in (TOTAL, slot.platform):
                values[GROUPS][name] = _sum(values[GROUPS].get(name), columns)
    return values


def _sum(values: tuple[float, ...] | None, added: tuple[float, ...]) -> tuple[float, ...]:
    return added if values is None else tuple(a + b for a, b in zip(values, added, strict=True))


@define
class PoolHistory:
    """Averages samples. The average of a name counts the samples in which the name was absent as the last average, as
    HTCondor's does. A slot's state is the last one."""

    _averages: list[list[Values]] = field(init=False)
    _samples: list[int] = field(init=False, factory=lambda: [0] * LEVELS)

    def __attrs_post_init__(self) -> None:
        self._averages = [[{} for _ in range(SETS)] for _ in range(LEVELS)]

    def sample(self, time: int, values: list[Values]) -> Iterator[Line]:
        """Add a sample, and yield the lines of the levels that are complete."""
        for level in range(LEVELS):
            samples = self._samples[level]
            for averages, added in zip(self._averages[level], values, strict=True):
                for name, numbers in added.items():
                    old = averages.get(name, (0.0,) * len(numbers))
                    averages[name] = tuple((a * samples + b) / (samples + 1) for a, b in zip(old, numbers, strict=True))
            for name, numbers in values[SLOTS].items():
                self._averages[level][SLOTS][name] = (*self._averages[level][SLOTS][name][:2], numbers[2])
            self._samples[level] = samples + 1
            if samples + 1 == 4 ** (level + 1):
                yield from self._complete(level, time)

    def _complete(self, level: int, time: int) -> Iterator[Line]:
        for data_set, averages in enumerate(self._averages[level]):
            for name in sorted(averages):
                yield Line(data_set, level, line(data_set, time, name, averages[name]))
            averages.clear()
        self._samples[level] = 0


def line(data_set: int, time: int, name: str, numbers: Iterable[float]) -> str:
    """Return a line of a file: the time in seconds since 1970, the name, and the values."""
    return f"{time}\t{name}\t:\t{_FORMATS[data_set].format(*numbers)}\n"
