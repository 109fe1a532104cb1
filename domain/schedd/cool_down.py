"""The cool-down after a run that ended before its job was done: the job cannot run again for some time.

SYSTEM_ON_VACATE_COOL_DOWN, evaluated in the job's ad, is the length in seconds; SYSTEM_COOLDOWN_DURATION is the
minimum. ``job_processes`` decides after which runs a job cools down. A scheduler universe job instead cools down for
SCHEDULER_UNIVERSE_COOL_DOWN_DURATION seconds after an exit code other than 0. The ad then contains
JobCoolDownExpiration, the last second of the cool-down, and NumJobCoolDowns.

Source: the manual's SYSTEM_ON_VACATE_COOL_DOWN; Scheduler::setJobCoolDown, scheduler_univ_job_exit and jobIsRunnable
(schedd.cpp, qmgmt.cpp) of HTCondor.
"""

from __future__ import annotations

from msgspec.structs import replace

from ..classad import EvaluationError, unparse
from ..classad.value_evidence import truth_of, value_text, values_read
from ..decision.draft import Draft
from ..events import JobExited
from ..state.caches import ad_from_attributes, parse_cached
from ..state.cluster import SCHEDULER_UNIVERSE, Cluster
from ..state.job_ad import COOL_DOWNS, EXPIRATION, ad_at_exit, parse_int
from ..state.pool_settings import schedd_seconds
from ..state.state import AccessPoint
from ..units import SECOND


def cool_down(draft: Draft[AccessPoint], cluster: Cluster, exited: JobExited) -> JobExited | None:
    """Return the end of the run with its cool-down added, or None if this run has no cool-down."""
    if cluster.universe == SCHEDULER_UNIVERSE:
        return _cool_down_after_failure(draft, cluster, exited)
    setting = parse_cached(draft.state.settings.get("SYSTEM_ON_VACATE_COOL_DOWN", "") or "undefined")
    if setting is None:
        return None
    ad = ad_from_attributes(ad_at_exit(cluster.attributes(exited.proc), exited) | exited.changes)
    try:
        value = setting.evaluate(ad, None, draft.context)
    except EvaluationError:
        return None
    if not isinstance(value, int | float) or int(value) <= 0:
        return None
    evidence = draft.record_evaluation(
        "SYSTEM_ON_VACATE_COOL_DOWN", unparse(setting), value_text(value), values_read(setting, ad, None, draft.context)
    )
    cooled = _with_cool_down(
        draft, cluster, exited, max(int(value), schedd_seconds(draft.state.settings, "SYSTEM_COOLDOWN_DURATION"))
    )
    return replace(cooled, cooled=evidence) if exited.row == "requeue" else replace(cooled, evidence=evidence)


def _cool_down_after_failure(draft: Draft[AccessPoint], cluster: Cluster, exited: JobExited) -> JobExited | None:
    seconds = schedd_seconds(draft.state.settings, "SCHEDULER_UNIVERSE_COOL_DOWN_DURATION")
    disabled = parse_cached(cluster.requested_value(exited.proc, "DisableCoolDown") or "false")
    if not exited.code or seconds <= 0:
        return None
    if disabled is not None and truth_of(
        disabled, ad_from_attributes(cluster.attributes(exited.proc)), None, draft.context
    ):
        return None
    return _with_cool_down(draft, cluster, exited, seconds)


def _with_cool_down(draft: Draft[AccessPoint], cluster: Cluster, exited: JobExited, seconds: int) -> JobExited:
    count, until = parse_int(cluster.value(exited.proc, COOL_DOWNS)), draft.now // SECOND + seconds
    return replace(exited, changes=exited.changes | {COOL_DOWNS: str(count + 1), EXPIRATION: str(until)})
