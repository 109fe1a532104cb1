"""The facts that the audit compares across sources, and which source it believes for each.

Rules:

* A fact stands here if two kinds of sources state it with the same meaning. Facts that only sound alike are kept apart:
  placing a job on a slot (its shadow is started) and the beginning of its program are two, with the file transfer
  between them.
* An amount or an instant is a range, since its writer rounds and has a clock of its own: the value may be ``less``
  smaller and ``more`` larger than what is written. A source that only counts what it saw says "at least" (``more`` is
  ``ANY``); one that learns later says "at the latest" (``less`` is ``ANY``).
* Two sources contradict each other if their ranges do not meet, or if their words differ.
* The first source of a fact is believed first. The writer of the thing itself comes before one who copies it. A record
  written as it happens comes before a summary. The pool-wide log comes after the user's own, which the user can read.

The meaning of the attributes was read in HTCondor's sources (25.14) and measured in the recorded runs of a real pool.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ....domain.imported.record_sources import KINDS
from .tolerances import ANY, FAR, LINGERING, MINUTE, NEAR, ROUNDED, SECOND


class FactSource(NamedTuple):
    """How one kind of source states a fact: where, and how far the value may lie below or above what is written."""

    words: str
    less: int = 0
    more: int = 0


class Fact(NamedTuple):
    of: str  #: the subject: a job, a run (of a job), a slot or a submitter
    words: str
    unit: str  #: how its values are compared and printed (``UNITS``)
    sayings: dict[str, FactSource]  #: by the letter of the source's kind, the believed first


UNITS: Final[dict[str, str]] = {
    "text": "the same text",
    "instant": "instants whose ranges meet",
    "time": "amounts of time whose ranges meet",
    "count": "numbers whose ranges meet",
}

_ENTRY_5 = "CPU times of entry 005, in all runs"
_ENTRY_RUN = "CPU times of entry 004 or 005, in this run"


def _same_for(letters: str, words: str, less: int = 0, more: int = 0) -> dict[str, FactSource]:
    return {letter: FactSource(words, less, more) for letter in letters}


FACTS: Final[dict[str, Fact]] = {
    # -- of a job
    "user": Fact(
        "job",
        "whose job it is",
        "text",
        {**_same_for("QHPSA", "User"), "L": FactSource("the remote owner of the claim on which it ran")},
    ),
    "submitter": Fact(
        "job",
        "in whose name it was negotiated for (the accounting group's name, if it has one)",
        "text",
        {
            **_same_for("QHPSA", "AccountingGroup, else User"),
            **_same_for("NM", "the submitter whose job was matched or rejected"),
            "D": FactSource("for whom its shadow was started"),
        },
    ),
    "submitted": Fact(
        "job",
        "when it was submitted",
        "instant",
        {
            **_same_for("QHPSA", "QDate, of a job that was made later JobMaterializeDate"),
            **_same_for("UE", "time of entry 000, which comes up to five minutes after QDate", 5 * MINUTE, NEAR),
        },
    ),
    "became": Fact(
        "job",
        "what became of it: completed or removed",
        "text",
        {
            **_same_for("UE", "entry 005 or 009, the last"),
            "H": FactSource("JobStatus 4 or 3"),
            "Q": FactSource("JobStatus when its ad was destroyed"),
        },
    ),
    "ended": Fact(
        "job",
        "when it left the queue",
        "instant",
        {
            **_same_for("HQ", "CompletionDate, of a removed job EnteredCurrentStatus"),
            **_same_for("UE", "time of entry 005 or 009; a removal may have been asked for a lease earlier", FAR, FAR),
        },
    ),
    "user_cpu": Fact(
        "job",
        "its user CPU time in all runs",
        "time",
        {
            **_same_for("HQ", "CumulativeRemoteUserCpu of a completed job"),
            **_same_for("UE", _ENTRY_5, 0, SECOND),
            **_same_for("PA", "CumulativeRemoteUserCpu at some moment: at least", 0, ANY),
        },
    ),
    "system_cpu": Fact(
        "job",
        "its system CPU time in all runs",
        "time",
        {
            **_same_for("HQ", "CumulativeRemoteSysCpu of a completed job"),
            **_same_for("UE", _ENTRY_5, 0, SECOND),
            **_same_for("PA", "CumulativeRemoteSysCpu at some moment: at least", 0, ANY),
        },
    ),
    "starts": Fact(
        "job",
        "how many times its program was started",
        "count",
        {
            **_same_for("HQ", "NumJobStarts"),
            **_same_for("UE", "entries 001; at least, if the log lacks a part of its life"),
            **_same_for("PA", "NumJobStarts at some moment: at least", 0, ANY),
        },
    ),
    "holds": Fact(
        "job",
        "how many times it was put on hold",
        "count",
        {
            **_same_for("HQ", "NumHolds, without its submission on hold"),
            **_same_for("UE", "entries 012; at least, if the log lacks a part of its life"),
            **_same_for("PA", "the same at some moment: at least", 0, ANY),
        },
    ),
    "hold": Fact(
        "job",
        "the code of one of its holds (they are counted)",
        "text",
        {
            **_same_for("QHA", "HoldReasonCode, of a released job LastHoldReasonCode; the last of its holds"),
            **_same_for("UE", "the code of entry 012, if all of them are there"),
        },
    ),
    "wall": Fact(
        "job",
        "how long it was on slots",
        "time",
        {
            **_same_for("HQ", "RemoteWallClockTime"),
            **_same_for("UE", "from 001 to 004 or 005, added; at least: files are moved before and after", NEAR, ANY),
            "P": FactSource("from JobCurrentStartDate to EpochWriteDate, added; at least: a run may lack", NEAR, ANY),
            "A": FactSource("RemoteWallClockTime at some moment: at least", 0, ANY),
        },
    ),
    "wall_runs": Fact(
        "job",
        "how long it was on slots with its first shadows",
        "time",
        {
            **_same_for(
                "HQ",
                "RemoteWallClockTime; CommittedTime: at least; of all but the last the first less "
                "LastRemoteWallClockTime; of a job with one "
                "shadow also LastRemoteWallClockTime, CumulativeSlotTime by the slot's weight, and from "
                "JobCurrentStartDate to its end, which of a removed job is at most",
                NEAR,
                NEAR,
            ),
            "P": FactSource(
                "from JobCurrentStartDate to EpochWriteDate, added, if none lacks (for each \N{MINUS SIGN}2 s, +300 s);"
                " of all but the last also RemoteWallClockTime of the next"
            ),
        },
    ),
    "sent": Fact(
        "job",
        "how many bytes of its files were sent, in all runs",
        "count",
        {
            **_same_for("HQ", "BytesSent of a completed job"),
            **_same_for("UE", "Total Bytes Sent of entry 005"),
            **_same_for("PA", "BytesSent at some moment: at least", 0, ANY),
        },
    ),
    "received": Fact(
        "job",
        "how many bytes of its files were received, in all runs",
        "count",
        {
            **_same_for("HQ", "BytesRecvd of a completed job"),
            **_same_for("UE", "Total Bytes Received of entry 005"),
            **_same_for("PA", "BytesRecvd at some moment: at least", 0, ANY),
        },
    ),
    "number": Fact(
        "job",
        "its number",
        "text",
        _same_for("QHPSA", "ClusterId and ProcId, and the same within GlobalJobId"),
    ),
    "entry": Fact(
        "job",
        "what else an entry of its event log says, the same number in the same second",
        "text",
        _same_for("UE", "entries 000, 001, 004 to 007, 009, 012, 013, 021 to 024: host, reasons, usage"),
    ),
    # -- of a run
    "slot": Fact(
        "run",
        "on which slot it ran",
        "text",
        {
            **_same_for("UE", "SlotName of entry 001"),
            **_same_for("PSQHA", "RemoteHost, of a run that is over LastRemoteHost"),
            "D": FactSource("the slot for which the shadow was started"),
            "L": FactSource("the slot that was told which job it runs"),
        },
    ),
    "claim": Fact(
        "run",
        "under which claim (its public id)",
        "text",
        _same_for("PSQHA", "PublicClaimId, of a run that is over LastPublicClaimId"),
    ),
    "placed": Fact(
        "run",
        "when its shadow was started",
        "instant",
        {
            **_same_for("PSQHA", "JobCurrentStartDate"),
            "D": FactSource("the start of a shadow; at the latest: after a lost connection it gets another", ANY, NEAR),
            "L": FactSource("the claim's activation: at the latest", ANY, FAR),
        },
    ),
    "began": Fact(
        "run",
        "when its program began",
        "instant",
        {
            **_same_for("UE", "time of entry 001", NEAR, NEAR),
            **_same_for("PQHA", "JobCurrentStartExecutingDate", NEAR, NEAR),
        },
    ),
    "stopped": Fact(
        "run",
        "when it was over",
        "instant",
        {
            **_same_for("UE", "time of entry 004 or 005", NEAR, NEAR),
            "P": FactSource("EpochWriteDate", NEAR, NEAR),
            "S": FactSource("CompletionDate there: when the starter had cleaned up", 5 * MINUTE, FAR),
        },
    ),
    "exit": Fact(
        "run",
        "how its program ended: with a code, or by a signal",
        "text",
        {
            **_same_for("UE", "entry 005"),
            **_same_for("PS", "ExitCode or ExitSignal"),
            **_same_for("HQA", "ExitCode or ExitSignal of a completed job: its last run"),
        },
    ),
    "run_user_cpu": Fact(
        "run",
        "its user CPU time",
        "time",
        {
            **_same_for("UE", _ENTRY_RUN, 0, SECOND),
            "P": FactSource("RemoteUserCpu"),
            "S": FactSource("RemoteUserCpu; of a job that was killed at most", SECOND, SECOND),
            **_same_for("HQA", "RemoteUserCpu of a completed job: its last run"),
        },
    ),
    "run_system_cpu": Fact(
        "run",
        "its system CPU time",
        "time",
        {
            **_same_for("UE", _ENTRY_RUN, 0, SECOND),
            "P": FactSource("RemoteSysCpu"),
            "S": FactSource("RemoteSysCpu; of a job that was killed at most", SECOND, SECOND),
            **_same_for("HQA", "RemoteSysCpu of a completed job: its last run"),
        },
    ),
    "run_wall": Fact(
        "run",
        "how long its shadow had the slot",
        "time",
        {
            **_same_for(
                "HQA",
                "LastRemoteWallClockTime of a completed job; from JobCurrentStartDate to CompletionDate; of a job with "
                "one shadow CommittedTime; ActivationDuration: at least",
                NEAR,
                NEAR,
            ),
            "P": FactSource(
                "from JobCurrentStartDate to EpochWriteDate: a shadow may stay; ActivationDuration: at least",
                NEAR,
                LINGERING,
            ),
            "S": FactSource("RemoteWallClockTime: until all was cleaned up; JobDuration: at least", 5 * MINUTE, FAR),
            **_same_for("UE", "from 001 to 004 or 005: at least", NEAR, ANY),
        },
    ),
    "busy": Fact(
        "run",
        "how long its starter was there",
        "time",
        {
            **_same_for("UE", "TimeSlotBusy of entry 005", SECOND, SECOND),
            **_same_for("PHQA", "ActivationDuration, of a completed job", SECOND, SECOND),
        },
    ),
    "executed": Fact(
        "run",
        "how long its program ran",
        "time",
        {
            **_same_for("UE", "TimeExecute of entry 005", SECOND, SECOND),
            **_same_for("PHQA", "ActivationExecutionDuration, of a completed job", SECOND, SECOND),
        },
    ),
    "memory": Fact(
        "run",
        "how much memory it needed, in MB",
        "count",
        {
            **_same_for("UE", "Memory of entry 005, rounded up by some", 0, 1),
            **_same_for("HQA", "ResidentSetSize_RAW of a completed job, or up to twice as much", 1),
        },
    ),
    "disk": Fact(
        "run",
        "how much disk it needed, in KB",
        "count",
        {
            **_same_for("UE", "Disk of entry 005, rounded up by some", 0, 1),
            **_same_for("HQA", "DiskUsage_RAW of a completed job, or up to twice as much", 1),
        },
    ),
    # -- of a slot
    "state": Fact(
        "slot",
        "its state and activity at a moment",
        "text",
        {"L": FactSource("what the last transition led to"), "C": FactSource("State and Activity at MyCurrentTime")},
    ),
    "holder": Fact(
        "slot",
        "who has it at a moment",
        "text",
        {"L": FactSource("the remote owner of the last claim"), "C": FactSource("RemoteUser at MyCurrentTime")},
    ),
    "job": Fact(
        "slot",
        "which job it runs at a moment",
        "text",
        {"L": FactSource("the job for which its claim was activated last"), "C": FactSource("JobId at MyCurrentTime")},
    ),
    "matched": Fact(
        "slot",
        "for whom it was matched at an instant",
        "text",
        _same_for("NM", "the submitter whose job was matched"),
    ),
    "matched_job": Fact(
        "slot",
        "for which job it was matched at an instant",
        "text",
        _same_for("NM", "the job that was matched"),
    ),
    "matched_slot": Fact(
        "job",
        "to which slot it was matched at an instant",
        "text",
        _same_for("NM", "the slot that it was matched to"),
    ),
    # -- of a submitter
    "factor": Fact(
        "submitter",
        "the priority factor, at an update of the accountant",
        "count",
        {"K": FactSource("PriorityFactor of the Customer"), "V": FactSource("PriorityFactor at LastUpdate")},
    ),
    "usage": Fact(
        "submitter",
        "the weighted slot time used, at an update of the accountant",
        "time",
        {
            "K": FactSource("WeightedAccumulatedUsage of the Customer", ROUNDED, ROUNDED),
            "V": FactSource("WeightedAccumulatedUsage at LastUpdate", ROUNDED, ROUNDED),
        },
    ),
    "unweighted": Fact(
        "submitter",
        "the slot time used, at an update of the accountant",
        "time",
        {
            "K": FactSource("AccumulatedUsage of the Customer", ROUNDED, ROUNDED),
            "V": FactSource("AccumulatedUsage at LastUpdate", ROUNDED, ROUNDED),
        },
    ),
    "used_since": Fact(
        "submitter",
        "since when it used slots, at an update of the accountant",
        "instant",
        {"K": FactSource("BeginUsageTime of the Customer"), "V": FactSource("BeginUsageTime at LastUpdate")},
    ),
    "used_last": Fact(
        "submitter",
        "when it used slots last, at an update of the accountant",
        "instant",
        {"K": FactSource("LastUsageTime of the Customer"), "V": FactSource("LastUsageTime at LastUpdate")},
    ),
    "priority": Fact(
        "submitter",
        "the real priority, in millionths, at an update of the accountant",
        "count",
        {
            "K": FactSource("Priority of the Customer", 1, 1),
            "V": FactSource("Priority at LastUpdate, which is the effective one, divided by the factor", 1, 1),
        },
    ),
}

NUMBERED: Final = {"hold": "the hold number", "wall_runs": "of these"}
"""The facts of which a job has several, and how their number is printed."""
COUNTED_BY_SHADOWS: Final = frozenset({"starts", "wall", "wall_runs", "run_wall"})
"""The facts that nobody knows of a job whose shadow was lost and replaced."""
LETTERS: Final[dict[str, str]] = {kind.letter: name for name, kind in KINDS.items()}
BELIEVED: Final[dict[tuple[str, str], int]] = {
    (name, letter): rank for name, fact in FACTS.items() for rank, letter in enumerate(fact.sayings)
}
"""The rank of a source by (fact, letter): 0 is believed first."""
