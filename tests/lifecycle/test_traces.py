"""Golden: the dialect htcondor-25 allows, row by row, exactly the transitions of a real pool's slots in its logs."""

from collections import Counter

from poolbook.domain.state_machines import HTCONDOR_25, MANUAL, TransitionRow, classify, slot_machine
from poolbook.domain.state_machines.slot_rows import HTCONDOR_25_ROWS

from ..together import together
from . import startlog

RECORDED_COUNTS = startlog.recorded_counts()
RUNS = startlog.runs()


def test_there_are_21_runs_here_and_9_more_in_the_counts() -> None:
    assert len(RUNS) == 21
    assert len({run for run, *_ in RECORDED_COUNTS} - set(RUNS)) == 9


@together("run", RUNS)
def test_every_transition_of_a_run_is_one_row_with_the_recorded_count(run: str) -> None:
    machine = slot_machine(HTCONDOR_25.name)
    counts: Counter[tuple[str, str, str, str]] = Counter()
    for source, target in startlog.steps(run):
        rows = classify(HTCONDOR_25, source, target)
        assert len(rows) == 1, f"{source} -> {target}"
        assert machine.fire(source, rows[0].number, target) == target
        counts[run, rows[0].number, source, target] += 1
    assert counts == Counter({step: count for step, count in RECORDED_COUNTS.items() if step[0] == run})
    assert counts


def test_every_recorded_transition_is_legal() -> None:
    machine = slot_machine(HTCONDOR_25.name)
    assert [entry for entry in RECORDED_COUNTS if not machine.allows(entry[2], entry[1], entry[3])] == []
    assert sum(RECORDED_COUNTS.values()) == 4421


def test_the_manual_does_not_allow_the_real_startds_additional_rows() -> None:
    extra_rows = {number for _, number, source, target in RECORDED_COUNTS if not classify(MANUAL, source, target)}
    assert extra_rows == {"2a", "5a", "10a", "12", "12a", "12b", "12c", "13a", "13b", "35a", "35b"}


@together("row", HTCONDOR_25_ROWS)
def test_a_row_is_recorded_unless_its_place_is_only_the_source(row: TransitionRow) -> None:
    is_recorded = row.number in {number for _, number, _, _ in RECORDED_COUNTS}
    assert is_recorded == (row.reference != "startd source")


def test_exactly_the_steps_marked_startd_source_are_unrecorded() -> None:
    recorded_steps = {tuple(step) for _, _, *step in RECORDED_COUNTS}
    unrecorded_steps = {step for row in HTCONDOR_25_ROWS for step in row.steps if step not in recorded_steps}
    assert unrecorded_steps == {
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
