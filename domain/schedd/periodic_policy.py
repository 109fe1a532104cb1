"""Periodic policies of idle, running and held jobs: the jobs' own, and the access point's for all jobs.

``POLICIES`` has them in the order in which HTCondor evaluates them (UserPolicy::AnalyzePolicy, user_job_policy.cpp).
For each job the first that is true, or a number other than 0, decides. Undefined or error decides nothing, except for
TimerRemove. A job's PeriodicHold comes before the access point's SYSTEM_PERIODIC_HOLD, whose named expressions come in
the order of SYSTEM_PERIODIC_HOLD_NAMES before the unnamed one; the others likewise.

The access point evaluates all jobs without processes periodically (Scheduler::PeriodicExprHandler). The shadow of a
running job evaluates its policies from the start of its process on (BaseUserPolicy::checkPeriodic). ``policy_times``
decides when.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from ..classad import ClassAd, EvaluationError, Expression, unparse
from ..classad.evidence import integer_of, value_text, values_read
from ..classad.tree import Literal
from ..classad.unparse import unparse_old
from ..decision.draft import Draft
from ..events import Ad
from ..ports.stimuli import EvaluateJobPolicies
from ..state.caches import ad_of, parse_cached
from ..state.cluster import Cluster
from ..state.job_ad import STATUS_NUMBERS, hold_reason, parse_int, quoted, vacate_reason
from ..state.pool_settings import job_limit, listed_names
from ..state.records import RUNS
from ..state.state import AccessPoint
from ..state_machines.hold_codes import CLAIM_DEACTIVATED, StopReason
from .constraints import meets_condition, select_matching
from .job_actions import SPOOLING, ActionReason, hold, release, remove, stop_all
from .policy_kinds import attributes_read, kinds

EVICT: Final = "evict"
"""The row of a job that a policy vacates: the transition comes when its processes have ended."""
_ALL: Final = frozenset(STATUS_NUMBERS) - {"Removed"}
_NOT_HELD: Final = _ALL - {"Held", "Completed"}
_HELD: Final = frozenset({"Held"})
_EXECUTING: Final = frozenset({"Running", "Suspended"})
HELD_BY_USER: Final = "1"
"""The HoldReasonCode of jobs that no policy releases."""


class Policy(Struct, frozen=True):
    """What a job's attribute, or a setting of the access point, may do to a job.

    ``code``: the resulting HoldReasonCode or VacateReasonCode. ``asks``: the expression, if the attribute is only an
    operand of it. ``words``: the reason, with ``name``, ``text`` and a limit's ``time``, unless the attribute
    ``reason`` has another; ``subcode`` is the attribute with the subcode.
    """

    cause: str
    row: str
    statuses: frozenset[str]
    attribute: str = ""
    setting: str = ""
    code: int = 0
    asks: str = ""
    words: str = ""
    reason: str = ""
    subcode: str = ""


_OWN: Final = "The job attribute {name} expression '{text}' evaluated to TRUE"
_SYSTEM: Final = "The system macro {name} expression '{text}' evaluated to TRUE"

POLICIES: Final = (
    Policy(
        "job_duration", "hold", _EXECUTING, "AllowedJobDuration", code=46,
        asks="time() - ShadowBday >= AllowedJobDuration",
        words="The job exceeded allowed job duration of {time}",
    ),
    Policy(
        "execute_duration", "hold", _EXECUTING, "AllowedExecuteDuration", code=47,
        asks="JobCurrentStartExecutingDate >= ShadowBday && time() - AllowedExecuteDuration > "
        "ifThenElse((TransferOutFinished ?: 0) > JobCurrentStartExecutingDate, TransferOutFinished, "
        "JobCurrentStartExecutingDate)",
        words="The job exceeded allowed execute duration of {time}",
    ),
    Policy(
        "periodic_vacate", EVICT, RUNS, "PeriodicVacate", code=1000, words=_OWN,
        reason="PeriodicVacateReason", subcode="PeriodicVacateSubCode",
    ),
    Policy("system_periodic_vacate", EVICT, RUNS, setting="SYSTEM_PERIODIC_VACATE", code=1001, words=_SYSTEM),
    Policy(
        "timer_undefined", "hold", RUNS, "TimerRemove", code=5,
        asks="isUndefined(TimerRemove) || isError(TimerRemove) || isString(TimerRemove)",
        words="The job attribute {name} expression '{text}' evaluated to UNDEFINED",
    ),
    Policy(
        "timer_remove", "remove", _ALL, "TimerRemove", words=_OWN,
        asks="TimerRemove >= 0 && TimerRemove < time()",
    ),
    Policy(
        "periodic_hold", "hold", _NOT_HELD, "PeriodicHold", code=3, words=_OWN,
        reason="PeriodicHoldReason", subcode="PeriodicHoldSubCode",
    ),
    Policy("system_periodic_hold", "hold", _NOT_HELD, setting="SYSTEM_PERIODIC_HOLD", code=26, words=_SYSTEM),
    Policy(
        "periodic_release", "release", _HELD, "PeriodicRelease", words=_OWN,
        reason="PeriodicReleaseReason", subcode="PeriodicReleaseSubCode",
    ),
    Policy("system_periodic_release", "release", _HELD, setting="SYSTEM_PERIODIC_RELEASE", words=_SYSTEM),
    Policy(
        "periodic_remove", "remove", _ALL, "PeriodicRemove", words=_OWN,
        reason="PeriodicRemoveReason", subcode="PeriodicRemoveSubCode",
    ),
    Policy("system_periodic_remove", "remove", _ALL, setting="SYSTEM_PERIODIC_REMOVE", words=_SYSTEM),
)  # fmt: skip
"""The policies, in the order of evaluation."""
BY_CAUSE: Final = {policy.cause: policy for policy in POLICIES}
ATTRIBUTES: Final = tuple(dict.fromkeys(policy.attribute for policy in POLICIES if policy.attribute))
"""The job attributes with such policies."""
_OWN_NAMES: Final = frozenset(name.lower() for name in ATTRIBUTES)
_SYSTEMS: Final = tuple(policy for policy in POLICIES if policy.setting)
_SETTINGS: Final = frozenset(f"{policy.setting}{end}" for policy in _SYSTEMS for end in ("", "_NAMES"))


class Question(Struct, frozen=True):
    """One expression of a policy. ``name``: its setting, for example SYSTEM_PERIODIC_HOLD_Large, or its attribute;
    ``text``: the expression, of a setting or of ``Policy.asks``; empty: each job has its own."""

    policy: Policy
    name: str
    text: str = ""


def questions(state: AccessPoint) -> list[Question]:
    """Return all policy expressions, in the order of evaluation."""
    policies: list[Question] = []
    for policy in POLICIES:
        if policy.attribute:
            policies.append(Question(policy, policy.attribute, policy.asks))
        elif policy.row != EVICT or state.dialect.evaluates_system_periodic_vacate:
            policies += (Question(policy, name, state.settings[name]) for name in system_names(state.settings, policy))
    return policies


def system_names(settings: Mapping[str, str], policy: Policy) -> list[str]:
    """Return the settings with expressions of one access point policy, in the order of evaluation."""
    named = [f"{policy.setting}_{name}" for name in listed_names(settings, f"{policy.setting}_NAMES")]
    return [name for name in (*named, policy.setting) if settings.get(name, "").strip()]


def concerns(state: AccessPoint, cluster: Cluster) -> bool:
    """Check whether there is any policy for the cluster's jobs."""
    if cluster.has_any_attribute(_OWN_NAMES):
        return True
    return not _SETTINGS.isdisjoint(state.settings) and any(system_names(state.settings, policy) for policy in _SYSTEMS)


