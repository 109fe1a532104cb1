"""Property: a state machine equals its table, whether rows are fired or looked up."""

import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.domain.state_machines import (
    DIALECTS,
    MANUAL,
    NotAllowed,
    StateMachine,
    TransitionRow,
    UnknownDialectError,
    claim_machine,
    drain_machine,
    job_machine,
    letter_machine,
    match_machine,
    slot_machine,
)
from poolbook.domain.state_machines.rows import make_row

from ..sampling import spread, thorough

MACHINES = {
    **{f"slot {dialect}": slot_machine(dialect) for dialect in DIALECTS},
    **{f"job {dialect}": job_machine(dialect) for dialect in DIALECTS},
    "claim": claim_machine(),
    "match": match_machine(),
    "drain": drain_machine(),
    "letter": letter_machine(),
}
for_every_machine = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)


def fires(machine: StateMachine, source: str, number: str, target: str | None) -> str | None:
    """Return the target of a fired row, or None if it is refused."""
    try:
        return machine.fire(source, number, target)
    except NotAllowed:
        return None


@pytest.mark.parametrize("most", thorough(3))
@for_every_machine
def test_firing_and_looking_up_agree_for_every_source_row_and_target(machine: StateMachine, most: int) -> None:
    """`make test` tries so many targets of a source and row that a row does not have."""
    numbers = [row.number for row in machine.rows]
    table = [(source, row.number, target) for row in machine.rows for source, target in row.steps]
    for source, number, target in {*table, *product(machine.states, numbers, spread([*machine.states], most))}:
        fired_outcome = outcome(machine.fire, source, number, target)
        assert (fired_outcome == target) == machine.allows(source, number, target)
    for source, number in product(machine.states, numbers):
        targets_in_table = machine.lookup.get((source, number), ())
        assert fires(machine, source, number, None) == (targets_in_table[0] if len(targets_in_table) == 1 else None)
        assert machine.allows(source, number) == bool(targets_in_table)


def outcome(way: Callable[[str, str, str | None], str], *step: str | None) -> str:
    """Return the target of a step, or the text of its refusal."""
    try:
        return way(*step)  # type: ignore[arg-type]
    except NotAllowed as refusal:
        return str(refusal)


@for_every_machine
def test_the_machine_has_the_rows_of_its_table_and_no_others(machine: StateMachine) -> None:
    table = {(row.number, *step) for row in machine.rows for step in row.steps}
    assert {(n, source, target) for (source, n), targets in machine.lookup.items() for target in targets} == table


@for_every_machine
def test_the_target_may_be_omitted_if_the_row_has_only_one(machine: StateMachine) -> None:
    for machine_row in machine.rows:
        for source in machine_row.sources:
            only_target = machine_row.targets[0] if len(machine_row.targets) == 1 else None
            assert fires(machine, source, machine_row.number, None) == only_target


@for_every_machine
def test_removing_a_row_removes_exactly_its_steps(machine: StateMachine) -> None:
    for removed_row in machine.rows:
        smaller_machine = machine.without_row(removed_row.number)
        assert all(
            fires(smaller_machine, source, removed_row.number, target) is None for source, target in removed_row.steps
        )
        assert smaller_machine.lookup == {
            key: targets for key, targets in machine.lookup.items() if key[1] != removed_row.number
        }


@given(st.sampled_from(list(MACHINES)), st.lists(st.integers(min_value=0), max_size=60))
def test_a_random_walk_never_leaves_the_table(name: str, choices: list[int]) -> None:
    machine = MACHINES[name]
    state = machine.initial
    for choice in choices:
        next_steps = [
            (number, target) for number, targets in machine.targets_by_row(state).items() for target in targets
        ]
        if not next_steps:  # a life's end
            break
        number, target = next_steps[choice % len(next_steps)]
        (row,) = (row for row in machine.rows if row.number == number)
        assert (state, target) in row.steps
        state = machine.fire(state, number, target)
        assert state == target
        assert state in machine.states


