"""AMD's GPUs, through the HIP library of ROCm. Source: HTCondor's hip_device_enumeration.cpp."""

from __future__ import annotations

from .devices import Device
from .options import DiscoveryOptions
from .report import ProgressReport


def load_hip(options: DiscoveryOptions, report: ProgressReport) -> Hip | None:
    return None


class Hip:
    device_count: int

    def devices(self, guid_model: int, report: ProgressReport) -> list[Device]:
        raise NotImplementedError
