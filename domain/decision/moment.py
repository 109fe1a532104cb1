"""An instant, and what whoever plans or decides may look at then."""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo
from typing import Generic

from msgspec import Struct

from ..classad import Context
from ..ports.sensor_readings import Sense
from ..state.caches import Caches
from .draft import RoleState


class Moment(Struct, Generic[RoleState]):
    state: RoleState  #: that of the role which plans, or of several
    now: int  #: in microseconds of the log's time
    zone: tzinfo  #: that of the machines' local times
    sense: Sense  #: gives a machine's readings at this instant
    caches: Caches  #: what was computed of the state before
    simulated: bool = False  #: whether readings change only where ``changed_machines`` says so
    changed_machines: Callable[[], set[str]] = set
    """Of a simulated world, gives the machines whose readings have changed since this was asked last."""
    matching: bool = True  #: whether the pool negotiates and claims for its own queue

    def context(self) -> Context:
        """Return what evaluations of a machine's policy see of the world at this instant."""
        second = self.now // 1_000_000
        return Context(now=second, seed=second, timezone=self.zone, user_maps=self.state.user_maps)
