"""The lines of a startd that announce a transition, which follows at once."""

from __future__ import annotations

from typing import Final, NamedTuple


class Announcement(NamedTuple):
    """Words after which a startd makes a transition at once; ``target`` begins the transition's target pair."""

    words: str
    target: str


ANNOUNCEMENTS: Final = (
    Announcement("IS_OWNER is false", "Unclaimed/Idle"),
    Announcement("No preempting claim, returning to owner", "Owner/Idle"),
    Announcement("claim-activation protocol successful", "Claimed/Busy"),
    Announcement("match notification protocol successful", "Matched/Idle"),
    Announcement("match timed out", "Owner/Idle"),
    Announcement("entering Drained state", "Drained/Retiring"),
    Announcement("draining is complete", "Drained/Idle"),
    Announcement("slot is no longer draining", "Owner/"),
    Announcement("SUSPEND is TRUE", "Claimed/Suspended"),
    Announcement("KILL is TRUE", "Preempting/Killing"),
    Announcement("unretiring because no preempting claim exists", "Claimed/Busy"),
)


def announced_target(words: str) -> str:
    return next((said.target for said in ANNOUNCEMENTS if words.startswith(said.words)), "")
