"""The sentence of a pool, for each number of slots and jobs."""

from __future__ import annotations

import pytest

from poolbook.adapters.overview.records import WaitingReason
from poolbook.adapters.overview.sentences import hold_clause, pool_sentence

MEMORY = WaitingReason("1.0", 900, "alice@x", "no slot has the memory that it requests", "memory")
SHARE = WaitingReason("2.0", 300, "bob@x", "the fair share of bob@x is used up", "their fair share")


@pytest.mark.parametrize(
    ("busy", "slots", "jobs", "waiting", "sentence"),
    [
        (0, 0, {}, [], "The pool has no slots and no jobs."),
        (0, 0, {"idle": 2}, [], "The pool has no slots; 2 jobs wait."),
        (0, 1, {}, [], "The only slot is free; no jobs wait."),
        (1, 1, {"running": 1}, [], "The only slot is busy; no jobs wait."),
        (0, 4, {}, [], "None of 4 slots is busy; no jobs wait."),
        (1, 4, {"held": 1}, [], "1 of 4 slots is busy; no jobs wait; 1 job is held."),
        (4, 4, {"idle": 1}, [SHARE], "All 4 slots are busy; 1 job waits for its fair share."),
        (
            312, 400, {"idle": 1204}, [MEMORY, SHARE],
            "312 of 400 slots are busy; 1,204 jobs wait, most of them for memory.",
        ),
        (312, 400, {"idle": 900, "held": 2}, [MEMORY],
         "312 of 400 slots are busy; 900 jobs wait, all for memory; 2 jobs are held."),
        (312, 400, {"idle": 5000}, [MEMORY, SHARE], "312 of 400 slots are busy; 5,000 jobs wait."),
    ],
)  # fmt: skip
def test_a_sentence_summarizes_the_pool(
    busy: int, slots: int, jobs: dict[str, int], waiting: list[WaitingReason], sentence: str
) -> None:
    assert pool_sentence(busy, slots, jobs, waiting) == sentence


@pytest.mark.parametrize(
    ("reason", "jobs", "reasons", "clause"),
    [
        ('"No such file."', 1, 1, "1 job held: No such file"),
        ('"No such file"', 3, 2, "3 jobs held: No such file; 1 other reason"),
        ("", 2, 3, "2 jobs held: no reason given; 2 other reasons"),
    ],
)
def test_a_clause_gives_the_most_common_reason_for_holds(reason: str, jobs: int, reasons: int, clause: str) -> None:
    assert hold_clause(reason, jobs, reasons) == clause
