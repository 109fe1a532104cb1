"""Accounts for tests: the state of a pool, to which claims come and go at chosen seconds, and nothing else happens."""

from __future__ import annotations

from poolbook.domain import events as e
from poolbook.domain.fold.evolve import evolve
from poolbook.domain.negotiator.accounting import effective, real, terms, updated
from poolbook.domain.state.pool_settings import complete_settings
from poolbook.domain.state.records import Submitter
from poolbook.domain.state.state import State

SECOND = 1_000_000
HOUR = 3600
DAY = 86_400
BEGAN = 1_700_000_000 * SECOND


class Books:
    """Submitters by the first part of their names; instants are seconds since the founding."""

    def __init__(self, **more: str) -> None:
        self.state = State()
        self.claims: dict[str, tuple[str, str, int, int]] = {}
        self._number = 0
        self.tell(0, e.PoolFounded, "founded", "pool", "htcondor-25", "here", "1", complete_settings(more))
        self.tell(0, e.MachineJoined, "configured", "h", {}, {})

    def tell(self, at: float, kind: type[e.Event], cause: str, *rest: object) -> e.Event:
        event = kind(BEGAN + round(at * SECOND), cause, "test", *rest)
        evolve(self.state, event)
        return event

    def of(self, name: str) -> Submitter:
        return self.state.submitters[name if "@" in name else f"{name}@here"]

    def appears(self, at: float, *names: str) -> None:
        """They submit a job, as users do before they get anything."""
        for name in names:
            self._number += 1
            self.tell(at, e.ClusterSubmitted, "submitted", self._number, f"{name}@here", {}, 1, (), "Idle")

    def claim(self, at: float, name: str, cores: float) -> str:
        self._number += 1
        slot, claim, weight = f"slot{self._number}@h", f"claim{self._number}", round(cores * 1000)
        self.tell(at, e.SlotCreated, "configured", slot, "h", "static", "", {})
        self.tell(at, e.ClaimMade, "claimed", slot, claim, f"{name}@here", weight)
        self.claims[claim] = (slot, name, weight, BEGAN + round(at * SECOND))
        return claim

    def release(self, at: float, claim: str) -> None:
        slot, name, weight, since = self.claims.pop(claim)
        usage = (BEGAN + round(at * SECOND) - since) * weight
        self.tell(at, e.ClaimEnded, "released", slot, claim, f"{name}@here", usage)

    def update(self, at: float, *left_out: str) -> None:
        """Bring the priorities up to date, but for those that are left out: they have used nothing since the last time,
        and wait for nothing."""
        now, halflife = BEGAN + round(at * SECOND), terms(self.state.settings).halflife
        listed = {
            name: updated(one, self.state.priorities_updated_at, now, halflife)
            for name, one in self.state.submitters.items()
            if name.partition("@")[0] not in left_out
        }
        self.tell(at, e.PrioritiesUpdated, "accounted", listed)

    def real(self, name: str) -> float:
        return real(self.state, self.of(name), terms(self.state.settings).halflife)

    def effective(self, name: str) -> float:
        return effective(self.of(name), terms(self.state.settings), self.state.at)

    def sees(self, at: float) -> int:
        """An instant of a test in the log's time."""
        return BEGAN + round(at * SECOND)
