"""Differential: the negotiator beside a slow one, which asks everything anew, on pools in any state."""

from __future__ import annotations

import os
import random
from collections import Counter
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.domain.events import Match
from poolbook.domain.negotiator import candidates

from .oracle import Negotiation
from .pools import SECOND, Pool, drawn, lives_on

EXAMPLES = int(os.environ.get("POOLBOOK_SOAK_EXAMPLES", "20000"))
SEEDS = st.integers(0, 2**32 - 1)


def agrees(pool: Pool) -> None:
    """Both take the same cycle."""
    cycle = pool.hold()
    matches = () if cycle.held is None else cycle.held.matches
    oracle = Negotiation(pool.folded(), pool.now, pool.context()).run()
    theirs = [
        Match(one.job, one.slot, one.rank, one.reason, one.pre, one.post, one.preemption) for one in oracle.matches
    ]
    assert list(matches) == theirs
    tells_the_same(pool, oracle, cycle.held)


def tells_the_same(pool: Pool, oracle: Negotiation, held) -> None:  # type: ignore[no-untyped-def]
    """The same jobs got nothing, of as many slots that they accept and that accept them."""
    left = {job.id: (user.name, job) for user in oracle.users.values() for job in user.jobs}
    known = {} if pool.state.rejections is None else pool.state.rejections
    told = () if held is None else held.unmatched
    counts: Counter[str] = Counter()
    for one in told:
        user, job = left[one.job]
        refused = oracle.refused(user, job)
        assert one.submitter == user
        assert (one.clauses[-1].left if one.clauses else refused.accepted) == refused.accepted
        assert one.refused_by_slot == refused.accepted - refused.both
        assert one.slots == sum(slot.kind != "dynamic" for slot in pool.state.slots.values())
        counts[user] += one.jobs
    if not known:
        assert counts == Counter(user for user, _ in left.values())


@given(SEEDS)
def test_every_match_is_the_one_that_asking_each_slot_comes_to(seed: int) -> None:
    agrees(drawn(seed))


@pytest.mark.parametrize(("seed", "unstable"), [(1586, False), (676014, True)])
def test_a_slot_that_weighs_nothing_is_within_every_quota(seed: int, unstable: bool) -> None:
    agrees(drawn(seed, unstable=unstable))


@given(SEEDS)
def test_so_it_is_where_preemption_depends_on_what_the_cycle_itself_changes(seed: int) -> None:
    agrees(drawn(seed, unstable=True))


@given(SEEDS, st.integers(1, 3))
def test_so_it_is_however_few_places_of_an_order_are_made_at_a_time(seed: int, places: int) -> None:
    with patch.object(candidates, "PART", places):
        agrees(drawn(seed))


@given(SEEDS, st.booleans())
@settings(max_examples=12)
def test_what_is_kept_from_cycle_to_cycle_changes_nothing(seed: int, unstable: bool) -> None:
    keeps(seed, 6, unstable)


def keeps(seed: int, cycles: int, unstable: bool) -> None:
    pool, dice = drawn(seed, unstable=unstable), random.Random(seed)
    for _ in range(cycles):
        kept, anew = pool.hold(), pool.hold(pool.folded())
        assert kept.held == anew.held
        assert kept.priorities == anew.priorities
        for event in (kept.priorities, kept.held):
            if event is not None and dice.random() < 0.7:
                pool.append(event)
        lives_on(pool, dice, dice.randint(0, 4))
        pool.now += dice.choice((0, 1, 60, 3600)) * SECOND


@pytest.mark.soak
@given(SEEDS, st.booleans())
@settings(max_examples=EXAMPLES, deadline=None)
def test_many_cycles_are_those_that_asking_each_slot_comes_to(seed: int, unstable: bool) -> None:
    agrees(drawn(seed, unstable=unstable))


@pytest.mark.soak
@given(SEEDS, st.booleans())
@settings(max_examples=EXAMPLES // 4, deadline=None)
def test_what_is_kept_through_many_cycles_changes_nothing(seed: int, unstable: bool) -> None:
    keeps(seed, 20, unstable)
