"""Golden: what a person is told of jobs that failed, are held, wait for what is not there, or are left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from poolbook.adapters.cli.run_report import TAIL, ClusterResult, UnmatchableJob, failures
from poolbook.domain import events as e
from poolbook.domain.state.job_ad import quoted
from poolbook.domain.state.proc_ads import pack
from poolbook.replay.outcomes import counts, outcomes_of

AT = 1_800_000_000_000_000


def fared(
    folder: Path, count: int, *events: e.Event, number: int = 3, err: str = "err", each: str = ""
) -> ClusterResult:
    """A cluster; ``each``: how the files begin that are each job's own stderr."""
    ad = {"Iwd": quoted(str(folder)), "Err": quoted(err), "Out": quoted("out/o"), "Cmd": quoted("/bin/sh")}
    own = pack({"Err": [quoted(f"{each}{proc}") for proc in range(count)]}) if each else ()
    submitted = e.ClusterSubmitted(AT, "submitted", "x", number, "alice", ad, count, own, "Idle")
    return ClusterResult(number, submitted, events, outcomes_of([submitted, *events]))


def ended(proc: int, code: int | None = 0, signal: int | None = None) -> e.Event:
    return e.JobExited(AT, "exited", "x", 3, proc, "slot1@h", "7", "exited", "complete", "Completed", {}, code, signal)


def held(first: int, last: int, code: str, reason: str) -> e.Event:
    changes = {"HoldReasonCode": code, "HoldReasonSubCode": "2", "HoldReason": quoted(reason)}
    return e.JobsTransitioned(AT, "user_hold", "x", 3, ((first, last),), "hold", "Idle", "Held", changes)


def test_the_counts_are_by_outcome_and_by_the_way_of_failing(tmp_path: Path) -> None:
    one = fared(tmp_path, 9, ended(0), ended(1), ended(2, 1), ended(3, None, 11), held(4, 6, "1", "lunch"))
    assert counts([one.outcomes]) == "2 completed, 1 failed (exit 1), 1 failed (signal 11), 3 held, 2 idle"
    many = fared(tmp_path, 5, *(ended(proc, proc + 1) for proc in range(5)))
    assert counts([many.outcomes]) == "5 failed"
    assert counts([one.outcomes, fared(tmp_path, 1, number=4).outcomes]).endswith("3 held, 3 idle")


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"", []),
        (b"only\n", ["only"]),
        (b"".join(b"line %d\n" % number for number in range(20)), [f"line {number}" for number in range(15, 20)]),
        (b"\x1b[2Jgone\n\n\n", ["\\x1b[2Jgone"]),
        (b"\xff\xfe", ["\ufffd\ufffd"]),
        (b"x" * 100_000 + b"end", ["..." + "x" * 194 + "end"]),
    ],
)
def test_the_first_failure_is_told_with_the_end_of_its_stderr(tmp_path: Path, written: bytes, shown: list[str]) -> None:
    (tmp_path / "err1").write_bytes(written)
    (told, *rest), worth = failures([fared(tmp_path, 2, ended(1, 2), ended(0, 1), each="err")], {}, False)
    first, *lines = told.split("\n")
    assert first == (
        f"3.1 failed (exit 2); the end of its stderr ({tmp_path}/err1):" if shown else "3.1 failed (exit 2)."
    )
    assert lines == [f"    {line}" for line in shown]
    assert len(lines) <= TAIL
    assert rest == []
    assert worth == [("why 3.1", "explain why it failed")]


def test_a_stderr_that_is_not_the_jobs_alone_or_not_kept_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "err").write_text("oh\n")
    (told,), _ = failures([fared(tmp_path, 2, ended(0, 1), ended(1))], {}, False)
    assert told.startswith(f"3.0 failed (exit 1); the end of its stderr ({tmp_path}/err, which other jobs also write):")
    (told,), _ = failures([fared(tmp_path, 1, ended(0, 1), err=os.devnull)], {}, False)
    assert told == "3.0 failed (exit 1); its stderr was not saved (its submit file has no `error =`)."


def test_what_is_no_plain_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "err")
    told, _ = failures([fared(tmp_path, 1, ended(0, 1))], {}, False)
    assert told == ["3.0 failed (exit 1)."]


