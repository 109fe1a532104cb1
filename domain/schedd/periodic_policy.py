"""Periodic policies for idle, running and held jobs: each job's own, and the access point's for all jobs.

``POLICIES`` lists them in HTCondor's evaluation order (UserPolicy::AnalyzePolicy, user_job_policy.cpp). For each job,
the first policy whose value is true or a nonzero number takes effect. Undefined and error have no effect, except for
TimerRemove. A job's PeriodicHold precedes the access point's SYSTEM_PERIODIC_HOLD expressions: the named ones, in the
order of SYSTEM_PERIODIC_HOLD_NAMES, then the unnamed one. The same order applies to release and removal.

The access point periodically evaluates all jobs without processes (Scheduler::PeriodicExprHandler). A running job's
shadow evaluates its policies from the start of the process (BaseUserPolicy::checkPeriodic). ``policy_times`` determines
when.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from ..classad import ClassAd, EvaluationError, Expression, unparse
from ..classad.tree import Literal
from ..classad.unparse import unparse_old
from ..classad.value_evidence import integer_of, value_text, values_read
from ..decision.draft import Draft
from ..events import Ad
from ..ports.stimuli import EvaluateJobPolicies
from ..state.caches import ad_from_attributes, parse_cached
from ..state.cluster import Cluster
from ..state.job_ad import STATUS_NUMBERS, hold_reason, parse_int, quoted, vacate_reason
from ..state.pool_settings import job_limit, listed_names
from ..state.records import RUNS
from ..state.state import AccessPoint
from ..state_machines.hold_codes import CLAIM_DEACTIVATED, StopReason
from .constraints import meets_condition, select_matching
from .job_actions import SPOOLING_HOLD_CODE, ActionReason, end_running_jobs, hold_jobs, release_jobs, remove_jobs
from .policy_kinds import attributes_read, group_alike

EVICT: Final = "evict"
"""The row for a job that a policy vacates; the transition occurs when the job's processes have ended."""
_ALL: Final = frozenset(STATUS_NUMBERS) - {"Removed"}
_NOT_HELD: Final = _ALL - {"Held", "Completed"}
_HELD: Final = frozenset({"Held"})
_EXECUTING: Final = frozenset({"Running", "Suspended"})
HELD_BY_USER: Final = "1"
"""HoldReasonCodes of jobs that no policy releases."""


class Policy(Struct, frozen=True):
    """A policy: an attribute of jobs or a setting of the access point, and its action."""

    cause: str
    row: str
    statuses: frozenset[str]
    attribute: str = ""
    setting: str = ""
    code: int = 0  #: the resulting HoldReasonCode or VacateReasonCode
    condition: str = ""  #: the condition, if the attribute is only one of its operands
    default_reason: str = ""
    """With placeholders for ``name``, ``text`` and a limit's ``time`` (empty: the expression evaluated to TRUE)."""
    reason: str = ""  #: the attribute that defines the reason
    subcode: str = ""  #: the attribute that defines the subcode


_OWN_REASON: Final = "The job attribute {name} expression '{text}' evaluated to TRUE"
_SYSTEM_REASON: Final = "The system macro {name} expression '{text}' evaluated to TRUE"

