"""One run of a job, as a log tells it."""

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
"""How a run ended: its job was done, or not; not as far as the log goes; or in a way that no record tells."""


class Death(NamedTuple):
    """A daemon's death: of which daemon, on which machine (of a starter the slot, of a shadow nothing); when it was
    heard of last (0: that is not known) and when it was known; and the record that tells of it, with the one (if any)
    in which it was heard of last."""

    daemon: str
    where: str
    since: int
    at: int
    how: str  #: the signal, if its parent tells
    position: int
    stimulus: str
    known: str = "it began anew"  #: by what it was known
    heard: str = ""  #: the stimulus of the record in which it was heard of last

    @property
    def stimuli(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.heard, self.stimulus)))

    def words(self, zone: tzinfo = UTC) -> str:
        """What happened, as the rest of a sentence."""
        name = f"the {self.daemon}{f' of {self.where}' if self.where else ''}"
        if self.how:
            return f"{name} died at {instant(self.at, zone)} ({self.how})"
        if not self.since:
            return f"{name} died before {instant(self.at, zone)}, when {self.known}"
        return f"{name} died between {instant(self.since, zone)} and {instant(self.at, zone)}, when {self.known}"


@frozen
class JobRun:
    """A run of a job: who had which slot from ``began`` to ``ended`` (microseconds; of a run that goes on, the end of
    what is known). ``cause`` is why it was evicted, ``said`` what the record says in its own words; ``position`` and
    ``stimulus`` are those of the event that reports the end. Names that no record has are empty. Of an imported log:
    ``begun`` is the place of the record of its beginning, ``ends`` are those of all records of its end, and ``death``
    is that of the daemon by which it ended."""

    job: str
    user: str
    group: str
    slot: str
    began: int
    ended: int
    outcome: str
    cause: Cause = UNKNOWN
    said: str = ""
    position: int = 0
    stimulus: str = ""
    begun: str = ""
    ends: tuple[str, ...] = ()
    death: Death | None = None

    @property
    def by_pool(self) -> bool:
        """Return True if the pool evicted it, and not a hold or a removal of its job."""
        return self.outcome == EVICTED and not self.cause.of_job

    @property
    def cluster(self) -> str:
        return self.job.partition(".")[0]

    @property
    def machine(self) -> str:
        """The slot's machine: what stands behind the @ of its name."""
        return SlotName.parse(self.slot).machine

    @property
    def lasted(self) -> int:
        """How long it had the slot, in microseconds."""
        return max(0, self.ended - self.began)
