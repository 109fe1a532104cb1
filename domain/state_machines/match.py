"""The life of a match of the negotiator.

* A match is a slot and a job that accept each other. It is no promise: either side may have changed since.
* Both sides are told. A slot that is told first waits in Matched for its claim, at most MATCH_TIMEOUT.
* It ends when it is claimed, or is voided in one of three ways.
* The slot's pair tells whether the slot was told (``match_state``).

Places: sections of the manual's page "Configuration for Execution Points", within "condor_startd Policy Configuration".
"""

from __future__ import annotations

from typing import Final

from .rows import row

MADE: Final = "Made"
"""A negotiation cycle made it."""

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
    return "Notified" if pair == _MATCHED else MADE


def void_row(cause: str) -> str:
    return _VOID.get(cause, "withdraw")