POLICIES: Final = (
    Policy(
        "job_duration", "hold", _EXECUTING, "AllowedJobDuration", code=46,
        condition="time() - ShadowBday >= AllowedJobDuration",
        default_reason="The job exceeded allowed job duration of {time}",
    ),
    Policy(
        "execute_duration", "hold", _EXECUTING, "AllowedExecuteDuration", code=47,
        condition="JobCurrentStartExecutingDate >= ShadowBday && time() - AllowedExecuteDuration > "
        "ifThenElse((TransferOutFinished ?: 0) > JobCurrentStartExecutingDate, TransferOutFinished, "
        "JobCurrentStartExecutingDate)",
        default_reason="The job exceeded allowed execute duration of {time}",
    ),
    Policy(
        "periodic_vacate", EVICT, RUNS, "PeriodicVacate", code=1000,
        reason="PeriodicVacateReason", subcode="PeriodicVacateSubCode",
    ),
    Policy("system_periodic_vacate", EVICT, RUNS, setting="SYSTEM_PERIODIC_VACATE", code=1001),
    Policy(
        "timer_undefined", "hold", RUNS, "TimerRemove", code=5,
        condition="isUndefined(TimerRemove) || isError(TimerRemove) || isString(TimerRemove)",
        default_reason="The job attribute {name} expression '{text}' evaluated to UNDEFINED",
    ),
    Policy(
        "timer_remove", "remove", _ALL, "TimerRemove",
        condition="TimerRemove >= 0 && TimerRemove < time()",
    ),
    Policy(
        "periodic_hold", "hold", _NOT_HELD, "PeriodicHold", code=3,
        reason="PeriodicHoldReason", subcode="PeriodicHoldSubCode",
    ),
    Policy("system_periodic_hold", "hold", _NOT_HELD, setting="SYSTEM_PERIODIC_HOLD", code=26),
    Policy(
        "periodic_release", "release", _HELD, "PeriodicRelease",
        reason="PeriodicReleaseReason", subcode="PeriodicReleaseSubCode",
    ),
    Policy("system_periodic_release", "release", _HELD, setting="SYSTEM_PERIODIC_RELEASE"),
    Policy(
        "periodic_remove", "remove", _ALL, "PeriodicRemove",
        reason="PeriodicRemoveReason", subcode="PeriodicRemoveSubCode",
    ),
    Policy("system_periodic_remove", "remove", _ALL, setting="SYSTEM_PERIODIC_REMOVE"),
)  # fmt: skip
"""The policies, in the order of evaluation."""
BY_CAUSE: Final = {policy.cause: policy for policy in POLICIES}
ATTRIBUTES: Final = tuple(dict.fromkeys(policy.attribute for policy in POLICIES if policy.attribute))
"""The job attributes that contain periodic policies."""
_OWN_NAMES: Final = frozenset(name.lower() for name in ATTRIBUTES)
_SYSTEMS: Final = tuple(policy for policy in POLICIES if policy.setting)
_SETTINGS: Final = frozenset(f"{policy.setting}{end}" for policy in _SYSTEMS for end in ("", "_NAMES"))


class PolicyExpression(Struct, frozen=True):
    """A policy's expression: the ``name`` of its attribute or setting, for example SYSTEM_PERIODIC_HOLD_Large, and the
    ``text`` of the setting or of ``Policy.condition``, which is empty if each job has its own expression."""

    policy: Policy
    name: str
    text: str = ""

    def text_for(self, cluster: Cluster, proc: int) -> str:
        """Return the expression's text for a job, or an empty string if the job lacks the policy's attribute."""
        attribute = self.policy.attribute
        job_text = cluster.requested_value(proc, attribute) if attribute else self.text
        return job_text and (self.text or job_text)


def policy_expressions(state: AccessPoint) -> list[PolicyExpression]:
    """Return all policy expressions, in the order of evaluation."""
    policies: list[PolicyExpression] = []
    for policy in POLICIES:
        if policy.attribute:
            policies.append(PolicyExpression(policy, policy.attribute, policy.condition))
        elif policy.row != EVICT or state.dialect.evaluates_system_periodic_vacate:
            policies += (
                PolicyExpression(policy, name, state.settings[name]) for name in system_names(state.settings, policy)
            )
    return policies


def system_names(settings: Mapping[str, str], policy: Policy) -> list[str]:
    """Return the settings that contain the expressions of one access point policy, in evaluation order."""
    named = [f"{policy.setting}_{name}" for name in listed_names(settings, f"{policy.setting}_NAMES")]
    return [name for name in (*named, policy.setting) if settings.get(name, "").strip()]


def has_policies(state: AccessPoint, cluster: Cluster) -> bool:
    """Check whether the cluster's jobs have any policy."""
    if cluster.has_any_attribute(_OWN_NAMES):
        return True
    return not _SETTINGS.isdisjoint(state.settings) and any(system_names(state.settings, policy) for policy in _SYSTEMS)


