"""Scenarios played: the live engine over a log in memory and a world without processes.

``machines`` makes of a scenario's machines what joins the pool, ``jobs`` of its jobs what is submitted and what each of
them does, ``sensors`` of its readings what the machines' sensors say; ``elsewhere`` is the access point of claims that
come from outside. ``stage`` holds all of it together, ``deeds`` is what each line of a scenario does there, and
``performance`` does them in their order. The language itself is ``replay/scenario``.
"""

if __name__ != "poolbook.adapters.simulation":
    raise ImportError(f"import this folder as poolbook.adapters.simulation, not as {__name__}")

from .machines import Machines
from .runner import play
from .simulation import Failed, Refused, Stage, Told

__all__ = ["Failed", "Machines", "Refused", "Stage", "Told", "play"]
