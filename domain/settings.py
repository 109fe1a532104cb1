"""The settings that decisions read, under HTCondor's names, with their defaults.

They stand in the log (``PoolFounded``), so that a decision can be taken again under what was in force. Times are
seconds.
"""

from __future__ import annotations

from typing import NamedTuple


class Setting(NamedTuple):
    default: str
    words: str


SETTINGS: dict[str, Setting] = {
    "NEGOTIATOR_INTERVAL": Setting("60", "longest time between two negotiation cycles while jobs wait"),
    "MATCH_TIMEOUT": Setting("120", "how long a matched slot waits to be claimed"),
    "CLAIM_WORKLIFE": Setting("1200", "age at which a claim gets no further job; negative: never"),
    "MachineMaxVacateTime": Setting("600", "how long a job that is told to end may take, at most"),
    "KILLING_TIMEOUT": Setting("30", "how long until processes that were killed are killed again"),
}


_MAY_BE_NEGATIVE = frozenset({"CLAIM_WORKLIFE"})
_LONGEST = 10**10


def _is_time(text: str) -> bool:
    try:
        return abs(float(text)) < _LONGEST
    except ValueError:
        return False


def settings(given: dict[str, str]) -> dict[str, str]:
    """All settings, with `given` ones in place of defaults.

    :raises ValueError: for a name that is not known, or a value that is no number of seconds.
    """
    for name, text in given.items():
        if name not in SETTINGS:
            raise ValueError(f"{name} is no setting of a pool; there are {', '.join(SETTINGS)}")
        if not _is_time(text) or (float(text) < 0 and name not in _MAY_BE_NEGATIVE):
            raise ValueError(f"{name} = {text}: a number of seconds is wanted, as in {name} = 60")
    return {name: given.get(name, setting.default) for name, setting in SETTINGS.items()}
