"""The policy alone reaches every transition, in each dialect that has it. docs/state-machines.md lists the stories that
reach it; ``test_rules`` checks what each story does."""

from __future__ import annotations

import pytest

from poolbook.domain.state_machines import DIALECTS

from .reach import NOT_REACHED, reached


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_number_is_reached(dialect: str) -> None:
    missed = {number for number, stories in reached(dialect).items() if not stories}
    assert missed == {number for of_dialect, number in NOT_REACHED if of_dialect == dialect}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_letter_is_reached(dialect: str) -> None:
    stories = reached(dialect)
    letters = {row.letter for row in DIALECTS[dialect].slot_rows if row.letter.isalpha()}
    reached_letters = {
        row.letter for row in DIALECTS[dialect].slot_rows if row.letter.isalpha() and stories[row.number]
    }
    assert reached_letters == letters == set("ABCDEFGHIJKLMNOP")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_all_37_numbers_are_reached_completely_or_in_their_parts(dialect: str) -> None:
    numbers = {number.rstrip("abc") for number, stories in reached(dialect).items() if stories}
    assert numbers == {str(number) for number in range(1, 38)}
