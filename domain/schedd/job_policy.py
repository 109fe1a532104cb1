"""A job's own policy at its end: whether it is done when it has exited, and whether it stays in the queue then.

As in HTCondor's UserPolicy (user_job_policy.cpp), OnExitHold is evaluated before OnExitRemove. Only a true
OnExitHold holds the job, only a false OnExitRemove sends it back, only a true LeaveJobInQueue keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from msgspec import Struct, field

from ..classad import ClassAd, EvaluationError, unparse
from ..classad.evidence import integer_of, truth_of, value_text, values_read
from ..classad.tree import Literal
from ..classad.unparse import unparse_old
from ..decision.draft import Draft
from ..events import Ad, JobExited
from ..state.caches import ad_of, parse_cached
from ..state.cluster import Cluster
from ..state.job_ad import ad_at_exit, quoted, vacate_reason
from ..state.state import AccessPoint
from ..state_machines.hold_codes import StopReason
from . import periodic_policy
from .periodic_policy import concerns, with_run_time

HELD_BY_POLICY = 3
"""HoldReasonCode of a job that its own policy holds."""

LEAVE = "LeaveJobInQueue"


class PolicyValue(Struct, frozen=True):
    """The value of a job's policy expression. ``truth`` None: neither true nor false. ``text``: the expression, as
    HTCondor prints it. ``evidence``: the position in the log of what it read, 0 if nothing."""

    truth: bool | None
    text: str
    evidence: int = 0


def constant(text: str) -> PolicyValue | None:
    """Return the value of a constant text; None: it has to be evaluated."""
    meaning = parse_cached(text)
    if not isinstance(meaning, Literal):
        return None
    value = meaning.value
    answer = bool(value) if isinstance(value, int | float) else None
    return PolicyValue(answer, unparse_old(meaning))


def _answer(
    draft: Draft[AccessPoint], cluster: Cluster, proc: int, name: str, default: bool, ad: Callable[[], ClassAd]
) -> PolicyValue:
    """Return the value of a job's policy expression, ``default`` if the job has none. ``ad`` returns the job's ad, and
    is only called if the expression reads anything."""
    text = cluster.requested_value(proc, name)
    if not text:
        return PolicyValue(default, "")
    return constant(text) or _ask(draft, name, text, ad())


def _ask(draft: Draft[AccessPoint], name: str, text: str, ad: ClassAd) -> PolicyValue:
    """Evaluate a job's policy expression in its ad, and log what it read."""
    meaning = parse_cached(text)
    if meaning is None:
        return PolicyValue(None, text)
    try:
        value = value_text(meaning.evaluate(ad, None, draft.context))
    except EvaluationError:
        value = "error"
    evidence = draft.note(name, unparse(meaning), value, values_read(meaning, ad, None, draft.context))
    return PolicyValue(truth_of(meaning, ad, None, draft.context), unparse_old(meaning), evidence)


# At the end of a run


class ExitDecision(Struct, frozen=True):
    """The transition of a job that has exited, with the changes of its ad and the evidence."""

    row: str = "complete"
    changes: Ad = field(default_factory=dict)
    evidence: int = 0


def at_end(draft: Draft[AccessPoint], cluster: Cluster, exited: JobExited) -> ExitDecision:
    """Evaluate the policy of a job that has exited."""
    ad = cache(lambda: ad_of(ad_at_exit(with_run_time(cluster.attributes(exited.proc), draft.now), exited)))
    if concerns(draft.state, cluster):
        decision = periodic_policy.at_end(draft, cluster, exited.proc, cluster.status_of(exited.proc), ad())
        if decision is not None:
            policy, action = decision
            changes = periodic_policy.changes(policy, action) | vacate_reason(StopReason(0, 0, ""))
            return ExitDecision(policy.row, changes, action.evidence)
    held = _answer(draft, cluster, exited.proc, "OnExitHold", False, ad)
    if held.truth:
        return _hold(draft, held, ad())
    done = _answer(draft, cluster, exited.proc, "OnExitRemove", True, ad)
    if done.truth is not False:
        return ExitDecision(evidence=done.evidence)
    return ExitDecision("requeue", {"RequeueReason": quoted(_words("OnExitRemove", done))}, done.evidence)


def _words(name: str, answer: PolicyValue) -> str:
    """Return the reason in HTCondor's words."""
    return f"The job attribute {name} expression '{answer.text}' evaluated to {'TRUE' if answer.truth else 'FALSE'}"


def _hold(draft: Draft[AccessPoint], held: PolicyValue, ad: ClassAd) -> ExitDecision:
    """Return the hold; the job's ad may give its reason and its subcode."""
    reason, code = _evaluated(draft, ad, "OnExitHoldReason"), ad.get("OnExitHoldSubCode")
    subcode = None if code is None else integer_of(code, ad, None, draft.context)
    changes = {
        "HoldReason": quoted(reason if isinstance(reason, str) and reason else _words("OnExitHold", held)),
        "HoldReasonCode": str(HELD_BY_POLICY),
        "HoldReasonSubCode": str(subcode or 0),
    }
    return ExitDecision("hold", changes, held.evidence)


def _evaluated(draft: Draft[AccessPoint], ad: ClassAd, name: str) -> object:
    try:
        return ad.eval(name, None, draft.context)
    except EvaluationError:
        return None


# After its end


def constant_wish(cluster: Cluster, proc: int) -> PolicyValue | None:
    """Check whether a job that has ended stays in the queue, if its LeaveJobInQueue is constant."""
    text = cluster.requested_value(proc, LEAVE)
    return constant(text) if text else PolicyValue(False, "")


def stays(draft: Draft[AccessPoint], cluster: Cluster, proc: int) -> PolicyValue:
    """Check whether a job that has ended stays in the queue."""
    return _answer(draft, cluster, proc, LEAVE, False, lambda: ad_of(cluster.attributes(proc)))
