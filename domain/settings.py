"""The settings that decisions read, under HTCondor's names, with their defaults.

They stand in the log (``PoolFounded``), so that a decision can be taken again under what was in force. Times are
seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
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


SUPER_USERS = "QUEUE_SUPER_USERS"
"""The one setting that is no time: who may act on everybody's jobs and on the machines, parted by commas. Whoever
begins a log is one of them."""
_THE_SUPER_USERS = "root, condor"


def super_users(in_force: Mapping[str, str]) -> frozenset[str]:
    """Those who may do everything, by a pool's settings."""
    return frozenset(in_force.get(SUPER_USERS, _THE_SUPER_USERS).replace(",", " ").split())


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
    times = {name: text for name, text in given.items() if name != SUPER_USERS}
    for name, text in times.items():
        if name not in SETTINGS:
            raise ValueError(f"{name} is no setting of a pool; there are {', '.join((*SETTINGS, SUPER_USERS))}")
        if not _is_time(text) or (float(text) < 0 and name not in _MAY_BE_NEGATIVE):
            raise ValueError(f"{name} = {text}: a number of seconds is wanted, as in {name} = 60")
    found = {name: given.get(name, setting.default) for name, setting in SETTINGS.items()}
    return {**found, SUPER_USERS: given[SUPER_USERS]} if SUPER_USERS in given else found
