"""What submitters have and may have during one cycle: as the log says, and what the cycle itself has given them."""

from __future__ import annotations

from math import inf

from attrs import define, field

from ..state.cluster import IDLE
from ..state.state import State, Submitter
from .accounting import ceiling, factor, floor, group_of, updated
from .settings import Negotiator


@define
class Account:
    """A submitter as of this cycle."""

    name: str
    real: float  #: the real priority
    priority: float  #: the effective priority
    using: float  #: the cores that it has
    floor: float  #: in cores, as the ceiling
    ceiling: float
    idle: int = 0
    starvation: float = 0.0


@define
class Accounts:
    """The accounts of one cycle, made when they are asked for."""

    state: State
    now: int
    rules: Negotiator
    known: dict[str, Account] = field(factory=dict)
    given: int = 0  #: how many times the cycle has changed what somebody uses

    def of(self, name: str) -> Account:
        found = self.known.get(name)
        if found is None:
            found = self.known[name] = self._make(name)
        return found

    def _make(self, name: str) -> Account:
        state, now, terms = self.state, self.now, self.rules.accounting
        record = state.submitters.get(name) or Submitter(name, updated=now, counted=now)
        real = updated(record, state.priorities_updated_at, now, terms.halflife)
        most = ceiling(record, now)
        return Account(
            name,
            real,
            real * factor(record, terms, now),
            record.weighted_in_use / 1000 if self.rules.use_slot_weights else float(record.slots),
            floor(record, now),
            inf if most < 0 else most,
        )

    def waiting(self) -> list[Account]:
        """Those whose jobs waited as the cycle began. To look at their jobs again may make more accounts."""
        return [one for one in self.known.values() if one.idle]

    def aged(self) -> dict[str, float]:
        """The real priorities that have changed since the log said them last: of those that wait or use something."""
        found = {}
        waiting = {cluster.submitter for cluster in self.state.clusters.values() if cluster.counts[IDLE]}
        for name, record in self.state.submitters.items():
            used = record.used(self.now) != record.usage_accounted  # even where the priority stays
            if record.slots or used or name in waiting:
                real = self.of(name).real
                if used or real != record.priority:
                    found[name] = real
        return found

    def give(self, account: Account, cores: float, before: Account | None = None) -> None:
        """A match: the one who had the slot before has it no more."""
        account.using += cores
        if before is not None:
            before.using = max(0.0, before.using - cores)
        self.given += 1

    # Accounting groups

    def group(self, name: str) -> str:
        """The accounting group of a submitter that the configuration knows, as it is written there; empty: none."""
        lower = group_of(name).lower()
        return next((group for group in self.rules.groups if group.lower() == lower), "") if lower else ""

    def quota(self, group: str, total: float) -> float | None:
        """The cores of a group's quota; None: it has none."""
        lower = group.lower()
        if lower in self.rules.quotas:
            return self.rules.quotas[lower]
        share = self.rules.shares.get(lower)
        return None if share is None else share * total

    def used_by(self, group: str) -> float:
        """The cores that the members of a group have."""
        members = [name for name in self.state.submitters if self.group(name) == group]
        return sum(self.of(name).using for name in members)