# Which jobs are evaluated


class _Group(Struct, frozen=True):
    """Jobs of one cluster in one status with the same policies to evaluate."""

    cluster: Cluster
    status: str
    procs: list[int]


def evaluate_job_policies(draft: Draft[AccessPoint], stimulus: EvaluateJobPolicies) -> None:
    """Evaluate the policies of jobs without processes, by cluster, and of single running jobs."""
    groups = [*_waiting(draft.state, stimulus.clusters), *_running(draft.state, stimulus.running)]
    for question in questions(draft.state):
        groups = list(_asked(draft, question, groups))


def _waiting(state: AccessPoint, clusters: Sequence[int]) -> Iterator[_Group]:
    """Yield the jobs without processes. The access point itself evaluates local universe jobs in any status."""
    running: defaultdict[int, set[int]] = defaultdict(set)
    for number, proc in state.by_job:
        running[number].add(proc)
    for number in clusters:
        cluster = state.clusters.get(number)
        if cluster is None:
            continue
        runs = () if cluster.is_local else running[number]
        for status, byte in STATUS_NUMBERS.items():
            if not cluster.status_counts[byte] or status == "Removed" or (status in RUNS and not cluster.is_local):
                continue
            procs = [proc for proc in cluster.procs(byte.__eq__) if proc not in runs]
            if procs:
                yield _Group(cluster, status, procs)


