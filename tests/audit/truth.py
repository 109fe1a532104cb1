"""The story of the honest pool, and possible differences from it in a single fact."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from attrs import evolve, frozen

from poolbook.replay.forensics.audit.compared_facts import FACTS

BEGIN: Final = 1_795_176_000
"""2026-11-20 12:00:00 UTC, in seconds: the pool's beginning, from which the times of a ``Truth`` are counted."""


STARTD = "<10.0.0.7:9618?addrs=10.0.0.7-9618&alias=node&noUDP&sock=startd_1>"


SCHEDD = "<10.0.0.1:9618?addrs=10.0.0.1-9618&alias=submit&noUDP&sock=schedd_1>"


@frozen
class Truth:
    """Instants and times in seconds. Names that end in ``1`` are of the first run, the others of the second or of the
    job. ``born`` is the number in the job's global id."""

    user: str = "alice@pool"
    group: str = "physics.alice"
    born: int = 0
    submitted: int = 0
    holds: int = 1
    hold_code: int = 1
    starts: int = 2
    placed1: int = 100
    began1: int = 110
    stopped1: int = 500
    slot: str = "slot2@node"
    claim: str = "2"
    placed: int = 2000
    began: int = 2120
    ended: int = 3000
    became: str = "completed"
    exit: str = "code 0"
    user_cpu: int = 350
    system_cpu: int = 25
    run_user_cpu: int = 300
    run_system_cpu: int = 20
    wall: int = 1400
    over: int = 0
    busy: int = 990
    executed: int = 880
    memory: int = 40
    disk: int = 150
    sent: int = 5000
    received: int = 7000
    local: int = 0
    number: str = "7.0"
    state: str = "Claimed/Busy"
    runs: str = "7.0"
    matched: str = "physics.alice@pool"
    matched_job: str = "7.0"
    matched_slot: str = "slot2@node"
    factor: float = 1000.0
    usage: float = 700.0
    unweighted: float = 350.0
    used_since: int = 200
    used_last: int = 2000
    priority: float = 0.75

    @property
    def submitter(self) -> str:
        return f"{self.group}@pool"

    @property
    def evicted(self) -> int:
        """The end of the first run, moved by any difference in the job's time on slots."""
        return self.stopped1 + self.wall - 1400


SAMPLED: Final = 2500
"""When condor_status was called: during the second run."""


# Fact -> the differences of a truth in which only this fact differs, in several ways: a bound is not contradicted by a
# value on its other side.
CHANGES: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    "user": ({"user": "mallory@pool"},),
    "submitter": ({"group": "physics.mallory", "matched": "physics.mallory@pool"},),
    "submitted": ({"submitted": -900}, {"submitted": 900}),
    "became": ({"became": "removed"},),
    "ended": ({"ended": 3100}, {"ended": 2900}),
    "user_cpu": ({"user_cpu": 400}, {"user_cpu": 300}),
    "system_cpu": ({"system_cpu": 75}, {"system_cpu": 5}),
    "starts": ({"starts": 3}, {"starts": 1}),
    "holds": ({"holds": 2}, {"holds": 0}),
    "hold": ({"hold_code": 3},),
    "wall": ({"wall": 1600}, {"wall": 1200}),
    "wall_runs": ({"wall": 2600}, {"wall": 1200}),
    "run_wall": ({"over": 2700}, {"over": -600}),
    "busy": ({"busy": 900},),
    "executed": ({"executed": 800},),
    "memory": ({"memory": 90}, {"memory": 10}),
    "disk": ({"disk": 500}, {"disk": 50}),
    "sent": ({"sent": 9000}, {"sent": 1000}),
    "received": ({"received": 9000}, {"received": 1000}),
    "number": ({"number": "7.1"},),
    "entry": ({"local": 3600},),
    "slot": ({"slot": "slot9@node"},),
    "claim": ({"claim": "9"},),
    "placed": ({"placed": 2060}, {"placed": 1940}),
    "began": ({"began": 2160}, {"began": 2080}, {"began": 2600}),
    "stopped": ({"stopped1": 900}, {"stopped1": 120}),
    "exit": ({"exit": "code 3"}, {"exit": "signal 9"}),
    "run_user_cpu": ({"run_user_cpu": 350}, {"run_user_cpu": 250}),
    "run_system_cpu": ({"run_system_cpu": 70}, {"run_system_cpu": 0}),
    "state": ({"state": "Claimed/Suspended"},),
    "holder": ({"user": "mallory@pool"},),
    "job": ({"runs": "9.0"},),
    "matched": ({"matched": "physics.mallory@pool"},),
    "matched_job": ({"matched_job": "9.0"},),
    "matched_slot": ({"matched_slot": "slot7@node"},),
    "factor": ({"factor": 2000.0},),
    "usage": ({"usage": 800.0},),
    "unweighted": ({"unweighted": 400.0},),
    "used_since": ({"used_since": 100},),
    "used_last": ({"used_last": 1900},),
    "priority": ({"priority": 1.5},),
}


def lies(fact: str) -> list[Truth]:
    """Return truths that differ from the true one in one fact."""
    return [evolve(Truth(), **change) for change in CHANGES[fact]]


def follows(fact: str) -> set[str]:
    """Return the facts that change together with this one, because they are the same thing: its own among them."""
    fields = {name for change in CHANGES[fact] for name in change}
    related = {other for other, changes in CHANGES.items() if any(fields & change.keys() for change in changes)}
    entries = {"entry"} if "U" in FACTS[fact].sources else set()  # an entry at another time is another entry, too
    return related | entries | _FOLLOW.get(fact, set())


_FOLLOW: Final = {
    "ended": {"stopped", "wall", "wall_runs", "run_wall"},  # the last run ends with its job
    "became": {
        "exit",
        "ended",
        "user_cpu",
        "system_cpu",
        "sent",
        "received",
        "run_wall",
    },  # no record of a removed job has these
    "starts": {"wall", "wall_runs"},
    "wall": {"stopped", "wall_runs", "run_wall"},  # the first run is as much longer or shorter
    "wall_runs": {"stopped", "run_wall"},
    "run_wall": {"stopped", "ended", "wall", "wall_runs"},
    "stopped": {"wall", "wall_runs", "run_wall"},
    "placed": {"wall", "wall_runs", "run_wall"},
    "began": {"wall", "run_wall"},
}


def log_time(at: int) -> datetime:
    return datetime.fromtimestamp(BEGIN, UTC) + timedelta(seconds=at)


def iso_time(at: int) -> str:
    return log_time(at).strftime("%Y-%m-%d %H:%M:%S")


def daemon_time(at: int) -> str:
    return log_time(at).strftime("%m/%d/%y %H:%M:%S")


def claim_id(number: str) -> str:
    return f"{STARTD}#{BEGIN}#{number}#..."
