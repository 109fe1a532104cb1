"""Compute when jobs may start: from their deferral times, and from the schedules (``crontab``) that set these.

A deferred job can be matched from ScheddInterval plus DeferralPrepTime before its deferral time, as its Requirements
state. The job then waits on its slot with status Running. If it misses its DeferralWindow, it is held.

Source: the manual's "Time Scheduling for Job Execution"; HTCondor's Scheduler::calculateCronTabSchedule and
Starter::jobWaitUntilExecuteTime.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import tzinfo
from functools import lru_cache
from typing import Final

from msgspec import Struct

from ..classad import ClassAd, Context, EvaluationError, Expression
from ..classad.analysis import clauses, references_or_empty
from ..classad.matching import is_satisfied
from ..classad.next_change import POLL, next_change
from ..classad.tree import Literal
from ..classad.value_evidence import integer_of
from ..decision.draft import Draft, ranges
from ..events import JobsDeferred
from ..ports.stimuli import ScheduleJobs
from ..state.caches import ad_from_attributes, parse_cached
from ..state.cluster import IDLE, Cluster
from ..state.deferrals import INVALID_TIME, transfers_files
from ..state.job_ad import DEFERRAL_TIME, hold_reason, parse_int
from ..state.state import AccessPoint
from ..state_machines.hold_codes import StopReason
from ..units import SECOND
from .crontab import ATTRIBUTES, InvalidCronTab, parse_crontab
from .waiting_claims import withdraw_better_matches

INVALID_CRON_SETTINGS: Final = 25
"""HoldReasonCode of a job with an invalid schedule."""


# Schedules


def has_schedule(cluster: Cluster, proc: int) -> bool:
    return any(cluster.requested_value(proc, name) for name in ATTRIBUTES)


def schedule_runs(draft: Draft[AccessPoint], cluster: Cluster, procs: Sequence[int]) -> None:
    """Set the next start of these idle jobs from their schedules; hold jobs with invalid schedules. Withdraw pending
    preempting claims for these jobs, because the claims were made for another start."""
    groups: dict[tuple[str | None, ...], list[int]] = {}
    is_uniform = bool(procs) and all(cluster.is_uniform(name) for name in ATTRIBUTES)
    if is_uniform:
        if has_schedule(cluster, procs[0]):
            groups[_schedule_texts(draft, cluster, procs[0])] = list(procs)
    else:
        for proc in procs:
            if has_schedule(cluster, proc):
                groups.setdefault(_schedule_texts(draft, cluster, proc), []).append(proc)
    for texts, group in groups.items():
        try:
            extends_weekdays = draft.state.dialect.extends_cron_days_of_week
            start = parse_crontab(texts).next_run(
                draft.now // SECOND, draft.context.utc_offset, extends_weekdays=extends_weekdays
            )
        except InvalidCronTab as error:
            procs_by_holds: dict[int, list[int]] = {}
            for proc in group:
                procs_by_holds.setdefault(parse_int(cluster.value(proc, "NumSystemHolds") or ""), []).append(proc)
            for system_holds, procs_to_hold in procs_by_holds.items():
                reason = StopReason(INVALID_CRON_SETTINGS, 0, f"Invalid cron schedule parameters: {error}")
                changes = {"NumSystemHolds": str(system_holds + 1), **hold_reason(reason)}
                draft.move_jobs(cluster, ranges(procs_to_hold), "hold", "invalid_schedule", "Idle", changes)
        else:
            group = [proc for proc in group if cluster.value(proc, DEFERRAL_TIME) != str(start)]
            if group:
                draft.emit(JobsDeferred(*draft.header("scheduled"), cluster.id, ranges(group), start * SECOND))
        withdraw_better_matches(draft, cluster.id, group)


def _schedule_texts(draft: Draft[AccessPoint], cluster: Cluster, proc: int) -> tuple[str | None, ...]:
    """Return the texts of a job's schedule. A value that is not a string is treated as missing."""
    return tuple(_string_value(draft, cluster, proc, cluster.requested_value(proc, name)) for name in ATTRIBUTES)


def _string_value(draft: Draft[AccessPoint], cluster: Cluster, proc: int, text: str) -> str | None:
    parsed = parse_cached(text) if text else None
    if parsed is None:
        return None
    if isinstance(parsed, Literal):
        value = parsed.value
    else:
        try:
            value = parsed.evaluate(ad_from_attributes(cluster.attributes(proc)), None, draft.context)
        except EvaluationError:
            return None
    return value if isinstance(value, str) else None


def schedule_jobs(draft: Draft[AccessPoint], stimulus: ScheduleJobs) -> None:
    """Set the next start of those idle jobs whose time and window are past; with ``reschedule_all``, of all jobs."""
    for number, proc_ranges in stimulus.jobs:
        cluster = draft.state.clusters.get(number)
        if cluster is None:
            continue
        procs = [proc for first, last in proc_ranges for proc in range(first, min(last, cluster.count - 1) + 1)]
        idle = [proc for proc in procs if cluster.status[proc] == IDLE]
        to_schedule = idle if stimulus.reschedule_all else [proc for proc in idle if is_time_past(draft, cluster, proc)]
        schedule_runs(draft, cluster, to_schedule)


