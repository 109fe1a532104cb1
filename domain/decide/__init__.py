"""Decide which events result from a stimulus.

``decide(state, stimulus, now)`` returns the resulting events, or raises a ``Refusal`` with the reason. It calls the
rule for this kind of stimulus. Equal arguments give equal events: decisions use no clock, I/O or randomness, and no
order that depends on hashing. Each event is folded into ``state`` as soon as it is created, because the next step of
the decision reads the changed state. A caller that cannot append the events must discard the state. ``decision.draft``
checks every event with the tables, and ``ports.stimuli`` lists all stimuli.
"""

from ..decision.draft import Draft, Refusal, Tables
from .decide import decide

__all__ = ["Draft", "Refusal", "Tables", "decide"]
