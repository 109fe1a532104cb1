"""Golden: the messages about jobs that failed, are held, cannot be matched, or are left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from poolbook.adapters.cli.run_report import STDERR_LINES, ClusterResult, UnmatchableJob, failures
from poolbook.domain import events as e
from poolbook.domain.state.job_ad import quoted
from poolbook.domain.state.proc_ads import pack
from poolbook.replay.outcomes import outcome_text, outcomes_of

AT = 1_800_000_000_000_000


def cluster_after(
    folder: Path, count: int, *events: e.Event, number: int = 3, err: str = "err", stderr_prefix: str = ""
) -> ClusterResult:
    """Return a cluster; ``each``: how the names begin of the files with each job's own stderr."""
    ad = {"Iwd": quoted(str(folder)), "Err": quoted(err), "Out": quoted("out/o"), "Cmd": quoted("/bin/sh")}
    columns = pack({"Err": [quoted(f"{stderr_prefix}{proc}") for proc in range(count)]}) if stderr_prefix else ()
    submission = e.ClusterSubmitted(AT, "submitted", "x", number, "alice", ad, count, columns, "Idle")
    return ClusterResult(number, submission, events, outcomes_of([submission, *events]))


def ended(proc: int, code: int | None = 0, signal: int | None = None) -> e.Event:
    return e.JobExited(AT, "exited", "x", 3, proc, "slot1@h", "7", "exited", "complete", "Completed", {}, code, signal)


def held(first: int, last: int, code: str, reason: str) -> e.Event:
    changes = {"HoldReasonCode": code, "HoldReasonSubCode": "2", "HoldReason": quoted(reason)}
    return e.JobsTransitioned(AT, "user_hold", "x", 3, ((first, last),), "hold", "Idle", "Held", changes)


def test_jobs_are_counted_by_outcome_and_kind_of_failure(tmp_path: Path) -> None:
    few_failures = cluster_after(
        tmp_path, 9, ended(0), ended(1), ended(2, 1), ended(3, None, 11), held(4, 6, "1", "lunch")
    )
    assert (
        outcome_text([few_failures.outcomes]) == "2 completed, 1 failed (exit 1), 1 failed (signal 11), 3 held, 2 idle"
    )
    many_failures = cluster_after(tmp_path, 5, *(ended(proc, proc + 1) for proc in range(5)))
    assert outcome_text([many_failures.outcomes]) == "5 failed"
    assert outcome_text([few_failures.outcomes, cluster_after(tmp_path, 1, number=4).outcomes]).endswith(
        "3 held, 3 idle"
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"only\n", ["only"]),
        (b"".join(b"line %d\n" % number for number in range(20)), [f"line {number}" for number in range(15, 20)]),
        (b"\x1b[2Jgone\n\n\n", ["\\x1b[2Jgone"]),
        (b"\xff\xfe", ["\ufffd\ufffd"]),
        (b"x" * 100_000 + b"end", ["..." + "x" * 194 + "end"]),
    ],
)
def test_the_first_failure_is_reported_with_the_end_of_its_stderr(
    tmp_path: Path, content: bytes, expected: list[str]
) -> None:
    (tmp_path / "err1").write_bytes(content)
    (message, *other_messages), suggestions = failures(
        [cluster_after(tmp_path, 2, ended(1, 2), ended(0, 1), stderr_prefix="err")], {}, False
    )
    first, *lines = message.split("\n")
    assert first == (
        f"3.1 failed (exit 2); the end of its stderr ({tmp_path}/err1):" if expected else "3.1 failed (exit 2)."
    )
    assert lines == [f"    {line}" for line in expected]
    assert len(lines) <= STDERR_LINES
    assert other_messages == []
    assert suggestions == [("why 3.1", "explain why it failed")]


def test_a_shared_or_discarded_stderr_is_reported_as_such(tmp_path: Path) -> None:
    (tmp_path / "err").write_text("oh\n")
    (message,), _ = failures([cluster_after(tmp_path, 2, ended(0, 1), ended(1))], {}, False)
    assert message.startswith(
        f"3.0 failed (exit 1); the end of its stderr ({tmp_path}/err, which other jobs also write):"
    )
    (message,), _ = failures([cluster_after(tmp_path, 1, ended(0, 1), err=os.devnull)], {}, False)
    assert message == "3.0 failed (exit 1); its stderr was not saved (its submit file has no `error =`)."


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "err")
    messages, _ = failures([cluster_after(tmp_path, 1, ended(0, 1))], {}, False)
    assert messages == ["3.0 failed (exit 1)."]


