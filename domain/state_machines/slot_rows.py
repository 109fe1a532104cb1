"""The states and activities of a slot, in the manual and in HTCondor 25's startd. ``rows.txt`` contains the rows.

A slot has one of 7 states, and one of that state's activities. Such a pair is written like "Claimed/Busy". Every slot,
even a dynamic one, starts in Owner/Idle. Code refers to rows by ``SlotRow``; events contain the row numbers. Rows 10,
17 and 18 enter Preempting, where WANT_VACATE determines the activity.
"""

from __future__ import annotations

from string import ascii_lowercase
from typing import Final, Literal, cast, get_args

from .rows import TransitionRow, override_rows, table

INITIAL_PAIR: Final = "Owner/Idle"
"""The initial state/activity of every slot."""
DELETED: Final = "Deleted"
"""The state of a dynamic slot that has been destroyed."""
UNLETTERED: Final = "-"
"""The letter of a row between two states that the manual does not connect."""

VACATING: Final = "Preempting/Vacating"
KILLING: Final = "Preempting/Killing"

BACKFILL_IDLE: Final = "Backfill/Idle"
BACKFILL_BUSY: Final = "Backfill/Busy"
BACKFILL_KILLING: Final = "Backfill/Killing"

State = Literal["Owner", "Unclaimed", "Matched", "Claimed", "Preempting", "Backfill", "Drained"]
Activity = Literal["Idle", "Benchmarking", "Busy", "Suspended", "Retiring", "Vacating", "Killing", "Cleaning"]
ManualPair = Literal[
    "Owner/Idle", "Unclaimed/Idle", "Unclaimed/Benchmarking", "Matched/Idle", "Claimed/Idle", "Claimed/Busy",
    "Claimed/Suspended", "Claimed/Retiring", "Preempting/Vacating", "Preempting/Killing",
    "Backfill/Idle", "Backfill/Busy", "Backfill/Killing", "Drained/Idle", "Drained/Retiring",
]  # fmt: skip
"""The manual's 15 states/activities."""
StateActivity = Literal[ManualPair, "Claimed/Cleaning", "Owner/Retiring", "Deleted"]
"""All states/activities, including HTCondor 25's."""

STATES: Final = get_args(State)
STATE_ACTIVITIES: Final = get_args(ManualPair)


class SlotRow:
    """The numbers of the slot rows. Numbers with a letter are not in the manual."""

    OWNER_LEAVES: Final = "1"
    OWNER_RETURNS: Final = "2"
    DELETE_DYNAMIC: Final = "2a"
    START_BENCHMARKS: Final = "3"
    END_BENCHMARKS: Final = "4"
    CLAIM: Final = "5"
    CLAIM_OWNER: Final = "5a"
    REVERT_CLAIM: Final = "5b"
    CLAIM_DRAINING: Final = "5c"
    MATCH: Final = "6"
    MATCH_OWNER: Final = "6a"
    START_BACKFILL: Final = "7"
    VOID_MATCH: Final = "8"
    CLAIM_MATCHED: Final = "9"
    VACATE_IDLE: Final = "10"
    RETIRE_IDLE: Final = "10a"
    ACTIVATE: Final = "11"
    END_JOB: Final = "12"
    END_CLEANING: Final = "12a"
    CLEAN_RETIRING: Final = "12b"
    VACATE_CLEANING: Final = "12c"
    RETIRE: Final = "13"
    VACATE_BUSY: Final = "13a"
    KILL_BUSY: Final = "13b"
    SUSPEND: Final = "14"
    CONTINUE: Final = "15"
    RETIRE_SUSPENDED: Final = "16"
    VACATE_SUSPENDED: Final = "17"
    VACATE: Final = "18"
    UNRETIRE: Final = "19"
    SUSPEND_RETIRING: Final = "20"
    KILL: Final = "21"
    VACATED: Final = "22"
    VACATED_FOR_BETTER_MATCH: Final = "23"
    KILLED_FOR_BETTER_MATCH: Final = "24"
    KILLED: Final = "25"
    RUN_BACKFILL: Final = "26"
    END_BACKFILL: Final = "27"
    KILL_BACKFILL: Final = "28"
    BACKFILL_KILLED: Final = "29"
    KILLED_TO_OWNER: Final = "29a"
    KILLED_TO_CLAIMED: Final = "29b"
    KILLED_TO_MATCHED: Final = "29c"
    LEAVE_BACKFILL: Final = "30"
    CLAIM_BACKFILL: Final = "31"
    MATCH_BACKFILL: Final = "32"
    DRAINED: Final = "33"
    END_DRAIN: Final = "34"
    CANCEL_DRAIN: Final = "35"
    CANCEL_DRAIN_RETIRING: Final = "35a"
    OWNER_LEAVES_RETIRING: Final = "35b"
    DRAIN_OWNER: Final = "36"
    DRAIN: Final = "37"


_NAMES: Final = {number: name.lower() for name, number in vars(SlotRow).items() if name.isupper()}


def _add_names(rows: tuple[TransitionRow, ...]) -> tuple[TransitionRow, ...]:
    return tuple(r._replace(name=_NAMES[r.number]) for r in rows)


def _order(r: TransitionRow) -> tuple[int, str]:
    digits = r.number.rstrip(ascii_lowercase)
    return int(digits), r.number[len(digits) :]


LETTERED: Final = tuple(r._replace(letter=r.number) for r in table("slot, by letter"))
"""The manual's state diagram."""
NUMBERED: Final = _add_names(table("slot"))
"""The manual's diagram of states and activities."""
HTCONDOR_25_ROWS: Final = _add_names(table("slot, htcondor-25"))
NUMBERED_HTCONDOR_25: Final = tuple(sorted(override_rows(NUMBERED, HTCONDOR_25_ROWS), key=_order))
"""The manual's rows, the rows that HTCondor 25 changes, and HTCondor 25's additional rows."""


def read_pair(text: str) -> StateActivity:
    """Return an event's state/activity text with its type. The tables, not this function, check its validity."""
    return cast(StateActivity, text)


def state(pair: str) -> str:
    """Return the state of a state/activity: "Claimed" for "Claimed/Busy"."""
    return pair.partition("/")[0]


def activity(pair: str) -> str:
    """Return the activity of a state/activity: "Busy" for "Claimed/Busy"."""
    return pair.partition("/")[2]
