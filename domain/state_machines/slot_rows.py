"""The life of a slot, as the manual tells it.

* A slot is in one of 7 states, and in each state in one of the activities that the state knows: a pair, written
  "Claimed/Busy". There are 15.
* It is born in Owner/Idle, a dynamic slot too, and moves only by a row of the table below. Nothing else happens to it.
* The numbers are those of the manual's picture of states and activities, the letters those of its picture of states.
  A letter stands on every row that crosses the same way from one state into another; a row within a state has none.
* Rows 10, 17 and 18 enter Preempting, where WANT_VACATE chooses between two activities.

The places are sections of the page "Configuration for Execution Points" of HTCondor's manual, within "condor_startd
Policy Configuration". The ends of each arrow are those of the page's text and of the older picture: the newer one swaps
22 and 23 with 25 and 24, against the text beside it.

What HTCondor 25 does beyond this stands in ``slot_htcondor``.
"""

from __future__ import annotations

from typing import Final

from .rows import row

BORN: Final = "Owner/Idle"
"""The pair in which every slot begins."""

STATES: Final = ("Owner", "Unclaimed", "Matched", "Claimed", "Preempting", "Backfill", "Drained")

PAIRS: Final = (
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

# fmt: off
NUMBERED: Final = (
    # number, letter, from, to, place,
    #     cause
    #     when (for several targets)
    row("1", "A", "Owner/Idle", "Unclaimed/Idle", "Owner State",
        "The owner no longer needs the machine: IS_OWNER is not true, which on a desktop means that START is not "
        "false."),
    row("2", "B", "Unclaimed/Idle", "Owner/Idle", "Unclaimed State",
        "The owner needs the machine again: IS_OWNER is true, which on a desktop means that START is false."),
    row("3", "", "Unclaimed/Idle", "Unclaimed/Benchmarking", "Unclaimed State",
        "RUNBENCHMARKS is true."),
    row("4", "", "Unclaimed/Benchmarking", "Unclaimed/Idle", "Unclaimed State",
        "The benchmarks are done."),
    row("5", "D", "Unclaimed/Idle", "Claimed/Idle", "Unclaimed State",
        "The access point claims its match before the negotiator's word of it has reached the slot."),
    row("6", "C", "Unclaimed/Idle", "Matched/Idle", "Unclaimed State",
        "The negotiator tells the slot that it was matched."),
    row("7", "E", "Unclaimed/Idle", "Backfill/Idle", "Unclaimed State",
        "Backfill is configured and START_BACKFILL is true."),
    row("8", "F", "Matched/Idle", "Owner/Idle", "Matched State",
        "The match comes to nothing: MATCH_TIMEOUT passed, START is false, claiming failed, or the slot was vacated."),
    row("9", "G", "Matched/Idle", "Claimed/Idle", "Matched State",
        "The access point claims its match within MATCH_TIMEOUT."),
    row("10", "H", "Claimed/Idle", "Preempting/Vacating, Preempting/Killing", "Claimed State",
        "A claim without a job ends: its holder releases it, the slot is vacated, START is false, or the machine "
        "drains "
        "or shuts down.",
        "Vacating if WANT_VACATE is true, Killing if it is false."),
    row("11", "", "Claimed/Idle", "Claimed/Busy", "Claimed State",
        "The claim's holder activates it: a job begins."),
    row("12", "", "Claimed/Busy", "Claimed/Idle", "Claimed State",
        "The job and its starter are gone; the claim stays."),
    row("13", "", "Claimed/Busy", "Claimed/Retiring", "Claimed State",
        "The job must go, but may use its retirement time: PREEMPT is true (and WANT_SUSPEND is not), a better match "
        "waits, "
        "the slot was vacated, or the machine drains or shuts down."),
    row("14", "", "Claimed/Busy", "Claimed/Suspended", "Claimed State",
        "WANT_SUSPEND and SUSPEND are true."),
    row("15", "", "Claimed/Suspended", "Claimed/Busy", "Claimed State",
        "CONTINUE is true and nothing preempts the claim."),
    row("16", "", "Claimed/Suspended", "Claimed/Retiring", "Claimed State",
        "PREEMPT is true, or CONTINUE is true and the claim has been preempted meanwhile."),
    row("17", "H", "Claimed/Suspended", "Preempting/Vacating, Preempting/Killing", "Claimed State",
        "The retirement time of a suspended job that was retiring is over, because MaxJobRetirementTime has shrunk.",
        "Vacating if WANT_VACATE is true, Killing if it is false."),
    row("18", "H", "Claimed/Retiring", "Preempting/Vacating, Preempting/Killing", "Claimed State",
        "The retiring job has ended, or has run for MaxJobRetirementTime, not counting time in suspension.",
        "Vacating if WANT_VACATE is true, Killing if it is false."),
    row("19", "", "Claimed/Retiring", "Claimed/Busy", "Claimed State",
        "The job retired for a better match alone, and that match has gone away."),
    row("20", "", "Claimed/Retiring", "Claimed/Suspended", "Claimed State",
        "WANT_SUSPEND and SUSPEND are true while the job retires."),
    row("21", "", "Preempting/Vacating", "Preempting/Killing", "Preempting State",
        "KILL is true, or the job has had its time to vacate (MachineMaxVacateTime, JobMaxVacateTime)."),
    row("22", "J", "Preempting/Vacating", "Owner/Idle", "Preempting State",
        "The job left when asked to, and no better match waits."),
    row("23", "I", "Preempting/Vacating", "Claimed/Idle", "Preempting State",
        "The job left when asked to, and the better match takes over."),
    row("24", "I", "Preempting/Killing", "Claimed/Idle", "Preempting State",
        "The job was killed, and the better match takes over."),
    row("25", "J", "Preempting/Killing", "Owner/Idle", "Preempting State",
        "The job was killed, and no better match waits."),
    row("26", "", "Backfill/Idle", "Backfill/Busy", "Backfill State",
        "The backfill client runs."),
    row("27", "", "Backfill/Busy", "Backfill/Idle", "Backfill State",
        "The backfill client ended by itself."),
    row("28", "", "Backfill/Busy", "Backfill/Killing", "Backfill State",
        "The backfill client must go: the slot was matched, claimed or vacated, EVICT_BACKFILL is true, or the machine "
        "shuts down."),
    row("29", "", "Backfill/Killing", "Backfill/Idle", "Backfill State",
        "The backfill client and all that it started are gone."),
    row("30", "K", "Backfill/Idle", "Owner/Idle", "Backfill State",
        "EVICT_BACKFILL is true, the slot was vacated, or the machine shuts down."),
    row("31", "M", "Backfill/Idle", "Claimed/Idle", "Backfill State",
        "The access point claims its match before the negotiator's word of it has reached the slot."),
    row("32", "L", "Backfill/Idle", "Matched/Idle", "Backfill State",
        "The negotiator tells the slot that it was matched."),
    row("33", "", "Drained/Retiring", "Drained/Idle", "Drained State",
        "Every slot of the machine has been drained."),
    row("34", "O", "Drained/Idle", "Owner/Idle", "Drained State",
        "The drain, complete, is ended or canceled."),
    row("35", "O", "Drained/Retiring", "Owner/Idle", "Drained State",
        "The drain is canceled while other slots still have jobs."),
    row("36", "N", "Owner/Idle", "Drained/Retiring", "Owner State",
        "The machine begins to drain."),
    row("37", "P", "Unclaimed/Idle", "Drained/Retiring", "Unclaimed State",
        "The machine begins to drain."),
)

LETTERED: Final = (
    # letter, letter, from state, to state, place,
    #     cause
    row("A", "A", "Owner", "Unclaimed", "Machine States",
        "START is no longer false: the machine may run jobs."),
    row("B", "B", "Unclaimed", "Owner", "Machine States",
        "START is false: the owner uses the machine."),
    row("C", "C", "Unclaimed", "Matched", "Machine States",
        "The negotiator matched the slot with a job, and told it so."),
    row("D", "D", "Unclaimed", "Claimed", "Machine States",
        "The negotiator matched the slot with a job, and the access point was the first to tell it."),
    row("E", "E", "Unclaimed", "Backfill", "Machine States",
        "Backfill is configured and START_BACKFILL is true."),
    row("F", "F", "Matched", "Owner", "Machine States",
        "START is false, MATCH_TIMEOUT passed, claiming failed, or the slot was vacated."),
    row("G", "G", "Matched", "Claimed", "Machine States",
        "The access point claimed its match."),
    row("H", "H", "Claimed", "Preempting", "Machine States",
        "The claim ends: released, PREEMPT is true, vacated, a shutdown, or a better match."),
    row("I", "I", "Preempting", "Claimed", "Machine States",
        "The better match takes over."),
    row("J", "J", "Preempting", "Owner", "Machine States",
        "The eviction is done and nobody waits: PREEMPT was true, the slot was vacated, or START is false."),
    row("K", "K", "Backfill", "Owner", "Machine States",
        "EVICT_BACKFILL is true, the slot was vacated, or the machine shuts down."),
    row("L", "L", "Backfill", "Matched", "Machine States",
        "The negotiator matched the slot with a job, and told it so."),
    row("M", "M", "Backfill", "Claimed", "Machine States",
        "The negotiator matched the slot with a job, and the access point was the first to tell it."),
    row("N", "N", "Owner", "Drained", "Machine States",
        "The machine begins to drain."),
    row("O", "O", "Drained", "Owner", "Machine States",
        "The drain is ended or canceled."),
    row("P", "P", "Unclaimed", "Drained", "Machine States",
        "The machine begins to drain."),
)
# fmt: on


def state(pair: str) -> str:
    """The state of a pair: "Claimed" of "Claimed/Busy"."""
    return pair.partition("/")[0]


def activity(pair: str) -> str:
    """The activity of a pair: "Busy" of "Claimed/Busy"."""
    return pair.partition("/")[2]
