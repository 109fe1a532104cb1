"""The run of a job that is at work: its process and its directory, as the log tells them."""

from __future__ import annotations

from typing import NamedTuple

from ...domain.events import JobActivated, JobExecuting, JobExited
from ...domain.ports.log import Log


class Run(NamedTuple):
    """A job's process."""

    slot: str  #: where it runs
    pid: int  #: the number of the process; 0: there is none yet, or it has ended
    scratch: str  #: its scratch directory; empty: there is none yet


def run_of(log: Log, cluster: int, proc: int) -> Run | None:
    """Return the run of a job that has a slot; None if it has none."""
    run = None
    for _, event in log.read_stream(f"cluster/{cluster}"):
        if isinstance(event, JobActivated) and event.proc == proc:
            run = Run(event.slot, 0, "")
        elif isinstance(event, JobExecuting) and event.proc == proc and run is not None:
            run = run._replace(pid=event.pid, scratch=event.scratch)
        elif isinstance(event, JobExited) and event.proc == proc:
            run = None
    return run
