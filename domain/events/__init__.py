"""All kinds of events in a log. docs/events.md is generated from these classes.

An event is a fact, named in the past tense. Released event classes do not change: a new field must have a default, and
a new meaning requires a new class with an upcast (``adapters/stores/codec.py``). ``@event(topic)`` declares a kind of
event, which adds it to tables, exports and docs. A new kind also requires a fold (``domain/fold/``), rules
(``replay/validation/``) and a line (``replay/listing/event_lines.py``); a kind that only imports write requires only
the line. Ads map attributes to expression texts, so events do not depend on the version of the ClassAd implementation.
"""

from __future__ import annotations

# ruff: noqa: F403
from .accounting import *
from .base import *
from .defrag import *
from .had import *
from .imports import *
from .jobs import *
from .peers import *
from .pool import *
from .slots import *

_FIELD_TYPES_AND_TABLES = {
    "CAUSE_CODES",
    "CLAIM_FLAG_CODES",
    "IMPORTED",
    "SET",
    "TOPICS",
    "Ad",
    "ByProtocol",
    "Entry",
    "Procs",
}
_PACKAGE_PREFIX = f"{__name__}."
PUBLIC = sorted(
    _FIELD_TYPES_AND_TABLES
    | {
        name
        for name, thing in globals().items()
        if isinstance(thing, type) and thing.__module__.startswith(_PACKAGE_PREFIX)
    }
)
"""The names that ``poolbook.events`` exports: all kinds of events, and the types of their fields."""