# Which jobs are evaluated


class _JobGroup(Struct, frozen=True):
    cluster: Cluster
    status: str
    procs: list[int]


def evaluate_job_policies(draft: Draft[AccessPoint], stimulus: EvaluateJobPolicies) -> None:
    """Evaluate the policies of the given clusters' jobs without processes, and of the given running jobs."""
    groups = [
        *_groups_without_processes(draft.state, stimulus.clusters),
        *_running_groups(draft.state, stimulus.running),
    ]
    for expression in policy_expressions(draft.state):
        groups = list(_evaluate_policy(draft, expression, groups))


def _groups_without_processes(state: AccessPoint, clusters: Sequence[int]) -> Iterator[_JobGroup]:
    """Yield the jobs without processes. The access point evaluates local universe jobs directly, in any status."""
    running: defaultdict[int, set[int]] = defaultdict(set)
    for number, proc in state.by_job:
        running[number].add(proc)
    for number in clusters:
        cluster = state.clusters.get(number)
        if cluster is None:
            continue
        running_procs = () if cluster.is_local else running[number]
        for status, status_number in STATUS_NUMBERS.items():
            if (
                not cluster.status_counts[status_number]
                or status == "Removed"
                or (status in RUNS and not cluster.is_local)
            ):
                continue
            procs = [proc for proc in cluster.procs(status_number.__eq__) if proc not in running_procs]
            if procs:
                yield _JobGroup(cluster, status, procs)


def _running_groups(state: AccessPoint, jobs: Sequence[tuple[int, int]]) -> Iterator[_JobGroup]:
    """Yield the jobs with processes that no policy is already ending; the shadow of such a job no longer evaluates."""
    for number, proc in jobs:
        activation, cluster = state.by_job.get((number, proc)), state.clusters.get(number)
        if activation is not None and cluster is not None and activation.executing and not activation.vacate_reason:
            status = cluster.status_of(proc)
            if status in RUNS:
                yield _JobGroup(cluster, status, [proc])


def _evaluate_policy(
    draft: Draft[AccessPoint], expression: PolicyExpression, groups: list[_JobGroup]
) -> Iterator[_JobGroup]:
    """Evaluate an expression for all jobs to which it applies, and act where it is true; yield the other jobs."""
    by_text: dict[str, list[_JobGroup]] = {}
    for group in groups:
        if group.status not in expression.policy.statuses:
            yield group
            continue
        for text, subgroup in _texts(expression, group):
            by_text.setdefault(text, []).append(subgroup)
    for text, parts in by_text.items():
        for subgroup, fired in zip(parts, _matching_procs(draft, expression, text, parts), strict=True):
            if fired:
                _act(draft, expression, text, _JobGroup(subgroup.cluster, subgroup.status, fired))
            acted_on = frozenset(fired)
            remaining = [proc for proc in subgroup.procs if proc not in acted_on] if fired else subgroup.procs
            if remaining:
                yield _JobGroup(subgroup.cluster, subgroup.status, remaining)


def _texts(expression: PolicyExpression, group: _JobGroup) -> Iterator[tuple[str, _JobGroup]]:
    """Split the group by the text of the expression in each job, which is empty for jobs without it."""
    cluster, policy = group.cluster, expression.policy
    if not policy.attribute or cluster.is_uniform(policy.attribute):
        yield expression.text_for(cluster, group.procs[0]), group
    else:
        groups: dict[str, list[int]] = {}
        for proc in group.procs:
            groups.setdefault(expression.text_for(cluster, proc), []).append(proc)
        for text, procs in groups.items():
            yield text, _JobGroup(cluster, group.status, procs)


