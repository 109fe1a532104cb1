"""Golden: the manual's transitions of a slot, written out independently from its text and diagrams."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from poolbook.domain.state_machines import (
    DELETED,
    DIALECTS,
    HTCONDOR_25,
    INITIAL_PAIR,
    LETTERED,
    MANUAL,
    STATES,
    SlotRow,
    TransitionRow,
    UnknownDialectError,
    activity,
    classify,
    dialect_named,
    state,
)

from ..together import together

# The diagram of states and activities: number, from, to, the letter in the diagram of states.
NUMBERED_ROWS = """
 1  Owner/Idle              Unclaimed/Idle          A
 2  Unclaimed/Idle          Owner/Idle              B
 3  Unclaimed/Idle          Unclaimed/Benchmarking
 4  Unclaimed/Benchmarking  Unclaimed/Idle
 5  Unclaimed/Idle          Claimed/Idle            D
 6  Unclaimed/Idle          Matched/Idle            C
 7  Unclaimed/Idle          Backfill/Idle           E
 8  Matched/Idle            Owner/Idle              F
 9  Matched/Idle            Claimed/Idle            G
10  Claimed/Idle            Preempting/Vacating     H
10  Claimed/Idle            Preempting/Killing      H
11  Claimed/Idle            Claimed/Busy
12  Claimed/Busy            Claimed/Idle
13  Claimed/Busy            Claimed/Retiring
14  Claimed/Busy            Claimed/Suspended
15  Claimed/Suspended       Claimed/Busy
16  Claimed/Suspended       Claimed/Retiring
17  Claimed/Suspended       Preempting/Vacating     H
17  Claimed/Suspended       Preempting/Killing      H
18  Claimed/Retiring        Preempting/Vacating     H
18  Claimed/Retiring        Preempting/Killing      H
19  Claimed/Retiring        Claimed/Busy
20  Claimed/Retiring        Claimed/Suspended
21  Preempting/Vacating     Preempting/Killing
22  Preempting/Vacating     Owner/Idle              J
23  Preempting/Vacating     Claimed/Idle            I
24  Preempting/Killing      Claimed/Idle            I
25  Preempting/Killing      Owner/Idle              J
26  Backfill/Idle           Backfill/Busy
27  Backfill/Busy           Backfill/Idle
28  Backfill/Busy           Backfill/Killing
29  Backfill/Killing        Backfill/Idle
30  Backfill/Idle           Owner/Idle              K
31  Backfill/Idle           Claimed/Idle            M
32  Backfill/Idle           Matched/Idle            L
33  Drained/Retiring        Drained/Idle
34  Drained/Idle            Owner/Idle              O
35  Drained/Retiring        Owner/Idle              O
36  Owner/Idle              Drained/Retiring        N
37  Unclaimed/Idle          Drained/Retiring        P
"""

# The diagram of states: letter, from, to.
STATE_DIAGRAM = """
A  Owner       Unclaimed
B  Unclaimed   Owner
C  Unclaimed   Matched
D  Unclaimed   Claimed
E  Unclaimed   Backfill
F  Matched     Owner
G  Matched     Claimed
H  Claimed     Preempting
I  Preempting  Claimed
J  Preempting  Owner
K  Backfill    Owner
L  Backfill    Matched
M  Backfill    Claimed
N  Owner       Drained
O  Drained     Owner
P  Unclaimed   Drained
"""


def as_in_diagrams(rows: Iterable[TransitionRow]) -> list[list[str]]:
    """Return the rows in the format of the diagrams above."""
    return [[word for word in (row.number, *step, row.letter) if word] for row in rows for step in row.steps]


def read(picture: str) -> list[list[str]]:
    return [line.split() for line in picture.strip().splitlines()]


def test_the_37_numbered_rows_are_the_manuals() -> None:
    assert as_in_diagrams(MANUAL.slot_rows) == read(NUMBERED_ROWS)
    assert [row.number for row in MANUAL.slot_rows] == [str(number) for number in range(1, 38)]


def test_the_16_lettered_rows_are_the_manuals() -> None:
    assert [[row.letter, *step] for row in LETTERED for step in row.steps] == read(STATE_DIAGRAM)
    assert "".join(row.number for row in LETTERED) == "ABCDEFGHIJKLMNOP"


def state_changes(rows: Iterable[TransitionRow]) -> set[tuple[str, str, str]]:
    """Return the rows that change the state, reduced to letter, state, state."""
    steps = ((row.letter, state(source), state(target)) for row in rows for source, target in row.steps)
    return {(letter, source, target) for letter, source, target in steps if source != target}


def test_each_lettered_transition_summarizes_its_numbered_rows() -> None:
    assert state_changes(MANUAL.slot_rows) == state_changes(LETTERED)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_row_within_a_state_has_no_letter(dialect: str) -> None:
    for row in DIALECTS[dialect].slot_rows:
        stays_in_state = {state(source) == state(target) for source, target in row.steps}
        assert len(stays_in_state) == 1, f"row {row.number} is both within a state and not"
        assert not (row.letter and stays_in_state == {True}), f"row {row.number}"


def test_an_additional_row_has_the_letter_of_the_same_state_change() -> None:
    letters = {(source, target): letter for letter, source, target in state_changes(LETTERED)}
    for letter, source, target in state_changes(HTCONDOR_25.slot_rows):
        assert letter == letters.get((source, target), "-")


@pytest.mark.parametrize(
    ("dialect", "pairs", "rows"),
    [("manual", 15, 37), ("htcondor-25", 18, 53)],
)
def test_a_dialect_has_the_expected_number_of_pairs_and_rows(dialect: str, pairs: int, rows: int) -> None:
    assert len(DIALECTS[dialect].state_activities) == len(set(DIALECTS[dialect].state_activities)) == pairs
    assert len(DIALECTS[dialect].slot_rows) == rows


def test_the_real_startd_has_three_pairs_more_than_the_manual() -> None:
    assert set(HTCONDOR_25.state_activities) - set(MANUAL.state_activities) == {
        "Claimed/Cleaning",
        "Owner/Retiring",
        DELETED,
    }
    assert [state(pair) for pair in MANUAL.state_activities if activity(pair) == "Idle"] == [
        name for name in STATES if name != "Preempting"
    ]


def test_htcondor_allows_the_manuals_steps_by_the_same_rows() -> None:
    htcondor_steps = {(row.number, *step) for row in HTCONDOR_25.slot_rows for step in row.steps}
    assert {(row.number, *step) for row in MANUAL.slot_rows for step in row.steps} <= htcondor_steps


@pytest.mark.parametrize("dialect", DIALECTS)
def test_at_most_one_row_leads_from_one_pair_to_another(dialect: str) -> None:
    steps = [step for row in DIALECTS[dialect].slot_rows for step in row.steps]
    assert len(steps) == len(set(steps))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_row_has_its_reason_its_place_and_the_condition_of_each_target(dialect: str) -> None:
    for row in DIALECTS[dialect].slot_rows:
        assert row.cause.endswith("."), f"row {row.number}"
        assert row.reference, f"row {row.number}"
        assert bool(row.when) == (len(row.targets) > 1), f"row {row.number}"


def test_only_10_17_and_18_have_two_targets_in_the_manual() -> None:
    assert [row.number for row in MANUAL.slot_rows if len(row.targets) > 1] == ["10", "17", "18"]


def reachable_pairs(rows: Iterable[TransitionRow], start: str) -> set[str]:
    steps = [step for row in rows for step in row.steps]
    reachable = {start}
    while further := {target for source, target in steps if source in reachable} - reachable:
        reachable |= further
    return reachable


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_slot_starts_in_owner_reaches_every_pair_and_can_return_unless_deleted(dialect: str) -> None:
    assert INITIAL_PAIR == "Owner/Idle"
    assert reachable_pairs(DIALECTS[dialect].slot_rows, INITIAL_PAIR) == set(DIALECTS[dialect].state_activities)
    for pair in DIALECTS[dialect].state_activities:
        assert (INITIAL_PAIR in reachable_pairs(DIALECTS[dialect].slot_rows, pair)) == (pair != DELETED)


@together(
    ("source", "target", "manual", "htcondor_25"),
    [
        ("Owner/Idle", "Unclaimed/Idle", ["1"], ["1"]),
        ("Claimed/Idle", "Preempting/Killing", ["10"], ["10"]),
        ("Claimed/Busy", "Claimed/Cleaning", [], ["12"]),
        ("Claimed/Cleaning", "Claimed/Idle", [], ["12a"]),
        ("Claimed/Busy", "Preempting/Killing", [], ["13b"]),
        ("Drained/Retiring", "Owner/Idle", ["35"], ["35"]),
        ("Drained/Retiring", "Owner/Retiring", [], ["35a"]),
        ("Unclaimed/Idle", "Deleted", [], ["2a"]),
        ("Owner/Idle", "Preempting/Killing", [], []),
        ("Owner/Idle", "Owner/Idle", [], []),
        ("Nowhere", "Owner/Idle", [], []),
    ],
)
def test_a_recorded_transition_is_identified(
    source: str, target: str, manual: list[str], htcondor_25: list[str]
) -> None:
    assert [row.number for row in classify(MANUAL, source, target)] == manual
    assert [row.number for row in classify(HTCONDOR_25, source, target)] == htcondor_25


def test_an_unknown_dialect_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownDialectError, match="'klingon' is not a dialect: use manual or htcondor-25"):
        dialect_named("klingon")


def test_each_row_has_a_unique_name_that_the_code_uses() -> None:
    names = {number: name for name, number in vars(SlotRow).items() if name.isupper()}
    assert len(names) == len([name for name in vars(SlotRow) if name.isupper()])
    names_by_number = {row.number: row.name for dialect in DIALECTS.values() for row in dialect.slot_rows}
    assert names_by_number == {number: name.lower() for number, name in names.items()}


DIALECT_CHECKS = re.compile(
    r"""dialect(\.name)?\ (==|!=)\ |(==|!=)\ (MANUAL|HTCONDOR_25)|(move_slot|transition)\(draft,\ slot,\ ["']""",
    re.VERBOSE,
)


def test_no_code_outside_the_package_depends_on_a_dialect_or_a_rows_number() -> None:
    root = Path(__file__).parent.parent.parent
    sources = [path for room in ("domain", "projections", "replay", "adapters") for path in (root / room).rglob("*.py")]
    outside_files = [path for path in sources if path.parent.name != "state_machines"]
    assert [str(path) for path in outside_files if DIALECT_CHECKS.search(path.read_text(encoding="utf-8"))] == []
