"""What must hold in every log: the rules by name, and the tables that say it of single words."""

from __future__ import annotations

from typing import Final, NamedTuple

from ...domain.lifecycle.rows import HTCONDOR_25
from ...domain.lifecycle.tables import SLOT_PAIRS

RULES: Final[dict[str, str]] = {
    "order": "positions count from 1 without a gap, and times never fall",
    "instant": "what follows from one stimulus happens at one instant",
    "kind": "an event is of a kind that a log may hold",
    "cause": "an event's cause is one of the closed list",
    "founded": "a pool is founded once, before anything else happens in it",
    "epoch": "each writer's epoch is one more than the last",
    "reference": "what an event names is there, and what it makes is not there yet",
    "value": "a number is one, in its unit's range",
    "source": "a transition begins where the thing is",
    "row": "a transition is a row of the dialect's table",
    "match": "a match is made for a waiting job and a slot, and claimed or voided",
    "claim": "a slot in Claimed or Preempting has one claim, and no other slot has any",
    "usage": "a claim's usage is the time that it was held, times its weight",
    "activation": "a job runs once at a time, on a slot that its submitter holds, and a slot runs one job at a time",
    "end": "how a job ended agrees with what it was told, and with the row that follows",
    "resources": "what dynamic slots have, and what is left of the slot that they were carved from, add up",
    "answer": "what somebody asked for is answered",
    "evidence": "a cycle that matches notes what it read",
    "immutable": "what the pool itself keeps of a job is not edited",
}
"""Every rule that a violation may name."""

ASKED: Final = frozenset(
    {"submitted", "user_hold", "user_release", "user_remove", "user_edit", "user_vacate", "vacate_command",
     "suspend_command", "continue_command"}
)  # fmt: skip
"""The causes that are somebody's request: its answer is in the log under the same stimulus."""


class Needs(NamedTuple):
    """What a slot in a state and activity has, once all is done that follows from a stimulus."""

    claim: bool
    job: bool
    match: bool | None
    """None: it may have one or not."""


def _needs(pair: str) -> Needs:
    state, _, activity = pair.partition("/")
    claim = state in ("Claimed", "Preempting")
    job = state == "Preempting" or (state == "Claimed" and activity in ("Busy", "Suspended", "Retiring"))
    # Where the slot is not told of its match, it is where it can be matched until it is claimed.
    match = True if state == "Matched" else (None if pair in ("Owner/Idle", "Unclaimed/Idle") else False)
    return Needs(claim, job, match)


NEEDS: Final[dict[str, Needs]] = {pair: _needs(pair) for pair in SLOT_PAIRS[HTCONDOR_25]}


class Outcome(NamedTuple):
    """What goes together when the processes of an activation are gone."""

    rows: tuple[str, ...]
    told: bool | None
    """Whether they had been told to end; None: either."""


OUTCOMES: Final[dict[tuple[str, str], Outcome]] = {
    # (outcome, cause): the rows that may follow while the job runs, whether it was told to end
    ("exited", "exited"): Outcome(("complete", "requeue"), False),
    ("evicted", "evicted"): Outcome(("evict",), True),
    ("evicted", "limit_exceeded"): Outcome(("hold",), None),
    ("failed", "execution_failed"): Outcome(("hold",), None),
    ("lost", "lost"): Outcome(("evict",), None),
}
