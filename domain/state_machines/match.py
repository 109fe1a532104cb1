"""The states of a match between a slot and a job. ``rows.txt`` contains the rows.

A match may fail, because the slot or the job may have changed in the meantime. The negotiator notifies both sides. A
slot that is notified before it is claimed waits in Matched for at most MATCH_TIMEOUT. So a slot's state/activity shows
whether the slot was notified (``match_state``).
"""

from __future__ import annotations

from typing import Final

from .rows import table

INITIAL_MATCH_STATE: Final = "Made"
"""The state of a new match, made by a negotiation cycle."""

MATCH: Final = table("match")

_MATCHED: Final = "Matched/Idle"
_BACKFILL: Final = "Backfill/"
_VOID: Final = {"match_timeout": "time_out", "claim_failed": "refuse"}


def match_state(pair: str, destination: str = "") -> str:
    """Return the state of the slot's match. In Backfill, the destination Matched shows that the slot was notified."""
    notified = pair == _MATCHED or (pair.startswith(_BACKFILL) and destination == "Matched")
    return "Notified" if notified else INITIAL_MATCH_STATE


def void_row(cause: str) -> str:
    """Return the row that ends a match for this cause."""
    return _VOID.get(cause, "withdraw")
