"""The cool-down of a job whose run was interrupted: for so many seconds it does not run again.

The access point's SYSTEM_ON_VACATE_COOL_DOWN says for how many, in the ad of a job whose run has ended before the job
was done. It is not asked of one that was spared a hold by its own transform (``evict_transforms``), nor of one of the
scheduler universe: that rests for SCHEDULER_UNIVERSE_COOL_DOWN_DURATION seconds when it has exited with another code
than 0. The ad then has JobCoolDownExpiration, the last second in which the job rests, and NumJobCoolDowns.

Source: the manual's SYSTEM_ON_VACATE_COOL_DOWN; Scheduler::setJobCoolDown, scheduler_univ_job_exit and jobIsRunnable
(schedd.cpp, qmgmt.cpp) of the reference.
"""

from __future__ import annotations

from attrs import evolve

from ..classad import EvaluationError, unparse
from ..decision.draft import Draft
from ..events import JobCooledDown, JobExited
from ..startd.evaluation import truth, unparsed, values_read
from ..state.cluster import SCHEDULER_UNIVERSE, Cluster
from ..state.expression_cache import ad_of, expression
from ..state.job_ad import COOL_DOWNS, EXPIRATION, at_exit, whole
from ..state.schedd_settings import COOL_DOWN, after_failure
from ..state_machines.hold_codes import goes_on_hold

SECOND = 1_000_000


def cooled(draft: Draft, cluster: Cluster, exited: JobExited) -> JobExited:
    """The end of a run after which the job waits again, with the cool-down that follows, if one does."""
    if cluster.universe == SCHEDULER_UNIVERSE:
        return _failed(draft, cluster, exited)
    asked = expression(draft.state.settings.get(COOL_DOWN, "") or "undefined")
    spared = goes_on_hold(*(whole(exited.changes.get(f"VacateReason{part}", "")) for part in ("Code", "SubCode")))
    if asked is None or exited.outcome == "exited" or exited.row != "evict" or spared:
        return exited
    ad = ad_of(at_exit(cluster.attributes(exited.proc), exited) | exited.changes)
    try:
        value = asked.evaluate(ad, None, draft.context)
    except EvaluationError:
        return exited
    if isinstance(value, bool) or not isinstance(value, int | float) or int(value) <= 0:
        return exited
    read = values_read(asked, ad, None, draft.context)
    evidence = draft.note(COOL_DOWN, unparse(asked), unparsed(value), read)
    return evolve(_resting(draft, cluster, exited, int(value)), evidence=evidence)


def _failed(draft: Draft, cluster: Cluster, exited: JobExited) -> JobExited:
    """The end of a scheduler universe job's run, with the cool-down that follows on its code, whatever else does."""
    seconds = after_failure(draft.state.settings)
    spared = expression(cluster.wish(exited.proc, "DisableCoolDown") or "false")
    if not exited.code or seconds <= 0:
        return exited
    if spared is not None and truth(spared, ad_of(cluster.attributes(exited.proc)), None, draft.context):
        return exited
    return _resting(draft, cluster, exited, seconds)


def _resting(draft: Draft, cluster: Cluster, exited: JobExited, seconds: int) -> JobExited:
    times, until = whole(cluster.value(exited.proc, COOL_DOWNS)), draft.now // SECOND + seconds
    return evolve(exited, changes=exited.changes | {COOL_DOWNS: str(times + 1), EXPIRATION: str(until)})


def end(draft: Draft, cluster: int, proc: int) -> None:
    """The cool-down of a job is over: it may run again."""
    draft.emit(JobCooledDown(*draft.why("cooled_down"), cluster, proc))
