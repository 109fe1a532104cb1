"""Accounts for tests: the state of a pool in which claims start and end at chosen seconds."""

from __future__ import annotations

from poolbook.domain import events as e
from poolbook.domain.fold.evolve import evolve
from poolbook.domain.negotiator.accounting import accountant_settings, priority_at
from poolbook.domain.state.pool_settings import complete_settings
from poolbook.domain.state.records import Submitter
from poolbook.domain.state.state import State

from .priorities import effective_priority, real_priority

SECOND = 1_000_000
HOUR = 3600
DAY = 86_400
BEGAN = 1_700_000_000 * SECOND


class Accounts:
    """The accounts of submitters, named without their domain. Times are seconds since the pool was founded."""

    def __init__(self, **settings: str) -> None:
        self.state = State()
        self.claims: dict[str, tuple[str, str, int, int]] = {}
        self._number = 0
        self.record(0, e.PoolFounded, "founded", "pool", "htcondor-25", "here", "1", complete_settings(settings))
        self.record(0, e.MachineJoined, "configured", "h", {}, {})

    def record(self, at: float, kind: type[e.Event], cause: str, *fields: object) -> e.Event:
        event = kind(BEGAN + round(at * SECOND), cause, "test", *fields)
        evolve(self.state, event)
        return event

    def submitter(self, name: str) -> Submitter:
        return self.state.submitters[name if "@" in name else f"{name}@here"]

    def submit(self, at: float, *names: str) -> None:
        """Submit a job for each of these users, who have no claims yet."""
        for name in names:
            self._number += 1
            self.record(at, e.ClusterSubmitted, "submitted", self._number, f"{name}@here", {}, 1, (), "Idle")

    def claim(self, at: float, name: str, cores: float) -> str:
        self._number += 1
        slot, claim, weight = f"slot{self._number}@h", f"claim{self._number}", round(cores * 1000)
        self.record(at, e.SlotCreated, "configured", slot, "h", "static", "", {})
        self.record(at, e.ClaimMade, "claimed", slot, claim, f"{name}@here", weight)
        self.claims[claim] = (slot, name, weight, BEGAN + round(at * SECOND))
        return claim

    def release(self, at: float, claim: str) -> None:
        slot, name, weight, since = self.claims.pop(claim)
        usage = (BEGAN + round(at * SECOND) - since) * weight
        self.record(at, e.ClaimEnded, "released", slot, claim, f"{name}@here", usage)

    def update(self, at: float, *left_out: str) -> None:
        """Update the priorities, except for ``left_out``, who have used nothing since the last update."""
        now, halflife = BEGAN + round(at * SECOND), accountant_settings(self.state.settings).halflife
        priorities = {
            name: priority_at(submitter, self.state.priorities_updated_at, now, halflife)
            for name, submitter in self.state.submitters.items()
            if name.partition("@")[0] not in left_out
        }
        self.record(at, e.PrioritiesUpdated, "accounted", priorities)

    def real_priority(self, name: str) -> float:
        return real_priority(self.state, self.submitter(name), accountant_settings(self.state.settings).halflife)

    def effective_priority(self, name: str) -> float:
        return effective_priority(self.submitter(name), accountant_settings(self.state.settings), self.state.at)

    def log_time(self, at: float) -> int:
        """Convert a time of the test to the log's time."""
        return BEGAN + round(at * SECOND)
