"""The latest negotiation cycles, and the events since, from which ``negotiator/schedule`` computes when the next cycle
is due. Instants are in microseconds."""

from __future__ import annotations

from attrs import define, field

from ..events import CycleHeld


@define
class Cycles:
    held: dict[str, tuple[int, int]] = field(factory=dict)
    """The position and the instant of each negotiator's last cycle with an event."""
    cut_short: set[str] = field(factory=set)
    """The negotiators whose last cycle gave a submitter the most matches that one cycle allows."""
    preempted: dict[str, int] = field(factory=dict)
    """When each negotiator last held a cycle that preempted jobs."""
    news: int = 0  #: the position of the last accounting event that may change a cycle's result

    def note_cycle(self, event: CycleHeld, position: int) -> None:
        self.held[event.negotiator] = position, event.at
        if event.statistics.get("SubmittersMatchLimit", 0) > 0:
            self.cut_short.add(event.negotiator)
        else:
            self.cut_short.discard(event.negotiator)
        if any(match.reason for match in event.matches):
            self.preempted[event.negotiator] = event.at
