"""What a slot does when it is told something: for each happening, from each pair of state and activity, the rows.

What fires by itself, because an expression of the policy says so, stands in ``state_machines/slot_rules.py``; the
rows themselves in
``state_machines/slot_rows.py``. ``manual`` does as the manual says, with match notification; ``htcondor-25`` as the
real startd
was seen to (tests/data/traces; its source where no trace shows it).

A happening from a pair that is not listed changes nothing. Of several steps, what arriving somewhere entails counts for
the last alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Step(NamedTuple):
    row: str
    target: str | None = None


DEFAULT_DIALECT = "manual"

_VACATING = "Preempting/Vacating"
_KILLING = "Preempting/Killing"

Steps = tuple[Step, ...]
Told = Mapping[str, Mapping[str, Steps]]

# fmt: off
MANUAL: Final[Told] = {
    "match": {
        "Unclaimed/Idle": (Step("6"),)},
    "claim": {
        "Unclaimed/Idle": (Step("5"),),
        "Matched/Idle": (Step("9"),)},
    "match over": {
        "Matched/Idle": (Step("8"),)},
    "claim failed": {
        "Matched/Idle": (Step("8"),)},
    "activate": {
        "Claimed/Idle": (Step("11"),)},
    "suspend": {
        "Claimed/Busy": (Step("14"),),
        "Claimed/Retiring": (Step("20"),)},
    "continue": {
        "Claimed/Suspended": (Step("15"),)},
    "continue retiring": {
        "Claimed/Suspended": (Step("16"),)},
    "job gone": {
        "Claimed/Busy": (Step("12"),),
        "Claimed/Suspended": (Step("15"), Step("12")),
        "Claimed/Retiring": (Step("18", _VACATING),)},
    "release": {
        "Claimed/Idle": (Step("10", _VACATING),),
        "Claimed/Busy": (Step("13"), Step("18", _VACATING)),
        "Claimed/Suspended": (Step("16"), Step("18", _VACATING)),
        "Claimed/Retiring": (Step("18", _VACATING),)},
    "retire": {
        "Matched/Idle": (Step("8"),),
        "Claimed/Idle": (Step("10", _VACATING),),
        "Claimed/Busy": (Step("13"),),
        "Claimed/Suspended": (Step("16"),)},
    "kill": {
        "Matched/Idle": (Step("8"),),
        "Claimed/Idle": (Step("10", _KILLING),),
        "Claimed/Busy": (Step("13"), Step("18", _KILLING)),
        "Claimed/Suspended": (Step("16"), Step("18", _KILLING)),
        "Claimed/Retiring": (Step("18", _KILLING),),
        "Preempting/Vacating": (Step("21"),)},
    "vacate time over": {
        "Preempting/Vacating": (Step("21"),)},
    "benchmarks done": {
        "Unclaimed/Benchmarking": (Step("4"),)},
}

# Where the real startd does otherwise: claims come without a match notification, and to a slot that is still in Owner;
# a job's end is told twice, by its starter's last report (Cleaning) and by the starter's own end; a claim that its
# holder gives up is killed, since it has no job; and when the time to vacate is over, the starter kills the job and the
# slot stays in Vacating.
HTCONDOR_25: Final[Told] = {
    **MANUAL,
    "match": {
        "Owner/Idle": (Step("6a"),),
        "Unclaimed/Idle": (Step("6"),),
        "Unclaimed/Benchmarking": (Step("6"),)},
    "claim": {
        "Owner/Idle": (Step("5a"),),
        "Unclaimed/Idle": (Step("5"),),
        "Unclaimed/Benchmarking": (Step("5"),),
        "Matched/Idle": (Step("9"),),
        "Drained/Retiring": (Step("5c"),)},
    "unowned": {
        "Owner/Idle": (Step("1"),)},
    "claim failed": {
        "Unclaimed/Idle": (Step("2"),),
        "Matched/Idle": (Step("8"),)},
    "revert": {
        "Claimed/Idle": (Step("5b"),)},
    "job reported": {
        "Claimed/Busy": (Step("12", "Claimed/Cleaning"),),
        "Claimed/Suspended": (Step("12", "Claimed/Cleaning"),),
        "Claimed/Retiring": (Step("12b"),)},
    "job gone": {
        "Claimed/Busy": (Step("12", "Claimed/Idle"),),
        "Claimed/Suspended": (Step("12", "Claimed/Idle"),),
        "Claimed/Cleaning": (Step("12a"),),
        "Claimed/Retiring": (Step("18", _VACATING),)},
    "job gone, claim closing": {
        "Claimed/Cleaning": (Step("12c"),)},
    "deactivate and close": {
        "Claimed/Idle": (Step("10", _VACATING),),
        "Claimed/Busy": (Step("13a"),),
        "Claimed/Retiring": (Step("18", _VACATING),),
        "Claimed/Suspended": (Step("17", _VACATING),)},
    "release": {
        "Matched/Idle": (Step("8"),),
        "Claimed/Idle": (Step("10", _KILLING),),
        "Claimed/Busy": (Step("13b"),),
        "Claimed/Suspended": (Step("17", _KILLING),),
        "Claimed/Retiring": (Step("18", _KILLING),)},
    "retire": {
        "Matched/Idle": (Step("8"),),
        "Claimed/Idle": (Step("10a"),),
        "Claimed/Busy": (Step("13"),),
        "Claimed/Suspended": (Step("16"),)},
    "kill": {
        "Matched/Idle": (Step("8"),),
        "Claimed/Idle": (Step("10", _KILLING),),
        "Claimed/Busy": (Step("13b"),),
        "Claimed/Suspended": (Step("17", _KILLING),),
        "Claimed/Retiring": (Step("18", _KILLING),),
        "Preempting/Vacating": (Step("21"),)},
    "vacate time over": {},
}
# fmt: on

TOLD: Final[Mapping[str, Told]] = {"manual": MANUAL, "htcondor-25": HTCONDOR_25}

INFORMS: Final[Mapping[str, bool]] = {"manual": True, "htcondor-25": False}
"""Whether the negotiator tells the slots of its matches (NEGOTIATOR_INFORM_STARTD, off by default in the real pool)."""

ENDS_IDLE: Final[Mapping[str, bool]] = {"manual": False, "htcondor-25": True}
"""Whether an execution point that is shut down while it runs no job ends at once, its claims with it."""


def told(dialect: str, happening: str, pair: str) -> Steps:
    """The rows that a slot in this pair goes through when this happens; none: nothing changes."""
    return TOLD[dialect].get(happening, {}).get(pair, ())
