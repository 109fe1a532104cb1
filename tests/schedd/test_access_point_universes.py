"""Golden: the access point itself runs jobs of some universes, by the rules of HTCondor 25.14 (IsLocalJobEligibleToRun,
schedd.cpp)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec.structs import replace

from poolbook import Behaviour, Pool
from poolbook.domain.events import EvaluationRecorded, JobActivated
from poolbook.domain.ports import stimuli as s
from poolbook.replay.validation import examine
from poolbook.replay.why.job import why_job

from ..submit.fakes import submit
from ..together import together
from .policy_pool import PolicyPool

LOCAL, SCHEDULER = "12", "7"
DEFAULT_REQUIREMENTS = (
    '(TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX") && (TARGET.Disk >= RequestDisk) && '
    "(TARGET.Memory >= RequestMemory)"
)
MACHINE = {"Arch": '"X86_64"', "OpSys": '"LINUX"', "DetectedMemory": "4096", "DetectedCpus": "4", "TotalDisk": "100000"}


def counts(pool: Pool) -> Counter[tuple[str, int]]:
    """Return how many jobs of each universe are in each status."""
    return Counter((str(job["JobUniverse"]), job["JobStatus"]) for job in pool.jobs())


def test_each_universe_runs_at_most_its_limit_of_jobs() -> None:
    limits = {LOCAL: 200, SCHEDULER: 200}  # of the scheduler universe 500, of one owner 200
    with Pool.open("memory:", behave=lambda launch: Behaviour(seconds=600)) as pool:
        for universe in limits:
            pool.submit({"executable": "/bin/sleep", "universe": universe}, count=limits[universe] + 2)
        pool.advance(10)
        expected = {(universe, 2): some for universe, some in limits.items()}
        assert counts(pool) == Counter(expected | {(universe, 1): 2 for universe in limits})
        pool.advance(600)
        assert counts(pool) == Counter({(universe, 2): 2 for universe in limits})
        assert pool.judge() == []


def test_a_scheduler_job_requests_what_a_local_job_requests_except_deferral() -> None:
    ads = [submit(f"universe = {universe}\ncron_minute = 5\nqueue").ad for universe in ("scheduler", "local")]
    assert [ad["JobUniverse"] for ad in ads] == ["7", "12"]
    assert ["TARGET.HasJobDeferral" in ad["Requirements"] for ad in ads] == [True, False]
    own_attributes = [
        {name: text for name, text in ad.items() if name not in ("JobUniverse", "Requirements")} for ad in ads
    ]
    assert own_attributes[0] == own_attributes[1]


def running_jobs(pool: PolicyPool) -> list[str]:
    """Return the running jobs, after the access point has started all that it may."""
    pool.handle(s.ClaimMatches(pool.id()))
    clusters = pool.engine.state.clusters.values()
    return [
        f"{cluster.id}.{proc}"
        for cluster in clusters
        for proc in cluster.procs()
        if cluster.status_of(proc) == "Running"
    ]


@together(
    ("config", "ads", "runs"),
    [
        # how many
        ("START_LOCAL_UNIVERSE = TotalLocalJobsRunning < 2", [{}, {}, {}], ["1.0", "2.0"]),
        ("START_SCHEDULER_UNIVERSE = TotalSchedulerJobsRunning < 1",
         [{"JobUniverse": SCHEDULER}, {}, {"JobUniverse": SCHEDULER}], ["1.0", "2.0"]),
        ("SCHEDD_ATTRS = Most\nMost = 1\nSTART_LOCAL_UNIVERSE = TotalLocalJobsRunning < Most", [{}, {}], ["1.0"]),
        ("START_LOCAL_UNIVERSE = false", [{}, {"JobUniverse": SCHEDULER}], ["2.0"]),
        # which
        ("START_LOCAL_UNIVERSE = TARGET.Quick && TotalLocalJobsRunning < 1",
         [{"Quick": "false"}, {"Quick": "true"}, {"Quick": "true"}], ["2.0"]),
        ('START_LOCAL_UNIVERSE = TARGET.Owner == "alice"', [{}, {"user": "bob"}], ["1.0"]),
        # a value that is neither true nor false starts none; a number other than 0 is true
        ("START_LOCAL_UNIVERSE = NoSuchThing", [{}], []),
        ("START_LOCAL_UNIVERSE = 1", [{}], ["1.0"]),
        # of an owner
        ("MAX_RUNNING_SCHEDULER_JOBS_PER_OWNER = 1",
         [{"JobUniverse": SCHEDULER}, {"JobUniverse": SCHEDULER}, {"JobUniverse": SCHEDULER, "user": "bob"}, {}],
         ["1.0", "3.0", "4.0"]),
        ("MAX_RUNNING_SCHEDULER_JOBS_PER_OWNER = 0", [{"JobUniverse": SCHEDULER}, {}], ["2.0"]),
        # the job's own Requirements, of the access point
        ("", [{"Requirements": DEFAULT_REQUIREMENTS}], ["1.0"]),
        ("", [{"Requirements": DEFAULT_REQUIREMENTS, "RequestMemory": "5000"}, {}], ["2.0"]),
        ("", [{"Requirements": 'TARGET.OpSys == "WINDOWS"'}], []),
        ("", [{"Requirements": "TARGET.Cpus == 4 && TARGET.TotalLocalJobsRunning == 0"}] * 2, ["1.0"]),
        ("", [{"Requirements": "TARGET.HasNothing"}], []),
    ],
)  # fmt: skip
def test_a_job_starts_when_the_access_points_expression_and_its_own_requirements_are_true(
    config: str, ads: list[dict[str, Any]], runs: list[str]
) -> None:
    pool = PolicyPool(config)
    pool.machine(**MACHINE)
    for ad in ads:
        assert pool.submit(**{"JobUniverse": LOCAL, **ad}).refusal == ""
    assert running_jobs(pool) == runs


def test_jobs_of_one_cluster_are_evaluated_one_by_one_where_they_differ() -> None:
    pool = PolicyPool("START_LOCAL_UNIVERSE = TARGET.Size < 3")
    pool.machine(**MACHINE)
    pool.submit(count=4, columns={"Size": ["5", "1", "2", "4"]}, JobUniverse=LOCAL)
    assert running_jobs(pool) == ["1.1", "1.2"]


def test_requirements_about_an_unknown_machine_keep_no_job_waiting() -> None:
    pool = PolicyPool()
    pool.submit(JobUniverse=LOCAL, Requirements=DEFAULT_REQUIREMENTS)
    assert running_jobs(pool) == ["1.0"]


def test_a_waiting_job_starts_when_the_configuration_permits_it() -> None:
    pool = PolicyPool("START_LOCAL_UNIVERSE = false")
    pool.submit(JobUniverse=LOCAL)
    assert running_jobs(pool) == []
    pool.configure("")
    assert running_jobs(pool) == ["1.0"]


def test_an_expression_that_reads_the_clock_is_evaluated_again_in_time() -> None:
    config = "START_LOCAL_UNIVERSE = time() >= 1800000400"
    with Pool.open("memory:", config=config, behave=lambda launch: Behaviour(seconds=6000)) as pool:
        pool.submit({"executable": "/bin/sleep", "universe": "local"})
        pool.advance(1000)
        (job,) = pool.jobs()
        assert job["JobCurrentStartDate"] == 1_800_000_600


def test_why_reports_what_a_job_waits_for_that_the_access_point_does_not_start() -> None:
    with Pool.open("memory:", config="START_SCHEDULER_UNIVERSE = false", user="alice") as pool:
        pool.submit({"executable": "/bin/sleep", "universe": "scheduler"})
        pool.advance(10)
        message = "The access point runs it itself, once START_SCHEDULER_UNIVERSE is true for the job and the job's"
        assert any(line.startswith(message) for line in pool.why("1.0"))


def test_the_log_has_the_expression_that_let_a_job_start_and_what_it_read() -> None:
    pool = PolicyPool("START_LOCAL_UNIVERSE = TARGET.Quick && TotalLocalJobsRunning < 1")
    pool.submit(JobUniverse=LOCAL, Quick="true")
    assert running_jobs(pool) == ["1.0"]
    (event,) = pool.of(JobActivated)
    note = pool.events[event.evidence - 1]
    assert isinstance(note, EvaluationRecorded)
    assert (note.name, note.value) == ("START_LOCAL_UNIVERSE", "true")
    assert note.read == {"TARGET.Quick": "true", "MY.TotalLocalJobsRunning": "0"}
    assert examine(pool.log.read()).violations == []
    full = [sentence.full for sentence in why_job(pool.log.read(), 1, 0).life]
    assert any("START_LOCAL_UNIVERSE = TARGET.Quick && TotalLocalJobsRunning < 1 was true" in text for text in full)


def test_a_job_started_by_another_expression_than_the_pools_is_detected() -> None:
    pool = PolicyPool("START_LOCAL_UNIVERSE = TotalLocalJobsRunning < 1")
    pool.submit(JobUniverse=LOCAL)
    running_jobs(pool)
    edited_log = [
        (
            place,
            replace(event, expression="TotalLocalJobsRunning < 2") if isinstance(event, EvaluationRecorded) else event,
        )
        for place, event in pool.log.read()
    ]
    (violation,) = examine(edited_log).violations
    assert "START_LOCAL_UNIVERSE = TotalLocalJobsRunning < 2, but START_LOCAL_UNIVERSE is" in violation.words
