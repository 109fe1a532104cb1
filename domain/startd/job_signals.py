"""The signals of a slot's job: suspend, continue, end; and its hold by the machine's owner.

A job of this pool's queue has a status that follows, and events from which its signals are derived; the starter of an
outside holder is only told.
"""

from __future__ import annotations

from ..classad import EvaluationError
from ..decision.draft import Draft
from ..events import Ad, JobSignalled, StarterSignalled
from ..ports.messages import HoldJob, JobPaused
from ..state.records import Slot
from ..state.state import ExecutionPoint
from ..state_machines.hold_codes import HELD_BY_STARTD, Why
from . import time_limits
from .evaluation import PolicyEvaluation
from .slot_policy_evaluation import policy_of
from .startd_settings import duration


def suspend(draft: Draft[ExecutionPoint], slot: Slot, cause: str) -> None:
    _pause(draft, slot, "suspend", "Running", cause)


def resume(draft: Draft[ExecutionPoint], slot: Slot, cause: str, evidence: int = 0) -> None:
    _pause(draft, slot, "continue", "Suspended", cause, evidence)


def _pause(draft: Draft[ExecutionPoint], slot: Slot, row: str, status: str, cause: str, evidence: int = 0) -> None:
    activation = slot.activation
    if activation is None or not activation.cluster:
        return
    draft.send(JobPaused(activation.cluster, activation.proc, row, status, cause, evidence))


def signal(
    draft: Draft[ExecutionPoint],
    slot: Slot,
    how: str,
    cause: str,
    evidence: int = 0,
    vacated: Ad | None = None,
    again: bool = False,
) -> None:
    """Tell the slot's job to end. A soft signal is not repeated, unless ``again``. ``evidence`` and ``vacated``: see
    ``JobSignalled``."""
    activation = slot.activation
    if activation is None or (how != "hard" and activation.stop and not again):
        return
    until = draft.now + _patience(draft, slot, how)
    if activation.cluster:
        job = activation.cluster, activation.proc
        draft.emit(JobSignalled(*draft.why(cause), *job, how, until, evidence, vacated or {}))
    else:
        draft.emit(StarterSignalled(*draft.why(cause), activation.slot, how, until))


def _patience(draft: Draft[ExecutionPoint], slot: Slot, how: str) -> int:
    """Return the microseconds until the job is told again, harder."""
    if how == "hard":
        return duration(draft.state, draft.state.machines.get(slot.machine), "KILLING_TIMEOUT")
    return time_limits.vacate_time(policy_of(draft, slot))


def hold(draft: Draft[ExecutionPoint], slot: Slot, how: str) -> bool:
    """Put a job that PREEMPT evicts on hold, with the owner's reason: its WANT_HOLD is true. If a transform of its own
    or a cool-down may spare it the hold at its end, it is only told to end, and True returned."""
    activation = slot.activation
    if activation is None or not activation.cluster:
        return False
    policy = policy_of(draft, slot)
    subcode = policy.number("WANT_HOLD_SUBCODE") or 0
    why = Why(HELD_BY_STARTD, round(subcode), f"Error from {slot.name}: {_reason(policy)}")
    vacated = draft.send(HoldJob(activation.cluster, activation.proc, why))
    if vacated is None:
        return False
    signal(draft, slot, how, "held_by_machine", vacated=vacated, again=True)
    return True


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
