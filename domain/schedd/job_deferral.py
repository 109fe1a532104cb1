"""When jobs may begin: their deferral times, and the schedules (``parse_crontab``) that set them.

By its Requirements, a deferred job can be matched from ScheddInterval and DeferralPrepTime before its time on. On its
slot it waits for the time, with status Running. A job that is later than its DeferralWindow allows is held.

Source: the manual's "Time Scheduling for Job Execution"; HTCondor's Scheduler::calculateCronTabSchedule and
Starter::jobWaitUntilExecuteTime.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import tzinfo
from functools import lru_cache
from typing import Final

from msgspec import Struct

from ..classad import ClassAd, Context, EvaluationError, Expression
from ..classad.analysis import clauses, references_or_empty
from ..classad.evidence import integer_of
from ..classad.matching import is_satisfied
from ..classad.next_change import POLL, next_change
from ..classad.tree import Literal
from ..decision.draft import Draft, ranges
from ..events import Ad, JobsDeferred
from ..ports.stimuli import ScheduleJobs
from ..state.caches import ad_of, parse_cached
from ..state.cluster import IDLE, Cluster
from ..state.job_ad import DEFERRAL_TIME, parse_int, quoted
from ..state.state import AccessPoint
from ..units import SECOND
from .crontab import ATTRIBUTES, InvalidCronTab, parse_crontab
from .waiting_claims import withdraw_better_matches

NO_TIME: Final = 1
"""The deferral of an activation with an invalid DeferralTime: the first instant, which is always missed."""
INVALID_CRON_SETTINGS: Final = "25"
"""HoldReasonCode of a job with an invalid schedule."""


# Schedules


def has_schedule(cluster: Cluster, proc: int) -> bool:
    return any(cluster.requested_value(proc, name) for name in ATTRIBUTES)


def schedule(draft: Draft[AccessPoint], cluster: Cluster, procs: Sequence[int]) -> None:
    """Set the next time of these idle jobs if they have a schedule, and hold them if the schedule is invalid. A better
    match that waits for one of them is withdrawn: it is for another time."""
    groups: dict[tuple[str | None, ...], list[int]] = {}
    alike = bool(procs) and all(cluster.is_uniform(name) for name in ATTRIBUTES)
    if alike:
        if has_schedule(cluster, procs[0]):
            groups[_texts(draft, cluster, procs[0])] = list(procs)
    else:
        for proc in procs:
            if has_schedule(cluster, proc):
                groups.setdefault(_texts(draft, cluster, proc), []).append(proc)
    for texts, group in groups.items():
        try:
            slips = draft.state.dialect.extends_cron_days_of_week
            instant = parse_crontab(texts).next_run(draft.now // SECOND, draft.context.utc_offset, slips_days=slips)
        except InvalidCronTab as error:
            before: dict[int, list[int]] = {}
            for proc in group:
                before.setdefault(parse_int(cluster.value(proc, "NumSystemHolds") or ""), []).append(proc)
            for holds, those in before.items():
                changes = _held(str(error), holds + 1)
                draft.move_jobs(cluster, ranges(those), "hold", "invalid_schedule", "Idle", changes)
        else:
            group = [proc for proc in group if cluster.value(proc, DEFERRAL_TIME) != str(instant)]
            if group:
                draft.emit(JobsDeferred(*draft.why("scheduled"), cluster.id, ranges(group), instant * SECOND))
        withdraw_better_matches(draft, cluster.id, group)


def _held(error: str, holds: int) -> Ad:
    return {
        "NumSystemHolds": str(holds),
        "HoldReason": quoted(f"Invalid cron schedule parameters: {error}"),
        "HoldReasonCode": INVALID_CRON_SETTINGS,
        "HoldReasonSubCode": "0",
    }


def _texts(draft: Draft[AccessPoint], cluster: Cluster, proc: int) -> tuple[str | None, ...]:
    """Return the texts of a job's schedule. A value that is not a string counts as missing."""
    return tuple(_string(draft, cluster, proc, cluster.requested_value(proc, name)) for name in ATTRIBUTES)


def _string(draft: Draft[AccessPoint], cluster: Cluster, proc: int, text: str) -> str | None:
    meaning = parse_cached(text) if text else None
    if meaning is None:
        return None
    if isinstance(meaning, Literal):
        value = meaning.value
    else:
        try:
            value = meaning.evaluate(ad_of(cluster.attributes(proc)), None, draft.context)
        except EvaluationError:
            return None
    return value if isinstance(value, str) else None


