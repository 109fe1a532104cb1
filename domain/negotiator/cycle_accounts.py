"""What submitters have and may have during one cycle: as the log says, and what the cycle itself has given them."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from attrs import define, field

from ..state.accounting_groups import NO_GROUP
from ..state.state import Manager, Submitter
from .accounting import ceiling, factor, floor, updated
from .groups.group_tree import Node
from .negotiator_settings import Negotiator


@define
class CycleSubmitter:
    """A submitter as of this cycle."""

    name: str
    real: float  #: the real priority
    priority: float  #: the effective priority
    using: float  #: the cores that it has
    floor: float  #: in cores, as the ceiling
    ceiling: float
    group: int = 0  #: the place of its group in the tree of accounting groups
    idle: int = 0
    starvation: float = 0.0


@define
class CycleSubmitters:
    """The accounts of one cycle, made when they are asked for."""

    state: Manager
    now: int
    rules: Negotiator
    known: dict[str, CycleSubmitter] = field(factory=dict)
    moved: dict[str, CycleSubmitter] = field(factory=dict)  #: those of whom the cycle has changed what they use, lately
    given: int = 0  #: how many times the cycle has changed what somebody uses
    nodes: list[Node] = field(init=False)  #: the accounting groups with what their members have
    places: dict[str, int] = field(factory=dict)  #: the place of each submitter's group, of those that were asked for
    regrouping: bool = False  #: whether submitters of groups negotiate with those of none now

    def __attrs_post_init__(self) -> None:
        self.nodes = self.rules.tree.grown()

    def of(self, name: str) -> CycleSubmitter:
        submitter = self.known.get(name)
        if submitter is None:
            submitter = self.known[name] = self._make(name)
        return submitter

    def _make(self, name: str) -> CycleSubmitter:
        state, now, terms = self.state, self.now, self.rules.accounting
        record = state.submitters.get(name) or Submitter(name, updated=now, counted=now)
        real = updated(record, state.priorities_updated_at, now, terms.halflife)
        most = ceiling(record, now)
        return CycleSubmitter(
            name,
            real,
            real * factor(record, terms, now),
            record.weighted_in_use / 1000 if self.rules.use_slot_weights else float(record.slots),
            floor(record, now),
            inf if most < 0 else most,
            self.place_of(name),
        )

    def aged(self, names: Iterable[str]) -> dict[str, float]:
        """The real priorities that have changed since the log said them last.

        :param names: those that wait or use something, as far as theirs may have changed
        """
        priorities = {}
        for name in names:
            record = self.state.submitters[name]
            used = record.used(self.now) != record.usage_accounted  # even where the priority stays
            real = self.of(name).real
            if used or real != record.priority:
                priorities[name] = real
        return priorities

    def give(self, account: CycleSubmitter, cores: float, before: CycleSubmitter | None = None) -> None:
        """A match: the one who had the slot before has it no more."""
        account.using += cores
        self.moved[account.name] = account
        self.nodes[account.group].take(round(cores * 1000))
        if before is not None:
            self.nodes[before.group].take(-round(min(cores, before.using) * 1000))
            before.using = max(0.0, before.using - cores)
            self.moved[before.name] = before
        self.given += 1

    # Accounting groups

    def place_of(self, name: str) -> int:
        """The place of a submitter's accounting group in the tree."""
        place = self.places.get(name)
        if place is None:
            place = self.places[name] = self.rules.tree.place_of(name)
        return place

    def of_group(self, whose: str, name: str) -> dict[str, object]:
        """What an ad says of a submitter's accounting group, behind ``whose``; nothing if there are no groups."""
        if not self.rules.tree.divides:
            return {}
        node = self.nodes[self.place_of(name)]
        return {
            f"{whose}Group": node.name,
            f"{whose}GroupResourcesInUse": node.usage,
            f"{whose}GroupQuota": node.quota,
        }

    def negotiating(self, name: str) -> str:
        """The group that a submitter negotiates in now."""
        return NO_GROUP if self.regrouping else self.nodes[self.place_of(name)].name
