"""The slots that there were, as a log tells of them, each at its full size."""

from __future__ import annotations

from attrs import define, field

from ...domain import events as e
from ..narration.unmatchable_jobs import WHOLE

SLOT_EVENTS = (e.SlotCreated, e.SlotAdChanged, e.SlotDestroyed)  #: what ``WholeSlots`` is made of
_OF_ALL = ("Cpus", "Memory", "Disk")


@define
class WholeSlots:
    """The slots of a log at any position, each as it is when no part of it is in use. Dynamic slots are parts."""

    _told: list[tuple[int, e.SlotEvent]] = field(factory=list)

    def note(self, position: int, event: e.Event) -> None:
        if isinstance(event, SLOT_EVENTS):
            self._told.append((position, event))

    def before(self, position: int) -> list[tuple[str, e.Ad]]:
        """The slots that there were before a position, with their ads."""
        found: dict[str, e.Ad] = {}
        for at, event in self._told:
            if at >= position:
                break
            if isinstance(event, e.SlotCreated) and event.kind != "dynamic":
                sizes = {f"{WHOLE}{name}": event.ad[name] for name in _OF_ALL if name in event.ad}
                found[event.slot] = sizes | event.ad
            elif isinstance(event, e.SlotDestroyed):
                found.pop(event.slot, None)
            elif isinstance(event, e.SlotAdChanged) and event.slot in found:
                found[event.slot] |= event.changes
        return list(found.items())
