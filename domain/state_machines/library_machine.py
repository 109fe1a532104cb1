"""A subclass of the ``transitions`` library's machine for our tables. Because this library is slow to import,
``machine`` imports this module only when it builds the first machine."""

from __future__ import annotations

from typing import Any

from transitions import EventData, Machine, MachineError, Transition

__all__ = ["LibraryMachine", "MachineError"]


class _Step(Transition):
    """A step of a row. It skips the search for conditions and callbacks, which rows do not have and which takes up two
    thirds of the library's time per transition."""

    def execute(self, event_data: EventData) -> bool:
        model: Any = event_data.model
        model.state = self.dest
        return True


class LibraryMachine(Machine):
    transition_cls = _Step
