"""Run the lines of a scenario at their instants.

The lines of an instant are simultaneous: the pool negotiates and claims after the last of them. They come before the
policy's evaluation of that instant, so that the policy sees them. Expectations are checked after all that happens then.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import groupby

from ...domain.names import SlotName
from ...replay.scenario import PlayError, ScenarioStep
from ...replay.scenario.statements import GONE
from ...replay.scenario.transcript import Transcript, TranscriptEntry
from .actions import ACTIONS
from .scenario_machines import ScenarioSensors
from .simulation import FailedExpectation, PlayEvent, RefusedStep, Simulation, StepWarning

# Print a simulation's reports as lines of text.


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


MOST_AT_ONCE = 10_000  #: turns at one instant: a policy that takes back at once what it grants would take more


def play(simulation: Simulation) -> bool:
    """Play the scenario to its end; return whether all expectations were met. Raise PlayError if a line asks for
    something impossible."""
    simulation.begin()
    good = True
    for since_start, steps in groupby(simulation.scenario.steps, lambda step: step.at):
        at = simulation.start + since_start
        lines = list(steps)
        _advance(simulation, at - 1)
        _do_all(simulation, at, [step for step in lines if step.verb != "expect"])
        for step in lines:
            if step.verb == "expect":
                _advance(simulation, at)
                good = _as_expected(simulation, step) and good
    _advance(simulation, simulation.start + simulation.scenario.end)
    simulation.transcript.end()
    return good


def _advance(simulation: Simulation, until: int) -> None:
    """Advance to an instant, with all that happens up to then."""
    turns, last = 0, simulation.world.clock
    if last > until:  # it was the instant of a line
        return
    while simulation.engine.step(until) or simulation.world.clock < until:
        turns = turns + 1 if simulation.world.clock == last else 0
        last = simulation.world.clock
        if turns > MOST_AT_ONCE:
            when = simulation.transcript.time(last - simulation.start)
            raise PlayError(f"at {when} the policy grants and takes back the same without end")


def _do_all(simulation: Simulation, at: int, steps: list[ScenarioStep]) -> None:
    """Run the lines of one instant; only then let the pool negotiate."""
    if not steps:
        return
    simulation.world.clock = at
    simulation.engine.matching = False
    for step in steps:
        simulation.hear(step)
        (_read if step.verb in ("read", "unread") else _do)(simulation, step)
    simulation.engine.matching = True
    simulation.engine.handle([])


def _do(simulation: Simulation, step: ScenarioStep) -> None:
    for stimulus in ACTIONS[step.verb](simulation, step):
        refusal = simulation.handle(stimulus)
        if refusal:
            simulation.hear(RefusedStep(step, refusal))


def _read(simulation: Simulation, step: ScenarioStep) -> None:
    slots = tuple(simulation.slots(step)) if step.thing else ()
    for machine in {SlotName.parse(slot).machine: None for slot in slots} if slots else simulation.named(step):
        sensors = simulation.sensors.setdefault(machine, ScenarioSensors())
        own = tuple(slot for slot in slots if slot.endswith(f"@{machine}"))
        sensors.say(step, simulation.start + step.at, own, simulation.start)
        simulation.world.set_readings(machine, sensors.readings())


# -- Expectations


def _as_expected(simulation: Simulation, step: ScenarioStep) -> bool:
    """Tell whether the line's expectation is met; report it if not."""
    wanted, *row = step.expected
    if step.thing[:1].isdigit():
        found = _status(simulation, step.thing)
        failed = [] if found == wanted else [FailedExpectation(step, f"it is {found}")]
    else:
        failed = _slots_not_as_expected(simulation, step, wanted, row)
    for one in failed:
        simulation.hear(one)
    return not failed


def _slots_not_as_expected(
    simulation: Simulation, step: ScenarioStep, wanted: str, row: list[str]
) -> list[FailedExpectation]:
    known, transcript = simulation.engine.state.slots, simulation.transcript
    names = [name for name in known if fnmatchcase(name, step.thing)]
    if not names and wanted != GONE:
        return [FailedExpectation(step, f"there is no slot {step.thing}", transcript.of(step.thing))]
    failed = []
    for name in names:
        found, by = known[name].state_activity, transcript.last_row.get(name, "")
        if found != wanted or (row and row != [by]):
            words = f"{name} is {found}{f' by {by}' if by else ''}"
            failed.append(FailedExpectation(step, words, transcript.of(name)))
    return failed


def _status(simulation: Simulation, job: str) -> str:
    cluster, _, proc = job.partition(".")
    found = simulation.engine.state.clusters.get(int(cluster))
    number = int(proc or 0)
    if found is not None and number in found:
        return found.status_of(number)
    return simulation.transcript.ended.get(f"{int(cluster)}.{number}", GONE)
