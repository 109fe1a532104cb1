"""Simulate a scenario with the live engine, a log in memory and a world without processes.

``scenario_machines`` defines its machines and their readings, ``simulation`` combines all parts with the schedds
outside the pool, ``actions`` has a function for each verb, ``runner`` runs the lines in order. ``replay/scenario``
defines the language."""

from .runner import play
from .scenario_machines import ScenarioMachines
from .simulation import FailedExpectation, PlayEvent, RefusedStep, Simulation, StepWarning

__all__ = [
    "FailedExpectation", "PlayEvent", "RefusedStep", "ScenarioMachines", "Simulation", "StepWarning", "play",
]  # fmt: skip
