"""What events say about jobs, for programs that wait for jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from ...domain.events import ClusterSubmitted, Event, JobExecuting, JobExited, JobsTransitioned
from ...domain.state.job_ad import unquoted
from ...domain.state_machines import LEFT

EXECUTING: Final = "Executing"  #: the job's process was started
_REASONS: Final = ("HoldReason", "RemoveReason")


class JobChange(NamedTuple):
    """A change of jobs: the processes `first` to `last` of a cluster."""

    cluster: int
    first: int
    last: int
    status: str  #: the new status, such as Held; EXECUTING, or LEFT for jobs that leave the queue
    at: int  #: in microseconds
    reason: str = ""  #: of a hold or a removal
    code: int | None = None  #: the exit code of a completed job
    signal: int | None = None  #: the signal that ended a completed job

    def text(self) -> str:
        """Return what happened to the job."""
        if self.reason:
            return f"was {self.status.lower()}: {self.reason}"
        if self.signal is not None:
            return f"was killed by signal {self.signal}"
        return f"ended with code {self.code}" if self.code is not None else f"was {self.status.lower()}"


def job_changes(event: Event) -> Iterator[JobChange]:
    """Yield the changes of jobs by an event."""
    if isinstance(event, ClusterSubmitted):
        if event.count and not event.factory:
            yield JobChange(event.cluster, 0, event.count - 1, event.status, event.at, _reason(event.ad))
    elif isinstance(event, JobExecuting):
        yield JobChange(event.cluster, event.proc, event.proc, EXECUTING, event.at)
    elif isinstance(event, JobExited) and event.target:
        reason = _reason(event.changes)
        yield JobChange(event.cluster, event.proc, event.proc, event.target, event.at, reason, event.code, event.signal)
    elif isinstance(event, JobsTransitioned):
        for first, last in event.procs:
            yield JobChange(event.cluster, first, last, event.target, event.at, _reason(event.changes))


def _reason(changes: dict[str, str]) -> str:
    return next((unquoted(changes[name]) for name in _REASONS if name in changes), "")


def left_queue(event: Event) -> Iterator[tuple[int, int]]:
    """Yield the jobs (cluster, proc) that leave the queue with an event."""
    for change in job_changes(event):
        if change.status == LEFT:
            yield from ((change.cluster, proc) for proc in range(change.first, change.last + 1))
