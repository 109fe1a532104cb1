"""Property: every change is a row of the tables: without it, the story that needs it is rejected and logs nothing."""

from __future__ import annotations

import pytest

from poolbook.domain.decide import Tables
from poolbook.domain.fold.evolve import fold
from poolbook.domain.state_machines import (
    DIALECTS,
    LETTERED,
    NotAllowed,
    drain_machine,
    letter_machine,
    slot_machine,
)

from ..together import together
from .cases import STORIES
from .points import Point
from .reach import NOT_REACHED
from .stories import Story, play


def needing(dialect: str, number: str) -> Story:
    """Return a story that takes a row."""
    return next(
        story
        for story in STORIES
        if number in {word.partition("@")[0].rstrip("VK") for word in story.expected(dialect).split()}
    )


DRIVEN = [
    (dialect, row.number)
    for dialect in DIALECTS
    for row in DIALECTS[dialect].slot_rows
    if (dialect, row.number) not in NOT_REACHED
]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("letter", [row.number for row in LETTERED])
def test_without_its_letter_a_change_of_state_is_rejected(dialect: str, letter: str) -> None:
    numbers = [row.number for row in DIALECTS[dialect].slot_rows if row.letter == letter]
    reached = next(number for number in numbers if (dialect, number) not in NOT_REACHED)
    point = Point(dialect, tables=Tables(dialect, letter=letter_machine().without_row(letter)))
    with pytest.raises(NotAllowed, match=f"slot, by letter: row {letter} "):
        play(needing(dialect, reached), point)
    assert point.state.position == fold(point.log.read()).position == point.log.head.position


@together(("dialect", "number"), DRIVEN)
def test_without_its_row_a_transition_is_rejected(dialect: str, number: str) -> None:
    tables = Tables(dialect, slot=slot_machine(dialect).without_row(number))
    point = Point(dialect, tables=tables)
    with pytest.raises(NotAllowed, match=f"row {number} "):
        play(needing(dialect, number), point)
    assert point.state.position == fold(point.log.read()).position == point.log.head.position


DRAINED = {
    "start": "a drain of an idle machine",
    "complete": "a drain of an idle machine",
    "cancel": "a drain of an idle machine",
    "resume": "a drain that resumes",
    "stop": "a drain that ends with a stop",
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("number", "value"), DRAINED.items())
def test_without_its_row_a_drain_is_rejected(dialect: str, number: str, value: str) -> None:
    story = next(story for story in STORIES if story.of == value)
    tables = Tables(dialect, drain=drain_machine().without_row(number))
    with pytest.raises(NotAllowed, match=f"row {number} "):
        play(story, Point(dialect, tables=tables))
