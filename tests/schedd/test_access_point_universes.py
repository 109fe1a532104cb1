"""Golden: jobs of the universes that the access point runs itself (HTCondor 25.14's START_LOCAL_UNIVERSE and
START_SCHEDULER_UNIVERSE by default)."""

from __future__ import annotations

from collections import Counter

from poolbook import Behaviour, Pool

from ..submit.world import submit

MOST = {"12": 200, "7": 500}


def counts(pool: Pool) -> Counter[tuple[str, int]]:
    """How many jobs of each universe are in each status."""
    return Counter((str(job["JobUniverse"]), job["JobStatus"]) for job in pool.jobs())


def test_each_universe_has_as_many_jobs_at_a_time_as_it_may() -> None:
    with Pool.open("memory:", behave=lambda launch: Behaviour(seconds=600)) as pool:
        for universe, most in MOST.items():
            pool.submit({"executable": "/bin/sleep", "universe": universe}, count=most + 2)
        pool.advance(10)
        expected = {(universe, 2): most for universe, most in MOST.items()}
        assert counts(pool) == Counter(expected | {(universe, 1): 2 for universe in MOST})
        pool.advance(600)
        assert counts(pool) == Counter({(universe, 2): 2 for universe in MOST})
        assert pool.judge() == []


def test_a_scheduler_job_asks_what_a_local_job_asks_but_for_deferral() -> None:
    ads = [submit(f"universe = {universe}\ncron_minute = 5\nqueue").ad for universe in ("scheduler", "local")]
    assert [ad["JobUniverse"] for ad in ads] == ["7", "12"]
    assert ["TARGET.HasJobDeferral" in ad["Requirements"] for ad in ads] == [True, False]
    own = [{name: text for name, text in ad.items() if name not in ("JobUniverse", "Requirements")} for ad in ads]
    assert own[0] == own[1]
