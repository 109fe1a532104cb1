"""A play in lines of text: what happened, what the scenario does, and where the two do not fit."""

from __future__ import annotations

from collections.abc import Iterator

from ...replay.scenario import ScenarioStep
from ...replay.scenario.transcript import Transcript, TranscriptEntry
from .simulation import FailedExpectation, PlayEvent, RefusedStep


def lines(transcript: Transcript, told: PlayEvent, *, quiet: bool = False) -> Iterator[str]:
    """The lines of one thing that a play tells; with ``quiet``, only of what does not fit."""
    match told:
        case FailedExpectation():
            step = told.step
            expected = " ".join((transcript.about(step), *step.expected))
            yield f"{transcript.time(step.at):>10}  ! line {step.line}: expected {expected}, but {told.found}"
            if told.story:
                yield from (f"            | {transcript.line(entry)}" for entry in told.story)
        case RefusedStep():
            yield f"{transcript.time(told.step.at):>10}  ! line {told.step.line}: refused: {told.why}"
        case TranscriptEntry() if not quiet:
            yield transcript.line(told)
        case ScenarioStep() if not quiet:
            yield transcript.step_line(told)
