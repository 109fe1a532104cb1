"""Suspend, continue and end a slot's job, and hold it for the machine's owner (WANT_HOLD).

For a job in this pool's queue, the job's status changes too, and its signals are derived from events. For an external
claim holder, only the starter is signalled; if this pool runs the job's processes for the holder, that event and the
slot's transitions cause the signals.
"""

from __future__ import annotations

from ..classad import EvaluationError
from ..decision.draft import Draft
from ..events import Ad, JobSignalled, StarterSignalled
from ..ports.messages import HoldJob, JobPaused
from ..state.records import Slot
from ..state.state import ExecutionPoint
from ..state_machines.hold_codes import HELD_BY_STARTD, StopReason
from . import time_limits
from .evaluation import PolicyEvaluation
from .slot_policy_evaluation import policy_of
from .startd_settings import duration


def suspend_job(draft: Draft[ExecutionPoint], slot: Slot, cause: str) -> None:
    _pause(draft, slot, "suspend", "Running", cause)


def resume_job(draft: Draft[ExecutionPoint], slot: Slot, cause: str, evidence: int = 0) -> None:
    _pause(draft, slot, "continue", "Suspended", cause, evidence)


def _pause(draft: Draft[ExecutionPoint], slot: Slot, row: str, status: str, cause: str, evidence: int = 0) -> None:
    activation = slot.activation
    if activation is None or not activation.cluster:
        return
    draft.send(JobPaused(activation.cluster, activation.proc, row, status, cause, evidence))


def signal_job(
    draft: Draft[ExecutionPoint],
    slot: Slot,
    how: str,
    cause: str,
    evidence: int = 0,
    vacated: Ad | None = None,
    again: bool = False,
    signal: str = "",
    why: StopReason | None = None,
) -> None:
    """Signal the slot's job to exit.

    :param how: soft (the job's kill signal) or hard (SIGKILL)
    :param evidence: as in ``JobSignalled``, like ``vacated``
    :param again: whether to send a soft signal to a job that already received one
    :param signal: as in ``StarterSignalled``
    :param why: why the external access point must hold the job
    """
    activation = slot.activation
    if activation is None or (how != "hard" and activation.stop_signal and not again):
        return
    if how == "hard":
        time_to_exit = duration(draft.state, draft.state.machines.get(slot.machine), "KILLING_TIMEOUT")
    else:
        time_to_exit = time_limits.vacate_time(policy_of(draft, slot))
    deadline = draft.now + time_to_exit
    if activation.cluster:
        job = activation.cluster, activation.proc
        draft.emit(JobSignalled(*draft.header(cause), *job, how, deadline, evidence, vacated or {}))
    else:
        hold = {} if why is None else why._asdict()
        draft.emit(StarterSignalled(*draft.header(cause), activation.slot, how, deadline, signal, **hold))


def hold_job(draft: Draft[ExecutionPoint], slot: Slot, how: str) -> bool:
    """Hold a job that PREEMPT evicts while WANT_HOLD is true, with the reason in WANT_HOLD_REASON. If the job's own
    transform or a cool-down may prevent the hold, or an external access point must hold it, only signal the job to
    exit, and return True."""
    activation = slot.activation
    if activation is None or not activation.runs_here:
        return False
    policy = policy_of(draft, slot)
    subcode = policy.number("WANT_HOLD_SUBCODE") or 0
    why = StopReason(HELD_BY_STARTD, round(subcode), f"Error from {slot.name}: {_reason(policy)}")
    if not activation.cluster:
        if activation.stop_signal:  # the access point has ended it already
            return False
        signal_job(draft, slot, how, "held_by_machine", why=why)
        return True
    vacated = draft.send(HoldJob(activation.cluster, activation.proc, why))
    if vacated is None:
        return False
    signal_job(draft, slot, how, "held_by_machine", vacated=vacated, again=True)
    return True


def _reason(policy: PolicyEvaluation) -> str:
    expression = policy.expression("WANT_HOLD_REASON")
    try:
        reason = None if expression is None else expression.evaluate(policy.ad, policy.job, policy.context)
    except EvaluationError:
        reason = None
    if isinstance(reason, str) and reason:
        return reason
    return (
        "The startd put this job on hold.  (At preemption time, WANT_HOLD evaluated to true: "
        f"WANT_HOLD = {policy.expression('WANT_HOLD')})"
    )
