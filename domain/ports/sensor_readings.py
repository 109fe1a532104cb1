"""What the sensors of a machine say at an instant.

Readings are instants wherever they can be ("the last key was pressed then"), so that time passing is not a reading: a
policy that asks for KeyboardIdle gets the time since. They are whole with every decision that may need them, and no
part of the state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from attrs import frozen

from ..events import Ad

_NOTHING: Mapping[str, float] = MappingProxyType({})
_NO_TEXTS: Mapping[str, str] = MappingProxyType({})
_NO_ADS: Mapping[str, Ad] = MappingProxyType({})


@frozen
class Readings:
    """``last_input`` is the instant (microseconds) of the last key or mouse movement at any terminal or the console,
    ``last_console`` at the console alone; None: none since the machine joined. ``load`` is the machine's load average
    over a minute, ``condor_load`` what of it each slot's job makes (TotalLoadAvg, CondorLoadAvg), ``backfill_load``
    what the machine's backfill client makes. ``attributes`` are further attributes of all its slots as expressions,
    ``slots`` those of single slots: what the owner's own sensors publish, and disk and swap space."""

    last_input: int | None = None
    last_console: int | None = None
    load: float = 0.0
    condor_load: Mapping[str, float] = _NOTHING
    attributes: Mapping[str, str] = _NO_TEXTS
    slots: Mapping[str, Ad] = _NO_ADS
    backfill_load: float = 0.0

    @property
    def pool_load(self) -> float:
        """What of the load the pool's own processes make."""
        return sum(self.condor_load.values()) + self.backfill_load


NOTHING_READ = Readings()
"""The readings of a machine without sensors: nobody has touched it, and it has no load."""

Sense = Callable[[str], Readings]
"""The readings of a machine, by its name, at the instant of the decision."""


def nothing(machine: str) -> Readings:
    """The senses of a world without sensors."""
    return NOTHING_READ
