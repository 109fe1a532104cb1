"""HTCondor 25's codes for why a job is held (HoldReasonCode) or was evicted (VacateReasonCode); see ``hold_codes.txt``.

Both are one series: codes from 1000 on send a job back to Idle, lower ones hold it. So the code of an eviction tells
where the job goes, unless its subcode says otherwise (``goes_on_hold``). A code's name is its label in the job's
NumHoldsByReason and NumVacatesByReason. Those that HTCondor no longer uses stay, for old logs.
"""

from __future__ import annotations

from pkgutil import get_data
from typing import Final, Literal, NamedTuple

from ..package_data import DataSection, sections


class Code(NamedTuple):
    number: int
    name: str
    words: str
    subcode: str = ""  #: the meaning of the subcode, where the code has one of its own
    advice: str = ""  #: of a hold: what can be done, with {release}, {remove} and {edit} for the commands


FIRST_VACATE_CODE: Final = 1000
"""The first code that means: try again elsewhere."""


VACATE_BASE: Final = "VacateBase"
"""The label that the real schedd gives the first of these codes: the name of where they begin."""


def _codes(section: DataSection) -> dict[int, Code]:
    found = {}
    for line in section.lines:
        first, *words = line.split(" | ")
        number, _, name = first.partition(" ")
        advice = words.pop(1) if section.kind == "hold" else ""
        found[int(number)] = Code(int(number), name, words[0], words[1] if words[1:] else "", advice)
    return found


HOLD_CODES, VACATE_CODES = map(_codes, sections(get_data(__package__, "hold_codes.txt")))


_TOOLS: Final = {
    "poolbook": {"release": "poolbook release", "remove": "poolbook rm", "edit": "poolbook qedit"},
    "condor": {"release": "condor_release", "remove": "condor_rm", "edit": "condor_qedit"},
}


def hold_advice(code: str, tools: Literal["poolbook", "condor"], job: str) -> str:
    """Return what can be done about a hold of this code, with the commands for this job."""
    known = HOLD_CODES.get(int(code)) if code.isascii() and code.isdigit() else None
    commands = {name: f"{command} {job}" for name, command in _TOOLS[tools].items()}
    return (known or HOLD_CODES[0]).advice.format(**commands)


def code_name(code: int) -> str:
    """Return a code's label; that of Unspecified for a number that is none."""
    if code == FIRST_VACATE_CODE:
        return VACATE_BASE
    return (HOLD_CODES.get(code) or VACATE_CODES.get(code) or HOLD_CODES[0]).name


HELD_BY_STARTD: Final = 21
"""The code of a job that the machine's WANT_HOLD puts on hold."""


class Why(NamedTuple):
    """Why a job was stopped: a code of holds or evictions with its text."""

    code: int
    subcode: int
    reason: str


# The reasons are data of the real pool's logs, which tools match.
EVICTIONS: Final = {
    "vacate_command": Why(1010, 0, "Claim vacated by the administrator"),
    **dict.fromkeys(("user_vacate", "run_now"), Why(1022, 0, "Job vacated by schedd")),
    "preempt": Why(1011, 0, "PREEMPT expression evaluated to True"),
    **dict.fromkeys(("drain_command", "defrag", "draining"), Why(1014, 0, "Startd was draining")),
    "shutdown": Why(1013, 0, "Startd was shutdown"),
    "pslot_preemption": Why(1019, 0, "Preempted for a Priority user"),
}
"""Why a job was evicted, by the cause of the signal."""
UNSPECIFIED: Final = Why(1005, 0, "Unspecified job interruption")
LOST: Final = Why(1008, 0, "Job not found at execution machine")
DEACTIVATED: Final = Why(1009, 0, "Claim deactivated")
REMOVED_CODE: Final = 1023
TRANSFERS: Final = frozenset({12, 13, 32, 33, 36})
"""Codes of jobs whose files could not be transferred, or were too large for it; of their checkpoints, too."""
BY_THE_ACCESS_POINT: Final = frozenset({14, 46, 47})
"""Codes of what the access point finds itself at the end of a run: that the initial directory is missing, or, in older
logs, a time exceeded."""


def goes_on_hold(code: int, subcode: int = 0) -> bool:
    """Tell whether a job that failed with this code is held; else it is evicted, and tried again.

    A code from 1 to 999 holds, any other does not; a subcode of -1000 or less makes it an eviction whatever the code.
    Manual: "Managing a Job", The Job Lifecycle.
    """
    return 0 < code < FIRST_VACATE_CODE and subcode > -FIRST_VACATE_CODE
