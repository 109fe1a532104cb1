"""The jobs to which an event applies."""

from __future__ import annotations

from ..events import (
    ClusterSubmitted,
    Event,
    JobsDeferred,
    JobsEdited,
    JobsMaterialized,
    JobsTransformed,
    JobsTransitioned,
)


def job_procs(event: Event) -> tuple[int, tuple[tuple[int, int], ...]] | None:
    """Return the cluster and process ranges to which ``event`` applies, or None if the event is not about jobs."""
    if isinstance(event, JobsTransitioned | JobsEdited | JobsDeferred | JobsMaterialized | JobsTransformed):
        return event.cluster, event.procs
    if isinstance(event, ClusterSubmitted):
        return event.cluster, () if event.factory else ((0, event.count - 1),)
    proc = getattr(event, "proc", None)
    return None if proc is None else (event.cluster, ((proc, proc),))  # type: ignore[attr-defined]
