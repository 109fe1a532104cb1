"""HTCondor 25's codes for holds (HoldReasonCode) and evictions (VacateReasonCode); see ``hold_codes.txt``.

Both share one numbering: codes from 1000 on return a job to Idle; lower codes hold the job, unless the subcode
overrides this (``goes_on_hold``). A code's name is its label in the job's NumHoldsByReason and NumVacatesByReason.
Codes that HTCondor no longer uses are included for old logs.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from ..package_data import DataSection, get_data, sections


class ReasonCode(NamedTuple):
    number: int
    name: str
    meaning: str
    subcode: str = ""  #: the meaning of the subcode, if there is one
    advice: str = ""  #: what to do about a hold; {release}, {remove} and {edit} are replaced by commands


FIRST_VACATE_CODE: Final = 1000
"""The first code that returns a job to Idle."""


VACATE_BASE: Final = "VacateBase"
"""HTCondor's label for the code ``FIRST_VACATE_CODE``."""


def _codes(section: DataSection) -> dict[int, ReasonCode]:
    codes = {}
    for line in section.lines:
        number_and_name, *columns = line.split(" | ")
        number, _, name = number_and_name.partition(" ")
        advice = columns.pop(1) if section.kind == "hold" else ""
        codes[int(number)] = ReasonCode(int(number), name, columns[0], columns[1] if columns[1:] else "", advice)
    return codes


HOLD_CODES, VACATE_CODES = map(_codes, sections(get_data(__package__, "hold_codes.txt")))


_TOOLS: Final = {
    "poolbook": {"release": "poolbook release", "remove": "poolbook rm", "edit": "poolbook qedit"},
    "condor": {"release": "condor_release", "remove": "condor_rm", "edit": "condor_qedit"},
}


def hold_advice(code: str, tools: Literal["poolbook", "condor"], job: str) -> str:
    """Return advice on a hold with this code, with the commands for this job."""
    hold_code = HOLD_CODES.get(int(code)) if code.isascii() and code.isdigit() else None
    commands = {name: f"{command} {job}" for name, command in _TOOLS[tools].items()}
    return (hold_code or HOLD_CODES[0]).advice.format(**commands)


def code_name(code: int) -> str:
    """Return a code's label, or "Unspecified" for an unknown number."""
    if code == FIRST_VACATE_CODE:
        return VACATE_BASE
    return (HOLD_CODES.get(code) or VACATE_CODES.get(code) or HOLD_CODES[0]).name


HELD_BY_STARTD: Final = 21
"""The HoldReasonCode for WANT_HOLD of the machine."""


class StopReason(NamedTuple):
    """The reason for a hold or eviction."""

    code: int
    subcode: int
    reason: str


# These are HTCondor's texts, which tools match.
EVICTION_REASONS: Final = {
    "vacate_command": StopReason(1010, 0, "Claim vacated by the administrator"),
    **dict.fromkeys(("user_vacate", "run_now"), StopReason(1022, 0, "Job vacated by schedd")),
    "preempt": StopReason(1011, 0, "PREEMPT expression evaluated to True"),
    **dict.fromkeys(
        ("drain_command", "defrag", "slots_changed", "draining"), StopReason(1014, 0, "Startd was draining")
    ),
    "device_failed": StopReason(1012, 0, "A device of the slot failed"),
    "shutdown": StopReason(1013, 0, "Startd was shutdown"),
    "pslot_preemption": StopReason(1019, 0, "Preempted for a Priority user"),
}
"""The reason for an eviction, by the cause for which the job was signalled."""
UNSPECIFIED_INTERRUPTION: Final = StopReason(1005, 0, "Unspecified job interruption")
JOB_NOT_FOUND: Final = StopReason(1008, 0, "Job not found at execution machine")
CLAIM_DEACTIVATED: Final = StopReason(1009, 0, "Claim deactivated")
REMOVED_CODE: Final = 1023
TRANSFER_CODES: Final = frozenset({12, 13, 32, 33, 36})
"""The codes for failed transfers of files or checkpoints, including transfers of files that are too large."""
ACCESS_POINT_CODES: Final = frozenset({14, 46, 47})
"""The codes for problems that the access point detects at the end of a run: a missing initial directory or, in older
logs, an exceeded time limit."""


def goes_on_hold(code: int, subcode: int = 0) -> bool:
    """Return True if a job that failed with this code is held; False if it is evicted and can run again.

    Codes from 1 to 999 hold the job, but a subcode of -1000 or less evicts it (the manual, "Managing a Job", The Job
    Lifecycle).
    """
    return 0 < code < FIRST_VACATE_CODE and subcode > -FIRST_VACATE_CODE
