"""The life of a slot by the manual.

* A slot is in one of 7 states and one of the state's activities: a pair, written "Claimed/Busy". There are 15 pairs.
* Every slot, a dynamic one too, begins in Owner/Idle, and moves only by a row of the table below.
* Code names a row by ``SlotRow``, events by its number.
* The numbers are those of the manual's picture of states and activities, the letters those of its picture of states.
  All rows from one state into another the same way have its letter; a row within a state has none.
* Rows 10, 17 and 18 enter Preempting, where WANT_VACATE chooses between two activities.

The places are sections of the page "Configuration for Execution Points" of HTCondor's manual, within "condor_startd
Policy Configuration". The ends of each arrow are those of the page's text and of the older picture: the newer one swaps
22 and 23 with 25 and 24, against the text beside it.

``slot_rows_htcondor_25`` has what HTCondor 25 does beyond this.
"""

from __future__ import annotations

from typing import Final

from .rows import Row, row

BORN: Final = "Owner/Idle"
"""The pair in which every slot begins."""

VACATING: Final = "Preempting/Vacating"
KILLING: Final = "Preempting/Killing"

STATES: Final = ("Owner", "Unclaimed", "Matched", "Claimed", "Preempting", "Backfill", "Drained")

STATE_ACTIVITIES: Final = (
    "Owner/Idle",
    "Unclaimed/Idle",
    "Unclaimed/Benchmarking",
    "Matched/Idle",
    "Claimed/Idle",
    "Claimed/Busy",
    "Claimed/Suspended",
    "Claimed/Retiring",
    "Preempting/Vacating",
    "Preempting/Killing",
    "Backfill/Idle",
    "Backfill/Busy",
    "Backfill/Killing",
    "Drained/Idle",
    "Drained/Retiring",
)


class SlotRow:
    """The number of each slot row, by its name. A letter marks a row beyond the manual (``slot_rows_htcondor_25``)."""

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


def slot_row(number: str, letter: str, sources: str, targets: str, place: str, cause: str, when: str = "") -> Row:
    """Make a row of slots, with the manual's letter if it crosses from one state into another."""
    return row(number, sources, targets, place, cause, when)._replace(letter=letter, name=_NAMES.get(number, number))


