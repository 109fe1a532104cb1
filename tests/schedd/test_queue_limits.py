"""Golden: limits of the queue reject submissions with condor_submit's messages (traces 12 and 21). Property: no order
of submissions and ends exceeds the limits."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.adapters.runtime.requests import SubmitTerms
from poolbook.domain.events import SubmissionRefused
from poolbook.domain.ports import stimuli as s
from poolbook.domain.requests.idle_jobs import remaining_starts
from poolbook.domain.schedd.schedd_ad import schedd_ad
from poolbook.replay.validation import examine

from ..job_commands import job_command
from ..together import together
from .policy_pool import PolicyPool

LIMITS = "MAX_JOBS_PER_SUBMISSION = 6\nMAX_JOBS_PER_OWNER = 9\nMAX_JOBS_SUBMITTED = 12\n"
FAILED = "Failed to create proc\nNumber of submitted jobs would exceed "


@together(
    ("sizes", "user", "count", "refusal"),
    [
        ([], "alice", 7, f"{FAILED}MAX_JOBS_PER_SUBMISSION"),
        ([], "alice", 6, ""),
        ([6], "alice", 3, ""),
        ([6, 3], "alice", 1, f"{FAILED}MAX_JOBS_PER_OWNER"),
        ([6], "alice", 6, f"{FAILED}MAX_JOBS_PER_OWNER"),
        ([6, 3], "bob", 3, ""),
        ([6, 3], "bob", 5, f"{FAILED}MAX_JOBS_SUBMITTED"),
    ],
)
def test_a_submission_beyond_a_limit_is_rejected_as_a_whole(
    sizes: list[int], user: str, count: int, refusal: str
) -> None:
    pool = PolicyPool(LIMITS)
    for jobs in sizes:
        assert pool.submit(count=jobs).refusal == ""
    assert pool.submit(user=user, count=count).refusal == refusal


def test_a_full_queue_accepts_no_cluster() -> None:
    pool = PolicyPool("MAX_JOBS_SUBMITTED = 2")
    pool.submit(count=2)
    assert pool.submit().refusal == (
        "MAX_JOBS_SUBMITTED exceeded. Current=2, Limit=2\nNumber of submitted jobs would exceed MAX_JOBS_SUBMITTED"
    )


def test_a_rejection_is_an_event_with_its_evidence() -> None:
    pool = PolicyPool("MAX_JOBS_PER_OWNER = 2")
    pool.submit(count=3)
    (event,) = pool.of(SubmissionRefused)
    assert (event.cluster, event.user, event.setting, event.job) == (1, "alice", "MAX_JOBS_PER_OWNER", "1.2")
    assert event.evidence


def test_without_settings_the_manuals_dialect_has_no_limit() -> None:
    assert PolicyPool(dialect="manual").submit(count=30_000).refusal == ""


def test_htcondor_25_has_the_limits_of_htcondor() -> None:
    pool = PolicyPool()
    assert pool.submit(count=20_001).refusal == f"{FAILED}MAX_JOBS_PER_SUBMISSION"
    assert [pool.submit(count=20_000).refusal for _ in range(5)] == [""] * 5
    assert pool.submit().refusal == f"{FAILED}MAX_JOBS_PER_OWNER"
    assert pool.submit(user="bob").refusal == ""
    state = pool.engine.state
    assert (remaining_starts(state), str(schedd_ad(state, {})["MaxJobsRunning"])) == (10_000, "10000")
    assert SubmitTerms.from_state(state, 1).settings["SUBMIT_PREVENT_MULTI_QUEUE"] == "true"
    pool.configure("MAX_JOBS_PER_SUBMISSION = 30000\nSUBMIT_PREVENT_MULTI_QUEUE = false")
    assert pool.submit(user="bob", count=20_001).refusal == ""
    assert SubmitTerms.from_state(state, 1).settings["SUBMIT_PREVENT_MULTI_QUEUE"] == "false"


def test_no_more_jobs_run_than_permitted() -> None:
    pool = PolicyPool("MAX_JOBS_RUNNING = 2")
    pool.machine(Cpus="8")
    pool.submit(count=5)
    pool.handle(s.Negotiate(pool.id()))
    assert len(pool.engine.state.by_job) == 2
    pool.configure("MAX_JOBS_RUNNING = 3")
    pool.handle(s.Negotiate(pool.id()))
    assert len(pool.engine.state.by_job) == 3
    pool.configure("MAX_JOBS_RUNNING = 1")
    pool.handle(s.Negotiate(pool.id()))
    assert len(pool.engine.state.by_job) == 3, "lowering it ends no job"


STEPS = st.lists(st.tuples(st.sampled_from(["alice", "bob", "carol"]), st.integers(-3, 8)), min_size=1, max_size=12)


@given(steps=STEPS)
@settings(max_examples=12, deadline=None)
def test_limits_hold_for_all_users_who_submit_and_remove(steps: list[tuple[str, int]]) -> None:
    pool = PolicyPool(LIMITS)
    for user, count in steps:
        if count > 0:
            pool.submit(user=user, count=count)
        else:
            numbers = tuple(pool.engine.state.clusters)[:-count]
            pool.handle(job_command(pool.id(), "condor", "remove", s.Selection(clusters=numbers)))
        clusters = pool.engine.state.clusters.values()
        by_owner = [sum(c.live for c in clusters if pool.engine.state.owner(c) == name) for name in ("alice", "bob")]
        assert max(by_owner) <= 9
        assert sum(cluster.live for cluster in clusters) <= 12
    assert examine(pool.log.read()).violations == []


def created_jobs(pool: PolicyPool) -> list[int]:
    """Return how many jobs of each cluster are in the queue."""
    return [cluster.live for _, cluster in sorted(pool.engine.state.clusters.items())]


@together(
    ("limits", "expected"),
    [
        ("", [2, 500]),
        ("MAX_JOBS_PER_OWNER = 9", [2, 7]),
        ("MAX_JOBS_SUBMITTED = 12", [2, 10]),
        ("MAX_JOBS_PER_SUBMISSION = 6", [2, 6]),
        ("MAX_MATERIALIZED_JOBS_PER_CLUSTER = 5", [2, 5]),
    ],
)
def test_a_factory_is_accepted_and_creates_as_many_jobs_as_the_limits_permit(limits: str, expected: list[int]) -> None:
    pool = PolicyPool(limits)
    pool.submit(count=2)
    assert pool.submit(count=500, JobMaterializeMaxIdle="1000").refusal == ""
    assert created_jobs(pool) == expected
    assert examine(pool.log.read()).violations == []


def test_a_factory_continues_when_other_jobs_leave_or_the_limit_is_raised() -> None:
    pool = PolicyPool("MAX_JOBS_PER_OWNER = 9")
    pool.submit(count=5)
    pool.submit(count=500, JobMaterializeMaxIdle="1000")
    assert created_jobs(pool) == [5, 4]
    pool.handle(job_command(pool.id(), "alice", "remove", s.Selection(jobs=((1, 0), (1, 3)))))
    assert created_jobs(pool) == [3, 6]
    pool.configure("MAX_JOBS_PER_OWNER = 20")
    assert created_jobs(pool) == [3, 17]
    assert examine(pool.log.read()).violations == []
