"""Golden: how a job's own policy decides at its end, as in HTCondor's UserPolicy (user_job_policy.cpp) and in the
recorded run 13."""

from __future__ import annotations

import pytest

from poolbook.domain.events import EvaluationRecorded, JobExited
from poolbook.domain.state.job_ad import unquoted
from poolbook.replay.validation import examine
from poolbook.replay.virtual_world import Behaviour
from poolbook.replay.why.job import why_job

from ..together import together
from .pools import TestPool

RETRIES = {
    "JobMaxRetries": "2",
    "OnExitRemove": "NumJobCompletions > JobMaxRetries || ExitCode =?= 0",
}
"""What condor_submit makes of max_retries = 2."""


def pool_after_run(behaviour: Behaviour, seconds: float = 1, **ad: str) -> TestPool:
    """Return a pool in which a job of one second has run, and may have run again."""
    pool = TestPool(behave=lambda launch: behaviour)
    pool.machine(static=1, cpus=1)
    pool.submit(1, NumJobCompletions="0", **ad)
    pool.advance(seconds)
    return pool


def ends(pool: TestPool) -> list[JobExited]:
    return [event for event in pool.events() if isinstance(event, JobExited)]


def removes(text: str, value: str = "FALSE") -> str:
    return f"The job attribute OnExitRemove expression '{text}' evaluated to {value}"


def holds(text: str, value: str = "TRUE", codes: str = "(3, 0)") -> str:
    return f"The job attribute OnExitHold expression '{text}' evaluated to {value} {codes}"


@together(
    ("ad", "code", "row", "why"),
    [
        # no policy, or what condor_submit writes by default
        ({}, 1, "complete", ""),
        ({"OnExitHold": "false", "OnExitRemove": "true"}, 1, "complete", ""),
        ({"OnExitRemove": "false"}, 0, "requeue", removes("false")),
        ({"onexitREMOVE": "ExitCode == 0"}, 0, "complete", ""),
        ({"OnExitRemove": "ExitCode == 0"}, 3, "requeue", removes("ExitCode == 0")),
        ({"OnExitRemove": "0"}, 3, "requeue", removes("0")),
        # the hold expression is evaluated first
        ({"OnExitHold": "true"}, 0, "hold", holds("true")),
        ({"OnExitHold": "ExitCode == 4", "OnExitRemove": "false"}, 4, "hold", holds("ExitCode == 4")),
        ({"OnExitHold": "ExitCode == 4", "OnExitRemove": "false"}, 5, "requeue", removes("false")),
        (
            {"OnExitHold": "ExitCode == 4", "OnExitHoldReason": '"exit code 4"', "OnExitHoldSubCode": "17"},
            4, "hold", "exit code 4 (3, 17)",
        ),
        (
            {
                "OnExitHold": "true",
                "OnExitHoldReason": 'strcat("exit code ", ExitCode)',
                "OnExitHoldSubCode": "ExitCode * 2",
            },
            4, "hold", "exit code 4 (3, 8)",
        ),
        ({"OnExitHold": "true", "OnExitHoldReason": "17"}, 4, "hold", holds("true")),
        # a value that is neither true nor false decides nothing
        ({"OnExitHold": "Missing"}, 0, "complete", ""),
        ({"OnExitHold": "Missing", "OnExitRemove": "false"}, 0, "requeue", removes("false")),
        ({"OnExitRemove": "Missing > 3"}, 0, "complete", ""),
        ({"OnExitHold": '"yes"'}, 0, "complete", ""),
        ({"OnExitRemove": '"no"'}, 0, "complete", ""),
        ({"OnExitHold": "undefined"}, 0, "complete", ""),
        ({"OnExitRemove": "undefined"}, 1, "complete", ""),
        # the ad at that time: the end is recorded, and counted
        ({"OnExitRemove": "ExitBySignal =!= false"}, 7, "requeue", removes("ExitBySignal =!= false")),
        (
            {"OnExitRemove": "NumJobCompletions + NumJobStarts == 2 && JobStatus == 2 && RemoteHost isnt undefined"},
            7, "complete", "",
        ),
    ],
)  # fmt: skip
def test_at_its_end_a_jobs_policy_decides_its_next_status(ad: dict[str, str], code: int, row: str, why: str) -> None:
    pool = pool_after_run(Behaviour(1, code=code), 1, **ad)
    end = ends(pool)[0]
    assert (end.outcome, end.row) == ("exited", row)
    changes = end.changes
    reason = unquoted(changes.get("HoldReason") or changes.get("RequeueReason", ""))
    if row == "hold":
        reason += f" ({changes['HoldReasonCode']}, {changes['HoldReasonSubCode']})"
    assert reason == why
    assert examine(pool.log.read()).violations == []


