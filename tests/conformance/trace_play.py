"""Replay a golden trace's stimuli on one of our machines and collect its slots' transitions. The live engine decides,
in a virtual world, under the trace's configuration.

 The trace includes when the startd evaluated its policy. The log shows it ("eval_policy state should be") only if it
had an effect, or if everything is logged. So one rule adds evaluations: in a second without a logged one there is one
at its beginning, if the interval in force (POLLING_INTERVAL while a slot is claimed, else UPDATE_INTERVAL) has passed
since the last. A due timer fires where the log shows it, or else at the end of its second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from attrs import frozen
from msgspec.structs import replace

from poolbook.adapters.runtime.engine import Engine
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.decide.timers import next_timer
from poolbook.domain.events import Event, SlotDestroyed, SlotTransitioned
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.sensor_readings import Readings
from poolbook.domain.startd.periodic_evaluation import evaluation_interval
from poolbook.domain.startd.provisioning import machine_offer, reconfiguration
from poolbook.domain.state_machines import DELETED, HTCONDOR_25, INITIAL_PAIR, classify
from poolbook.replay.virtual_world import VirtualWorld

from .trace_files import SECOND, TraceFiles
from .trace_settings import SensorReading, configuration, equipment, sensed, system
from .trace_steps import PublishedReadings, Reconfigured, StartdRun, TraceStep


@frozen
class PlayedTransition:
    """A slot's transition: ``at`` is in microseconds, ``row`` is that of the table."""

    at: int
    slot: str
    source: str
    target: str
    row: str
    cause: str


@frozen
class RefusedStimulus:
    """A stimulus that the pool refused, by the log's line."""

    line: int
    what: str
    words: str


class TracePlay:
    """The replay of one startd's run on one of our machines."""

    def __init__(self, files: TraceFiles, run: StartdRun, dialect: str) -> None:
        self.files, self.run = files, run
        self.world = VirtualWorld(clock=run.began)
        self.log = open_log("memory:", create=True)
        self.engine = Engine(self.log, self.world)
        self.refused: list[RefusedStimulus] = []
        self.readings = Readings()
        self.looked = run.began - SECOND
        self._tell(s.FoundPool("founding", run.machine, dialect, run.machine, "", {}), 0)
        self.equipment = equipment(run.slots, system(files))
        self._tell(machine_offer("machine", run.machine, configuration(files, run, run.configured), self.equipment), 0)

    def moves(self) -> list[PlayedTransition]:
        """Replay the run, and return the slots' transitions."""
        readings = {reading.at: reading for reading in sensed(self.files, self.run)}
        steps = deque(self.run.steps)
        for second in range(self.run.began, self.run.ended + SECOND, SECOND):
            self.world.clock = second
            if second in readings:
                self._sense(readings[second])
            now = []
            while steps and steps[0].at <= second:
                now.append(steps.popleft())
            self._second(now)
        return list(_moves(event for _, event in self.log.read()))

    def _second(self, steps: list[TraceStep]) -> None:
        if not any(isinstance(step.what, s.EvaluatePolicies) for step in steps) and self._due():
            self._tell(s.EvaluatePolicies(f"round-{self.world.clock}", (self.run.machine,)), 0)
        for step in steps:
            self._take(step)
        if (due := next_timer(self.engine.state)) and due <= self.world.clock:
            self._tell(s.FireTimers(f"tick-{self.world.clock}"), 0)

    def _due(self) -> bool:
        machine = self.engine.state.machines.get(self.run.machine)
        return machine is not None and self.world.clock >= self.looked + evaluation_interval(self.engine.state, machine)

    def _take(self, step: TraceStep) -> None:
        stimulus = step.what
        if isinstance(stimulus, PublishedReadings):
            self._publish(replace(self.readings, attributes={**self.readings.attributes, **stimulus.attributes}))
        elif isinstance(stimulus, Reconfigured):
            self._reconfigure(stimulus.number, step.line)
        else:
            self._tell(stimulus, step.line)

    def _sense(self, reading: SensorReading) -> None:
        self._publish(
            replace(self.readings, load=reading.load, last_input=reading.last_input, last_console=reading.last_console)
        )

    def _publish(self, readings: Readings) -> None:
        self.readings = readings
        self.world.set_readings(self.run.machine, readings)

    def _reconfigure(self, number: int, line: int) -> None:
        machine = self.engine.state.machines.get(self.run.machine)
        if machine is not None:
            slots = [slot for slot in self.engine.state.slots.values() if slot.machine == machine.name]
            now = configuration(self.files, self.run, number)
            self._tell(reconfiguration(f"configuration-{number}", machine, slots, now, self.equipment), line)

    def _tell(self, stimulus: s.Stimulus, line: int) -> None:
        if isinstance(stimulus, s.EvaluatePolicies):
            self.looked = self.world.clock
        (answer,) = self.engine.handle([stimulus])
        if answer.refusal:
            self.refused.append(RefusedStimulus(line, type(stimulus).__name__, answer.refusal))


def _moves(events: Iterable[Event]) -> Iterator[PlayedTransition]:
    """Yield the transitions of a log, including a merged dynamic slot's deletion, in the form of a StartLog."""
    merged: dict[str, str] = {}
    for event in events:
        if isinstance(event, SlotTransitioned):
            merged[event.slot] = event.target
            yield PlayedTransition(event.at, event.slot, event.source, event.target, event.row, event.cause)
        elif isinstance(event, SlotDestroyed) and event.cause == "merged":
            pair = merged.pop(event.slot, INITIAL_PAIR)
            row = classify(HTCONDOR_25, pair, DELETED)
            yield PlayedTransition(event.at, event.slot, pair, DELETED, row[0].number if row else "", event.cause)
