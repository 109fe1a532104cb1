"""The life of a slot by HTCondor 25's startd: the manual's 37 rows, and those beyond them.

* Every row of the manual keeps its number. Where the startd goes further (another source, another target, another
  cause), the row below replaces the manual's.
* A row beyond the manual has the nearest row's number with a letter behind it, and the manual's letter if it crosses
  from state to state as that letter does.
* Most rows beyond concern Claimed/Cleaning: the starter has reported the job's end and has not exited. No expression
  ends it; a release, kill or better match that arrives meanwhile takes effect when the starter exits.
* At most one row leads from one pair to another here, too.

A place names the recorded runs of a pool of HTCondor 25.14 that show the row (tests/data/traces has most of them), or
"startd source" for what its source allows and no run shows. A row of the manual that is not changed here was seen to
act as the manual says, or (26 to 32, Backfill) not at all: the recorded pool has no backfill client. Row 35 was seen as
its two halves alone. Computing-on-demand claims are left out, and the activities that the source would keep in Owner
after a benchmark.
"""

from __future__ import annotations

from typing import Final

from .rows import Row
from .slot_rows import NUMBERED, SlotRow, slot_row

DELETED: Final = "Deleted"
"""The end of a dynamic slot."""

# fmt: off
CHANGED: Final = (
    # row, letter, from, to, place,
    #     cause
    #     when (for several targets)
    slot_row(SlotRow.OWNER_LEAVES, "A", "Owner/Idle", "Unclaimed/Idle", "all traces",
        "IS_OWNER is not true; START is not asked. Asked at once on each entry into Owner, so that a slot which "
        "nobody owns passes through in no time."),
    slot_row(SlotRow.OWNER_RETURNS, "B", "Unclaimed/Idle", "Owner/Idle", "traces 02, 07, 20",
        "IS_OWNER is true, which is asked every UPDATE_INTERVAL, or a claim that began in Unclaimed failed."),
    slot_row(SlotRow.CLAIM, "D", "Unclaimed/Idle, Unclaimed/Benchmarking", "Claimed/Idle",
        "traces 01 to 21; from Benchmarking: startd source",
        "The access point claims its match. The usual way: unless NEGOTIATOR_INFORM_STARTD is set, nobody tells the "
        "slot of a match."),
    slot_row(SlotRow.MATCH, "C", "Unclaimed/Idle, Unclaimed/Benchmarking", "Matched/Idle",
        "trace 20; from Benchmarking: startd source",
        "The negotiator tells the slot that it was matched, which needs NEGOTIATOR_INFORM_STARTD."),
    slot_row(SlotRow.START_BACKFILL, "E", "Unclaimed/Idle, Unclaimed/Benchmarking", "Backfill/Idle", "startd source",
        "Backfill is configured and START_BACKFILL is true."),
    slot_row(SlotRow.VOID_MATCH, "F", "Matched/Idle", "Owner/Idle", "trace 20",
        "MATCH_TIMEOUT passed, claiming failed, the slot was vacated, or the machine drains. Neither START nor "
        "IS_OWNER is asked in Matched."),
    slot_row(SlotRow.VACATE_IDLE, "H", "Claimed/Idle", "Preempting/Vacating, Preempting/Killing", "traces 01 to 21",
        "A claim without a job ends.",
        "Killing if its holder releases it, its lease runs out, or it is to go fast; Vacating if a better match "
        "waits, IS_OWNER is true, CLAIM_WORKLIFE has passed, or the slot drains. WANT_VACATE is not asked."),
    slot_row(SlotRow.END_JOB, "", "Claimed/Busy, Claimed/Suspended", "Claimed/Cleaning, Claimed/Idle",
        "traces 01 to 21; from Suspended: startd source",
        "The job has ended.",
        "Cleaning when the starter has sent its last report, Idle when it is gone without one."),
    slot_row(SlotRow.RETIRE, "", "Claimed/Busy", "Claimed/Retiring", "traces 02, 03, 04, 06, 07, 17, 20",
        "PREEMPT is true (and WANT_SUSPEND is not), a graceful shutdown or drain, or the slot was vacated; for a "
        "better match only with NEGOTIATOR_CONSIDER_EARLY_PREEMPTION, else the negotiator waits until the retirement "
        "time is over."),
    slot_row(SlotRow.SUSPEND, "", "Claimed/Busy", "Claimed/Suspended", "traces 02, 06",
        "WANT_SUSPEND and SUSPEND are true, or somebody asked for the job to be suspended."),
    slot_row(SlotRow.CONTINUE, "", "Claimed/Suspended", "Claimed/Busy", "traces 02, 06",
        "CONTINUE is true and nothing preempts the claim; for a job that was suspended by request, the request to "
        "continue."),
    slot_row(SlotRow.VACATE_SUSPENDED, "H", "Claimed/Suspended", "Preempting/Vacating, Preempting/Killing", "trace 02",
        "The retirement time of a suspended job that was retiring is over, or the claim ends at once.",
        "Killing if PREEMPT was true and WANT_VACATE is false, or if it is to go fast; else Vacating."),
    slot_row(SlotRow.VACATE, "H", "Claimed/Retiring", "Preempting/Vacating, Preempting/Killing",
        "traces 02, 03, 04, 06, 07, 20",
        "What is left of the retirement time is no more than the job may take to vacate, so that the eviction ends "
        "within it; or the starter is gone without a last report; or there was no job.",
        "Killing if PREEMPT was true and WANT_VACATE is false, or if it is to go fast; else Vacating."),
    slot_row(SlotRow.UNRETIRE, "", "Claimed/Retiring", "Claimed/Busy", "traces 04, 07",
        "The job retired for a better match or a drain alone, and that has gone away."),
    slot_row(SlotRow.KILL, "", "Preempting/Vacating", "Preempting/Killing", "traces 03, 20",
        "KILL is true, or the claim is to go fast. When the time to vacate is over, the starter kills the job and "
        "the slot stays in Vacating."),
    slot_row(SlotRow.VACATED, "J", "Preempting/Vacating", "Owner/Idle", "traces 01 to 21",
        "The starter is gone, and no better match waits whose job START accepts."),
    slot_row(SlotRow.KILLED, "J", "Preempting/Killing", "Owner/Idle", "traces 01 to 21",
        "The starter is gone, or there was none; no better match waits. The end of each claim that its holder "
        "released."),
    slot_row(SlotRow.END_DRAIN, "O", "Drained/Idle", "Owner/Idle", "traces 07, 17, 20",
        "The machine no longer drains."),
    slot_row(SlotRow.DRAIN_OWNER, "N", "Owner/Idle, Owner/Retiring", "Drained/Retiring",
        "trace 07; from Retiring: startd source",
        "The machine begins to drain. A slot that was in Drained/Retiring when the last drain was canceled, and that "
        "its owner needs, is still in Owner/Retiring."),
    slot_row(SlotRow.DRAIN, "P", "Unclaimed/Idle, Unclaimed/Benchmarking", "Drained/Retiring",
        "traces 07, 17, 20; from Benchmarking: startd source",
        "The machine begins to drain. Dynamic slots never do: their claims end, and then they."),
)

