"""Specification: the value of a slot's RANK for the job of a claim (CurrentRank), and its value if the slot has no
RANK."""

from __future__ import annotations

import pytest

from poolbook.domain.events import ClaimMade
from poolbook.domain.ports import stimuli as s

from .pools import TestPool

BY_ITSELF = "10 - TARGET.SlotID"
"""A job's Rank of a slot; this one's number is 1."""

CASES = [
    # the slot's RANK, the job's Rank, the claim's rank: by the manual, by HTCondor's startd
    ("0.0", BY_ITSELF, 0.0, 0.0),
    ("TARGET.Wish", BY_ITSELF, 7.0, 7.0),
    ("TARGET.Nothing", BY_ITSELF, 0.0, 0.0),
    ("undefined", BY_ITSELF, 0.0, 0.0),
    # without a RANK, HTCondor's startd finds the job's
    (None, BY_ITSELF, 0.0, 9.0),
    (None, "-5", 0.0, -5.0),
    (None, "TARGET.Memory > MY.Wish", 0.0, 1.0),
    (None, '"best"', 0.0, 0.0),
    (None, "TARGET.Nothing", 0.0, 0.0),
    (None, 'real("INF")', 0.0, 0.0),
]


@pytest.mark.parametrize("name", ["Rank", "RANK", "rank"])
def test_a_rank_counts_whatever_the_case_of_its_name(name: str) -> None:
    """A cycle reads it from the slot: without it, MY.Rank would be 0."""
    pool = TestPool(dialect="htcondor-25", settings={"NEGOTIATOR_PRE_JOB_RANK": "MY.Rank"})
    for number in (1, 2):
        pool.machine(f"h{number}", static=1, cpus=1, **{name: str(number)})  # type: ignore[arg-type]
    pool.submit(Rank="-5")
    pool.advance(100)
    (claim,) = [event for event in pool.events() if isinstance(event, ClaimMade)]
    assert (claim.slot, claim.rank) == ("slot1@h2", 2.0)


@pytest.mark.parametrize("outside", [False, True], ids=["own", "outside"])
@pytest.mark.parametrize(("slots", "jobs", "manual", "htcondor"), CASES)
def test_a_claim_has_the_rank_that_the_slot_gives_its_job(
    slots: str | None, jobs: str, manual: float, htcondor: float, outside: bool
) -> None:
    for dialect, expected in (("manual", manual), ("htcondor-25", htcondor)):
        pool = TestPool(dialect=dialect)
        if slots is None:
            pool.machine(static=1, cpus=1, SlotID="1")
        else:
            pool.machine(static=1, cpus=1, SlotID="1", Rank=slots)
        if outside:
            ad = {"Owner": '"carol"', "User": '"carol@other"', "Rank": jobs, "Wish": "7"}
            pool.handle(s.RequestClaim(pool.id(), "slot1@h", "c1", "elsewhere", "carol@other", "7.0", ad))
        else:
            pool.submit(Rank=jobs, Wish="7")
            pool.advance(100)
        assert [event.rank for event in pool.events() if isinstance(event, ClaimMade)] == [expected]


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
@pytest.mark.parametrize(("first", "second", "third"), [(7, 6, None), (7, 7, 6), (7, 9, 8)])
def test_a_slot_rejects_an_outside_claim_of_lower_rank(
    dialect: str, first: int, second: int, third: int | None
) -> None:
    """The last claim is rejected: its rank is lower than that of the claim that has the slot, or that waits."""
    pool = TestPool(dialect=dialect)
    pool.machine(static=1, cpus=1, Rank="TARGET.Wish", MaxJobRetirementTime="1000")

    def claim(rank: int) -> str:
        ad = {"Owner": '"carol"', "User": '"carol@other"', "Wish": str(rank)}
        request = s.RequestClaim(pool.id(), "slot1@h", f"c{rank}", "elsewhere", "carol@other", "7.0", ad)
        return pool.handle(request).refusal

    ranks = [value for value in (first, second, third) if value is not None]
    assert not claim(ranks[0])
    pool.handle(s.ActivateClaim(pool.id(), "slot1@h", "7.0", {"Owner": '"carol"'}))
    for rank in ranks[1:-1]:
        assert not claim(rank)
    before = pool.events()
    assert "with a higher RANK" in claim(ranks[-1])
    assert pool.events() == before