def _running(state: AccessPoint, jobs: Sequence[tuple[int, int]]) -> Iterator[_Group]:
    """Yield the jobs with processes that no policy is already ending (their shadow no longer evaluates)."""
    for number, proc in jobs:
        activation, cluster = state.by_job.get((number, proc)), state.clusters.get(number)
        if activation is not None and cluster is not None and activation.executing and not activation.vacate_reason:
            status = cluster.status_of(proc)
            if status in RUNS:
                yield _Group(cluster, status, [proc])


def _asked(draft: Draft[AccessPoint], question: Question, groups: list[_Group]) -> Iterator[_Group]:
    """Evaluate one expression for all jobs that it applies to, and act on it; yield the jobs where it is not true."""
    by_text: dict[str, list[_Group]] = {}
    for group in groups:
        if group.status not in question.policy.statuses:
            yield group
            continue
        for text, part in _texts(question, group):
            by_text.setdefault(text, []).append(part)
    for text, parts in by_text.items():
        for part, fired in zip(parts, _fired(draft, question, text, parts), strict=True):
            if fired:
                _act(draft, question, text, _Group(part.cluster, part.status, fired))
            decided = frozenset(fired)
            remaining = [proc for proc in part.procs if proc not in decided] if fired else part.procs
            if remaining:
                yield _Group(part.cluster, part.status, remaining)


def _texts(question: Question, group: _Group) -> Iterator[tuple[str, _Group]]:
    """Split the group by its jobs' texts of the expression; empty: they have none."""
    cluster, policy = group.cluster, question.policy
    if not policy.attribute:
        yield question.text, group
    elif cluster.is_uniform(policy.attribute):
        own = cluster.requested_value(group.procs[0], policy.attribute)
        yield own and (question.text or own), group
    else:
        groups: dict[str, list[int]] = {}
        for proc in group.procs:
            own = cluster.requested_value(proc, policy.attribute)
            groups.setdefault(own and (question.text or own), []).append(proc)
        for text, procs in groups.items():
            yield text, _Group(cluster, group.status, procs)


def _fired(draft: Draft[AccessPoint], question: Question, text: str, groups: list[_Group]) -> list[list[int]]:
    """Return the jobs of each group for which the expression is true and the policy may act."""
    condition = parse_cached(text) if text else None
    if condition is None:
        return [[] for _ in groups]
    if isinstance(condition, Literal):
        true = isinstance(condition.value, int | float) and bool(condition.value)
        procs_of = [group.procs if true else [] for group in groups]
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
    return [_bearing(draft, question.policy, group, procs) for group, procs in zip(groups, procs_of, strict=True)]


def _bearing(draft: Draft[AccessPoint], policy: Policy, group: _Group, procs: list[int]) -> list[int]:
    """Return the jobs that the policy may act on. Jobs that are already being ended are not vacated. Jobs that a user
    holds, or that were held SYSTEM_MAX_RELEASES times, are not released. Jobs that wait for input files are skipped."""
    cluster = group.cluster
    if policy.row == EVICT:
        activations = ((proc, draft.state.by_job.get((cluster.id, proc))) for proc in procs)
        return [proc for proc, activation in activations if activation is not None and not activation.stop]
    if group.status != "Held":
        return procs
    procs = [proc for proc in procs if cluster.value(proc, "HoldReasonCode") != SPOOLING]
    if policy.row != "release":
        return procs
    most = job_limit(draft.state.settings, "SYSTEM_MAX_RELEASES")
    return [
        proc
        for proc in procs
        if cluster.value(proc, "HoldReasonCode") != HELD_BY_USER
        and (most is None or most < 0 or parse_int(cluster.value(proc, "NumHolds")) < most)
    ]


def policy_ad(draft: Draft[AccessPoint], cluster: Cluster, proc: int) -> ClassAd:
    """Return a job's ad for its policies: RemoteWallClockTime includes the current run."""
    return ad_of(with_run_time(cluster.attributes(proc), draft.now))


