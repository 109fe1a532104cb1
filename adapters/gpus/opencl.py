"""GPUs that OpenCL lists. Source: HTCondor's opencl_device_enumeration.cpp."""

from __future__ import annotations

from .report import ProgressReport


def load_opencl(report: ProgressReport) -> OpenCl | None:
    return None


class OpenCl:
    device_count: int

    def properties(self, index: int, extra: bool) -> dict[str, str]:
        raise NotImplementedError
