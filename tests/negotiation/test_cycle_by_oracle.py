"""Differential: the negotiator and a slow one that evaluates everything again, on pools in random states."""

from __future__ import annotations

import random
from collections import Counter
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.domain.events import Match
from poolbook.domain.negotiator import candidates

from ..sampling import soak_examples
from .oracle import Negotiation
from .pools import SECOND, Pool, random_pool, run_random_events

SEEDS = st.integers(0, 2**32 - 1)


def compare_cycle(pool: Pool) -> None:
    """Check that both decide the same cycle."""
    cycle = pool.hold()
    matches = () if cycle.held is None else cycle.held.matches
    oracle = Negotiation(pool.folded(), pool.now, pool.context()).run()
    oracle_matches = [
        Match(match.job, match.slot, match.rank, match.reason, match.pre, match.post, match.preemption)
        for match in oracle.matches
    ]
    assert list(matches) == oracle_matches
    compare_rejections(pool, oracle, cycle.held)


def compare_rejections(pool: Pool, oracle: Negotiation, cycle) -> None:  # type: ignore[no-untyped-def]
    """Check that the same jobs got no slot, with equal counts of slots that they accept and that accept them."""
    unmatched_jobs = {job.id: (user.name, job) for user in oracle.users.values() for job in user.jobs}
    known_rejections = {} if pool.state.rejections is None else pool.state.rejections
    rejections = () if cycle is None else cycle.unmatched
    counts: Counter[str] = Counter()
    for rejection in rejections:
        user, job = unmatched_jobs[rejection.job]
        rejected = oracle.rejection(user, job)
        assert rejection.submitter == user
        assert (rejection.clauses[-1].left if rejection.clauses else rejected.accepted) == rejected.accepted
        assert rejection.refused_by_slot == rejected.accepted - rejected.both
        assert rejection.slots == rejected.slots
        counts[user] += rejection.jobs
    if not known_rejections:
        assert counts == Counter(user for user, _ in unmatched_jobs.values())


@given(SEEDS)
def test_every_match_is_the_one_found_by_asking_each_slot(seed: int) -> None:
    compare_cycle(random_pool(seed))


@pytest.mark.parametrize(("seed", "unstable"), [(1586, False), (676014, True)])
def test_a_slot_of_weight_0_fits_every_quota(seed: int, unstable: bool) -> None:
    compare_cycle(random_pool(seed, unstable=unstable))


def test_a_remaining_share_of_exactly_the_lightest_slot_is_used() -> None:
    """Of a share of 2.256, a slot of weight 2 leaves 0.256, and the lightest slot has weight 0.256. In floating-point
    numbers, the remaining share is smaller."""
    compare_cycle(random_pool(978858047, unstable=True))


@given(SEEDS)
def test_matches_agree_if_preemption_depends_on_what_the_cycle_changes(seed: int) -> None:
    compare_cycle(random_pool(seed, unstable=True))


@given(SEEDS, st.integers(1, 3))
def test_matches_agree_if_orders_are_built_in_small_steps(seed: int, places: int) -> None:
    with patch.object(candidates, "PART", places):
        compare_cycle(random_pool(seed))


@given(SEEDS, st.booleans())
@settings(max_examples=12)
def test_caches_across_cycles_change_no_decision(seed: int, unstable: bool) -> None:
    check_caches(seed, 6, unstable)


def check_caches(seed: int, cycles: int, unstable: bool) -> None:
    pool, dice = random_pool(seed, unstable=unstable), random.Random(seed)
    for _ in range(cycles):
        cycle, refolded_cycle = pool.hold(), pool.hold(pool.folded())
        assert cycle.held == refolded_cycle.held
        assert cycle.priorities == refolded_cycle.priorities
        for event in (cycle.priorities, cycle.held):
            if event is not None and dice.random() < 0.7:
                pool.append(event)
        run_random_events(pool, dice, dice.randint(0, 4))
        pool.now += dice.choice((0, 1, 60, 3600)) * SECOND


@pytest.mark.soak
@given(SEEDS, st.booleans())
@settings(max_examples=soak_examples(), deadline=None)
def test_many_cycles_agree_with_asking_each_slot(seed: int, unstable: bool) -> None:
    compare_cycle(random_pool(seed, unstable=unstable))


@pytest.mark.soak
@given(SEEDS, st.booleans())
@settings(max_examples=soak_examples(4), deadline=None)
def test_caches_across_many_cycles_change_no_decision(seed: int, unstable: bool) -> None:
    check_caches(seed, 20, unstable)
