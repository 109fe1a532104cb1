"""Read the language of scenarios: machines under a policy, in virtual time.

A scenario is a text: machines, their configuration, and lines ``at TIME WHAT``. ``parser`` reads it into the data of
``scenario``: ``scenario_times`` reads the time of a line, ``statements`` the rest by the table in ``verbs``.
``transcript`` writes a play line by line. ``adapters/simulation`` plays a scenario with the live engine.
"""

from .parser import read
from .scenario import ConfigurationSource, PlayError, Scenario, ScenarioMachine, ScenarioStep

__all__ = ["ConfigurationSource", "PlayError", "Scenario", "ScenarioMachine", "ScenarioStep", "read"]
