"""Property: in random pools with any tree of groups, no match exceeds the quota of a group and of those around it, and
nothing remains free that a group would accept."""

from __future__ import annotations

import random
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.domain.negotiator.cycle import CycleResult
from poolbook.domain.negotiator.groups.group_tree import GroupNode
from poolbook.domain.negotiator.groups.quotas import assign_quotas, oversubscribes
from poolbook.domain.negotiator.negotiator_settings import parse_settings

from ..negotiation.pools import Pool

NAMES = ("a", "b", "a.x", "a.y", "a.x.p", "a.x.q", "b.z")


def random_pool(seed: int, dialect: str = "manual") -> Pool:
    """Return a random pool with groups, users in them and slots, some of which are in use."""
    dice = random.Random(seed)
    names = [name for name in NAMES if name in ("a", "b") or dice.random() < 0.8]
    configuration = {"GROUP_NAMES": " ".join(names)}
    for name in names:
        if dice.random() < 0.6:
            configuration[f"GROUP_QUOTA_{name}"] = str(dice.choice((0, 1, 2, 3, 5, 8, 100, 2.5)))
        elif dice.random() < 0.9:
            configuration[f"GROUP_QUOTA_DYNAMIC_{name}"] = str(dice.choice((0.1, 0.25, 0.33, 0.5, 0.66, 1)))
        if dice.random() < 0.5:
            configuration[f"GROUP_ACCEPT_SURPLUS_{name}"] = dice.choice(("true", "false"))
    for name, odds, values in (
        ("GROUP_ACCEPT_SURPLUS", 0.4, ("true",)),
        ("NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION", 0.5, ("true", "false")),
        ("NEGOTIATOR_USE_SLOT_WEIGHTS", 0.2, ("false",)),
        ("NEGOTIATOR_USE_WEIGHTED_DEMAND", 0.2, ("false",)),
        ("NEGOTIATOR_CONSIDER_PREEMPTION", 0.5, ("false",)),
        ("PREEMPTION_REQUIREMENTS", 0.5, ("true", "RemoteGroupResourcesInUse > RemoteGroupQuota")),
        ("GROUP_QUOTA_ROUND_ROBIN_RATE", 0.2, ("1", "3")),
    ):
        if dice.random() < odds:
            configuration[name] = dice.choice(values)
    pool = Pool(dialect, **configuration)
    weights = dice.choice(((1,), (1,), (1, 2), (1, 2, 4)))
    for number in range(1, dice.randint(2, 16)):
        weight = dice.choice(weights)
        pool.slot(f"slot{number}@h", Cpus=str(weight), Rank=dice.choice(("0.0", "0.0", 'TARGET.Owner == "a.x.ann"')))
    users = [f"{group}.{user}".lstrip(".") for group in ("", "nowhere", *NAMES) for user in ("ann", "bob")]
    for name in pool.state.slots:
        if dice.random() < 0.25:
            cores = float(pool.state.slots[name].ad["Cpus"])
            pool.claim(name, f"{dice.choice(users)}@here", weight=cores)
    for user in users:
        if dice.random() < 0.4:
            pool.submit(
                user, dice.randint(1, 9), Requirements=dice.choice(("true", "true", "TARGET.Cpus > 1", "false"))
            )
        if dice.random() < 0.2:
            pool.grant(user, "priority", dice.choice((1, 10, 100)))
    return pool


def standing(pool: Pool) -> list[GroupNode]:
    """Return the groups, with their quotas and usage."""
    rules = parse_settings(pool.state.settings)
    nodes = rules.tree.new_nodes()
    weighs = rules.use_slot_weights
    slots = pool.state.slots.values()
    total = sum(float(slot.ad["Cpus"]) if weighs else 1 for slot in slots)
    assign_quotas(nodes[0], total, oversubscribes(rules.quotas, pool.state.dialect))
    for slot in slots:
        if slot.claim is not None:
            nodes[rules.tree.index_of(slot.claim.submitter)].add_usage(slot.claim.weight if weighs else 1000)
    return nodes


def groups_after_matches(pool: Pool, cycle: CycleResult) -> list[GroupNode]:
    """Return the groups after the cycle's matches, made one by one; check that none exceeds a quota."""
    tree, nodes = parse_settings(pool.state.settings).tree, standing(pool)
    for choice in cycle.choices:
        claim, thousandths = pool.state.slots[choice.slot].claim, round(1000 * choice.cores)
        submitter_node = nodes[tree.index_of(choice.cluster.submitter)]
        claim_node = None if claim is None else nodes[tree.index_of(claim.submitter)]
        submitter_node.add_usage(thousandths)
        if claim_node is not None:
            claim_node.add_usage(-thousandths)
        for node in submitter_node.ancestry():
            swapped = claim_node is not None and node in claim_node.ancestry()
            if not node.accepts_surplus and not swapped:
                assert node.subtree_used <= 1000 * node.subtree_quota + 1, (choice.cluster.submitter, node.name)
    return nodes


@given(st.integers(0, 10**9))
def test_no_match_exceeds_a_quota_and_its_surplus_at_any_node(seed: int) -> None:
    pool = random_pool(seed)
    for _ in range(2):
        cycle = pool.hold()
        groups_after_matches(pool, cycle)
        pool.cycle()
        pool.now += 60_000_000


@given(st.integers(0, 10**9))
def test_no_slot_stays_free_that_a_group_would_accept(seed: int) -> None:
    """After a cycle no job waits that fits a free slot, if its group and all around it have room for the slot."""
    pool = random_pool(seed)
    cycle = pool.hold()
    nodes, tree = groups_after_matches(pool, cycle), parse_settings(pool.state.settings).tree
    weighs = parse_settings(pool.state.settings).use_slot_weights
    slots = {choice.slot for choice in cycle.choices}
    free = [slot for slot in pool.state.slots.values() if slot.claim is None and slot.name not in slots]
    served_jobs = {(choice.cluster.id, choice.proc) for choice in cycle.choices}
    for cluster in pool.state.clusters.values():
        if all((cluster.id, proc) in served_jobs for proc in range(cluster.count)):
            continue
        node = nodes[tree.index_of(cluster.submitter)]
        room = min([inf if above.accepts_surplus else above.remaining_quota() for above in node.ancestry()])
        for slot in free:
            cores = float(slot.ad["Cpus"]) if weighs else 1.0
            fits = {"true": True, "false": False}.get(cluster.ad["Requirements"], int(slot.ad["Cpus"]) > 1)
            if node.accepts_surplus and fits:
                assert cores > room + 1e-6, (cluster.submitter, slot.name, room)


@settings(max_examples=30)
@given(st.integers(0, 10**9))
def test_a_reported_quota_is_used_up(seed: int) -> None:
    pool = random_pool(seed)
    cycle = pool.hold().held
    for reason in () if cycle is None else cycle.unmatched:
        assert bool(reason.group) == (reason.limit == "quota")
        if reason.limit == "quota":
            assert reason.group == "<none>" or reason.group in pool.state.settings["GROUP_NAMES"].split()
