"""Deciding: what follows from what came in.

``decide(state, stimulus, now)`` appends to a draft the events that follow, by the rules of the module that the stimulus
belongs to, or raises a ``Refusal`` that says why nothing does. It is a function of its arguments: no clock, no I/O, no
randomness, no order that depends on hashing. Each module here is one subject; ``draft`` is the only place where an
event is made legal, and ``stimuli`` the list of what can come in.
"""

if __name__ != "poolbook.domain.decide":
    raise ImportError(f"import this folder as poolbook.domain.decide, not as {__name__}")

from ..decision.draft import Draft, Refusal, Tables
from .decide import decide

__all__ = ["Draft", "Refusal", "Tables", "decide"]
