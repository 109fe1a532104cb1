"""The quotas and requests of accounting groups, as a cycle starting now would compute them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..classad import Context
from ..classad.value_evidence import truth_of
from ..events import Ad
from ..state.caches import ad_from_attributes
from ..state_machines import Dialect
from .groups.quotas import assign_quotas, oversubscribes
from .groups.rounds import allocate_cores, sort_key
from .negotiator_settings import NegotiatorSettings, parse_settings


class GroupStanding(NamedTuple):
    """An accounting group. Amounts are in cores."""

    name: str
    configured: float  #: the quota as configured: cores, or a fraction
    quota: float  #: the maximum for its own submitters, without surplus
    subtree: float  #: the same including its subgroups
    surplus: str  #: no, byquota, or regroup (SurplusPolicy)
    requested: float  #: usage of its submitters, without subgroups, plus requests of their idle jobs
    order: float  #: the value of GROUP_SORT_EXPR


class SubmitterDemand(NamedTuple):
    """A submitter's usage and requests."""

    submitter: str
    slots: int
    cores: float  #: the weight of its slots
    jobs: int  #: the number of its idle jobs
    requested_cores: float  #: the cores that these jobs request


def pool_size(slots: Iterable[tuple[Ad, float]], rules: NegotiatorSettings, now: int) -> float:
    """Return the number of cores that a cycle divides.

    :param slots: the slot ads and the slots' weights in cores
    :param now: the time for evaluating expressions, in seconds
    """
    constraints = [text for text in (rules.slot_constraint, rules.poolsize_constraint) if text is not None]
    context = Context(now=now)
    weights = (
        weight
        for ad, weight in slots
        if all(truth_of(text, ad_from_attributes(ad), None, context) for text in constraints)
    )
    return float(sum(weights)) if rules.use_slot_weights else float(len(list(weights)))


def group_standings(
    settings: Mapping[str, str],
    dialect: Dialect,
    slots: Iterable[tuple[Ad, float]],
    members: Iterable[SubmitterDemand],
    now: int,
) -> list[GroupStanding]:
    """Return the accounting groups, breadth first. The first one contains the submitters without a group.

    :param slots: the slot ads and the slots' weights in cores
    :param now: the time for evaluating expressions, in seconds
    """
    rules = parse_settings(settings)
    total = pool_size(slots, rules, now)
    nodes = rules.tree.new_nodes()
    for holding in members:
        node = nodes[rules.tree.index_of(holding.submitter)]
        node.add_usage(round(1000 * holding.cores) if rules.use_slot_weights else 1000 * holding.slots)
        weighted = rules.quotas.weighted_demand
        node.demand += holding.cores + holding.requested_cores if weighted else holding.slots + holding.jobs
    if rules.tree.has_groups:
        assign_quotas(nodes[0], total, oversubscribes(rules.quotas, dialect))
    for node in nodes:
        node.requested = node.demand
    allocate_cores(nodes[0])
    context = Context(now=now)
    return [
        GroupStanding(
            node.name,
            node.group.quota,
            node.quota,
            node.subtree_quota,
            "regroup" if node.group.autoregroup else "byquota" if node.accepts_surplus else "no",
            node.demand,
            sort_key(node, rules.quotas.order, total, dialect, context) if rules.tree.has_groups else 0.0,
        )
        for node in nodes
    ]