def schedule_jobs(draft: Draft[AccessPoint], stimulus: ScheduleJobs) -> None:
    """Read the schedules of these idle jobs again if their time and window are past, or of all idle jobs."""
    for number, several in stimulus.jobs:
        cluster = draft.state.clusters.get(number)
        if cluster is None:
            continue
        procs = [proc for first, last in several for proc in range(first, min(last, cluster.count - 1) + 1)]
        idle = [proc for proc in procs if cluster.status[proc] == IDLE]
        again = idle if stimulus.reschedule_all else [proc for proc in idle if is_past(draft, cluster, proc)]
        schedule(draft, cluster, again)


def is_past(draft: Draft[AccessPoint], cluster: Cluster, proc: int) -> bool:
    """Check whether a job has no time, or its time and window are past."""
    expires = expiry(ad_of(cluster.attributes(proc)), draft.context)
    return expires is None or draft.now // SECOND > expires


def expiry(ad: ClassAd, context: Context) -> int | None:
    """Return the last second in which a job with this ad may begin; None: its DeferralTime is not valid."""
    time = whole_of(ad, DEFERRAL_TIME, context)
    return None if time is None else time + max(0, window(ad, context))


def window(ad: ClassAd, context: Context) -> int:
    """Return how many seconds after its time a job may still begin."""
    return whole_of(ad, "DeferralWindow", context) or 0


def whole_of(ad: ClassAd, name: str, context: Context) -> int | None:
    """Return an attribute's value as an integer; None: it is not a number."""
    meaning = ad.get(name)
    return None if meaning is None else integer_of(meaning, ad, None, context)


# A job that begins


def deferral(draft: Draft[AccessPoint], cluster: Cluster, proc: int) -> int:
    """Return until when the start of a job's process is deferred if it is activated now, in microseconds; 0: not
    deferred. A time in the past has been missed."""
    return deferral_at(cluster, proc, draft.now, draft.context.timezone)


def deferral_at(cluster: Cluster, proc: int, at: int, zone: tzinfo) -> int:
    """Return the same for an activation at this instant."""
    if not cluster.requested_value(proc, DEFERRAL_TIME):
        return 0
    ad = ad_of(cluster.attributes(proc))
    context = Context(now=at // SECOND, seed=at // SECOND, timezone=zone)
    time, now = whole_of(ad, DEFERRAL_TIME, context), at // SECOND
    if time is None or time <= 0:
        return NO_TIME
    in_time = time <= now <= time + window(ad, context)
    return 0 if in_time else time * SECOND


# Jobs that cannot be matched yet


class Sleep(Struct, frozen=True):
    """A job cannot be matched with any slot before ``until``, in seconds; None: not by the time alone."""

    until: int | None


def sleeps(cluster: Cluster, proc: int, now: int, zone: tzinfo) -> Sleep | None:
    """Return for how long a job cannot be matched with any slot; None: it can be.

    :param now: in microseconds
    """
    requirements = cluster.requested_value(proc, "Requirements")
    return asleep(requirements, ad_of(cluster.attributes(proc)), now, zone) if timed_parts(requirements) else None


def asleep(requirements: str, ad: ClassAd, now: int, zone: tzinfo) -> Sleep | None:
    """Return for how long a clause of these Requirements that reads no slot is false for a job with this ad; None:
    there is none."""
    second = now // SECOND
    context = Context(now=second, seed=second, timezone=zone)
    false = [part for part in timed_parts(requirements) if not _holds(part, ad, context)]
    changes = [next_change(part, ad, None, context) for part in false]
    if not changes or POLL in changes:
        return None
    known = [change for change in changes if isinstance(change, int)]
    return Sleep(max(known) if len(known) == len(changes) else None)


def _holds(part: Expression, ad: ClassAd, context: Context) -> bool:
    """Check whether a clause of Requirements is true, or may be true with a slot."""
    try:
        if part.references(ad).external:
            return True
        return is_satisfied(part.evaluate(ad, None, context))
    except EvaluationError:
        return False


@lru_cache(1000)
def timed_parts(requirements: str) -> tuple[Expression, ...]:
    """Return the clauses of a conjunction that name the clock."""
    if "time" not in requirements.lower():
        return ()
    condition = parse_cached(requirements)
    return () if condition is None else tuple(part for part in clauses(condition) if _names_clock(part))


def _names_clock(part: Expression) -> bool:
    text = str(part).lower()
    return "time()" in text or "currenttime" in text


def names_read(requirements: str, ad: ClassAd) -> Iterable[str]:
    """Return the attributes of a job that these clauses read, and those that limit when it may begin."""
    read = {name for part in timed_parts(requirements) for name in references_or_empty(part, ad).internal}
    return read | {"Requirements", "DeferralWindow", *ATTRIBUTES}
