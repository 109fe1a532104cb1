"""The timers of an access point, and what happens when they expire.

A timer runs until a deferred job starts, until a claim is no longer kept for a next job, until a job's cool-down ends,
until the jobs that condor_now vacates must have left, and until a signalled job without a slot must have exited.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..decision.draft import Draft
from ..events import JobCooledDown
from ..names import JobId
from ..ports.timers import Timer
from ..state.state import AccessPoint
from ..units import SECOND
from . import claims
from .deferred_starts import start_deferred_job


def timers(state: AccessPoint) -> Iterator[Timer]:
    """Yield all running timers."""
    for key in state.ending:
        run = state.activations[key]
        if state.clusters[run.cluster].is_local:
            setting = "KILLING_TIMEOUT" if run.stop_signal == "hard" else "MachineMaxVacateTime"
            yield Timer(run.next_signal or run.last_signalled + state.setting(setting), "stop", key)
    for key in state.deferred:
        run = state.activations[key]
        if run.ready and not run.stop_signal and not state.runs_elsewhere(run):
            yield Timer(max(run.deferred, run.ready), "deferral", key)
    for job, last in state.cool_downs.items():
        yield Timer((last + 1) * SECOND, "cool-down", f"{job[0]}.{job[1]}")
    if state.next_start and (state.matches or state.ready_claims):
        yield Timer(state.next_start, "next start", "")
    for slot, (until, _) in state.kept_claims.items():
        if slot not in state.ready_claims and slot not in state.queued_claims and not state.is_reserved(slot):
            yield Timer(until, "kept claim", slot)
    for job, reservation in state.reservations.items():
        yield Timer(reservation.deadline, "reservation", f"{job[0]}.{job[1]}")


def fire_timer(draft: Draft[AccessPoint], timer: Timer) -> None:
    """Handle a timer, unless it is no longer due."""
    state, name = draft.state, timer.name
    if timer.kind == "stop" and name in state.activations:
        claims.signal_job(draft, state.activations[name], "hard", "kill_timeout")
    elif timer.kind == "deferral" and name in state.deferred:
        start_deferred_job(draft, state.activations[name])
    elif timer.kind == "next start":
        claims.start_idle_jobs(draft)
    elif timer.kind == "kept claim" and name in state.kept_claims:
        claims.reuse_claim(draft, name, state.kept_claims[name][1])
    elif timer.kind == "cool-down":
        draft.emit(JobCooledDown(*draft.header("cooled_down"), *JobId.parse(name)))
