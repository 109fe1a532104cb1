"""Keep the readings of a scenario's machines, line by line."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, evolve, field

from ...domain.ports.sensor_readings import NOTHING_READ, Readings
from ...domain.units import SECOND
from ...replay.scenario import ScenarioStep
from ...replay.scenario.scenario_times import length
from ...replay.scenario.statements import NEVER

_IDLE = ("KeyboardIdle", "ConsoleIdle")


@define
class ScenarioSensors:
    """The sensors of one machine: ``lasting`` readings, and over them ``passing`` ones by their line."""

    lasting: Readings = NOTHING_READ
    passing: dict[int, Readings] = field(factory=dict)
    _said: dict[int, frozenset[str]] = field(factory=dict)

    def say(self, step: ScenarioStep, now: int, slots: tuple[str, ...], start: int) -> None:
        """Take a line of readings, for these slots or for the whole machine."""
        if step.verb == "unread":
            self.passing.pop(step.line, None)
            idle = {name: value for name, value in step.attributes.items() if name in _IDLE}
            self.lasting = _laid(self.lasting, idle, slots, now)  # the last key was pressed now
        elif step.until:
            until = start + step.until
            self._said[step.line] = frozenset(step.attributes)
            self.passing[step.line] = _laid(NOTHING_READ, step.attributes, slots, now, until)
        else:
            self.lasting = _laid(self.lasting, step.attributes, slots, now)

    def readings(self) -> Readings:
        """Return all current readings."""
        found = self.lasting
        for line, over in self.passing.items():
            load = "LoadAvg" in self._said[line] and not over.slots
            found = Readings(
                found.last_input if over.last_input is None else over.last_input,
                found.last_console if over.last_console is None else over.last_console,
                over.load if load else found.load,
                found.condor_load,
                {**found.attributes, **over.attributes},
                {
                    name: {**found.slots.get(name, {}), **over.slots.get(name, {})}
                    for name in {**found.slots, **over.slots}
                },
            )
        # A touch of the console is a touch of the machine.
        if (found.last_console or 0) > (found.last_input or 0):
            found = evolve(found, last_input=found.last_console)
        return found


def _laid(readings: Readings, said: Mapping[str, str], slots: tuple[str, ...], now: int, until: int = 0) -> Readings:
    """Return the readings with a line's on top, which hold until ``until`` (0: for good)."""
    if slots:
        own = {name: _of_slot(name, value, now, until) for name, value in said.items()}
        return evolve(
            readings, slots={**readings.slots, **{slot: {**readings.slots.get(slot, {}), **own} for slot in slots}}
        )
    for name, value in said.items():
        last = _last(value, now, until) if name in _IDLE else None
        if name == "KeyboardIdle":
            readings = evolve(readings, last_input=last)
        elif name == "ConsoleIdle":
            readings = evolve(readings, last_console=last)
        elif name == "LoadAvg":
            readings = evolve(readings, load=float(value))
        else:
            readings = evolve(readings, attributes={**readings.attributes, name: value})
    return readings


def _last(value: str, now: int, until: int) -> int | None:
    """Return the instant of the last input: so long ago, or (``until``) the end of continuous typing."""
    return None if value == NEVER else (until or now - length(value))


def _of_slot(name: str, value: str, now: int, until: int) -> str:
    """Return a slot's reading as the expression that the slot publishes."""
    if name not in _IDLE or value == NEVER or until:
        return "time()" if value == NEVER else value
    return f"time() - {(now - length(value)) // SECOND}"
