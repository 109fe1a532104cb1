"""The recorded configurations of a startd, and the attributes of its slot ads that are recorded."""

from __future__ import annotations

import re
from pathlib import Path

DATA = Path(__file__).parent.parent / "data/slots"
FACTS = ("TotalVirtualMemory", "DetectedCpus", "DetectedMemory")
"""Attributes that describe the machine."""
RECORDED_NAMES = re.compile(
    r"Name|Slot(ID|Type|TypeID|Weight)|PartitionableSlot|Total(Slot)?(Cpus|Memory|Disk|Slots|GPUs|Cogs|Fans|Lic)|Cpus"
    r"|Memory|Disk|VirtualMemory|GPUs|Cogs|Fans|Lic|(Detected|Assigned|Available|Offline)(GPUs|Cogs|Fans|Lic)"
    r"|MachineResources|(Cogs|Fans)_.*|Consumption.*|WithinResourceLimits|Requirements|Start|Rank|CpuBusy"
    r"|MaxJobRetirementTime|MachineMaxVacateTime|Color|Season|Movie|Song|slot\d_.*",
    re.IGNORECASE,
)


def configurations() -> list[tuple[str, str]]:
    """Return the name and text of each configuration."""
    blocks = re.split(r"^### (.*)\n", (DATA / "configurations.conf").read_text(), flags=re.MULTILINE)[1:]
    texts = dict(zip(blocks[::2], blocks[1::2], strict=True))
    base = texts.pop("ALL")
    return [(name, base + text) for name, text in texts.items()]
