"""The cool-down of a job whose run was interrupted: for so many seconds it does not run again.

The access point's SYSTEM_ON_VACATE_COOL_DOWN says for how many, in the ad of a job whose run has ended before the job
was done. It is not asked of one that was spared a hold by its own transform (``evict_transforms``), nor of one of the
scheduler universe. The ad then has JobCoolDownExpiration, the last second in which the job rests, and NumJobCoolDowns.

Source: the manual's SYSTEM_ON_VACATE_COOL_DOWN; Scheduler::setJobCoolDown and jobIsRunnable (schedd.cpp, qmgmt.cpp) of
the reference.
"""

from __future__ import annotations

from attrs import evolve

from ..classad import EvaluationError, unparse
from ..decision.draft import Draft
from ..events import JobCooledDown, JobExited
from ..startd.evaluation import unparsed, values_read
from ..state.cluster import SCHEDULER_UNIVERSE, Cluster
from ..state.expression_cache import ad_of, expression
from ..state.job_ad import COOL_DOWNS, EXPIRATION, at_exit, whole
from ..state.schedd_settings import COOL_DOWN
from ..state_machines.hold_codes import goes_on_hold

SECOND = 1_000_000


def cooled(draft: Draft, cluster: Cluster, exited: JobExited) -> JobExited:
    """The end of a run after which the job waits again, with the cool-down that follows, if one does."""
    asked = expression(draft.state.settings.get(COOL_DOWN, "") or "undefined")
    spared = goes_on_hold(*(whole(exited.changes.get(f"VacateReason{part}", "")) for part in ("Code", "SubCode")))
    scheduler = cluster.universe == SCHEDULER_UNIVERSE
    if asked is None or exited.outcome == "exited" or exited.row != "evict" or spared or scheduler:
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
    times = whole(cluster.value(exited.proc, COOL_DOWNS))
    until = draft.now // SECOND + int(value)
    changes = exited.changes | {COOL_DOWNS: str(times + 1), EXPIRATION: str(until)}
    return evolve(exited, changes=changes, evidence=evidence)


def end(draft: Draft, cluster: int, proc: int) -> None:
    """The cool-down of a job is over: it may run again."""
    draft.emit(JobCooledDown(*draft.why("cooled_down"), cluster, proc))
