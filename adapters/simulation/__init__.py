"""Simulate a scenario with the live engine, a log in memory and a world without processes.

``scenario_machines`` makes its machines and their readings. ``simulation`` joins all of it with the schedds outside of
the pool, ``actions`` has a function for each verb, ``runner`` runs the lines in order. The language is
``replay/scenario``.
"""

from .runner import play
from .scenario_machines import ScenarioMachines
from .simulation import FailedExpectation, PlayEvent, RefusedStep, Simulation, StepWarning

__all__ = [
    "FailedExpectation", "PlayEvent", "RefusedStep", "ScenarioMachines", "Simulation", "StepWarning", "play",
]  # fmt: skip
