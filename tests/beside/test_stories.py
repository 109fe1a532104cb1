"""Golden: the jobs of some 270 submit files have the same outcome in Poolbook as in HTCondor 25.14, except for the
differences that a table lists with its reasons. `make realpool` runs both pools again."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import pytest
from attrs import evolve

from ..sampling import spread
from ..together import together
from .cases import cases
from .differences import (
    Known,
    all_differences,
    known_differences,
    other_status_cases,
    unlisted_differences,
    unmatched_rows,
)
from .page import PAGE, section
from .pools import Own
from .stories import Outcome, recorded_outcomes, run_stories

NAMES = [case.name for case in cases() if case.name != "deferral"]  # which waits for twenty seconds
OTHERS = {"deferral", *NAMES} - {*spread(NAMES, 80)}


@pytest.mark.parametrize("without", [OTHERS, pytest.param(set(), marks=pytest.mark.soak)], ids=["some", "all"])
def test_jobs_have_the_same_outcome_as_in_htcondor(without: set[str], tmp_path: Path) -> None:
    rows = known_differences()
    left_out = other_status_cases(rows) | without
    own_cases = [case for case in cases() if case.name not in left_out]
    with Own(tmp_path).served() as pool:
        outcomes = run_stories(pool, own_cases)
    expected = {job: outcome for job, outcome in recorded_outcomes().items() if job.partition(".")[0] not in left_out}
    differences = all_differences(expected, outcomes)
    assert unlisted_differences(differences, rows) == []
    assert unmatched_rows(differences, rows, outcomes) == []


def test_there_are_enough_submit_files_and_all_are_recorded() -> None:
    names = {case.name for case in cases()}
    assert len(names) >= 40
    assert {job.partition(".")[0] for job in recorded_outcomes()} == names


def test_the_table_names_existing_submit_files() -> None:
    names = {case.name for case in cases()}
    assert [job for row in known_differences() for job in row.jobs if not fnmatch.filter(names, job)] == []


def test_the_page_lists_the_tables_rows() -> None:
    assert section() in PAGE.read_text(encoding="utf-8"), "docs/fidelity.md is out of date: run python docs/generate.py"


A_JOB = Outcome(("000 submitted", "001 began", "006 N", "012 held: gone"), {"JobStatus": "5", "Old": "undefined"}, {})


@together(
    ("here", "expected"),
    [
        (A_JOB, []),
        (evolve(A_JOB, ad={"JobStatus": "5"}), []),
        (evolve(A_JOB, ad={"JobStatus": "4"}), [("JobStatus", "5", "4")]),
        (evolve(A_JOB, ad={"JobStatus": "5", "New": "1"}), [("New", "-", "1")]),
        (evolve(A_JOB, events=("000 submitted", "001 began", "012 held: gone", "006 N")), []),
        (evolve(A_JOB, events=("000 submitted", "006 N", "012 held: gone")), [("event 001", "began", "-")]),
        (evolve(A_JOB, events=("000 submitted", "001 began", "012 held: gone")), [("event 006", "006 N", "-")]),
        (
            evolve(A_JOB, events=("000 submitted", "001 began", "004 out", "012 held: lost", "006 N")),
            [("event 004", "-", "out"), ("event 012", "held: gone", "held: lost")],
        ),
        (evolve(A_JOB, files={"out": "said"}), [("file out", "-", "said")]),
    ],
)
def test_a_difference_is_detected(here: Outcome, expected: list[tuple[str, str, str]]) -> None:
    assert [
        (difference.what, difference.there, difference.here)
        for difference in all_differences({"job": A_JOB}, {"job": here})
    ] == expected


def test_unlisted_differences_and_unmatched_rows_are_reported() -> None:
    row = Known("stays", "", ("failure", "signal"), ("JobStatus",), "4", "1", True)
    other = all_differences({"success": A_JOB}, {"success": evolve(A_JOB, ad={"JobStatus": "4"})})
    assert unlisted_differences(other, [row]) == ["success | JobStatus | '5' | '4'"]
    assert unmatched_rows(other, [row], row.jobs) == [f"{' '.join(row.jobs)} | JobStatus"]
    assert unmatched_rows(other, [row], ["success"]) == []