def _matching_procs(
    draft: Draft[AccessPoint], expression: PolicyExpression, text: str, groups: list[_JobGroup]
) -> list[list[int]]:
    """Return the jobs of each group for which the expression is true and on which the policy may act."""
    condition = parse_cached(text) if text else None
    if condition is None:
        return [[] for _ in groups]
    if isinstance(condition, Literal):
        is_true = isinstance(condition.value, int | float) and bool(condition.value)
        procs_of = [group.procs if is_true else [] for group in groups]
    elif all(group.status in RUNS for group in groups):
        procs_of = [
            [
                proc
                for proc in group.procs
                if meets_condition(condition, policy_ad(draft, group.cluster, proc), draft.context)
            ]
            for group in groups
        ]
    else:
        procs_of = select_matching(condition, [(group.cluster, group.procs) for group in groups], draft.context)
    return [
        _actionable_procs(draft, expression.policy, group, procs) for group, procs in zip(groups, procs_of, strict=True)
    ]


def _actionable_procs(draft: Draft[AccessPoint], policy: Policy, group: _JobGroup, procs: list[int]) -> list[int]:
    """Return the jobs on which the policy may act. Do not vacate jobs that are already being ended. Do not release jobs
    that a user holds, or that were held SYSTEM_MAX_RELEASES times. Skip jobs that wait for input files."""
    cluster = group.cluster
    if policy.row == EVICT:
        activations = ((proc, draft.state.by_job.get((cluster.id, proc))) for proc in procs)
        return [proc for proc, activation in activations if activation is not None and not activation.stop_signal]
    if group.status != "Held":
        return procs
    procs = [proc for proc in procs if cluster.value(proc, "HoldReasonCode") != SPOOLING_HOLD_CODE]
    if policy.row != "release":
        return procs
    max_releases = job_limit(draft.state.settings, "SYSTEM_MAX_RELEASES")
    return [
        proc
        for proc in procs
        if cluster.value(proc, "HoldReasonCode") != HELD_BY_USER
        and (max_releases is None or max_releases < 0 or parse_int(cluster.value(proc, "NumHolds")) < max_releases)
    ]


def policy_ad(draft: Draft[AccessPoint], cluster: Cluster, proc: int) -> ClassAd:
    """Return the ad in which a job's policies are evaluated: its RemoteWallClockTime includes the current run."""
    return ad_from_attributes(with_run_time(cluster.attributes(proc), draft.now))


