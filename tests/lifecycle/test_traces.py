"""Golden: what a real pool's slots did, log by log, is what the dialect htcondor-25 allows, row by row."""

from collections import Counter

from poolbook.domain.state_machines import HTCONDOR_25, MANUAL, TransitionRow, classify, slot_machine
from poolbook.domain.state_machines.slot_rows import HTCONDOR_25_ROWS

from ..together import together
from . import startlog

COUNTED = startlog.counted()
RUNS = startlog.runs()


def test_there_are_21_runs_here_and_9_more_in_the_counts() -> None:
    assert len(RUNS) == 21
    assert len({run for run, *_ in COUNTED} - set(RUNS)) == 9


@together("run", RUNS)
def test_every_transition_of_a_run_is_one_row_and_each_row_comes_up_as_often_as_was_counted(run: str) -> None:
    machine = slot_machine(HTCONDOR_25.name)
    seen: Counter[tuple[str, str, str, str]] = Counter()
    for source, target in startlog.steps(run):
        rows = classify(HTCONDOR_25, source, target)
        assert len(rows) == 1, f"{source} -> {target}"
        assert machine.fire(source, rows[0].number, target) == target
        seen[run, rows[0].number, source, target] += 1
    assert seen == Counter({step: count for step, count in COUNTED.items() if step[0] == run})
    assert seen


def test_every_transition_that_was_ever_counted_is_legal() -> None:
    machine = slot_machine(HTCONDOR_25.name)
    assert [entry for entry in COUNTED if not machine.legal(entry[2], entry[1], entry[3])] == []
    assert sum(COUNTED.values()) == 4421


def test_the_manual_does_not_allow_what_only_the_real_startd_does() -> None:
    beyond = {number for _, number, source, target in COUNTED if not classify(MANUAL, source, target)}
    assert beyond == {"2a", "5a", "10a", "12", "12a", "12b", "12c", "13a", "13b", "35a", "35b"}


@together("row", HTCONDOR_25_ROWS)
def test_a_row_was_seen_unless_its_place_is_the_source_alone(row: TransitionRow) -> None:
    seen = row.number in {number for _, number, _, _ in COUNTED}
    assert seen == (row.place != "startd source")


def test_a_step_for_which_the_place_says_startd_source_was_not_seen_and_every_other_was() -> None:
    seen = {tuple(step) for _, _, *step in COUNTED}
    unseen = {step for row in HTCONDOR_25_ROWS for step in row.steps if step not in seen}
    assert unseen == {
        ("Backfill/Killing", "Claimed/Idle"),
        ("Backfill/Killing", "Matched/Idle"),
        ("Backfill/Killing", "Owner/Idle"),
        ("Claimed/Idle", "Backfill/Idle"),
        ("Claimed/Idle", "Backfill/Killing"),
        ("Claimed/Idle", "Drained/Retiring"),
        ("Claimed/Idle", "Matched/Idle"),
        ("Claimed/Idle", "Owner/Idle"),
        ("Claimed/Idle", "Unclaimed/Idle"),
        ("Claimed/Suspended", "Claimed/Cleaning"),
        ("Claimed/Suspended", "Claimed/Idle"),
        ("Claimed/Suspended", "Preempting/Killing"),
        ("Drained/Retiring", "Claimed/Idle"),
        ("Owner/Idle", "Deleted"),
        ("Owner/Idle", "Matched/Idle"),
        ("Owner/Retiring", "Drained/Retiring"),
        ("Unclaimed/Benchmarking", "Backfill/Idle"),
        ("Unclaimed/Benchmarking", "Claimed/Idle"),
        ("Unclaimed/Benchmarking", "Drained/Retiring"),
        ("Unclaimed/Benchmarking", "Matched/Idle"),
        ("Unclaimed/Idle", "Backfill/Idle"),
    }
