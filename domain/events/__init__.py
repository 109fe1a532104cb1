"""Every kind of event that a log may hold; docs/events.md is made of the classes.

An event is a fact, named in the past tense, and is never edited once a release has written it: a new field gets a
default, and a changed meaning a new class with an upcast (``adapters/stores/codec.py``). A class under
``@event(topic)`` is a kind of event: tables, exports and pages follow from that. A new kind also needs its fold
(``domain/fold/``), its rules (``replay/validation/``) and its line (``replay/listing/event_lines.py``); one that only
imports write needs the line alone. Ads are attribute -> expression text, so that an event reads the same whatever the
version of the language's implementation.
"""

from __future__ import annotations

# ruff: noqa: F403
from .accounting import *
from .base import *
from .defrag import *
from .imports import *
from .jobs import *
from .pool import *
from .slots import *

_OTHERS = {"CAUSE_CODES", "CLAIM_FLAG_CODES", "IMPORTED", "SET", "TOPICS", "Ad", "ByProtocol", "Entry", "Procs"}
_HERE = f"{__name__}."
PUBLIC = sorted(
    _OTHERS
    | {name for name, thing in globals().items() if isinstance(thing, type) and thing.__module__.startswith(_HERE)}
)
"""What ``poolbook.events`` exports: all kinds of event, and what they are made of."""
