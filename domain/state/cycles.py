"""What the log says of negotiation cycles, and of what has happened since: from it follows when the next is held
(``negotiator/schedule``). Positions are those of events; instants are in microseconds."""

from __future__ import annotations

from attrs import define, field

from ..events import CycleHeld


@define
class Cycles:
    held: dict[str, tuple[int, int]] = field(factory=dict)
    """The position and the instant of each negotiator's last cycle that left an event."""
    cut_short: set[str] = field(factory=set)
    """The negotiators in whose last such cycle somebody had as many matches as one cycle gives."""
    preempted: dict[str, int] = field(factory=dict)
    """When each negotiator's last cycle was held in which somebody had to go."""
    news: int = 0  #: the position of the last event of the accounting since which a cycle may come to something else

    def note_cycle(self, event: CycleHeld, position: int) -> None:
        self.held[event.negotiator] = position, event.at
        if event.statistics.get("SubmittersMatchLimit", 0) > 0:
            self.cut_short.add(event.negotiator)
        else:
            self.cut_short.discard(event.negotiator)
        if any(match.reason for match in event.matches):
            self.preempted[event.negotiator] = event.at
