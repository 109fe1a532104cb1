"""Machines under a policy in virtual time: the language of scenarios, and how what happened is told.

A scenario is a text that a machine's owner can read: which machines there are, under which configuration, and lines of
the form ``at TIME WHAT``. Here stand its times (``times``), its words (``words``, ``verbs``), what it says as data
(``scenario``) and its reader (``reading``); and the lines in which a play is told (``telling``). What plays a scenario
drives the pool's engine and stands with it, in ``adapters/simulation``.
"""

if __name__ != "poolbook.replay.scenario":
    raise ImportError(f"import this folder as poolbook.replay.scenario, not as {__name__}")

from .errors import PlayError
from .parser import read
from .scenario import Machine, Scenario, Source, Step

__all__ = ["Machine", "PlayError", "Scenario", "Source", "Step", "read"]