# fmt: off
NUMBERED: Final = (
    # row, letter, from, to, place,
    #     cause
    #     when (for several targets)
    slot_row(SlotRow.OWNER_LEAVES, "A", "Owner/Idle", "Unclaimed/Idle", "Owner State",
        "The owner no longer needs the machine: IS_OWNER is not true, which on a desktop means that START is not "
        "false."),
    slot_row(SlotRow.OWNER_RETURNS, "B", "Unclaimed/Idle", "Owner/Idle", "Unclaimed State",
        "The owner needs the machine again: IS_OWNER is true, which on a desktop means that START is false."),
    slot_row(SlotRow.START_BENCHMARKS, "", "Unclaimed/Idle", "Unclaimed/Benchmarking", "Unclaimed State",
        "RUNBENCHMARKS is true."),
    slot_row(SlotRow.END_BENCHMARKS, "", "Unclaimed/Benchmarking", "Unclaimed/Idle", "Unclaimed State",
        "The benchmarks are done."),
    slot_row(SlotRow.CLAIM, "D", "Unclaimed/Idle", "Claimed/Idle", "Unclaimed State",
        "The access point claims its match before the negotiator's word of it has reached the slot."),
    slot_row(SlotRow.MATCH, "C", "Unclaimed/Idle", "Matched/Idle", "Unclaimed State",
        "The negotiator tells the slot that it was matched."),
    slot_row(SlotRow.START_BACKFILL, "E", "Unclaimed/Idle", "Backfill/Idle", "Unclaimed State",
        "Backfill is configured and START_BACKFILL is true."),
    slot_row(SlotRow.VOID_MATCH, "F", "Matched/Idle", "Owner/Idle", "Matched State",
        "The match comes to nothing: MATCH_TIMEOUT passed, START is false, claiming failed, or the slot was vacated."),
    slot_row(SlotRow.CLAIM_MATCHED, "G", "Matched/Idle", "Claimed/Idle", "Matched State",
        "The access point claims its match within MATCH_TIMEOUT."),
    slot_row(SlotRow.VACATE_IDLE, "H", "Claimed/Idle", "Preempting/Vacating, Preempting/Killing", "Claimed State",
        "A claim without a job ends: its holder releases it, the slot is vacated, START is false, or the machine "
        "drains or shuts down.",
        "Vacating if WANT_VACATE is true, Killing if it is false."),
    slot_row(SlotRow.ACTIVATE, "", "Claimed/Idle", "Claimed/Busy", "Claimed State",
        "The claim's holder activates it: a job begins."),
    slot_row(SlotRow.END_JOB, "", "Claimed/Busy", "Claimed/Idle", "Claimed State",
        "The job and its starter are gone; the claim stays."),
    slot_row(SlotRow.RETIRE, "", "Claimed/Busy", "Claimed/Retiring", "Claimed State",
        "The job must go, but may use its retirement time: PREEMPT is true (and WANT_SUSPEND is not), a better match "
        "waits, the slot was vacated, or the machine drains or shuts down."),
    slot_row(SlotRow.SUSPEND, "", "Claimed/Busy", "Claimed/Suspended", "Claimed State",
        "WANT_SUSPEND and SUSPEND are true."),
    slot_row(SlotRow.CONTINUE, "", "Claimed/Suspended", "Claimed/Busy", "Claimed State",
        "CONTINUE is true and nothing preempts the claim."),
    slot_row(SlotRow.RETIRE_SUSPENDED, "", "Claimed/Suspended", "Claimed/Retiring", "Claimed State",
        "PREEMPT is true, or CONTINUE is true and the claim has been preempted meanwhile."),
    slot_row(SlotRow.VACATE_SUSPENDED, "H", "Claimed/Suspended", "Preempting/Vacating, Preempting/Killing",
        "Claimed State",
        "The retirement time of a suspended job that was retiring is over, because MaxJobRetirementTime has shrunk.",
        "Vacating if WANT_VACATE is true, Killing if it is false."),
    slot_row(SlotRow.VACATE, "H", "Claimed/Retiring", "Preempting/Vacating, Preempting/Killing", "Claimed State",
        "The retiring job has ended, or has run for MaxJobRetirementTime, not counting time in suspension.",
        "Vacating if WANT_VACATE is true, Killing if it is false."),
    slot_row(SlotRow.UNRETIRE, "", "Claimed/Retiring", "Claimed/Busy", "Claimed State",
        "The job retired for a better match alone, and that match has gone away."),
    slot_row(SlotRow.SUSPEND_RETIRING, "", "Claimed/Retiring", "Claimed/Suspended", "Claimed State",
        "WANT_SUSPEND and SUSPEND are true while the job retires."),
    slot_row(SlotRow.KILL, "", "Preempting/Vacating", "Preempting/Killing", "Preempting State",
        "KILL is true, or the job has had its time to vacate (MachineMaxVacateTime, JobMaxVacateTime)."),
    slot_row(SlotRow.VACATED, "J", "Preempting/Vacating", "Owner/Idle", "Preempting State",
        "The job left when asked to, and no better match waits."),
    slot_row(SlotRow.VACATED_FOR_BETTER_MATCH, "I", "Preempting/Vacating", "Claimed/Idle", "Preempting State",
        "The job left when asked to, and the better match takes over."),
    slot_row(SlotRow.KILLED_FOR_BETTER_MATCH, "I", "Preempting/Killing", "Claimed/Idle", "Preempting State",
        "The job was killed, and the better match takes over."),
    slot_row(SlotRow.KILLED, "J", "Preempting/Killing", "Owner/Idle", "Preempting State",
        "The job was killed, and no better match waits."),
    slot_row(SlotRow.RUN_BACKFILL, "", "Backfill/Idle", "Backfill/Busy", "Backfill State",
        "The backfill client runs."),
    slot_row(SlotRow.END_BACKFILL, "", "Backfill/Busy", "Backfill/Idle", "Backfill State",
        "The backfill client ended by itself."),
    slot_row(SlotRow.KILL_BACKFILL, "", "Backfill/Busy", "Backfill/Killing", "Backfill State",
        "The backfill client must go: the slot was matched, claimed or vacated, EVICT_BACKFILL is true, or the "
        "machine shuts down."),
    slot_row(SlotRow.BACKFILL_KILLED, "", "Backfill/Killing", "Backfill/Idle", "Backfill State",
        "The backfill client and all that it started are gone."),
    slot_row(SlotRow.LEAVE_BACKFILL, "K", "Backfill/Idle", "Owner/Idle", "Backfill State",
        "EVICT_BACKFILL is true, the slot was vacated, or the machine shuts down."),
    slot_row(SlotRow.CLAIM_BACKFILL, "M", "Backfill/Idle", "Claimed/Idle", "Backfill State",
        "The access point claims its match before the negotiator's word of it has reached the slot."),
    slot_row(SlotRow.MATCH_BACKFILL, "L", "Backfill/Idle", "Matched/Idle", "Backfill State",
        "The negotiator tells the slot that it was matched."),
    slot_row(SlotRow.DRAINED, "", "Drained/Retiring", "Drained/Idle", "Drained State",
        "Every slot of the machine has been drained."),
    slot_row(SlotRow.END_DRAIN, "O", "Drained/Idle", "Owner/Idle", "Drained State",
        "The drain, complete, is ended or canceled."),
    slot_row(SlotRow.CANCEL_DRAIN, "O", "Drained/Retiring", "Owner/Idle", "Drained State",
        "The drain is canceled while other slots still have jobs."),
    slot_row(SlotRow.DRAIN_OWNER, "N", "Owner/Idle", "Drained/Retiring", "Owner State",
        "The machine begins to drain."),
    slot_row(SlotRow.DRAIN, "P", "Unclaimed/Idle", "Drained/Retiring", "Unclaimed State",
        "The machine begins to drain."),
)

