"""HTCondor 25's codes for why a job is held (HoldReasonCode) or was evicted (VacateReasonCode); see ``hold_codes.txt``.

Both are one series: codes from 1000 on send a job back to Idle, lower ones hold it. So the code of an eviction tells
where the job goes, unless its subcode says otherwise (``goes_on_hold``). A code's name is its label in the job's
NumHoldsByReason and NumVacatesByReason. Those that HTCondor no longer uses stay, for old logs.
"""

from __future__ import annotations

from pkgutil import get_data
from typing import Final, NamedTuple

from ..package_data import Section, sections


class Code(NamedTuple):
    number: int
    name: str
    words: str
    subcode: str = ""  #: the meaning of the subcode, where the code has one of its own


FIRST_VACATE_CODE: Final = 1000
"""The first code that means: try again elsewhere."""


def _codes(section: Section) -> dict[int, Code]:
    found = {}
    for line in section.lines:
        first, *words = line.split(" | ")
        number, _, name = first.partition(" ")
        found[int(number)] = Code(int(number), name, *words)
    return found


HOLD_CODES, VACATE_CODES = map(_codes, sections(get_data(__package__, "hold_codes.txt")))


def goes_on_hold(code: int, subcode: int = 0) -> bool:
    """Tell whether a job that failed with this code is held; else it is evicted, and tried again.

    A code from 1 to 999 holds, any other does not; a subcode of -1000 or less makes it an eviction whatever the code.
    Manual: "Managing a Job", The Job Lifecycle.
    """
    return 0 < code < FIRST_VACATE_CODE and subcode > -FIRST_VACATE_CODE