def with_run_time(ad: Mapping[str, str], now: int) -> Ad:
    """Return the ad with the current run's time added to RemoteWallClockTime (BaseUserPolicy::updateJobTime)."""
    began = parse_int(ad.get("ShadowBday", ""))
    if not began:
        return dict(ad)
    try:
        before = float(ad.get("RemoteWallClockTime", "0"))
    except ValueError:
        before = 0.0
    return {**ad, "RemoteWallClockTime": repr(before + now // 1_000_000 - began)}


# Actions


class PolicyAction(Struct, frozen=True):
    """Why a policy acts on a job: its reason, its subcode, and its evidence in the log."""

    reason: str
    subcode: int = 0
    evidence: int = 0


def verdict(draft: Draft[AccessPoint], question: Question, text: str, own: str, ad: ClassAd) -> PolicyAction:
    """Return the reason for an expression that is true. ``text``: the expression; ``own``: the job's attribute."""
    condition, policy = parse_cached(text), question.policy
    assert condition is not None
    evidence = 0
    if not isinstance(condition, Literal):
        value = value_text(_value(condition, ad, draft))
        evidence = draft.note(question.name, unparse(condition), value, values_read(condition, ad, None, draft.context))
    shown = parse_cached(own) if policy.attribute else None
    limit = None if shown is None else integer_of(shown, ad, None, draft.context)
    default = policy.words.format(
        name=policy.attribute or policy.setting,
        text=text.strip() if shown is None else unparse_old(shown),
        time=in_short(limit or 0),
    )
    reason, subcode = (_extra(draft, question, part) for part in ("_REASON", "_SUBCODE"))
    said = None if reason is None else _value(reason, ad, draft)
    number = None if subcode is None else integer_of(subcode, ad, None, draft.context)
    return PolicyAction(said if isinstance(said, str) and said else default, number or 0, evidence)


def in_short(seconds: int) -> str:
    """Format an interval like HTCondor's format_time_short: without leading zero fields, except for minutes."""
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}+{hours:02}:{minutes:02}:{seconds:02}"
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"


def _extra(draft: Draft[AccessPoint], question: Question, part: str) -> Expression | None:
    """Return the expression of a policy's reason or subcode. For a job's policy it is an attribute (PeriodicHoldReason
    for example)."""
    if question.policy.attribute:
        name = question.policy.reason if part == "_REASON" else question.policy.subcode
        return parse_cached(name) if name else None
    text = draft.state.settings.get(f"{question.name}{part}", "")
    return parse_cached(text) if text.strip() else None


def _value(meaning: Expression, ad: ClassAd, draft: Draft[AccessPoint]) -> object:
    try:
        return meaning.evaluate(ad, None, draft.context)
    except EvaluationError:
        return None


def changes(policy: Policy, action: PolicyAction) -> Ad:
    """Return the changes of a job's ad by a policy's action."""
    if policy.row == "hold":
        return hold_reason(StopReason(policy.code, action.subcode, action.reason))
    if policy.row == EVICT:
        return vacate_reason(StopReason(policy.code, action.subcode, action.reason))
    return {"ReleaseReason" if policy.row == "release" else "RemoveReason": quoted(action.reason)}


def _act(draft: Draft[AccessPoint], question: Question, text: str, group: _Group) -> None:
    """Act on the jobs that the policy is true for; jobs that are alike in what it reads share one action."""
    cluster, policy, status = group.cluster, question.policy, group.status
    reads = [
        one for one in (parse_cached(text), *(_extra(draft, question, part) for part in ("_REASON", "_SUBCODE"))) if one
    ]
    alike: dict[PolicyAction, list[int]] = {}
    for procs in kinds(cluster, group.procs, attributes_read(reads, cluster, group.procs[0])):
        own = cluster.requested_value(procs[0], policy.attribute) if policy.attribute else ""
        action = verdict(draft, question, text, own, policy_ad(draft, cluster, procs[0]))
        alike.setdefault(action, []).extend(procs)
    for action, procs in alike.items():
        procs.sort()
        changed = changes(policy, action)
        runs = status in RUNS
        if policy.row == EVICT:
            stop_all(draft, cluster, procs, ActionReason(policy.cause, action.evidence, changed))
            continue
        why = ActionReason(
            policy.cause, action.evidence, vacate_reason(CLAIM_DEACTIVATED) if runs and not cluster.is_local else {}
        )
        if policy.row == "hold":
            hold(draft, cluster, procs, status, changed, why)
        elif policy.row == "release":
            release(draft, cluster, procs, changed["ReleaseReason"], why)
        else:
            remove(draft, cluster, procs, status, changed["RemoveReason"], why)


def at_end(
    draft: Draft[AccessPoint], cluster: Cluster, proc: int, status: str, ad: ClassAd
) -> tuple[Policy, PolicyAction] | None:
    """Evaluate again at the end of a run, before its policy; return the first that holds or removes the job."""
    for question in questions(draft.state):
        policy = question.policy
        own = cluster.requested_value(proc, policy.attribute) if policy.attribute else ""
        text = question.text if not policy.attribute else own and (question.text or own)
        condition = parse_cached(text) if text and policy.row != EVICT and status in policy.statuses else None
        if condition is not None and meets_condition(condition, ad, draft.context):
            return policy, verdict(draft, question, text, own, ad)
    return None
