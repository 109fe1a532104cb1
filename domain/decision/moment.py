"""A time, with everything that planning may read then."""

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
    """A pool at a given time."""

    state: RoleState  #: the state of one or several roles
    now: int  #: the time, in microseconds by the log's clock
    zone: tzinfo  #: the time zone for local times
    sense: Sense  #: returns a machine's current sensor readings
    caches: Caches  #: values computed earlier from the state
    simulated: bool = False  #: whether only readings of ``changed_machines`` change
    changed_machines: Callable[[], set[str]] = set
    """Returns the machines in a simulated world whose readings changed since the last call."""
    matching: bool = True  #: whether the pool negotiates and claims for its own queue

    def context(self) -> Context:
        """Return the context of policy evaluations at this time."""
        second = self.now // 1_000_000
        return Context(now=second, seed=second, timezone=self.zone, user_maps=self.state.user_maps)
