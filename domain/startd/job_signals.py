"""The signals of a slot's job: suspend, continue, end; and its hold by the machine's owner.

A job of this pool's queue has a status that follows, and events from which its signals are derived; the starter of an
outside holder is only told.
"""

from __future__ import annotations

from ..classad import EvaluationError
from ..decision.draft import Draft, ranges
from ..events import Ad, JobSignalled, StarterSignalled
from ..state.job_ad import hold_reason, vacate_reason
from ..state.state import RUNS, Activation, Slot
from ..state_machines.hold_codes import Why
from . import time_limits
from .evaluation import PolicyEvaluation
from .slot_policy_evaluation import policy_of
from .startd_settings import duration

HELD_BY_STARTD = 21
"""HoldReasonCode of a job that the machine's WANT_HOLD puts on hold."""


def suspend(draft: Draft, slot: Slot, cause: str) -> None:
    _pause(draft, slot, "suspend", "Running", cause)


def resume(draft: Draft, slot: Slot, cause: str, evidence: int = 0) -> None:
    _pause(draft, slot, "continue", "Suspended", cause, evidence)


def _pause(draft: Draft, slot: Slot, row: str, status: str, cause: str, evidence: int = 0) -> None:
    activation = slot.activation
    if activation is None or not activation.cluster:
        return
    if activation.deferred:
        return  # nothing runs yet: it is suspended when it begins (``schedd.deferred_starts``)
    cluster = draft.state.clusters[activation.cluster]
    if cluster.status_of(activation.proc) == status:
        draft.move_jobs(cluster, ranges([activation.proc]), row, cause, status, {}, evidence)


def signal(draft: Draft, slot: Slot, how: str, cause: str) -> None:
    """Tell the slot's job to end. A soft signal is not repeated."""
    activation = slot.activation
    if activation is not None and (how == "hard" or not activation.stop):
        signal_job(draft, activation, how, cause)


def signal_job(
    draft: Draft, activation: Activation, how: str, cause: str, evidence: int = 0, vacated: Ad | None = None
) -> None:
    """Do the same for an activation: a job of the local universe has no slot. ``evidence`` and ``vacated``: see
    ``JobSignalled``."""
    until = draft.now + _patience(draft, activation, how)
    if activation.cluster:
        job = activation.cluster, activation.proc
        draft.emit(JobSignalled(*draft.why(cause), *job, how, until, evidence, vacated or {}))
    else:
        draft.emit(StarterSignalled(*draft.why(cause), activation.slot, how, until))


def _patience(draft: Draft, activation: Activation, how: str) -> int:
    """Return the microseconds until the job is told again, harder."""
    slot = draft.state.slots.get(activation.slot)
    machine = None if slot is None else draft.state.machines.get(slot.machine)
    if how == "hard":
        return duration(draft.state, machine, "KILLING_TIMEOUT")
    if slot is not None:
        return time_limits.vacate_time(policy_of(draft, slot))
    return round(draft.state.setting("MachineMaxVacateTime"))


def hold(draft: Draft, slot: Slot, how: str) -> bool:
    """Put a job that PREEMPT evicts on hold, with the owner's reason: its WANT_HOLD is true. If a transform of its own
    or a cool-down may spare it the hold at its end, it is only told to end, and True returned."""
    activation = slot.activation
    if activation is None or not activation.cluster:
        return False
    cluster = draft.state.clusters[activation.cluster]
    status = cluster.status_of(activation.proc)
    if status not in RUNS:
        return False
    policy = policy_of(draft, slot)
    subcode = policy.number("WANT_HOLD_SUBCODE") or 0
    why = Why(HELD_BY_STARTD, round(subcode), f"Error from {slot.name}: {_reason(policy)}")
    if cluster.transforms_itself(activation.proc) or draft.state.settings.get("SYSTEM_ON_VACATE_COOL_DOWN"):
        signal_job(draft, activation, how, "held_by_machine", vacated=vacate_reason(why))
        return True
    draft.move_jobs(cluster, ranges([activation.proc]), "hold", "held_by_machine", status, hold_reason(why))
    return False


def _reason(policy: PolicyEvaluation) -> str:
    asked = policy.expression("WANT_HOLD_REASON")
    try:
        said = None if asked is None else asked.evaluate(policy.ad, policy.job, policy.context)
    except EvaluationError:
        said = None
    if isinstance(said, str) and said:
        return said
    return (
        "The startd put this job on hold.  (At preemption time, WANT_HOLD evaluated to true: "
        f"WANT_HOLD = {policy.expression('WANT_HOLD')})"
    )