@for_every_machine
def test_a_refusal_leaves_no_trace_in_the_machine(machine: StateMachine) -> None:
    before = dict(machine.lookup)
    for source, number in product([*machine.states, "Nowhere"], [*(each.number for each in machine.rows), "99"]):
        fires(machine, source, number, "Nowhere")
    new_machine = StateMachine(machine.rows, machine.initial, machine.name)
    assert machine.lookup == new_machine.lookup == before
    for (source, number), targets in before.items():
        assert fires(machine, source, number, targets[0]) == targets[0]


@for_every_machine
def test_a_trigger_has_its_own_name(machine: StateMachine) -> None:
    assert len({row.name for row in machine.rows}) == len(machine.rows)
    assert all(row.name.isidentifier() for row in machine.rows)


REFUSALS = [
    (
        ("Owner/Idle", "10", "Preempting/Vacating"),
        "slot (manual): row 10 does not allow Owner/Idle -> Preempting/Vacating: the row does not begin in Owner/Idle; "
        "rows from Owner/Idle: 1 -> Unclaimed/Idle; 36 -> Drained/Retiring",
    ),
    (
        ("Claimed/Idle", "10"),
        "slot (manual): row 10 does not allow Claimed/Idle: the row has several targets; "
        "choose Preempting/Vacating or Preempting/Killing",
    ),
    (
        ("Claimed/Idle", "11", "Claimed/Retiring"),
        "slot (manual): row 11 does not allow Claimed/Idle -> Claimed/Retiring: from Claimed/Idle the row leads to "
        "Claimed/Busy; rows from Claimed/Idle: 10 -> Preempting/Vacating or Preempting/Killing; 11 -> Claimed/Busy",
    ),
    (
        ("Matched/Idle", "12a"),
        "slot (manual): row 12a does not allow Matched/Idle: the table has no such row; "
        "rows from Matched/Idle: 8 -> Owner/Idle; 9 -> Claimed/Idle",
    ),
]


@pytest.mark.parametrize(("asked", "message"), REFUSALS)
def test_a_refusal_names_the_thing_the_rule_and_the_alternatives(asked: tuple[str, ...], message: str) -> None:
    with pytest.raises(NotAllowed) as refusal:
        slot_machine(MANUAL.name).fire(*asked)
    assert str(refusal.value) == message
    error = refusal.value
    assert (error.thing, error.source, error.number) == ("slot (manual)", asked[0], asked[1])
    assert error.target == (asked[2] if len(asked) > 2 else None)


def test_an_unknown_pair_is_refused_with_the_list_of_known_ones() -> None:
    with pytest.raises(NotAllowed, match="'Owner/Busy' is not a state of this table; its states are Owner/Idle, "):
        slot_machine(MANUAL.name).fire("Owner/Busy", "1")


TABLES_WITH_A_FAULT = [
    ([make_row("1", "A", "B", "p", "c"), make_row("1", "B", "A", "p", "c")], "two rows have the same number"),
    ([make_row("1", "A, B", "B", "p", "c")], "row 1 leads from a state to itself"),
]


@pytest.mark.parametrize(("rows", "message"), TABLES_WITH_A_FAULT)
def test_a_faulty_table_is_rejected(rows: list[TransitionRow], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StateMachine(rows, "A", "thing")


def test_an_unknown_row_cannot_be_removed() -> None:
    with pytest.raises(KeyError, match="there is no row 38"):
        slot_machine(MANUAL.name).without_row("38")


@pytest.mark.parametrize("build", [slot_machine, job_machine])
def test_each_dialect_has_one_machine_and_an_unknown_one_is_refused(build: Callable[[str], StateMachine]) -> None:
    assert build(MANUAL.name) is build(MANUAL.name)
    with pytest.raises(UnknownDialectError, match="'Manual' is not a dialect"):
        build("Manual")


def test_the_tables_are_available_before_the_library_is_imported() -> None:
    program = (
        "import sys; from poolbook.domain import state_machines as l; before = 'transitions' in sys.modules or 'attr' "
        "in sys.modules; l.slot_machine('manual'); print(before, 'transitions' in sys.modules)"
    )
    root = Path(__file__).resolve().parent.parent.parent / ".path"
    completed = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": str(root)}, capture_output=True, text=True, check=True
    )
    assert completed.stdout.split() == ["False", "True"]
