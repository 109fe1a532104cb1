"""How many matches a submitter gets in one cycle: HTCondor's schedd offers no more jobs than it may transfer files
for."""

from __future__ import annotations

import pytest

from poolbook.domain.events import CycleHeld
from poolbook.domain.state.cluster import IDLE

from ..domain.pools import TestPool
from .pools import Pool

LIMITED = "SCHEDD_ENABLE_PER_USER_MATCH_LIMITS"
MOST = "MAX_CONCURRENT_UPLOADS_PER_USER"


@pytest.mark.parametrize(
    ("dialect", "settings", "jobs_by_user"),
    [
        ("htcondor-25", {LIMITED: "true"}, {"ann": 20, "bob": 5}),
        ("htcondor-25", {LIMITED: "true", MOST: "3"}, {"ann": 3, "bob": 3}),
        ("htcondor-25", {LIMITED: "false"}, {"ann": 25, "bob": 5}),
        ("manual", {LIMITED: "true"}, {"ann": 25, "bob": 5}),
    ],
)
def test_a_cycle_gives_each_submitter_a_limited_number_of_matches(
    dialect: str, settings: dict[str, str], jobs_by_user: dict[str, int]
) -> None:
    pool = Pool(dialect, **settings)
    pool.slots(40)
    pool.submit("ann", 25)
    pool.submit("bob", 5)
    assert pool.match_counts() == jobs_by_user


def test_the_rejection_of_the_other_jobs_names_the_limit() -> None:
    pool = Pool(**{LIMITED: "true"})
    pool.slots(40)
    pool.submit("ann", 25)
    cycle = pool.hold().held
    assert cycle is not None
    assert [(rejection.jobs, rejection.limit, rejection.taken) for rejection in cycle.unmatched] == [(5, "matches", 20)]
    assert cycle.statistics["SubmittersMatchLimit"] == 1


def test_an_autocluster_that_fits_no_slot_uses_none_of_the_limit() -> None:
    pool = Pool(**{LIMITED: "true"})
    pool.slots(40)
    pool.submit("ann", 50, Requirements="TARGET.Memory > 99999")
    pool.submit("ann", 25)
    assert pool.match_counts() == {"ann": 20}


def test_the_next_cycle_follows_immediately() -> None:
    pool = TestPool(dialect="htcondor-25")
    pool.machine(cpus=64, memory=65536, static=64)
    pool.submit(50, Args='"3600"')
    pool.engine.step()
    pool.engine.step()
    assert [len(event.matches) for event in pool.events() if isinstance(event, CycleHeld)] == [20, 20, 10]
    assert pool.state.clusters[1].status_counts[IDLE] == 0
