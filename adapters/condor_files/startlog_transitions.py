"""Parse the transitions in a StartLog: the states and activities that a slot left and entered.

A line names the state, the activity, or both; the other one does not change. If the slot's state is unknown or
contradicts the line, HTCondor's table of transitions determines what is possible.
"""

from __future__ import annotations

import re
from typing import Final

from ...domain.state_machines import DELETED, HTCONDOR_25, classify

_LIKELY: Final = ("Claimed", "Unclaimed", "Owner", "Drained", "Preempting", "Matched", "Backfill")
"""The order in which states are tried for a change of activity."""
CHANGES: Final = {
    "state and activity": re.compile(r"\w+/\w+ \w+/\w+"),
    "state": re.compile(r"\w+ \w+"),
    "activity": re.compile(r"\w+ \w+"),
}
TRANSITIONS: dict[tuple[str, str, str, str], tuple[str, str, str, str]] = {}
"""(pair, what changes, from, to) in the log -> source, target, row, and the pair afterwards ("": uncertain). Contains
only words in the table, so its size is limited."""


def transition_of(pair: str, what: str, old: str, new: str) -> tuple[str, str, str, str] | None:
    """Return source, target, row ("": none) and the pair after a transition ("": uncertain); None if the transition is
    unreadable."""
    if not CHANGES[what].fullmatch(f"{old} {new}"):
        return None
    ends = _ends(pair, what, old, new)
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


def _ends(pair: str, report_name: str, old: str, new: str) -> list[tuple[str, str]]:
    """Return the possible sources and targets, most likely first. The part that the line does not name does not
    change."""
    if report_name == "state and activity":
        return [(old, new)]
    state, _, activity = pair.partition("/")
    pairs = [p.partition("/") for p in HTCONDOR_25.state_activities]
    if report_name == "activity":
        states = [state, *_LIKELY] if state else _LIKELY
        return [(f"{name}/{old}", f"{name}/{new}") for name in dict.fromkeys(states)]
    activities = [activity] if activity else []
    activities += [pair_activity for name, _, pair_activity in pairs if name == old]
    return [(f"{old}/{activity}", f"{new}/{activity}") for activity in dict.fromkeys(activities or ["Idle"])]
