"""A play in lines of text: what happened, what the scenario does, and where the two do not fit."""

from __future__ import annotations

from collections.abc import Iterator

from ...replay.scenario import Step
from ...replay.scenario.transcript import Entry, Tale
from .simulation import Failed, Refused, Told


def lines(tale: Tale, told: Told, *, quiet: bool = False) -> Iterator[str]:
    """The lines of one thing that a play tells; with ``quiet``, only of what does not fit."""
    match told:
        case Failed():
            step = told.step
            expected = " ".join((tale.about(step), *step.expected))
            yield f"{tale.time(step.at):>10}  ! line {step.line}: expected {expected}, but {told.found}"
            if told.story:
                yield from (f"            | {tale.line(entry)}" for entry in told.story)
        case Refused():
            yield f"{tale.time(told.step.at):>10}  ! line {told.step.line}: refused: {told.why}"
        case Entry() if not quiet:
            yield tale.line(told)
        case Step() if not quiet:
            yield tale.step_line(told)
