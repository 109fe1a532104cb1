"""Property: nothing changes but by a row of the tables: without a row, the story that needs it is refused, and nothing
of what was refused is in the log."""

from __future__ import annotations

import pytest

from poolbook.domain.decide import Tables
from poolbook.domain.fold.evolve import fold
from poolbook.domain.state_machines import (
    DELETED,
    DIALECTS,
    NotAllowed,
    drain_machine,
    job_machine,
    slot_machine,
)

from ..together import together
from .cases import STORIES
from .points import Point
from .reach import NOT_REACHED
from .stories import Story, play


def needing(dialect: str, number: str) -> Story:
    """A story that takes a row."""
    return next(
        story
        for story in STORIES
        if number in {word.partition("@")[0].rstrip("VK") for word in story.expected(dialect).split()}
    )


DRIVEN = [
    (dialect, row.number)
    for dialect in DIALECTS
    for row in DIALECTS[dialect].slot_rows
    if (dialect, row.number) not in NOT_REACHED and row.targets != (DELETED,)
]


@together(("dialect", "number"), DRIVEN)
def test_without_its_row_a_transition_is_refused(dialect: str, number: str) -> None:
    tables = Tables(slot_machine(dialect).without(number), job_machine(dialect))
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
@pytest.mark.parametrize(("number", "of"), DRAINED.items())
def test_without_its_row_a_drain_is_refused(
    dialect: str, number: str, of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = next(story for story in STORIES if story.of == of)
    less = drain_machine().without(number)
    monkeypatch.setattr("poolbook.domain.startd.draining.drain_machine", lambda: less)
    with pytest.raises(NotAllowed, match=f"row {number} "):
        play(story, Point(dialect))
