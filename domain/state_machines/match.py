"""The states of a match between a slot and a job. ``rows.txt`` contains the rows.

The negotiator notifies both sides of a match. The match fails if the slot or the job has changed before the slot is
claimed. Until then, a notified slot waits in Matched for at most MATCH_TIMEOUT, so the slot's state/activity shows
whether it was notified (``match_state``).
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
