"""The ``transitions`` library's machine for our tables. It takes longer to import than all of this package: ``machine``
imports it when the first machine is built."""

from __future__ import annotations

from typing import Any

from transitions import EventData, Machine, MachineError, Transition

__all__ = ["LibraryMachine", "MachineError"]


class _Step(Transition):
    """A step of a row. Rows have neither conditions nor callbacks: the library would spend two thirds of a transition
    on looking for them."""

    def execute(self, event_data: EventData) -> bool:
        model: Any = event_data.model
        model.state = self.dest
        return True


class LibraryMachine(Machine):
    transition_cls = _Step
