"""What the log says of negotiation cycles, and of what has happened since: from it follows when the next is held
(``negotiator/schedule``). Positions are those of events; instants are in microseconds."""

from __future__ import annotations

from typing import Final

from attrs import define, field

from ..events import CycleHeld, JobExited
from ..units import SECOND
from .job_ad import EXPIRATION

FIRST_PAUSE: Final = SECOND
LAST_PAUSE: Final = 60 * SECOND
"""For how long nothing is started behind a start that failed for the machine's fault: at first, and at most; it doubles
until one succeeds."""


@define
class Cycles:
    held: dict[str, tuple[int, int]] = field(factory=dict)
    """The position and the instant of each negotiator's last cycle that left an event."""
    cut_short: set[str] = field(factory=set)
    """The negotiators in whose last such cycle somebody had as many matches as one cycle gives."""
    preempted: dict[str, int] = field(factory=dict)
    """When each negotiator's last cycle was held in which somebody had to go."""
    taken_back: int = 0  #: when a startd last took a claim back because its START is false
    news: int = 0  #: the position of the last event since which a cycle may come to something else than before
    requested: int = 0  #: the position of the last event for which an access point asks for a cycle
    paused_until: int = 0  #: until when nothing is started, since the machine could not start a job
    pause: int = 0  #: how long that is (0: the last start succeeded)

    def note_cycle(self, event: CycleHeld, position: int) -> None:
        self.held[event.negotiator] = position, event.at
        if event.statistics.get("SubmittersMatchLimit", 0) > 0:
            self.cut_short.add(event.negotiator)
        else:
            self.cut_short.discard(event.negotiator)
        if any(match.reason for match in event.matches):
            self.preempted[event.negotiator] = event.at

    def note_end(self, event: JobExited, position: int) -> None:
        """A run has ended: the job may wait again, and the machine may not have been able to start it."""
        if event.target != "Completed":
            self.news = position
        if event.outcome != "failed" or event.row != "evict" or EXPIRATION in event.changes:
            return
        if event.at >= self.paused_until:  # else it was begun together with the one for which there is a pause
            self.pause = min(self.pause * 2 or FIRST_PAUSE, LAST_PAUSE)
            self.paused_until = event.at + self.pause
