"""Golden: noop jobs complete without running, with the end that an HTCondor 25.14 pool logged for them."""

from __future__ import annotations

from collections.abc import Mapping

from poolbook.domain import events as e
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state.proc_ads import pack
from poolbook.replay.validation import examine

from ..domain.pools import JOB, TestPool
from ..together import together
from ..userlog.pool import JOB as LOGGED_JOB
from ..userlog.pool import Pool, event_body

# As HTCondor 25.14.1 wrote them after condor_qedit had set these attributes.
KILLED = """Job terminated.
	(0) Abnormal termination (signal 9)
	(0) No core file
		Usr 0 00:00:00, Sys 0 00:00:00  -  Run Remote Usage
		Usr 0 00:00:00, Sys 0 00:00:00  -  Run Local Usage
		Usr 0 00:00:00, Sys 0 00:00:00  -  Total Remote Usage
		Usr 0 00:00:00, Sys 0 00:00:00  -  Total Local Usage
	0  -  Run Bytes Sent By Job
	0  -  Run Bytes Received By Job
	0  -  Total Bytes Sent By Job
	0  -  Total Bytes Received By Job
"""
EXITED = KILLED.replace(
    "\t(0) Abnormal termination (signal 9)\n\t(0) No core file\n", "\t(1) Normal termination (return value 7)\n"
)


def pool_of(dialect: str = "manual", **attributes: str) -> TestPool:
    pool = TestPool(dialect=dialect)
    pool.machine()
    pool.submit(2, LeaveJobInQueue="true", **attributes)
    pool.advance(30)
    return pool


def starts(pool: TestPool) -> int:
    return sum(isinstance(event, e.JobActivated) for event in pool.events())


@together(
    ("attributes", "end"),
    [
        ({"IsNoopJob": "true"}, ("0", None)),
        ({"IsNoopJob": "JobPrio == 0", "NoopJobExitCode": "2 + 1"}, ("3", None)),
        ({"IsNoopJob": "true", "NoopJobExitSignal": "9"}, (None, "9")),
        ({"IsNoopJob": "true", "NoopJobExitSignal": "9", "NoopJobExitCode": "3"}, ("3", None)),
    ],
)
def test_a_noop_job_completes_without_running(
    attributes: Mapping[str, str], end: tuple[str | None, str | None]
) -> None:
    pool = pool_of(**attributes)
    ad = pool.state.clusters[1].attributes(1)
    assert (pool.status("1.1"), starts(pool)) == ("Completed", 0)
    assert (ad.get("ExitCode"), ad.get("ExitSignal")) == end
    assert ad["CompletionDate"] == ad["EnteredCurrentStatus"]
    assert not examine(pool.log.read()).violations


@together("value", ["false", "undefined", '"true"', "JobPrio > 0"])
def test_a_job_runs_unless_its_noop_expression_is_true(value: str) -> None:
    assert starts(pool_of(IsNoopJob=value)) == 2


def test_only_the_noop_jobs_of_a_cluster_skip_their_run() -> None:
    pool = TestPool()
    pool.machine()
    pool.handle(s.Submit(pool.id(), "alice", 0, JOB, 3, pack({"IsNoopJob": ["false", "true", "false"]})))
    pool.advance(10)
    assert [pool.status(f"1.{proc}") for proc in range(3)] == ["Running", "ended", "Running"]


def test_a_held_noop_job_completes_when_it_is_released() -> None:
    pool = TestPool()
    pool.submit(JobStatus="5", HoldReasonCode="15", IsNoopJob="true")
    assert pool.status("1.0") == "Held"
    pool.act("release", "1.0")
    pool.advance(1)
    assert pool.status("1.0") == "ended"


def test_htcondor_25_completes_a_noop_job_only_after_an_edit() -> None:
    pool = pool_of("htcondor-25", IsNoopJob="true")
    assert starts(pool) == 2
    pool.submit(IsNoopJob="false", Requirements="false", LeaveJobInQueue="true")
    pool.edit("2.0", IsNoopJob="true")
    assert pool.status("2.0") == "Completed"


@together(("attribute", "value", "text"), [("NoopJobExitSignal", "9", KILLED), ("NoopJobExitCode", "7", EXITED)])
def test_the_job_event_log_has_the_end_that_htcondor_logs(attribute: str, value: str, text: str) -> None:
    pool = Pool()
    pool.submit(LOGGED_JOB)
    pool.edit({"IsNoopJob": "true", attribute: value})
    assert event_body(pool, "005") == text
