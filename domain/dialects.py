"""What fires which transitions, dialect by dialect: the chain of rows that a slot goes through for one happening.

The rows themselves stand in ``lifecycle/slot.py``. A step names a row and, where the row has two destinations, which.
``manual`` fires as the manual says, with match notification; ``htcondor-25`` as the real daemons were seen to.
"""

from __future__ import annotations

from typing import NamedTuple


class Step(NamedTuple):
    row: str
    cause: str
    target: str | None = None


DEFAULT_DIALECT = "manual"

_VACATING = "Preempting/Vacating"
_KILLING = "Preempting/Killing"

CHAINS: dict[str, dict[str, tuple[Step, ...]]] = {
    "manual": {
        "start": (Step("1", "not_owner"),),
        "carve": (Step("1", "carved"),),
        "match": (Step("6", "matched"),),
        "claim": (Step("9", "claimed"),),
        "match over": (Step("8", "match_timeout"), Step("1", "not_owner")),
        "match void": (Step("8", "match_void"), Step("1", "not_owner")),
        "activate": (Step("11", "activated"),),
        "job ended": (Step("12", "job_ended"),),
        "suspend": (Step("14", "suspend_command"),),
        "continue": (Step("15", "continue_command"),),
        "release": (Step("10", "no_more_jobs", _VACATING), Step("22", "claim_over"), Step("1", "not_owner")),
        "vacate busy": (Step("13", "vacate_command"), Step("18", "retirement_over", _VACATING)),
        "vacate busy fast": (Step("13", "vacate_command"), Step("18", "retirement_over", _KILLING)),
        "vacate suspended": (Step("16", "vacate_command"), Step("18", "retirement_over", _VACATING)),
        "vacate suspended fast": (Step("16", "vacate_command"), Step("18", "retirement_over", _KILLING)),
        "vacate matched": (Step("8", "vacate_command"), Step("1", "not_owner")),
        "kill": (Step("21", "vacate_timeout"),),
        "vacated": (Step("22", "claim_over"), Step("1", "not_owner")),
        "killed": (Step("25", "claim_over"), Step("1", "not_owner")),
    },
}  # fmt: skip

# The real daemons' chains, where they differ.
CHAINS["htcondor-25"] = CHAINS["manual"] | {
    "carve": (),
    "match": (),
    "match over": (),
    "match void": (),
    "claim": (Step("5", "claimed"),),
    "claim carved": (Step("5a", "claimed"),),
    "job ended": (Step("12", "job_ended", "Claimed/Cleaning"), Step("12a", "job_ended")),
    "release": (Step("10", "no_more_jobs", _KILLING), Step("25", "claim_over"), Step("1", "not_owner")),
    "vacate busy fast": (Step("13b", "vacate_command"),),
    "kill": (),
}  # fmt: skip
# `kill`: when the time to vacate is over, the real startd has the job killed, and the activity stays Vacating.


def chain(dialect: str, happening: str) -> tuple[Step, ...]:
    return CHAINS[dialect][happening]
