"""Submitters' usage and limits during one cycle, from the log and from the cycle's own matches."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from attrs import define, field

from ..state.accounting_groups import NO_GROUP
from ..state.records import Submitter
from ..state.state import Manager
from .accounting import ceiling, floor, priority_at, priority_factor
from .groups.group_tree import GroupNode
from .negotiator_settings import NegotiatorSettings


@define
class CycleSubmitter:
    """A submitter as of this cycle."""

    name: str
    real: float  #: the real priority
    priority: float  #: the effective priority
    using: float  #: the cores in use
    floor: float  #: in cores, like the ceiling
    ceiling: float
    group: int = 0  #: the index of its group in the tree of accounting groups
    idle: int = 0


@define
class CycleSubmitters:
    """The accounts of one cycle, created on demand."""

    state: Manager
    now: int
    rules: NegotiatorSettings
    known: dict[str, CycleSubmitter] = field(factory=dict)
    changed_usage: dict[str, CycleSubmitter] = field(factory=dict)  #: accounts whose usage this cycle changed recently
    usage_changes: int = 0  #: how often this cycle changed the usage of an account
    nodes: list[GroupNode] = field(init=False)  #: the accounting groups with their members' usage
    group_index_by_submitter: dict[str, int] = field(factory=dict)  #: known group indexes, by submitter
    regrouping: bool = False  #: whether submitters of groups now negotiate with those without a group

    def __attrs_post_init__(self) -> None:
        self.nodes = self.rules.tree.new_nodes()

    def account_of(self, name: str) -> CycleSubmitter:
        submitter = self.known.get(name)
        if submitter is None:
            submitter = self.known[name] = self._make(name)
        return submitter

    def _make(self, name: str) -> CycleSubmitter:
        state, now, terms = self.state, self.now, self.rules.accounting
        record = state.submitters.get(name) or Submitter(name, updated=now, counted_until=now)
        real = priority_at(record, state.priorities_updated_at, now, terms.halflife)
        most = ceiling(record, now)
        return CycleSubmitter(
            name,
            real,
            real * priority_factor(record, terms, now),
            record.weighted_in_use / 1000 if self.rules.use_slot_weights else float(record.slots),
            floor(record, now),
            inf if most < 0 else most,
            self.group_index(name),
        )

    def changed_priorities(self, names: Iterable[str]) -> dict[str, float]:
        """Return the real priorities that differ from the logged ones.

        :param names: submitters whose priority may have changed because they wait or use slots
        """
        priorities = {}
        for name in names:
            record = self.state.submitters[name]
            used = record.usage_until(self.now) != record.usage_accounted  # even if the priority stays the same
            real = self.account_of(name).real
            if used or real != record.priority:
                priorities[name] = real
        return priorities

    def move_usage(self, account: CycleSubmitter, cores: float, before: CycleSubmitter | None = None) -> None:
        """Add a match's cores to an account, and subtract them from the account of the preempted submitter."""
        account.using += cores
        self.changed_usage[account.name] = account
        self.nodes[account.group].add_usage(round(cores * 1000))
        if before is not None:
            self.nodes[before.group].add_usage(-round(min(cores, before.using) * 1000))
            before.using = max(0.0, before.using - cores)
            self.changed_usage[before.name] = before
        self.usage_changes += 1

    def group_index(self, name: str) -> int:
        """Return the index of a submitter's accounting group in the tree."""
        index = self.group_index_by_submitter.get(name)
        if index is None:
            index = self.group_index_by_submitter[name] = self.rules.tree.index_of(name)
        return index

    def of_group(self, whose: str, name: str) -> dict[str, object]:
        """Return the ad attributes about a submitter's accounting group, with this prefix; empty without groups."""
        if not self.rules.tree.has_groups:
            return {}
        node = self.nodes[self.group_index(name)]
        return {f"{whose}Group": node.name, f"{whose}GroupResourcesInUse": node.usage, f"{whose}GroupQuota": node.quota}

    def negotiating_group(self, name: str) -> str:
        """Return the name of the group in which a submitter is negotiating now."""
        return NO_GROUP if self.regrouping else self.nodes[self.group_index(name)].name
