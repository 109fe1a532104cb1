"""An instant, with everything that planning may read at it."""

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
    """An instant of a pool."""

    state: RoleState  #: the state of one role, or of several
    now: int  #: in microseconds of the log's time
    zone: tzinfo  #: the time zone of the machines' local times
    sense: Sense  #: returns a machine's readings at this instant
    caches: Caches  #: values that were computed from the state before
    simulated: bool = False  #: whether only the readings of ``changed_machines`` change
    changed_machines: Callable[[], set[str]] = set
    """Returns the machines of a simulated world whose readings have changed since the last call."""
    matching: bool = True  #: whether the pool negotiates and claims for its own queue

    def context(self) -> Context:
        """Return the context of policy evaluations at this instant."""
        second = self.now // 1_000_000
        return Context(now=second, seed=second, timezone=self.zone, user_maps=self.state.user_maps)
