"""One run of a job, as a log tells it."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from ...domain.names import SlotName
from .causes import UNKNOWN, Cause

SECOND: Final = 1_000_000

COMPLETED: Final = "completed"
EVICTED: Final = "evicted"
RUNNING: Final = "running"
ENDED: Final = "ended"
"""How a run ended: its job was done, or not; not as far as the log goes; or in a way that no record tells."""


@frozen
class JobRun:
    """A run of a job: who had which slot from ``began`` to ``ended`` (microseconds; of a run that goes on, the end of
    what is known). ``cause`` is why it was evicted, ``said`` what the record says in its own words; ``position`` and
    ``stimulus`` are those of the event that reports the end. Names that no record has are empty. Of an imported log:
    ``begun`` is the place of the record of its beginning, ``ends`` are those of all records of its end, and ``death``
    has the words and the place of the daemon's death that ended it."""

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
    death: tuple[str, str] | None = None

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
