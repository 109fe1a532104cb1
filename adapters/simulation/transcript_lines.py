"""Print a simulation's reports as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from ...replay.scenario import ScenarioStep
from ...replay.scenario.transcript import Transcript, TranscriptEntry
from .simulation import FailedExpectation, PlayEvent, RefusedStep, StepWarning


def lines(transcript: Transcript, told: PlayEvent, *, quiet: bool = False) -> Iterator[str]:
    """Yield the lines of a report; with ``quiet``, only of refusals and failed expectations."""
    match told:
        case FailedExpectation():
            step = told.step
            expected = " ".join((transcript.about(step), *step.expected))
            yield f"{transcript.time(step.at):>10}  ! line {step.line}: expected {expected}, but {told.found}"
            if told.story:
                yield from (f"            | {transcript.line(entry)}" for entry in told.story)
        case RefusedStep():
            yield f"{transcript.time(told.step.at):>10}  ! line {told.step.line}: refused: {told.why}"
        case StepWarning():
            yield f"{transcript.time(told.step.at):>10}  ! line {told.step.line}: warning: {told.words}"
        case TranscriptEntry() if not quiet:
            yield transcript.line(told)
        case ScenarioStep() if not quiet:
            yield transcript.step_line(told)
