"""Find the files that contain a job's output."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..machine.execution.supervisor.sandbox import STREAMS

if TYPE_CHECKING:
    from ...domain.classad import ClassAd
    from .queries import RunningProcess

STREAM_ATTRIBUTES: Final = {"stdout": "Out", "stderr": "Err"}
"""The attributes of a job's ad that name the files of its output streams."""


def output_files(
    url: str, job: tuple[int, int], ad: ClassAd, run: RunningProcess | None, stream: str
) -> Iterator[Path]:
    """Yield the paths where a job's output may be, in the order in which to try them."""
    from ..condor_tools.cells import text
    from ..machine.spool import Spool
    from ..stores.log_paths import log_paths
    from .spooled_files import SUBMIT

    if run is not None and run.scratch:
        yield Path(run.scratch) / STREAMS[stream]
    name = STREAM_ATTRIBUTES[stream]
    for prefix in ("", SUBMIT):  # of a job submitted with -spool, SUBMIT_ attributes have the values that changed
        folder, file = text(ad, f"{prefix}Iwd"), text(ad, prefix + name) or text(ad, name)
        if folder and file:
            yield Path(folder) / file
    yield Path(Spool(log_paths(url).folder).path(*job)) / STREAMS[stream]
