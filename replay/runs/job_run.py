"""One run of a job, as read from a log."""

from __future__ import annotations

from datetime import UTC, tzinfo
from typing import Final, NamedTuple

from attrs import frozen

from ...domain.names import SlotName
from ..narration.formatting import instant
from .run_end_causes import UNKNOWN, Cause

COMPLETED: Final = "completed"
EVICTED: Final = "evicted"
RUNNING: Final = "running"
ENDED: Final = "ended"
"""The outcomes of a run: its job completed or was evicted, the run continues at the end of the log, or how it ended is
unknown."""


class Death(NamedTuple):
    """A daemon's death: the daemon, its machine (for a starter, the slot; for a shadow, empty), the time of its last
    record (0: unknown), when its death was noticed, the record of this, and the daemon's last record (if any)."""

    daemon: str
    where: str
    since: int
    at: int
    how: str  #: the signal, if its parent logged it
    position: int
    stimulus: str
    known: str = "it started again"  #: how its death was noticed
    last_seen: str = ""  #: the stimulus of its last record

    @property
    def stimuli(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.last_seen, self.stimulus)))

    def clause(self, zone: tzinfo = UTC) -> str:
        """Return a clause that describes the death."""
        name = f"the {self.daemon}{f' of {self.where}' if self.where else ''}"
        if self.how:
            return f"{name} died at {instant(self.at, zone)} ({self.how})"
        if not self.since:
            return f"{name} died before {instant(self.at, zone)}, when {self.known}"
        return f"{name} died between {instant(self.since, zone)} and {instant(self.at, zone)}, when {self.known}"


@frozen
class JobRun:
    """A run of a job: the job had the slot from ``began`` to ``ended`` (microseconds; for a running job, the last known
    instant). ``cause`` is why it was evicted, and ``reason_text`` is the reason in the record. ``position`` and
    ``stimulus`` are those of the event that reports the end. Unknown names are empty. In an imported log, ``begun`` is
    the location of the record of the start, ``ends`` are the locations of all records of the end, and ``death`` is the
    daemon's death that ended the run."""

    job: str
    user: str
    group: str
    slot: str
    began: int
    ended: int
    outcome: str
    cause: Cause = UNKNOWN
    reason_text: str = ""
    position: int = 0
    stimulus: str = ""
    begun: str = ""
    ends: tuple[str, ...] = ()
    death: Death | None = None

    @property
    def is_eviction_by_pool(self) -> bool:
        """True if the pool evicted the run, rather than a hold or removal of the job."""
        return self.outcome == EVICTED and not self.cause.of_job

    @property
    def cluster(self) -> str:
        return self.job.partition(".")[0]

    @property
    def machine(self) -> str:
        """The slot's machine: the part of the slot's name after the @."""
        return SlotName.parse(self.slot).machine

    @property
    def duration(self) -> int:
        """How long the job had the slot, in microseconds."""
        return max(0, self.ended - self.began)
