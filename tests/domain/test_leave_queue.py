"""Golden: how jobs leave the queue: by a separate event, one for all that leave together, unless LeaveJobInQueue is
true (the submit language's leave_in_queue; the schedd's DestroyProc)."""

from __future__ import annotations

from poolbook.domain.events import EvaluationRecorded, JobExited, JobsTransitioned
from poolbook.domain.fold.evolve import fold
from poolbook.domain.ports import stimuli as s
from poolbook.replay.validation import examine
from poolbook.replay.virtual_world import Behaviour
from poolbook.replay.why.job import why_job

from ..job_commands import job_command
from ..projections.pools import folded
from ..together import together
from .pools import TestPool

UNTIL_FETCHED = "JobStatus == 4 && (CompletionDate is undefined || time() - CompletionDate < 3600)"
"""Roughly what condor_submit -spool writes; there it is ten days."""


def pool_of(jobs: int, seconds: float = 1, **ad: str) -> TestPool:
    pool = TestPool(behave=lambda launch: Behaviour(seconds, grace=None))
    pool.machine(cpus=4)
    pool.submit(jobs, **ad)
    return pool


def leaving(pool: TestPool) -> list[tuple[str, str, object]]:
    transitions = [event for event in pool.events() if isinstance(event, JobsTransitioned) and event.target == "Left"]
    return [(event.row, event.source, event.procs) for event in transitions]


def sound(pool: TestPool) -> bool:
    return examine(pool.log.read()).violations == []


def test_jobs_that_end_together_leave_by_one_event_in_the_append_of_their_ends() -> None:
    pool = pool_of(4)
    appends: list[list[str]] = []
    pool.engine.subscribe(lambda first, events: appends.append([type(event).__name__ for event in events]))
    pool.advance(1)
    assert leaving(pool) == [("leave", "Completed", ((0, 3),))]
    (append,) = [kinds for kinds in appends if "JobExited" in kinds]
    assert append.count("JobExited") == 4
    assert append.count("JobsTransitioned") == 1
    assert pool.state.clusters == {}
    assert sound(pool)


def test_a_removal_of_many_jobs_is_two_events() -> None:
    pool = TestPool()
    pool.submit(1000)
    before = len(pool.events())
    pool.act("remove", "1")
    assert [type(event).__name__ for event in pool.events()[before:]] == [
        "JobsTransitioned",
        "RequestAnswered",
        "JobsTransitioned",
    ]
    assert leaving(pool) == [("leave", "Removed", ((0, 999),))]


def test_the_history_has_a_job_from_when_it_left_the_queue() -> None:
    pool = pool_of(1, LeaveJobInQueue="JobStatus == 4")
    pool.advance(5)
    assert pool.status("1.0") == "Completed"
    events = list(pool.log.read())
    assert [row[0] for row in folded(events).execute("SELECT status FROM jobs")] == [4]
    pool.act("remove", "1.0")
    tables = folded(list(pool.log.read()))
    assert tables.execute("SELECT status FROM history").fetchall() == [(3,)]
    assert tables.execute("SELECT count(*) FROM jobs").fetchall() == [(0,)]


@together(
    ("text", "stays"),
    [("", False), ("false", False), ("0", False), ("undefined", False), ("Missing", False), ('"yes"', False),
     ("true", True), ("1", True), ("JobStatus == 4", True), ("ExitCode == 1", False), ("ProcId == 0", True)],
)  # fmt: skip
def test_a_job_stays_in_the_queue_while_its_leave_job_in_queue_is_true(text: str, stays: bool) -> None:
    pool = pool_of(1, 1, **({"LeaveJobInQueue": text} if text else {}))
    pool.advance(5)
    assert pool.status("1.0") == ("Completed" if stays else "ended")
    assert sound(pool)


def test_leave_job_in_queue_is_evaluated_for_each_job_of_a_cluster() -> None:
    pool = pool_of(4, LeaveJobInQueue="ProcId == 1 || ProcId == 2")
    pool.advance(5)
    assert [pool.status(f"1.{proc}") for proc in range(4)] == ["ended", "Completed", "Completed", "ended"]
    notes = [
        event for event in pool.events() if isinstance(event, EvaluationRecorded) and event.name == "LeaveJobInQueue"
    ]
    assert {(note.value, note.read["MY.ProcId"]) for note in notes} >= {("false", "0"), ("false", "3")}
    assert sound(pool)


