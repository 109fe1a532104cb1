"""Run the lines of a scenario at their instants.

The lines of an instant are simultaneous: the pool negotiates and claims slots after the last line. They run before the
policy's evaluation at that instant, so that the policy sees them. Expectations are checked after everything else.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import groupby

from ...domain.names import SlotName
from ...replay.scenario import PlayError, ScenarioStep
from ...replay.scenario.statements import GONE
from ...replay.scenario.transcript import Transcript, TranscriptLine
from ...replay.scenario.verdicts import Check, story, verdicts
from .actions import ACTIONS
from .scenario_machines import ScenarioSensors
from .simulation import FailedExpectation, PlayEvent, RefusedStep, Simulation, StepWarning

# Format a simulation's reports as lines of text.


def lines(transcript: Transcript, event: PlayEvent, *, quiet: bool = False) -> Iterator[str]:
    """Yield the lines of a report; with ``quiet``, only refusals and failed expectations."""
    match event:
        case FailedExpectation():
            yield f"{transcript.time(event.step.at):>10}  ! line {event.step.line}: {failure_text(transcript, event)}"
            yield from (f"            | {line}" for line in event.story)
        case RefusedStep():
            yield f"{transcript.time(event.step.at):>10}  ! line {event.step.line}: refused: {event.why}"
        case StepWarning():
            yield f"{transcript.time(event.step.at):>10}  ! line {event.step.line}: warning: {event.text}"
        case TranscriptLine() if not quiet:
            yield transcript.line(event)
        case ScenarioStep() if not quiet:
            yield transcript.step_line(event)


def failure_text(transcript: Transcript, failure: FailedExpectation) -> str:
    """Return what was expected, and the actual state."""
    step = failure.step
    expected = " ".join((transcript.subject_of(step), *step.expected))
    return f"expected {step.text.removeprefix('expect ') if step.check else expected}, but {failure.actual}"


MOST_AT_ONCE = 10_000  #: maximum steps at one instant: a policy that keeps granting and revoking a claim exceeds it


def play(simulation: Simulation) -> bool:
    """Play the scenario; return True if all expectations were met. Raise PlayError if a line cannot be executed."""
    simulation.create_pool()
    is_good = True
    for since_start, steps in groupby(simulation.scenario.steps, lambda step: step.at):
        at = simulation.start + since_start
        lines = list(steps)
        _advance(simulation, at - 1)
        _run_lines(simulation, at, [step for step in lines if step.verb != "expect"])
        for step in lines:
            if step.verb == "expect" and step.check is None:
                _advance(simulation, at)
                is_good = _check_expectation(simulation, step) and is_good
    _advance(simulation, simulation.start + simulation.scenario.end)
    simulation.transcript.complete_totals()
    return _check_periods(simulation) and is_good


def _advance(simulation: Simulation, until: int) -> None:
    """Advance to an instant and process all events up to then."""
    turns, last_time = 0, simulation.world.clock
    if last_time > until:  # a line has just run at that instant
        return
    while simulation.engine.step(until) or simulation.world.clock < until:
        turns = turns + 1 if simulation.world.clock == last_time else 0
        last_time = simulation.world.clock
        if turns > MOST_AT_ONCE:
            when = simulation.transcript.time(last_time - simulation.start)
            raise PlayError(f"at {when} the policy keeps granting and revoking the same claim")


def _run_lines(simulation: Simulation, at: int, steps: list[ScenarioStep]) -> None:
    """Run the lines of one instant, then let the pool negotiate."""
    if not steps:
        return
    simulation.world.clock = at
    simulation.engine.matching = False
    for step in steps:
        simulation.hear(step)
        (_read if step.verb in ("read", "unread") else _run_line)(simulation, step)
    simulation.engine.matching = True
    simulation.engine.handle([])


def _run_line(simulation: Simulation, step: ScenarioStep) -> None:
    for stimulus in ACTIONS[step.verb](simulation, step):
        refusal = simulation.handle(stimulus)
        if refusal:
            simulation.hear(RefusedStep(step, refusal))


def _read(simulation: Simulation, step: ScenarioStep) -> None:
    slots = tuple(simulation.slots(step)) if step.thing else ()
    for machine in (
        {SlotName.parse(slot).machine: None for slot in slots} if slots else simulation.machines_of_step(step)
    ):
        sensors = simulation.sensors.setdefault(machine, ScenarioSensors())
        machine_slots = tuple(slot for slot in slots if slot.endswith(f"@{machine}"))
        sensors.apply(step, simulation.start + step.at, machine_slots, simulation.start)
        simulation.world.set_readings(machine, sensors.readings())


def _check_expectation(simulation: Simulation, step: ScenarioStep) -> bool:
    """Return True if the line's expectation is met; report it if not."""
    expected, *row = step.expected
    if step.thing[:1].isdigit():
        status = _status(simulation, step.thing)
        story = () if status == expected else _story(simulation, f"{step.thing}{'.0' * ('.' not in step.thing)}")
        failures = [] if status == expected else [FailedExpectation(step, f"it is {status}", story)]
    else:
        failures = _failed_slots(simulation, step, expected, row)
    for failure in failures:
        simulation.hear(failure)
    return not failures


def _failed_slots(simulation: Simulation, step: ScenarioStep, expected: str, row: list[str]) -> list[FailedExpectation]:
    known_slots, transcript = simulation.engine.state.slots, simulation.transcript
    names = [name for name in known_slots if fnmatchcase(name, step.thing)]
    if not names and expected != GONE:
        return [FailedExpectation(step, f"the slot {step.thing} does not exist", _story(simulation, step.thing))]
    failures = []
    for name in names:
        actual_state, last_row = known_slots[name].state_activity, transcript.last_row.get(name, "")
        if actual_state != expected or (row and row != [last_row]):
            message = f"{name} is {actual_state}{f' by {last_row}' if last_row else ''}"
            failures.append(FailedExpectation(step, message, _story(simulation, name)))
    return failures


def _story(simulation: Simulation, thing: str) -> tuple[str, ...]:
    return story(simulation.log, thing, simulation.world.clock, simulation.scenario.calendar.zone)


def _check_periods(simulation: Simulation) -> bool:
    """Return True if all expectations about periods are met; report unmet ones."""
    steps = [step for step in simulation.scenario.steps if step.check is not None]
    start, transcript, history = simulation.start, simulation.transcript, simulation.history()
    checks = [Check(step.check, *(start + at for at in step.period)) for step in steps if step.check is not None]
    results = verdicts(history, checks, lambda at: transcript.time(at - start))
    is_good = True
    for step, result in zip(steps, results, strict=True):
        if result.failure or not result.times:
            is_good = False
            failure = result.failure or "the condition after `after` was never true, so nothing was checked"
            simulation.hear(FailedExpectation(step, failure, result.story(history)))
    return is_good


def _status(simulation: Simulation, job: str) -> str:
    cluster, _, proc = job.partition(".")
    procs = simulation.engine.state.clusters.get(int(cluster))
    number = int(proc or 0)
    if procs is not None and number in procs:
        return procs.status_of(number)
    return simulation.transcript.ended.get(f"{int(cluster)}.{number}", GONE)
