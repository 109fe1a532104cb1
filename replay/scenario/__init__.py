"""Parse scenarios: descriptions of machines with a policy, in virtual time.

A scenario is a text with machines, their configuration, and lines ``at TIME WHAT``. ``parser`` converts it to the
classes of ``scenario``: ``scenario_times`` parses the time of a line, and ``statements`` parses the rest, using the
table in ``verbs``. ``transcript`` formats a simulation line by line. ``adapters/simulation`` runs a scenario with the
live engine.
"""

from .parser import parse_scenario
from .scenario import ConfigurationSource, PlayError, Scenario, ScenarioMachine, ScenarioStep

__all__ = ["ConfigurationSource", "PlayError", "Scenario", "ScenarioMachine", "ScenarioStep", "parse_scenario"]
