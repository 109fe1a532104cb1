"""Parse the transitions in a StartLog: the states and activities that a slot left and entered.

A line names the state, the activity, or both; a part that the line does not name stays unchanged. If the slot's state
is unknown or contradicts the line, only transitions in HTCondor's table are considered.
"""

from __future__ import annotations

import re
from typing import Final

from ...domain.state_machines import DELETED, HTCONDOR_25, classify

_STATES_BY_LIKELIHOOD: Final = ("Claimed", "Unclaimed", "Owner", "Drained", "Preempting", "Matched", "Backfill")
"""The order in which states are tried for a change of activity."""
CHANGES: Final = {
    "state and activity": re.compile(r"\w+/\w+ \w+/\w+"),
    "state": re.compile(r"\w+ \w+"),
    "activity": re.compile(r"\w+ \w+"),
}
TRANSITIONS: dict[tuple[str, str, str, str], tuple[str, str, str, str]] = {}
"""Maps (pair, what changes, from, to) in the log to the source, the target, the row number, and the pair afterwards
("": uncertain). Contains only transitions in HTCondor's table, so its size is limited."""


def transition_of(pair: str, what: str, old: str, new: str) -> tuple[str, str, str, str] | None:
    """Return the source, the target, the row number ("": none) and the pair after a transition ("": uncertain), or None
    if the line is unreadable.

    :param pair: the slot's state and activity before the line, or "" if unknown
    :param what: what changes: a key of ``CHANGES``
    """
    if not CHANGES[what].fullmatch(f"{old} {new}"):
        return None
    ends = _possible_ends(pair, what, old, new)
    likely_ends = [(source, DELETED if target.startswith("Delete/") else target) for source, target in ends]
    possible_ends = [end for end in likely_ends if classify(HTCONDOR_25, *end)]
    if not possible_ends:
        source, target = likely_ends[0]
        return source, target, "", target if pair else ""
    source, target = possible_ends[0]
    is_certain = source == pair or len(possible_ends) == 1
    row = classify(HTCONDOR_25, source, target)[0].number
    transition = TRANSITIONS[pair, what, old, new] = (source, target, row, target if is_certain else "")
    return transition


def _possible_ends(pair: str, what: str, old: str, new: str) -> list[tuple[str, str]]:
    """Return the possible sources and targets, most likely first."""
    if what == "state and activity":
        return [(old, new)]
    state, _, activity = pair.partition("/")
    pairs = [p.partition("/") for p in HTCONDOR_25.state_activities]
    if what == "activity":
        states = [state, *_STATES_BY_LIKELIHOOD] if state else _STATES_BY_LIKELIHOOD
        return [(f"{name}/{old}", f"{name}/{new}") for name in dict.fromkeys(states)]
    activities = [activity] if activity else []
    activities += [pair_activity for name, _, pair_activity in pairs if name == old]
    return [(f"{old}/{activity}", f"{new}/{activity}") for activity in dict.fromkeys(activities or ["Idle"])]
