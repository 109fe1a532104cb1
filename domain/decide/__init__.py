"""Deciding: what follows from what came in.

``decide(state, stimulus, now)`` returns the events that follow, by the rules of the module that the stimulus belongs
to, or raises a ``Refusal`` that says why nothing does. Equal arguments give equal events: no clock, no I/O, no
randomness, no order that depends on hashing. It works in place: each event is folded onto ``state`` as it is made,
since the next step of the same decision reads what the step before left. Whoever cannot append the events throws the
state away. Each module here is one subject; ``draft`` is the only place where an event is made legal, and ``stimuli``
the list of what can come in.
"""

from ..decision.draft import Draft, Refusal, Tables
from .decide import decide

__all__ = ["Draft", "Refusal", "Tables", "decide"]
