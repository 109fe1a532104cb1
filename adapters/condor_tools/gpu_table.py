"""``status -gpus -compact``: one line per machine with GPUs, and the GPUs by kind and by the state of their slots."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from ...domain.classad import ClassAd
from .cells import CellContext, evaluate, has_flag, number, short_platform, text
from .layout import Column, Layout, lay_out
from .status_totals import ACTIVITIES, Sums, totals_lines

CONSTRAINT = (
    "AvailableGPUs isnt undefined && (size(AvailableGPUs) > 0 || (PartitionableSlot && AssignedGPUs isnt undefined))"
)
"""Selects the slots that are counted."""
_COLUMNS = (
    Column("Machine", "Machine"),
    Column("Platform", "Platform"),
    Column("Slot", "Slots", -4),
    Column("s", "Kind", joined=True),
    Column("FreGPU", "GPUs"),
    Column("TotGPUs", "AssignedGPUs"),
    Column("Capability", "Capability", 10),
    Column("GPUsMemory", "GlobalMemoryMb", 10),
    Column("DeviceNames", "DeviceName"),
)
Devices = dict[str, ClassAd]
"""The GPUs' properties, by id."""


def gpu_table(ads: Iterable[ClassAd], display: CellContext) -> Iterator[str]:
    """Yield the heading, an empty line, and a line for each machine, and then the totals.

    :param ads: slots for which ``CONSTRAINT`` is true, sorted by machine and name
    """
    slots = list(ads)
    devices: Devices = {}
    counts: list[tuple[str | None, Sums | None]] = []
    for slot in slots:
        for id, device in _available(slot, display):
            if id not in devices:
                devices[id] = device
                counts.append((_kind(device), ACTIVITIES.sums(slot)))
    rows = [_row(list(group), devices) for _, group in groupby(slots, lambda ad: text(ad, "Machine"))]
    if rows:
        heading, *lines = lay_out(Layout(_COLUMNS, limit=display.longest), rows)
        yield heading + "\n"
        yield from lines
        yield "\n"
        yield from totals_lines(ACTIVITIES, counts, None)


def _available(slot: ClassAd, display: CellContext) -> Iterator[tuple[str, ClassAd]]:
    value = evaluate(slot, "AvailableGPUs", display.context())
    for device in [] if isinstance(value, str) or not hasattr(value, "__iter__") else value:
        if isinstance(device, ClassAd) and (id := text(device, "Id")):
            yield id, device


def _row(slots: list[ClassAd], devices: Devices) -> list[str | None]:
    """Return the texts of a machine's columns. Like HTCondor, show the GPUs of its first slot."""
    first = slots[0]
    count = sum(int(number(s, "NumDynamicSlots") or 0) if has_flag(s, "PartitionableSlot") else 1 for s in slots)
    ids = (text(first, "AssignedGPUs") or "").split(",")
    offline = {*(text(first, "OfflineGPUs") or "").split(",")}.intersection(ids)
    known = [devices[id] for id in ids if id in devices]
    total = f"{len(ids):4d}-{len(offline)}" if offline - {""} else f"{len(ids):4d}"
    is_described = len(known) == len([id for id in ids if id not in offline])
    return [
        text(first, "Machine"),
        short_platform(first),
        f"{count:4d}",
        " " if has_flag(first, "PartitionableSlot") else "S",
        f"{int(number(first, 'GPUs') or 0):6d}",
        f"{total:<7}",
        _range([number(device, "Capability") for device in known], "") if is_described else None,
        _range([_gibibytes(device) for device in known], " GB") if is_described else None,
        ",".join(sorted({text(device, "DeviceName") or "" for device in known})) if is_described else None,
    ]


def _gibibytes(device: ClassAd) -> float:
    return (number(device, "GlobalMemoryMb") or 0) / 1024


def _range(values: Iterable[float | None], unit: str) -> str | None:
    known = [value for value in values if value]
    if not known:
        return None
    least, greatest = f"{min(known):.1f}", f"{max(known):.1f}"
    return f"{greatest}{unit}".rjust(10) if least == greatest else f"{least} to {greatest}{unit}"


def _kind(device: ClassAd) -> str:
    """Return what describes a GPU in the totals."""
    name = re.sub(r"-?\d+GB$", "", (text(device, "DeviceName") or "").removeprefix("NVIDIA "))
    return f"Capability {number(device, 'Capability') or 0:.1f}, {_gibibytes(device):.1f} GB, {name}"