def test_a_jobs_own_signal_counts_as_an_end_and_an_eviction_does_not() -> None:
    crash = pool_after_run(Behaviour(1, signal=11), OnExitHold="ExitBySignal && ExitSignal == 11")
    assert ends(crash)[0].row == "hold"
    evicted = pool_after_run(Behaviour(900), OnExitHold="true", OnExitRemove="false")
    evicted.act("vacate", "1.0", fast=True)
    evicted.advance(1)
    assert [end.row for end in ends(evicted)] == ["evict"]


@pytest.mark.parametrize(("code", "runs"), [(7, 3), (0, 1)])
def test_max_retries_runs_a_failing_job_that_many_times_again(code: int, runs: int) -> None:
    pool = pool_after_run(Behaviour(1, code=code), 10, **RETRIES)
    assert [end.row for end in ends(pool)] == ["requeue"] * (runs - 1) + ["complete"]
    assert pool.status("1.0") == "ended"


def test_a_requeued_job_has_the_counts_of_the_recorded_run() -> None:
    """Trace 13: after a requeue the ad has its end and NumJobCompletions, and nothing was vacated or committed."""
    pool = pool_after_run(Behaviour(10), 10, OnExitRemove="false")
    cluster = pool.state.clusters[1]
    attributes = cluster.attributes(0)
    assert {name: attributes.get(name) for name in ("ExitCode", "ExitBySignal", "ExitStatus", "NumJobCompletions")} == {
        "ExitCode": "0", "ExitBySignal": "false", "ExitStatus": "0", "NumJobCompletions": "1",
    }  # fmt: skip
    assert not {"CommittedTime", "NumVacates", "LastVacateTime", "CompletionDate"} & {
        n for n, t in attributes.items() if t != "0"
    }
    assert attributes["RequeueReason"] == "\"The job attribute OnExitRemove expression 'false' evaluated to FALSE\""


def test_attributes_that_the_policy_read_are_recorded_and_constants_are_not() -> None:
    read = pool_after_run(Behaviour(1, code=3), OnExitHold="ExitCode == 4", OnExitRemove="ExitCode == 0")
    notes = {position: event for position, event in read.log.read() if isinstance(event, EvaluationRecorded)}
    note = notes[ends(read)[0].evidence]
    assert (note.name, note.expression, note.value, note.read) == (
        "OnExitRemove", "ExitCode == 0", "false", {"MY.ExitCode": "3"},
    )  # fmt: skip
    assert ends(pool_after_run(Behaviour(1), OnExitRemove="false"))[0].evidence == 0


@pytest.mark.parametrize(
    ("ad", "message"),
    [
        (
            {"OnExitRemove": "ExitCode == 0"},
            "with code 3; it is idle again; OnExitRemove = ExitCode == 0 was false, with MY.ExitCode = 3.",
        ),
        (
            {"OnExitRemove": "false"},
            "with code 3; it is idle again; The job attribute OnExitRemove expression 'false' evaluated to FALSE.",
        ),
        (
            {"OnExitHold": "ExitCode == 3", "OnExitHoldReason": '"three"'},
            "with code 3; it is held: three "
            "(code 3, JobPolicy: its own policy (periodic_hold, on_exit_hold) was true); "
            "OnExitHold = ExitCode == 3 was true, with MY.ExitCode = 3.",
        ),
    ],
)
def test_why_reports_what_the_policy_decided(ad: dict[str, str], message: str) -> None:
    pool = pool_after_run(Behaviour(1, code=3), 1, **ad)
    sentences = [sentence.full for sentence in why_job(list(pool.log.read()), 1, 0).life]
    assert any(text.endswith(message) for text in sentences), sentences