LETTERED: Final = (
    # letter, letter, from state, to state, place,
    #     cause
    slot_row("A", "A", "Owner", "Unclaimed", "Machine States",
        "START is no longer false: the machine may run jobs."),
    slot_row("B", "B", "Unclaimed", "Owner", "Machine States",
        "START is false: the owner uses the machine."),
    slot_row("C", "C", "Unclaimed", "Matched", "Machine States",
        "The negotiator matched the slot with a job, and told it so."),
    slot_row("D", "D", "Unclaimed", "Claimed", "Machine States",
        "The negotiator matched the slot with a job, and the access point was the first to tell it."),
    slot_row("E", "E", "Unclaimed", "Backfill", "Machine States",
        "Backfill is configured and START_BACKFILL is true."),
    slot_row("F", "F", "Matched", "Owner", "Machine States",
        "START is false, MATCH_TIMEOUT passed, claiming failed, or the slot was vacated."),
    slot_row("G", "G", "Matched", "Claimed", "Machine States",
        "The access point claimed its match."),
    slot_row("H", "H", "Claimed", "Preempting", "Machine States",
        "The claim ends: released, PREEMPT is true, vacated, a shutdown, or a better match."),
    slot_row("I", "I", "Preempting", "Claimed", "Machine States",
        "The better match takes over."),
    slot_row("J", "J", "Preempting", "Owner", "Machine States",
        "The eviction is done and nobody waits: PREEMPT was true, the slot was vacated, or START is false."),
    slot_row("K", "K", "Backfill", "Owner", "Machine States",
        "EVICT_BACKFILL is true, the slot was vacated, or the machine shuts down."),
    slot_row("L", "L", "Backfill", "Matched", "Machine States",
        "The negotiator matched the slot with a job, and told it so."),
    slot_row("M", "M", "Backfill", "Claimed", "Machine States",
        "The negotiator matched the slot with a job, and the access point was the first to tell it."),
    slot_row("N", "N", "Owner", "Drained", "Machine States",
        "The machine begins to drain."),
    slot_row("O", "O", "Drained", "Owner", "Machine States",
        "The drain is ended or canceled."),
    slot_row("P", "P", "Unclaimed", "Drained", "Machine States",
        "The machine begins to drain."),
)
# fmt: on


def state(pair: str) -> str:
    """Return the state of a pair: "Claimed" of "Claimed/Busy"."""
    return pair.partition("/")[0]


def activity(pair: str) -> str:
    """Return the activity of a pair: "Busy" of "Claimed/Busy"."""
    return pair.partition("/")[2]
