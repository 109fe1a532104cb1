"""The history of a pool that HTCondor's collector keeps for condor_stats: averages at several resolutions.

A sample is taken every POOL_HISTORY_SAMPLING_INTERVAL seconds. Each level averages four times as many samples as the
level before it, beginning with four, and then appends a line per name to its file. HTCondor has three levels. The two
further ones average the lines of the level before them, and reach back a year. Source: HTCondor's ``ViewServer``
(view_server.cpp).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from attrs import define, field

LEVELS: Final = 5
_SAMPLED_LEVELS: Final = 3  #: the levels that average samples
_SAMPLES: Final = 4  #: the first level averages so many; each further one so many times more
SUBMITTERS, SLOTS, GROUPS, USERS, CHECKPOINT_SERVERS = range(5)
"""The data sets: submitters by schedd, slots, slots by platform, submitters, and checkpoint servers, which no longer
exist, but have files."""
SETS: Final = 5
STATES: Final = ("Unclaimed", "Matched", "Claimed", "Preempting", "Owner", "Shutdown", "Delete", "Backfill", "Drained")
"""The states in the order of their numbers, from 1, and of the columns of a platform."""
_NUMBERS: Final = {state: float(number) for number, state in enumerate(STATES, 1)}
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
    values = _no_values()
    for submitter in submitters:
        jobs = (float(submitter.running), float(submitter.idle))
        values[SUBMITTERS][f"{submitter.name}/{submitter.schedd}"] = jobs
        for name in (TOTAL, submitter.name):
            values[USERS][name] = _sum(values[USERS].get(name), jobs)
    counts: Counter[tuple[str, float]] = Counter()
    for slot in slots:
        number = _NUMBERS.get(slot.state)
        if number is not None:
            values[SLOTS][slot.name] = (float(slot.idle), slot.load, number)
            counts[TOTAL, number] += 1
            counts[slot.platform, number] += 1
    for group in {name for name, _ in counts}:
        values[GROUPS][group] = tuple(float(counts[group, number]) for number in _NUMBERS.values())
    return values


def _sum(values: tuple[float, ...] | None, added: tuple[float, ...]) -> tuple[float, ...]:
    return added if values is None else tuple(a + b for a, b in zip(values, added, strict=True))


@define
class PoolHistory:
    """Averages samples. The average of a name counts the samples in which the name was absent as the last average, as
    HTCondor's does. A slot's state is the last one."""

    _averages: list[list[Values]] = field(init=False, factory=lambda: [_no_values() for _ in range(LEVELS)])
    _samples: list[int] = field(init=False, factory=lambda: [0] * LEVELS)

    def sample(self, time: int, values: list[Values]) -> Iterator[Line]:
        """Add a sample, and yield the lines of the levels that are complete."""
        for level in range(_SAMPLED_LEVELS):
            yield from self._add(level, time, values, _SAMPLES ** (level + 1))

    def _add(self, level: int, time: int, values: list[Values], needed: int) -> Iterator[Line]:
        """Add values to the averages of a level, which is complete after ``needed`` of them."""
        averages, count = self._averages[level], self._samples[level]
        for averages_of_set, added in zip(averages, values, strict=True):
            for name, numbers in added.items():
                old = averages_of_set.get(name)
                if old is None:
                    averages_of_set[name] = tuple([number / (count + 1) for number in numbers])
                else:
                    averages_of_set[name] = tuple([(old[at] * count + b) / (count + 1) for at, b in enumerate(numbers)])
        for name, numbers in values[SLOTS].items():
            averages[SLOTS][name] = (*averages[SLOTS][name][:2], numbers[2])
        self._samples[level] = count + 1
        if count + 1 < needed:
            return
        self._averages[level], self._samples[level] = _no_values(), 0
        for data_set, averages_of_set in enumerate(averages):
            for name in sorted(averages_of_set):
                yield Line(data_set, level, line(data_set, time, name, averages_of_set[name]))
        if _SAMPLED_LEVELS <= level + 1 < LEVELS:
            yield from self._add(level + 1, time, averages, _SAMPLES)


def _no_values() -> list[Values]:
    return [{} for _ in range(SETS)]


def line(data_set: int, time: int, name: str, numbers: Iterable[float]) -> str:
    """Return a line of a file: the time in seconds since 1970, the name, and the values."""
    return f"{time}\t{name}\t:\t{_FORMATS[data_set].format(*numbers)}\n"