def is_time_past(draft: Draft[AccessPoint], cluster: Cluster, proc: int) -> bool:
    """Check whether a job has no start time, or its start time and window are past."""
    last_second = last_start_second(ad_from_attributes(cluster.attributes(proc)), draft.context)
    return last_second is None or draft.now // SECOND > last_second


def last_start_second(ad: ClassAd, context: Context) -> int | None:
    """Return the last second in which a job with this ad may start, or None if DeferralTime is invalid."""
    time = integer_attribute(ad, DEFERRAL_TIME, context)
    return None if time is None else time + max(0, deferral_window(ad, context))


def deferral_window(ad: ClassAd, context: Context) -> int:
    """Return the number of seconds after its deferral time in which a job may still start."""
    return integer_attribute(ad, "DeferralWindow", context) or 0


def integer_attribute(ad: ClassAd, name: str, context: Context) -> int | None:
    """Return an attribute's value as an integer, or None if it is not a number."""
    parsed = ad.get(name)
    return None if parsed is None else integer_of(parsed, ad, None, context)


# Starting a job


def deferred_start(draft: Draft[AccessPoint], cluster: Cluster, proc: int, slot: Mapping[str, str]) -> int:
    """Return the time, in microseconds, until which a job's process is deferred if the job is activated now on a slot
    with this ad (empty: it needs no slot), or 0 if it is not deferred. If the time and window are past, the job has
    missed it. A job whose files are transferred first may still miss its window."""
    return deferred_start_at(cluster, proc, slot, draft.now, draft.context.timezone)


def deferred_start_at(cluster: Cluster, proc: int, slot: Mapping[str, str], instant: int, zone: tzinfo) -> int:
    """Return ``deferred_start`` for a job that is activated at the given time."""
    if not cluster.requested_value(proc, DEFERRAL_TIME):
        return 0
    attributes = cluster.attributes(proc)
    ad = ad_from_attributes(attributes)
    context = Context(now=instant // SECOND, seed=instant // SECOND, timezone=zone)
    time, now = integer_attribute(ad, DEFERRAL_TIME, context), instant // SECOND
    if time is None or time <= 0:
        return INVALID_TIME
    in_time = time <= now <= time + deferral_window(ad, context)
    return 0 if in_time and not (slot and transfers_files(attributes, slot)) else time * SECOND


# Jobs that cannot be matched yet


class Sleep(Struct, frozen=True):
    """A job that cannot match any slot before ``until``, in seconds; None: time alone does not change this."""

    until: int | None


def unmatchable_until(cluster: Cluster, proc: int, now: int, zone: tzinfo) -> Sleep | None:
    """Return until when a job cannot match any slot, or None if it can match now.

    :param now: in microseconds
    """
    requirements = cluster.requested_value(proc, "Requirements")
    if not clock_clauses(requirements):
        return None
    return clauses_false_until(requirements, ad_from_attributes(cluster.attributes(proc)), now, zone)


def clauses_false_until(requirements: str, ad: ClassAd, now: int, zone: tzinfo) -> Sleep | None:
    """Return until when a clause of Requirements that reads no slot stays false for this ad, or None if none is false
    now."""
    second = now // SECOND
    context = Context(now=second, seed=second, timezone=zone)
    false_clauses = [part for part in clock_clauses(requirements) if not _may_be_true(part, ad, context)]
    changes = [next_change(part, ad, None, context) for part in false_clauses]
    if not changes or POLL in changes:
        return None
    instants = [change for change in changes if isinstance(change, int)]
    return Sleep(max(instants) if len(instants) == len(changes) else None)


def _may_be_true(part: Expression, ad: ClassAd, context: Context) -> bool:
    """Check whether a clause of Requirements is true, or could be true with some slot."""
    try:
        if part.references(ad).external:
            return True
        return is_satisfied(part.evaluate(ad, None, context))
    except EvaluationError:
        return False


@lru_cache(1000)
def clock_clauses(requirements: str) -> tuple[Expression, ...]:
    """Return those clauses of a conjunction that read the clock."""
    if "time" not in requirements.lower():
        return ()
    condition = parse_cached(requirements)
    return () if condition is None else tuple(part for part in clauses(condition) if re.search(_CLOCK, str(part)))


_CLOCK: Final = r"(?i)time\(\)|currenttime"


def attributes_read_by_time(requirements: str, ad: ClassAd) -> Iterable[str]:
    """Return the job attributes that the clock clauses read, and the attributes that limit when the job may start."""
    names = {name for part in clock_clauses(requirements) for name in references_or_empty(part, ad).internal}
    return names | {"Requirements", "DeferralWindow", *ATTRIBUTES}