BEYOND: Final = (
    slot_row(SlotRow.DELETE_DYNAMIC, "", "Owner/Idle, Unclaimed/Idle", DELETED,
        "traces 07, 08, 17; from Owner: startd source",
        "A dynamic slot without a claim is given back to the slot that it was carved from."),
    slot_row(SlotRow.CLAIM_OWNER, "", "Owner/Idle", "Claimed/Idle", "traces 07, 08, 17",
        "A dynamic slot is claimed where it was born; a static one, when a claim comes before IS_OWNER is asked "
        "again."),
    slot_row(SlotRow.REVERT_CLAIM, "", "Claimed/Idle", "Owner/Idle, Unclaimed/Idle, Matched/Idle, Drained/Retiring",
        "startd source",
        "The policy would end the claim in the instant in which it begins: the claim is taken back.",
        "Where the slot was before the claim."),
    slot_row(SlotRow.CLAIM_DRAINING, "", "Drained/Retiring", "Claimed/Idle", "startd source",
        "A claim comes for a job that the drain's start expression accepts."),
    slot_row(SlotRow.MATCH_OWNER, "", "Owner/Idle", "Matched/Idle", "startd source",
        "The negotiator tells a slot in Owner that it was matched."),
    slot_row(SlotRow.RETIRE_IDLE, "", "Claimed/Idle", "Claimed/Retiring", "trace 20",
        "A claim without a job is vacated or drained gracefully: it retires for an instant (18)."),
    slot_row(SlotRow.END_CLEANING, "", "Claimed/Cleaning", "Claimed/Idle", "traces 01 to 21",
        "The starter is gone; the claim stays."),
    slot_row(SlotRow.CLEAN_RETIRING, "", "Claimed/Retiring", "Claimed/Cleaning", "traces 02, 04, 06, 07, 17",
        "The retiring job has ended, and the starter has sent its last report."),
    slot_row(SlotRow.VACATE_CLEANING, "H", "Claimed/Cleaning", "Preempting/Vacating",
        "traces 01, 02, 04 to 07, 09, 11 to 14, 20, 21",
        "The starter is gone, and while it cleaned up the claim was released or killed, or a better match came."),
    slot_row(SlotRow.VACATE_BUSY, "H", "Claimed/Busy", "Preempting/Vacating", "traces 04, 05, 09, 10, 20",
        "A better match comes when the retirement time is over already, or the holder ends the claim and its job "
        "softly."),
    slot_row(SlotRow.KILL_BUSY, "H", "Claimed/Busy", "Preempting/Killing", "traces 05, 06, 07, 09, 11 to 13",
        "The claim ends at once: a fast vacate, shutdown or drain, or its holder releases it with the job running."),
    slot_row(SlotRow.CANCEL_DRAIN_RETIRING, "O", "Drained/Retiring", "Owner/Retiring", "trace 07",
        "The drain is canceled while other slots still have jobs: row 35's first half, which keeps the activity."),
    slot_row(SlotRow.OWNER_LEAVES_RETIRING, "A", "Owner/Retiring", "Unclaimed/Idle", "trace 07",
        "IS_OWNER is not true: the second half, in the same instant."),
)
# fmt: on


def _order(r: Row) -> tuple[int, str]:
    digits = r.number.rstrip("abcdefghijklmnopqrstuvwxyz")
    return int(digits), r.number[len(digits) :]


NUMBERED_HTCONDOR_25: Final = tuple(
    sorted(({r.number: r for r in NUMBERED} | {r.number: r for r in (*CHANGED, *BEYOND)}).values(), key=_order)
)
"""The whole table: the manual's rows, changed where the startd differs, and those beyond."""
