"""The timers of an access point, and what happens when they are due.

They are the deferral of a job's start, the cool-down of a job, the deadline of condor_now's victims, and the deadline
of a signalled job without a slot.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..decision.draft import Draft
from ..names import JobId
from ..ports.timers import Timer
from ..state.state import AccessPoint
from ..units import SECOND
from . import claims, cool_down
from .deferred_starts import start_deferred_job


def timers(state: AccessPoint) -> Iterator[Timer]:
    """Yield every running timer."""
    for key in state.ending:
        run = state.activations[key]
        if state.clusters[run.cluster].is_local:
            setting = "KILLING_TIMEOUT" if run.stop == "hard" else "MachineMaxVacateTime"
            yield Timer(run.next_signal or run.last_signalled + state.setting(setting), "stop", key)
    for key in state.deferred:
        run = state.activations[key]
        yield Timer(max(run.deferred, run.began), "deferral", key)
    for job, last in state.cool_downs.items():
        yield Timer((last + 1) * SECOND, "cool-down", f"{job[0]}.{job[1]}")
    for job, reservation in state.reservations.items():
        yield Timer(reservation.deadline, "reservation", f"{job[0]}.{job[1]}")


def fire(draft: Draft[AccessPoint], timer: Timer) -> None:
    """Handle a timer, if it is still due."""
    state, name = draft.state, timer.name
    if timer.kind == "stop" and name in state.activations:
        claims.signal_job(draft, state.activations[name], "hard", "kill_timeout")
    elif timer.kind == "deferral" and name in state.deferred:
        start_deferred_job(draft, state.activations[name])
    elif timer.kind == "cool-down":
        cool_down.end_cool_down(draft, *JobId.parse(name))
