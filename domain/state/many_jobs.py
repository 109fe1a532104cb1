"""Events about many jobs of one cluster, by columns: what is done for each of them is done by numpy for all.

Kept apart, since loading numpy takes longer than most events do (``Cluster.edit_all``).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..events import Procs

Numbers = npt.NDArray[np.int64]


def procs_of(ranges: Procs) -> Numbers:
    """The processes of ranges, one after the other."""
    bounds = np.array(ranges, np.int64).reshape(-1, 2)
    sizes = bounds[:, 1] - bounds[:, 0] + 1
    begins = np.cumsum(sizes) - sizes
    found: Numbers = np.arange(int(sizes.sum())) + np.repeat(bounds[:, 0] - begins, sizes)
    return found


def ranges_of(ascending: Sequence[int]) -> Procs:
    """Ascending processes as ranges."""
    procs = np.array(ascending, np.int64)
    cuts = np.flatnonzero(np.diff(procs) != 1)
    firsts, lasts = procs[np.concatenate([[0], cuts + 1])], procs[np.concatenate([cuts, [len(procs) - 1]])]
    return tuple(zip(firsts.tolist(), lasts.tolist(), strict=True))


def present(status: bytearray, ranges: Procs) -> Numbers:
    """Those processes of ranges that are in the queue."""
    procs = procs_of(ranges)
    found: Numbers = procs[np.frombuffer(status, np.uint8)[procs] != 0]
    return found


def in_status(status: bytearray, ranges: Procs, numbers: Sequence[int]) -> list[int]:
    """Those processes of ranges that are in one of the statuses, by their numbers."""
    procs = procs_of(ranges)
    procs = procs[procs < len(status)]
    wanted = np.isin(np.frombuffer(status, np.uint8)[procs], numbers)
    found: list[int] = procs[wanted].tolist()
    return found


def count_by_number(numbers: bytearray | array[int], procs: Numbers) -> dict[int, int]:
    """How many of these processes have each number."""
    kind = np.uint8 if isinstance(numbers, bytearray) else np.uint32
    counts = np.bincount(np.frombuffer(numbers, kind)[procs])
    distinct = np.flatnonzero(counts)
    return dict(zip(distinct.tolist(), counts[distinct].tolist(), strict=True))


def assign(numbers: bytearray, procs: Numbers, number: int) -> None:
    """Give each of these processes the number."""
    np.frombuffer(numbers, np.uint8)[procs] = number


def exchange(numbers: array[int], procs: Numbers, others: dict[int, int]) -> None:
    """Give these processes other numbers for those that they have."""
    column = np.frombuffer(numbers, np.uint32)
    old = np.array(sorted(others), np.uint32)
    new = np.array([others[number] for number in old.tolist()], np.uint32)
    column[procs] = new[np.searchsorted(old, column[procs])]
