"""The life of a match of the negotiator: a slot and a job that accept each other; ``rows.txt`` has the rows.

It is no promise: either side may have changed since. Both sides are told. A slot that is told first waits in Matched
for its claim, at most MATCH_TIMEOUT: its pair tells whether it was (``match_state``).
"""

from __future__ import annotations

from typing import Final

from .rows import table

MADE: Final = "Made"
"""A negotiation cycle made it."""

MATCH: Final = table("match")

_MATCHED: Final = "Matched/Idle"
_BACKFILL: Final = "Backfill/"
_VOID: Final = {"match_timeout": "time_out", "claim_failed": "refuse"}


def match_state(pair: str, destination: str = "") -> str:
    """Return the state of the match of a slot in this pair. A slot in Backfill that was told of it is headed to
    Matched."""
    told = pair == _MATCHED or (pair.startswith(_BACKFILL) and destination == "Matched")
    return "Notified" if told else MADE


def void_row(cause: str) -> str:
    return _VOID.get(cause, "withdraw")