def test_jobs_held_for_one_reason_are_one_sentence_with_the_way_out(tmp_path: Path) -> None:
    reason = f"stdout {tmp_path}/out/o: No such file or directory"
    told, worth = failures([fared(tmp_path, 3, held(0, 2, "7", reason))], {}, False)
    way = f"`mkdir -p {tmp_path}/out`, then `poolbook release 3` and `poolbook resume`."
    assert told == [f"3 jobs are held for the same reason; 3.0: {reason}. {way}"]
    assert [call for call, _ in worth] == ["why 3.0", "release 3"]
    (tmp_path / "out").mkdir()
    (told_again,), _ = failures([fared(tmp_path, 3, held(0, 2, "7", reason))], {}, False)
    assert told_again.endswith("then `poolbook release 3`; `poolbook resume` runs the released jobs.")


@pytest.mark.parametrize(
    ("names", "one"),
    [
        (("out/0", "out/1", "out/2"), True),
        (("out2/a.000", "out2/a.001", "out2/a.002"), True),
        (("missing/0", "missing2/1", "missing/2"), False),
        (("out/a", "out/b", "out/b"), False),
    ],
)
def test_reasons_that_differ_in_more_than_the_jobs_numbers_are_several(
    tmp_path: Path, names: tuple[str, ...], one: bool
) -> None:
    events = (held(proc, proc, "7", f"stdout {name}: No such file") for proc, name in enumerate(names))
    (told,), _ = failures([fared(tmp_path, 3, *events)], {}, False)
    assert told.startswith("3 jobs are held for the same reason; " if one else "3 jobs are held for several reasons; ")


def test_a_job_that_was_submitted_on_hold_needs_no_mending(tmp_path: Path) -> None:
    (told,), worth = failures([fared(tmp_path, 1, held(0, 0, "15", "submitted on hold at user's request"))], {}, False)
    assert told.endswith(". You submitted it on hold: `poolbook release 3` and `poolbook resume` let it run.")
    assert worth[1] == ("release 3", "then `poolbook resume` runs them")


def test_jobs_held_for_several_reasons_are_told_by_the_first(tmp_path: Path) -> None:
    (told,), _ = failures([fared(tmp_path, 3, held(1, 2, "1", "lunch"), held(0, 0, "7", "no room"))], {}, False)
    assert told.startswith("3 jobs are held for several reasons; 3.1: lunch. ")
    (one,), _ = failures([fared(tmp_path, 1, held(0, 0, "1", "lunch"))], {}, False)
    assert one.startswith("3.0 is held: lunch. ")


def test_a_job_that_no_slot_can_run_is_told_and_resuming_is_not_recommended(tmp_path: Path) -> None:
    vain = UnmatchableJob("no slot can run it: it asks for 64 cores", 2)
    for interrupted in (False, True):
        told, worth = failures([fared(tmp_path, 2)], {3: vain}, interrupted)
        assert told == ["3.0 is idle: no slot can run it: it asks for 64 cores."]
        assert [call for call, _ in worth] == ["why 3.0", "rm 3"]
    told, worth = failures([fared(tmp_path, 3)], {3: vain}, True)
    assert told[1:] == ["1 job is left: `poolbook resume` continues with it."]
    assert [call for call, _ in worth] == ["resume", "why 3.0", "rm 3"]


def test_where_nothing_is_left_that_can_run_resuming_is_not_recommended(tmp_path: Path) -> None:
    told, worth = failures([fared(tmp_path, 3, ended(0))], {}, False)
    assert told == ["2 jobs are left: no slot accepts them now."]
    assert worth == [("why 3.1", "explain what it is waiting for")]


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        (1, "1 job is left: `poolbook resume` continues with it."),
        (2, "2 jobs are left: `poolbook resume` continues with them."),
    ],
)
def test_after_an_interruption_it_is_said_how_to_go_on(tmp_path: Path, jobs: int, words: str) -> None:
    told, worth = failures([fared(tmp_path, 3, *(ended(proc) for proc in range(3 - jobs)))], {}, True)
    assert told == [words]
    assert worth == [("resume", "continue with the remaining jobs")]


def test_of_jobs_that_are_all_well_nothing_is_told(tmp_path: Path) -> None:
    assert failures([fared(tmp_path, 2, ended(0), ended(1))], {}, False) == ([], [])
