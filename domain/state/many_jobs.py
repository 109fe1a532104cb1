"""Fold events about many jobs of one cluster with numpy.

Separate from ``Cluster.edit_all``, because loading numpy takes longer than folding most events.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..events import Procs

Numbers = npt.NDArray[np.int64]


def procs_of(ranges: Procs) -> Numbers:
    """Return the processes in these ranges, in order."""
    bounds = np.array(ranges, np.int64).reshape(-1, 2)
    sizes = bounds[:, 1] - bounds[:, 0] + 1
    begins = np.cumsum(sizes) - sizes
    procs: Numbers = np.arange(int(sizes.sum())) + np.repeat(bounds[:, 0] - begins, sizes)
    return procs


def ranges_of(ascending: Sequence[int]) -> Procs:
    """Return ascending processes as ranges."""
    procs = np.array(ascending, np.int64)
    cuts = np.flatnonzero(np.diff(procs) != 1)
    firsts, lasts = procs[np.concatenate([[0], cuts + 1])], procs[np.concatenate([cuts, [len(procs) - 1]])]
    return tuple(zip(firsts.tolist(), lasts.tolist(), strict=True))


def procs_in_queue(status: bytearray, ranges: Procs) -> Numbers:
    """Return the processes in these ranges that are in the queue."""
    procs = procs_of(ranges)
    queued: Numbers = procs[np.frombuffer(status, np.uint8)[procs] != 0]
    return queued


def procs_in_status(status: bytearray, ranges: Procs, numbers: Sequence[int]) -> list[int]:
    """Return the processes in these ranges that have one of these status numbers."""
    procs = procs_of(ranges)
    procs = procs[procs < len(status)]
    has_status = np.isin(np.frombuffer(status, np.uint8)[procs], numbers)
    matching: list[int] = procs[has_status].tolist()
    return matching


def count_by_number(numbers: bytearray | array[int], procs: Numbers) -> dict[int, int]:
    """Count the processes with each number."""
    kind = np.uint8 if isinstance(numbers, bytearray) else np.uint32
    counts = np.bincount(np.frombuffer(numbers, kind)[procs])
    distinct = np.flatnonzero(counts)
    return dict(zip(distinct.tolist(), counts[distinct].tolist(), strict=True))


def assign_number(numbers: bytearray, procs: Numbers, number: int) -> None:
    """Set the number of each of these processes."""
    np.frombuffer(numbers, np.uint8)[procs] = number


def replace_numbers(numbers: array[int], procs: Numbers, replacements: dict[int, int]) -> None:
    """Replace the number of each of these processes."""
    column = np.frombuffer(numbers, np.uint32)
    old = np.array(sorted(replacements), np.uint32)
    new = np.array([replacements[number] for number in old.tolist()], np.uint32)
    column[procs] = new[np.searchsorted(old, column[procs])]
