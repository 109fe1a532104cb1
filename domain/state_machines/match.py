"""The life of a match: what the negotiator makes, and what becomes of it.

* A match is a slot and a job that accept each other. It is no promise: either side may have changed since.
* It is told to both sides. If the slot hears of it first, it waits in Matched for its claim, at most MATCH_TIMEOUT.
* It ends when it is claimed, or comes to nothing in one of three ways.
* Whether the slot has heard of it, the slot says (``match_state``).

Places: sections of the manual's page "Configuration for Execution Points", within "condor_startd Policy Configuration".
"""

from __future__ import annotations

from typing import Final

from .rows import row

MADE: Final = "Made"
"""A cycle of the negotiator made it."""

# fmt: off
MATCH: Final = (
    # number, from, to, place,
    #     cause
    row("notify", MADE, "Notified", "Unclaimed State",
        "The slot hears of it, and is in Matched from here on."),
    row("claim", "Made, Notified", "Claimed", "Unclaimed State; Matched State",
        "The access point asks for the slot, and the slot agrees."),
    row("refuse", "Made, Notified", "Refused", "Machine States",
        "The access point asks for the slot, and the slot does not agree."),
    row("time_out", "Notified", "TimedOut", "Matched State",
        "Nobody asked for the slot within MATCH_TIMEOUT."),
    row("withdraw", "Made, Notified", "Withdrawn", "Machine States",
        "One side is gone: the job was held or removed, the slot was vacated or drained, or its owner came back."),
)
# fmt: on

_MATCHED: Final = "Matched/Idle"
_VOID: Final = {"match_timeout": "time_out", "claim_failed": "refuse"}


def match_state(pair: str) -> str:
    """Return where the match of a slot is that is in this pair of state and activity."""
    return "Notified" if pair == _MATCHED else MADE


def void_row(cause: str) -> str:
    """Return the row by which a match comes to nothing for this cause."""
    return _VOID.get(cause, "withdraw")
