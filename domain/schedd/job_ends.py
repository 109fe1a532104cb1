"""Which jobs have come to their end, so that they may leave the queue (``leave_queue``)."""

from __future__ import annotations

from collections.abc import Iterable

from ..decision.draft import ranges
from ..events import Event, JobExited, JobsEdited, JobsTransitioned, Procs
from ..state.job_ad import TERMINAL
from ..state.job_procs import job_procs
from ..state.state import AccessPoint

Jobs = tuple[tuple[int, Procs], ...]
"""Jobs, by their clusters."""


def to_be_asked(state: AccessPoint, events: Iterable[Event]) -> Jobs:
    """The jobs that may leave the queue since these events: those that came to their end, or are others since."""
    found: dict[int, list[Procs]] = {}
    for event in events:
        ends = isinstance(event, JobsTransitioned) and event.target in TERMINAL
        if not (ends or isinstance(event, JobExited | JobsEdited)):
            continue
        number, procs = job_procs(event) or (0, ())
        cluster = state.clusters.get(number)
        if cluster is not None and cluster.over:
            found.setdefault(number, []).append(procs)
    return tuple((number, _union(several)) for number, several in found.items())


def _union(several: list[Procs]) -> Procs:
    if len(several) == 1:
        return several[0]
    return ranges(sorted({proc for procs in several for first, last in procs for proc in range(first, last + 1)}))