def test_jobs_held_for_one_reason_are_one_sentence_with_the_remedy(tmp_path: Path) -> None:
    reason = f"stdout {tmp_path}/out/o: No such file or directory"
    messages, suggestions = failures([cluster_after(tmp_path, 3, held(0, 2, "7", reason))], {}, False)
    remedy = f"`mkdir -p {tmp_path}/out`, then `poolbook release 3` and `poolbook resume`."
    assert messages == [f"3 jobs are held for the same reason; 3.0: {reason}. {remedy}"]
    assert [call for call, _ in suggestions] == ["why 3.0", "release 3"]
    (tmp_path / "out").mkdir()
    (told_again,), _ = failures([cluster_after(tmp_path, 3, held(0, 2, "7", reason))], {}, False)
    assert told_again.endswith("then `poolbook release 3`; `poolbook resume` runs the released jobs.")


@pytest.mark.parametrize(
    ("names", "is_one"),
    [
        (("out/0", "out/1", "out/2"), True),
        (("out2/a.000", "out2/a.001", "out2/a.002"), True),
        (("missing/0", "missing2/1", "missing/2"), False),
        (("out/a", "out/b", "out/b"), False),
    ],
)
def test_reasons_that_differ_in_more_than_job_numbers_are_separate(
    tmp_path: Path, names: tuple[str, ...], is_one: bool
) -> None:
    events = (held(proc, proc, "7", f"stdout {name}: No such file") for proc, name in enumerate(names))
    (message,), _ = failures([cluster_after(tmp_path, 3, *events)], {}, False)
    assert message.startswith(
        "3 jobs are held for the same reason; " if is_one else "3 jobs are held for several reasons; "
    )


def test_a_job_submitted_on_hold_needs_no_fix(tmp_path: Path) -> None:
    (message,), suggestions = failures(
        [cluster_after(tmp_path, 1, held(0, 0, "15", "submitted on hold at user's request"))], {}, False
    )
    assert message.endswith(". You submitted it on hold: `poolbook release 3` and `poolbook resume` let it run.")
    assert suggestions[1] == ("release 3", "then `poolbook resume` runs them")


def test_jobs_held_for_several_reasons_are_reported_with_the_first(tmp_path: Path) -> None:
    (message,), _ = failures(
        [cluster_after(tmp_path, 3, held(1, 2, "1", "lunch"), held(0, 0, "7", "no room"))], {}, False
    )
    assert message.startswith("3 jobs are held for several reasons; 3.1: lunch. ")
    (only_message,), _ = failures([cluster_after(tmp_path, 1, held(0, 0, "1", "lunch"))], {}, False)
    assert only_message.startswith("3.0 is held: lunch. ")


def test_an_unmatchable_job_is_reported_and_resuming_is_not_recommended(tmp_path: Path) -> None:
    unmatchable = UnmatchableJob("no slot can run it: it requests 64 cores", 2)
    for is_interrupted in (False, True):
        messages, suggestions = failures([cluster_after(tmp_path, 2)], {3: unmatchable}, is_interrupted)
        assert messages == ["3.0 is idle: no slot can run it: it requests 64 cores."]
        assert [call for call, _ in suggestions] == ["why 3.0", "rm 3"]
    messages, suggestions = failures([cluster_after(tmp_path, 3)], {3: unmatchable}, True)
    assert messages[1:] == ["1 job is left: `poolbook resume` continues with it."]
    assert [call for call, _ in suggestions] == ["resume", "why 3.0", "rm 3"]


def test_resuming_is_not_recommended_without_runnable_jobs(tmp_path: Path) -> None:
    messages, suggestions = failures([cluster_after(tmp_path, 3, ended(0))], {}, False)
    assert messages == ["2 jobs are left: no slot accepts them now."]
    assert suggestions == [("why 3.1", "explain what it is waiting for")]


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        (1, "1 job is left: `poolbook resume` continues with it."),
        (2, "2 jobs are left: `poolbook resume` continues with them."),
    ],
)
def test_after_an_interruption_the_command_to_resume_is_printed(tmp_path: Path, jobs: int, expected: str) -> None:
    messages, suggestions = failures([cluster_after(tmp_path, 3, *(ended(proc) for proc in range(3 - jobs)))], {}, True)
    assert messages == [expected]
    assert suggestions == [("resume", "continue with the remaining jobs")]


def test_successful_jobs_give_no_message(tmp_path: Path) -> None:
    assert failures([cluster_after(tmp_path, 2, ended(0), ended(1))], {}, False) == ([], [])
