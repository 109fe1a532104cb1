"""Golden: what becomes of the jobs of some 270 submit files in a pool of ours is what became of them in a real one
(HTCondor 25.14), but for what a table lists with its reasons. `make realpool` asks both pools anew."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import pytest
from attrs import evolve

from ..sampling import spread
from ..together import together
from .cases import cases
from .differences import Known, compared, elsewhere, gone, known, unlisted
from .page import PAGE, section
from .pools import Own
from .stories import Told, live, recorded

MOVING = [case.name for case in cases() if case.name.startswith(("transfer-", "url-", "checkpoint"))]
SLOW = {"deferral", *MOVING} - {*spread(MOVING, 45)}
"""The one that waits for twenty seconds, and some of the many whose files move."""


@pytest.mark.parametrize("without", [SLOW, pytest.param(set(), marks=pytest.mark.soak)], ids=["fast", "all"])
def test_jobs_come_to_what_they_came_to_in_a_real_pool(without: set[str], tmp_path: Path) -> None:
    rows = known()
    left_out = elsewhere(rows) | without
    mine = [case for case in cases() if case.name not in left_out]
    with Own(tmp_path).served() as pool:
        here = live(pool, mine)
    there = {job: told for job, told in recorded().items() if job.partition(".")[0] not in left_out}
    found = compared(there, here)
    assert unlisted(found, rows) == []
    assert gone(found, rows, here) == []


def test_there_are_submit_files_enough_and_all_of_them_were_recorded() -> None:
    names = {case.name for case in cases()}
    assert len(names) >= 40
    assert {job.partition(".")[0] for job in recorded()} == names


def test_the_table_names_submit_files_that_there_are() -> None:
    names = {case.name for case in cases()}
    assert [job for row in known() for job in row.jobs if not fnmatch.filter(names, job)] == []


def test_the_page_lists_what_the_table_lists() -> None:
    assert section() in PAGE.read_text(encoding="utf-8"), "docs/fidelity.md is out of date: run python docs/generate.py"


A_JOB = Told(("000 submitted", "001 began", "006 N", "012 held: gone"), {"JobStatus": "5", "Old": "undefined"}, {})


@together(
    ("here", "found"),
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
def test_a_difference_is_found(here: Told, found: list[tuple[str, str, str]]) -> None:
    assert [(one.what, one.there, one.here) for one in compared({"job": A_JOB}, {"job": here})] == found


def test_a_difference_that_is_not_listed_and_one_that_is_gone_are_told() -> None:
    row = Known("stays", "", ("failure", "signal"), ("JobStatus",), "4", "1", True)
    other = compared({"success": A_JOB}, {"success": evolve(A_JOB, ad={"JobStatus": "4"})})
    assert unlisted(other, [row]) == ["success | JobStatus | '5' | '4'"]
    assert gone(other, [row], row.jobs) == [f"{' '.join(row.jobs)} | JobStatus"]
    assert gone(other, [row], ["success"]) == []
