"""Simulate a scenario with the live engine, a log in memory, and simulated machines without processes.

``scenario_machines`` defines its machines and their readings, ``simulation`` combines all these parts with the schedds
of other pools, ``actions`` has a function for each verb, ``runner`` runs the lines in order. ``replay/scenario``
defines the language."""

from .runner import play
from .scenario_machines import ScenarioMachines
from .simulation import FailedExpectation, PlayEvent, RefusedStep, Simulation, StepWarning

__all__ = [
    "FailedExpectation", "PlayEvent", "RefusedStep", "ScenarioMachines", "Simulation", "StepWarning", "play",
]  # fmt: skip
