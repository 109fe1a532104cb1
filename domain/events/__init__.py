"""Every kind of event that a log may hold.

The rules of this package:

* An event is a fact, named in the past tense, and is never edited once a release has written it: a new field gets a
  default, and a changed meaning gets a new class with an upcast (``adapters/stores/codec.py``).
* ``at`` is the instant in microseconds since the epoch, UTC. Ads are attribute -> expression text, so that an event
  reads the same whatever the version of the language's implementation.
* ``cause`` is one of ``CAUSES``; ``stimulus`` is the id of what came in and made the pool decide; ``poolbook why``
  follows both.
* An event knows its stream (``stream``), the log of one thing: a slot, a machine, a cluster of jobs.
* ``Procs``, ranges of process numbers with both ends included, makes one event of a change of many jobs.
* What a field means, and its unit, stands behind it (``#:``); docs/events.md is made of that
  (``python docs/generate_events.py``).
* A class under ``@event(topic)`` is a kind of event: tables, exports and pages follow from that. A new kind also needs
  its fold (``domain/state/evolve.py``), its rules (``replay/validation/``) and its line (``replay/listing.py``); one
  that only imports write needs the line alone. ``tests/domain/test_events_page.py`` names what is missing.
"""

from __future__ import annotations

if __name__ != "poolbook.domain.events":
    raise ImportError(f"import this folder as poolbook.domain.events, not as {__name__}")

# ruff: noqa: F403
from .accounting import *
from .base import *
from .imports import *
from .jobs import *
from .pool import *
from .slots import *

_OTHERS = {"CAUSE_CODES", "CLAIM_FLAG_CODES", "IMPORTED", "SET", "TOPICS", "Ad", "Entry", "Procs"}
_HERE = f"{__name__}."
PUBLIC = sorted(
    _OTHERS
    | {name for name, thing in globals().items() if isinstance(thing, type) and thing.__module__.startswith(_HERE)}
)
"""What ``poolbook.events`` exports: all kinds of event, and what they are made of."""