def with_run_time(ad: Mapping[str, str], now: int) -> Ad:
    """Return a copy of the ad with the current run added to RemoteWallClockTime (BaseUserPolicy::updateJobTime)."""
    run_start = parse_int(ad.get("ShadowBday", ""))
    if not run_start:
        return dict(ad)
    try:
        previous_runs = float(ad.get("RemoteWallClockTime", "0"))
    except ValueError:
        previous_runs = 0.0
    return {**ad, "RemoteWallClockTime": repr(previous_runs + now // 1_000_000 - run_start)}


# Actions


class PolicyAction(Struct, frozen=True):
    """The reason and subcode of a policy's action, and the log position of its evidence."""

    reason: str
    subcode: int = 0
    evidence: int = 0


def policy_action(
    draft: Draft[AccessPoint], expression: PolicyExpression, text: str, job_text: str, ad: ClassAd
) -> PolicyAction:
    """Return the action for an expression that is true. ``text`` is the expression; ``job_text`` is the attribute's
    text."""
    condition, policy = parse_cached(text), expression.policy
    assert condition is not None
    evidence = 0
    if not isinstance(condition, Literal):
        value = value_text(_value(condition, ad, draft))
        evidence = draft.record_evaluation(
            expression.name, unparse(condition), value, values_read(condition, ad, None, draft.context)
        )
    attribute_expression = parse_cached(job_text) if policy.attribute else None
    limit = None if attribute_expression is None else integer_of(attribute_expression, ad, None, draft.context)
    default_reason = policy.default_reason or (_OWN_REASON if policy.attribute else _SYSTEM_REASON)
    default = default_reason.format(
        name=policy.attribute or policy.setting,
        text=text.strip() if attribute_expression is None else unparse_old(attribute_expression),
        time=format_short(limit or 0),
    )
    reason, subcode = (_reason_expression(draft, expression, suffix) for suffix in ("_REASON", "_SUBCODE"))
    reason_value = None if reason is None else _value(reason, ad, draft)
    number = None if subcode is None else integer_of(subcode, ad, None, draft.context)
    text = reason_value if isinstance(reason_value, str) and reason_value else default
    return PolicyAction(text, number or 0, evidence)


def format_short(seconds: int) -> str:
    """Format an interval like HTCondor's format_time_short: omit leading zero fields other than minutes."""
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}+{hours:02}:{minutes:02}:{seconds:02}"
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"


def _reason_expression(draft: Draft[AccessPoint], expression: PolicyExpression, suffix: str) -> Expression | None:
    """Return the expression of a policy's reason or subcode: an attribute of the job, or a setting with this suffix."""
    if expression.policy.attribute:
        name = expression.policy.reason if suffix == "_REASON" else expression.policy.subcode
        return parse_cached(name) if name else None
    text = draft.state.settings.get(f"{expression.name}{suffix}", "")
    return parse_cached(text) if text.strip() else None


def _value(parsed: Expression, ad: ClassAd, draft: Draft[AccessPoint]) -> object:
    try:
        return parsed.evaluate(ad, None, draft.context)
    except EvaluationError:
        return None


def action_changes(policy: Policy, action: PolicyAction) -> Ad:
    """Return the changes to a job's ad by a policy's action."""
    if policy.row == "hold":
        return hold_reason(StopReason(policy.code, action.subcode, action.reason))
    if policy.row == EVICT:
        return vacate_reason(StopReason(policy.code, action.subcode, action.reason))
    return {"ReleaseReason" if policy.row == "release" else "RemoveReason": quoted(action.reason)}


def _act(draft: Draft[AccessPoint], expression: PolicyExpression, text: str, group: _JobGroup) -> None:
    """Act on jobs for which the policy is true. Jobs with equal values of the attributes it reads share one action."""
    cluster, policy, status = group.cluster, expression.policy, group.status
    reasons = (_reason_expression(draft, expression, suffix) for suffix in ("_REASON", "_SUBCODE"))
    reads = [parsed for parsed in (parse_cached(text), *reasons) if parsed]
    procs_by_action: dict[PolicyAction, list[int]] = {}
    for procs in group_alike(cluster, group.procs, attributes_read(reads, cluster, group.procs[0])):
        job_text = cluster.requested_value(procs[0], policy.attribute) if policy.attribute else ""
        action = policy_action(draft, expression, text, job_text, policy_ad(draft, cluster, procs[0]))
        procs_by_action.setdefault(action, []).extend(procs)
    for action, procs in procs_by_action.items():
        procs.sort()
        ad_changes = action_changes(policy, action)
        are_running = status in RUNS
        if policy.row == EVICT:
            end_running_jobs(draft, cluster, procs, ActionReason(policy.cause, action.evidence, ad_changes))
            continue
        extra = vacate_reason(CLAIM_DEACTIVATED) if are_running and not cluster.is_local else {}
        why = ActionReason(policy.cause, action.evidence, extra)
        if policy.row == "hold":
            hold_jobs(draft, cluster, procs, status, ad_changes, why)
        elif policy.row == "release":
            release_jobs(draft, cluster, procs, ad_changes["ReleaseReason"], why)
        else:
            remove_jobs(draft, cluster, procs, status, ad_changes["RemoveReason"], why)


def policy_at_end(
    draft: Draft[AccessPoint], cluster: Cluster, proc: int, status: str, ad: ClassAd
) -> tuple[Policy, PolicyAction] | None:
    """Evaluate a job's policies at the end of a run; return the first one that holds or removes the job."""
    for expression in policy_expressions(draft.state):
        policy = expression.policy
        job_text = cluster.requested_value(proc, policy.attribute) if policy.attribute else ""
        text = expression.text_for(cluster, proc)
        condition = parse_cached(text) if text and policy.row != EVICT and status in policy.statuses else None
        if condition is not None and meets_condition(condition, ad, draft.context):
            return policy, policy_action(draft, expression, text, job_text, ad)
    return None
