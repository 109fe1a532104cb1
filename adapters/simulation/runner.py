"""The lines of a scenario at their instants.

What a line says comes before the policy's round of its instant, so that the policy sees it; what is expected is looked
at behind all that happens then.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from ...replay.scenario import PlayError, Step
from ...replay.scenario.statements import GONE
from .actions import DEEDS
from .sensors import Sensors
from .simulation import Failed, Refused, Stage

MOST_AT_ONCE = 10_000
"""Turns that the pool may take at one instant. A policy that takes back at once what it grants would take more."""


def play(stage: Stage) -> bool:
    """Play the scenario to its end. Returns whether all was as expected.

    :raises PlayError: a line asks for what cannot be
    """
    stage.begin()
    good = True
    for step in stage.scenario.steps:
        at = stage.start + step.at
        if step.verb == "expect":
            _advance(stage, at)
            good = _as_expected(stage, step) and good
            continue
        _advance(stage, at - 1)
        stage.world.clock = at
        stage.hear(step)
        (_read if step.verb in ("read", "unread") else _do)(stage, step)
    _advance(stage, stage.start + stage.scenario.end)
    stage.tale.end()
    return good


def _advance(stage: Stage, until: int) -> None:
    """Let time pass up to an instant, and all happen that happens up to then."""
    turns, last = 0, stage.world.clock
    if last > until:  # the lines of one instant come one behind the other
        return
    while stage.engine.step(until) or stage.world.clock < until:
        turns = turns + 1 if stage.world.clock == last else 0
        last = stage.world.clock
        if turns > MOST_AT_ONCE:
            when = stage.tale.time(last - stage.start)
            raise PlayError(f"at {when} the policy grants and takes back the same without end")


def _do(stage: Stage, step: Step) -> None:
    for stimulus in DEEDS[step.verb](stage, step):
        refusal = stage.handle(stimulus)
        if refusal:
            stage.hear(Refused(step, refusal))


def _read(stage: Stage, step: Step) -> None:
    slots = tuple(stage.slots(step)) if step.thing else ()
    for machine in {slot.partition("@")[2]: None for slot in slots} if slots else stage.named(step):
        sensors = stage.sensors.setdefault(machine, Sensors())
        own = tuple(slot for slot in slots if slot.endswith(f"@{machine}"))
        sensors.say(step, stage.start + step.at, own, stage.start)
        stage.world.set_readings(machine, sensors.readings())


# What is expected


def _as_expected(stage: Stage, step: Step) -> bool:
    """Whether what the line expects is so; what is not, is told."""
    wanted, *row = step.expected
    if step.thing[:1].isdigit():
        found = _status(stage, step.thing)
        failed = [] if found == wanted else [Failed(step, f"it is {found}")]
    else:
        failed = _slots_not_as_expected(stage, step, wanted, row)
    for one in failed:
        stage.hear(one)
    return not failed


def _slots_not_as_expected(stage: Stage, step: Step, wanted: str, row: list[str]) -> list[Failed]:
    known = stage.engine.state.slots
    names = [name for name in known if fnmatchcase(name, step.thing)]
    failed = []
    if not names and wanted != GONE:
        failed.append(Failed(step, f"there is no slot {step.thing}", stage.tale.of(step.thing)))
    for name in names:
        by = stage.tale.last_row.get(name, "")
        if known[name].state_activity != wanted or (row and row != [by]):
            failed.append(
                Failed(step, f"{name} is {known[name].state_activity}{f' by {by}' if by else ''}", stage.tale.of(name))
            )
    return failed


def _status(stage: Stage, job: str) -> str:
    cluster, _, proc = job.partition(".")
    found = stage.engine.state.clusters.get(int(cluster))
    number = int(proc or 0)
    if found is not None and number in found:
        return found.status_of(number)
    return stage.tale.ended.get(f"{int(cluster)}.{number}", GONE)
