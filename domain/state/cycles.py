"""The latest negotiation cycles, and the events since then, from which ``negotiator/schedule`` computes when the next
cycle is due. Times are in microseconds."""

from __future__ import annotations

from msgspec import Struct, field

from ..events import CycleHeld


class Cycles(Struct):
    held: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The position and the time of each negotiator's last cycle that left an event."""
    cut_short: set[str] = field(default_factory=set)
    """The negotiators whose last cycle gave some submitter the maximum number of matches per cycle."""
    preempted: dict[str, int] = field(default_factory=dict)
    """When each negotiator last held a cycle that preempted jobs."""
    account_change_position: int = 0  #: the position of the last accounting event that may change a cycle's result

    def record_cycle(self, event: CycleHeld, position: int) -> None:
        self.held[event.negotiator] = position, event.at
        if event.statistics.get("SubmittersMatchLimit", 0) > 0:
            self.cut_short.add(event.negotiator)
        else:
            self.cut_short.discard(event.negotiator)
        if any(match.reason for match in event.matches):
            self.preempted[event.negotiator] = event.at
