"""All kinds of events in a log. docs/events.md is generated from these classes.

An event is a fact, named in the past tense. A released event class does not change: a new field needs a default, and a
new meaning needs a new class with an upcast (``adapters/stores/codec.py``). ``@event(topic)`` declares a kind of event,
which tables, exports and docs then include. A new kind also needs a fold (``domain/fold/``), rules
(``replay/validation/``) and a line (``replay/listing/event_lines.py``); one that only imports write needs the line
alone. Ads are attribute -> expression text, so events do not depend on the version of the ClassAd implementation.
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
