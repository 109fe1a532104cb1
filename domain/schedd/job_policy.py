"""The policy by which a job that has exited is done, held or requeued, and stays in the queue or leaves.

As in HTCondor's UserPolicy (user_job_policy.cpp), OnExitHold is evaluated before OnExitRemove. A job is held only if
OnExitHold is true, requeued only if OnExitRemove is false, and kept only if LeaveJobInQueue is true.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from msgspec import Struct, field

from ..classad import ClassAd, EvaluationError, unparse
from ..classad.tree import Literal
from ..classad.unparse import unparse_old
from ..classad.value_evidence import integer_of, truth_of, value_text, values_read
from ..decision.draft import Draft
from ..events import Ad, JobExited
from ..state.caches import ad_from_attributes, parse_cached
from ..state.cluster import Cluster
from ..state.job_ad import ad_at_exit, hold_reason, quoted, vacate_reason
from ..state.state import AccessPoint
from ..state_machines.hold_codes import StopReason
from . import periodic_policy
from .periodic_policy import has_policies, with_run_time

HELD_BY_POLICY = 3
"""HoldReasonCode of a job that its own policy holds."""

LEAVE_ATTRIBUTE = "LeaveJobInQueue"


class PolicyValue(Struct, frozen=True):
    """The value of a job's policy expression (None: neither true nor false), its text as HTCondor prints it, and the
    log position of the values that it read (0: none)."""

    truth: bool | None
    text: str
    evidence: int = 0


def constant_value(text: str) -> PolicyValue | None:
    """Return the value of a constant expression, or None if the expression must be evaluated."""
    parsed = parse_cached(text)
    if not isinstance(parsed, Literal):
        return None
    value = parsed.value
    value = bool(value) if isinstance(value, int | float) else None
    return PolicyValue(value, unparse_old(parsed))


def _policy_value(
    draft: Draft[AccessPoint], cluster: Cluster, proc: int, name: str, default: bool, ad: Callable[[], ClassAd]
) -> PolicyValue:
    """Return the value of a job's policy expression, or ``default`` if the job has no such expression. ``ad`` builds
    the job's ad; it is called only if the expression is not constant."""
    text = cluster.requested_value(proc, name)
    if not text:
        return PolicyValue(default, "")
    return constant_value(text) or _evaluate_policy(draft, name, text, ad())


def _evaluate_policy(draft: Draft[AccessPoint], name: str, text: str, ad: ClassAd) -> PolicyValue:
    parsed = parse_cached(text)
    if parsed is None:
        return PolicyValue(None, text)
    try:
        value = value_text(parsed.evaluate(ad, None, draft.context))
    except EvaluationError:
        value = "error"
    evidence = draft.record_evaluation(name, unparse(parsed), value, values_read(parsed, ad, None, draft.context))
    return PolicyValue(truth_of(parsed, ad, None, draft.context), unparse_old(parsed), evidence)


# At the end of a run


class ExitDecision(Struct, frozen=True):
    """The transition of a job that has exited, the resulting changes to its ad, and the evidence."""

    row: str = "complete"
    changes: Ad = field(default_factory=dict)
    evidence: int = 0


def exit_decision(draft: Draft[AccessPoint], cluster: Cluster, exited: JobExited) -> ExitDecision:
    """Evaluate the policy of a job that has exited."""
    ad = cache(
        lambda: ad_from_attributes(ad_at_exit(with_run_time(cluster.attributes(exited.proc), draft.now), exited))
    )
    if has_policies(draft.state, cluster):
        decision = periodic_policy.policy_at_end(draft, cluster, exited.proc, cluster.status_of(exited.proc), ad())
        if decision is not None:
            policy, action = decision
            changes = periodic_policy.action_changes(policy, action) | vacate_reason(StopReason(0, 0, ""))
            return ExitDecision(policy.row, changes, action.evidence)
    hold = _policy_value(draft, cluster, exited.proc, "OnExitHold", False, ad)
    if hold.truth:
        return _hold(draft, hold, ad())
    remove = _policy_value(draft, cluster, exited.proc, "OnExitRemove", True, ad)
    if remove.truth is not False:
        return ExitDecision(evidence=remove.evidence)
    return ExitDecision("requeue", {"RequeueReason": quoted(_reason("OnExitRemove", remove))}, remove.evidence)


def _reason(name: str, value: PolicyValue) -> str:
    return f"The job attribute {name} expression '{value.text}' evaluated to {'TRUE' if value.truth else 'FALSE'}"


def _hold(draft: Draft[AccessPoint], hold: PolicyValue, ad: ClassAd) -> ExitDecision:
    """Return the hold; the job's ad may specify its reason and subcode."""
    reason, code = _evaluate_attribute(draft, ad, "OnExitHoldReason"), ad.get("OnExitHoldSubCode")
    subcode = None if code is None else integer_of(code, ad, None, draft.context)
    text = reason if isinstance(reason, str) and reason else _reason("OnExitHold", hold)
    return ExitDecision("hold", hold_reason(StopReason(HELD_BY_POLICY, subcode or 0, text)), hold.evidence)


def _evaluate_attribute(draft: Draft[AccessPoint], ad: ClassAd, name: str) -> object:
    try:
        return ad.eval(name, None, draft.context)
    except EvaluationError:
        return None


# After a job has ended


def constant_leave_in_queue(cluster: Cluster, proc: int) -> PolicyValue | None:
    """Return whether an ended job stays in the queue if its LeaveJobInQueue is constant; otherwise None."""
    text = cluster.requested_value(proc, LEAVE_ATTRIBUTE)
    return constant_value(text) if text else PolicyValue(False, "")


def leave_in_queue(draft: Draft[AccessPoint], cluster: Cluster, proc: int) -> PolicyValue:
    """Return whether an ended job stays in the queue."""
    return _policy_value(
        draft, cluster, proc, LEAVE_ATTRIBUTE, False, lambda: ad_from_attributes(cluster.attributes(proc))
    )
