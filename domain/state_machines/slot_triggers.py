"""The rows that messages to a slot fire, by trigger and then by the slot's state/activity.

``TRIGGERS`` follows the manual, with match notifications. ``TRIGGERS_HTCONDOR_25`` follows HTCondor 25's traces
(tests/data/traces) or source. A trigger has no effect in a state/activity that is not listed. If a trigger fires
several rows, only the last row's entry action is performed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from .slot_rows import BACKFILL_BUSY, BACKFILL_IDLE, BACKFILL_KILLING, KILLING, VACATING, SlotRow


class Step(NamedTuple):
    """A row to fire; ``target`` is set only if the row has several targets."""

    row: str
    target: str | None = None


Steps = tuple[Step, ...]
Triggers = Mapping[str, Mapping[str, Steps]]
"""Trigger -> state/activity -> the rows to fire."""

# fmt: off
TRIGGERS: Final[Triggers] = {
    "match": {
        "Unclaimed/Idle": (Step(SlotRow.MATCH),),
        BACKFILL_IDLE: (Step(SlotRow.MATCH_BACKFILL),),
        BACKFILL_BUSY: (Step(SlotRow.KILL_BACKFILL),)},
    "claim": {
        "Unclaimed/Idle": (Step(SlotRow.CLAIM),),
        "Matched/Idle": (Step(SlotRow.CLAIM_MATCHED),),
        BACKFILL_IDLE: (Step(SlotRow.CLAIM_BACKFILL),)},
    "claim waits": {
        BACKFILL_BUSY: (Step(SlotRow.KILL_BACKFILL),)},
    "client ended": {
        BACKFILL_BUSY: (Step(SlotRow.END_BACKFILL),)},
    "client gone": {
        BACKFILL_KILLING: (Step(SlotRow.BACKFILL_KILLED), Step(SlotRow.LEAVE_BACKFILL))},
    "client gone, matched": {
        BACKFILL_KILLING: (Step(SlotRow.BACKFILL_KILLED), Step(SlotRow.MATCH_BACKFILL))},
    "client gone, claimed": {
        BACKFILL_KILLING: (Step(SlotRow.BACKFILL_KILLED), Step(SlotRow.CLAIM_BACKFILL))},
    "match over": {
        "Matched/Idle": (Step(SlotRow.VOID_MATCH),)},
    "claim failed": {
        "Matched/Idle": (Step(SlotRow.VOID_MATCH),)},
    "activate": {
        "Claimed/Idle": (Step(SlotRow.ACTIVATE),)},
    "suspend": {
        "Claimed/Busy": (Step(SlotRow.SUSPEND),),
        "Claimed/Retiring": (Step(SlotRow.SUSPEND_RETIRING),)},
    "continue": {
        "Claimed/Suspended": (Step(SlotRow.CONTINUE),)},
    "job gone": {
        "Claimed/Busy": (Step(SlotRow.END_JOB),),
        "Claimed/Suspended": (Step(SlotRow.CONTINUE), Step(SlotRow.END_JOB)),
        "Claimed/Retiring": (Step(SlotRow.VACATE, VACATING),)},
    "release": {
        "Claimed/Idle": (Step(SlotRow.VACATE_IDLE, VACATING),),
        "Claimed/Busy": (Step(SlotRow.RETIRE), Step(SlotRow.VACATE, VACATING)),
        "Claimed/Suspended": (Step(SlotRow.RETIRE_SUSPENDED), Step(SlotRow.VACATE, VACATING)),
        "Claimed/Retiring": (Step(SlotRow.VACATE, VACATING),)},
    "retire": {
        BACKFILL_IDLE: (Step(SlotRow.LEAVE_BACKFILL),),
        BACKFILL_BUSY: (Step(SlotRow.KILL_BACKFILL),),
        "Matched/Idle": (Step(SlotRow.VOID_MATCH),),
        "Claimed/Idle": (Step(SlotRow.VACATE_IDLE, VACATING),),
        "Claimed/Busy": (Step(SlotRow.RETIRE),),
        "Claimed/Suspended": (Step(SlotRow.RETIRE_SUSPENDED),)},
    "kill": {
        BACKFILL_IDLE: (Step(SlotRow.LEAVE_BACKFILL),),
        BACKFILL_BUSY: (Step(SlotRow.KILL_BACKFILL),),
        "Matched/Idle": (Step(SlotRow.VOID_MATCH),),
        "Claimed/Idle": (Step(SlotRow.VACATE_IDLE, KILLING),),
        "Claimed/Busy": (Step(SlotRow.RETIRE), Step(SlotRow.VACATE, KILLING)),
        "Claimed/Suspended": (Step(SlotRow.RETIRE_SUSPENDED), Step(SlotRow.VACATE, KILLING)),
        "Claimed/Retiring": (Step(SlotRow.VACATE, KILLING),),
        "Preempting/Vacating": (Step(SlotRow.KILL),)},
    "vacate time over": {
        "Preempting/Vacating": (Step(SlotRow.KILL),)},
    "benchmarks done": {
        "Unclaimed/Benchmarking": (Step(SlotRow.END_BENCHMARKS),)},
}

# HTCondor 25 differs as follows: a slot is claimed without a match notification, even in Owner. A job's end is reported
# twice: by its starter's last report (Cleaning) and by the starter's exit. A claim released by its holder is killed,
# because it has no job. When the time to vacate is over, the starter kills the job and the slot remains in Vacating. A
# slot leaves Backfill/Killing in a single transition.
TRIGGERS_HTCONDOR_25: Final[Triggers] = {
    **TRIGGERS,
    "match": {
        **TRIGGERS["match"],
        "Owner/Idle": (Step(SlotRow.MATCH_OWNER),),
        "Unclaimed/Benchmarking": (Step(SlotRow.MATCH),)},
    "claim": {
        **TRIGGERS["claim"],
        "Owner/Idle": (Step(SlotRow.CLAIM_OWNER),),
        "Unclaimed/Benchmarking": (Step(SlotRow.CLAIM),),
        "Drained/Retiring": (Step(SlotRow.CLAIM_DRAINING),)},
    "client gone": {
        BACKFILL_KILLING: (Step(SlotRow.KILLED_TO_OWNER),)},
    "client gone, matched": {
        BACKFILL_KILLING: (Step(SlotRow.KILLED_TO_MATCHED),)},
    "client gone, claimed": {
        BACKFILL_KILLING: (Step(SlotRow.KILLED_TO_CLAIMED),)},
    "unowned": {
        "Owner/Idle": (Step(SlotRow.OWNER_LEAVES),)},
    "merge": {
        "Owner/Idle": (Step(SlotRow.DELETE_DYNAMIC),),
        "Unclaimed/Idle": (Step(SlotRow.DELETE_DYNAMIC),)},
    "claim failed": {
        "Unclaimed/Idle": (Step(SlotRow.OWNER_RETURNS),),
        "Matched/Idle": (Step(SlotRow.VOID_MATCH),)},
    "revert": {
        "Claimed/Idle": (Step(SlotRow.REVERT_CLAIM),)},
    "job reported": {
        "Claimed/Busy": (Step(SlotRow.END_JOB, "Claimed/Cleaning"),),
        "Claimed/Suspended": (Step(SlotRow.END_JOB, "Claimed/Cleaning"),),
        "Claimed/Retiring": (Step(SlotRow.CLEAN_RETIRING),)},
    "job gone": {
        "Claimed/Busy": (Step(SlotRow.END_JOB, "Claimed/Idle"),),
        "Claimed/Suspended": (Step(SlotRow.END_JOB, "Claimed/Idle"),),
        "Claimed/Cleaning": (Step(SlotRow.END_CLEANING),),
        "Claimed/Retiring": (Step(SlotRow.VACATE, VACATING),)},
    "job gone, claim closing": {
        "Claimed/Cleaning": (Step(SlotRow.VACATE_CLEANING),)},
    "deactivate and close": {
        "Claimed/Idle": (Step(SlotRow.VACATE_IDLE, VACATING),),
        "Claimed/Busy": (Step(SlotRow.VACATE_BUSY),),
        "Claimed/Retiring": (Step(SlotRow.VACATE, VACATING),),
        "Claimed/Suspended": (Step(SlotRow.VACATE_SUSPENDED, VACATING),)},
    "release": {
        "Matched/Idle": (Step(SlotRow.VOID_MATCH),),
        "Claimed/Idle": (Step(SlotRow.VACATE_IDLE, KILLING),),
        "Claimed/Busy": (Step(SlotRow.KILL_BUSY),),
        "Claimed/Suspended": (Step(SlotRow.VACATE_SUSPENDED, KILLING),),
        "Claimed/Retiring": (Step(SlotRow.VACATE, KILLING),)},
    "retire": {
        **TRIGGERS["retire"],
        "Claimed/Idle": (Step(SlotRow.RETIRE_IDLE),)},
    "kill": {
        **TRIGGERS["kill"],
        "Claimed/Busy": (Step(SlotRow.KILL_BUSY),),
        "Claimed/Suspended": (Step(SlotRow.VACATE_SUSPENDED, KILLING),)},
    "vacate time over": {},
}
# fmt: on

DESTINATIONS: Final[Mapping[str, str]] = {
    "match": "Matched",
    "claim waits": "Claimed",
    "match over": "Owner",
    "claim failed": "Owner",
    "retire": "Owner",
    "kill": "Owner",
}
"""Trigger -> the state to which a slot moves when its backfill client has ended."""


def backfill_destination(trigger: str, pair: str, current: str) -> str:
    """Return the new destination of a slot in Backfill after a trigger; empty if the destination does not change.

    :param current: the current destination (empty: none in Busy, Owner in Killing)
    """
    new_destination = DESTINATIONS.get(trigger, "")
    if new_destination == "Matched" and pair != BACKFILL_BUSY:
        return ""  # the slot already has a destination
    if trigger in ("match over", "claim failed") and current != "Matched":
        return ""  # the slot was not notified of a match
    return "" if new_destination == (current or "Owner") else new_destination