def test_leave_job_in_queue_is_evaluated_again_when_time_may_have_changed_it() -> None:
    pool = pool_of(1, LeaveJobInQueue=UNTIL_FETCHED)
    pool.advance(3600)
    assert pool.status("1.0") == "Completed"
    before = len(pool.events())
    pool.advance(60)
    assert pool.status("1.0") == "ended"
    assert [type(event).__name__ for event in pool.events()[before:]] == ["EvaluationRecorded", "JobsTransitioned"]
    assert sound(pool)
    last = why_job(list(pool.log.read()), 1, 0).life[-1]
    assert last.text == "Job 1.0 left the queue."
    assert last.full.startswith("Job 1.0 left the queue. LeaveJobInQueue = JobStatus == 4 && ")
    assert " was false, with " in last.full


def test_an_expression_that_does_not_depend_on_time_is_not_evaluated_again() -> None:
    pool = pool_of(1, LeaveJobInQueue="JobStatus == 4")
    pool.advance(5)
    assert pool.engine.next_wake() is None


def test_a_restarted_pool_continues_to_evaluate() -> None:
    pool = pool_of(1, LeaveJobInQueue=UNTIL_FETCHED)
    pool.advance(60)
    pool.engine.load()
    pool.advance(3700)
    assert pool.status("1.0") == "ended"


def test_leave_job_in_queue_is_evaluated_again_after_an_edit() -> None:
    pool = pool_of(2, LeaveJobInQueue="true")
    pool.advance(5)
    pool.edit("1.0", LeaveJobInQueue="false")
    assert [pool.status("1.0"), pool.status("1.1")] == ["ended", "Completed"]
    pool.edit("1.1", Fetched="true")
    assert pool.status("1.1") == "Completed"
    pool.edit("1.1", leavejobINQUEUE="Fetched isnt true")
    assert pool.status("1.1") == "ended"
    assert sound(pool)


def test_a_removed_completed_job_leaves_unless_its_expression_keeps_it() -> None:
    pool = pool_of(1, LeaveJobInQueue="JobStatus == 4")
    pool.advance(5)
    (outcome,) = pool.act("remove", "1.0").value
    assert outcome["result"] == "done"
    assert leaving(pool) == [("leave", "Removed", ((0, 0),))]
    pool_with_kept_job = pool_of(1, LeaveJobInQueue="true")
    pool_with_kept_job.advance(5)
    pool_with_kept_job.act("remove", "1.0")
    assert pool_with_kept_job.status("1.0") == "Removed"
    (outcome,) = pool_with_kept_job.act("remove", "1.0").value
    assert outcome["result"] == "Removed"
    (outcome,) = pool_with_kept_job.act("remove now", "1.0").value
    assert outcome["result"] == "done"
    assert leaving(pool_with_kept_job) == [("remove_x", "Removed", ((0, 0),))]
    assert sound(pool)
    assert sound(pool_with_kept_job)


def test_running_processes_of_a_removed_job_keep_it_in_the_queue_even_if_it_is_to_be_forgotten() -> None:
    pool = pool_of(1, 900)
    pool.advance(1)
    pool.act("remove", "1.0")
    (outcome,) = pool.act("remove now", "1.0").value
    assert outcome["result"] == "done"
    assert (pool.status("1.0"), leaving(pool)) == ("Removed", [])
    pool.advance(1)
    assert leaving(pool) == [("leave", "Removed", ((0, 0),))]
    assert sound(pool)


def test_no_other_stimulus_sees_a_job_that_is_about_to_leave() -> None:
    pool = TestPool(behave=lambda launch: Behaviour(900))
    pool.machine(cpus=2)
    pool.submit(2)
    keys = list(pool.state.activations)
    ends = [s.ActivationEnded(f"end-{key}", key, pool.world.clock, code=0) for key in keys]
    command = job_command(pool.id(), "alice", "remove", s.Selection(clusters=(1,)))
    *_, answer = pool.engine.handle([*ends, command])
    assert [outcome["result"] for outcome in answer.value] == ["not found"]
    assert leaving(pool) == [("leave", "Completed", ((0, 1),))]


def test_why_reports_what_keeps_a_job_in_the_queue() -> None:
    pool = pool_of(1, LeaveJobInQueue="JobStatus == 4")
    pool.advance(5)
    sentences = [line.full for line in why_job(list(pool.log.read()), 1, 0).lines]
    assert "It stays in the queue while its LeaveJobInQueue is true: JobStatus == 4." in sentences
    pool.act("remove", "1.0")
    assert not any("stays in the queue" in text for text in why_job(list(pool.log.read()), 1, 0).texts)


def test_the_state_equals_the_folded_log_while_jobs_stay() -> None:
    pool = pool_of(3, LeaveJobInQueue="ProcId == 1")
    pool.advance(5)
    refolded = fold(pool.log.read())
    assert refolded.clusters[1].attributes(1) == pool.state.clusters[1].attributes(1)
    assert [proc in refolded.clusters[1] for proc in range(3)] == [False, True, False]
    assert sum(isinstance(event, JobExited) for event in pool.events()) == 3
