"""How a job goes on when its run is over: the only way back to Idle for a job that ran.

Every end of a run comes here, whatever caused it. A transform of the job (``evict_transforms``) may replace a hold. A
cool-down (``cool_down``) follows each run that another run is to follow, and replaces a hold for a reason that the
execution point or the shadow reported with a code. Other holds are *final*: those by a policy at the end of the run,
those for which the access point itself finds the reason, and those by the starter of a local job (JOB_SHOULD_HOLD).

Source: Scheduler::shadowExitCode (schedd.cpp) of the reference.
"""

from __future__ import annotations

from attrs import evolve

from ..decision.draft import Draft
from ..events import JobExited
from ..state.cluster import SCHEDULER_UNIVERSE, Cluster
from ..state.job_ad import OF_A_HOLD, whole
from ..state_machines.hold_codes import BY_THE_ACCESS_POINT
from .cool_down import cool_down
from .evict_transforms import requests_otherwise
from .job_policy import at_end

AGAIN = frozenset({"evict", "requeue"})
"""The rows after which a job runs again."""


def go_on(draft: Draft, cluster: Cluster, exited: JobExited, row: str) -> JobExited:
    """Return the end of a run with the row by which its job goes on, and all that its ad says of that.

    :param exited: the end, without a row
    :param row: what follows unless the job's policy, its transforms or a cool-down decide otherwise; empty if the job
        was held or removed before
    """
    if row == "complete":
        ending = at_end(draft, cluster, exited)
        exited = evolve(exited, row=ending.row, changes=ending.changes, evidence=ending.evidence)
    else:
        exited = evolve(exited, row=row)
    held, by_code = exited.row == "hold", cluster.universe == SCHEDULER_UNIVERSE
    if held and cluster.transforms_itself(exited.proc) and requests_otherwise(draft, cluster, exited):
        exited = _spared(evolve(exited, evidence=0))
    elif by_code or exited.row in AGAIN or (held and not _is_final(cluster, exited)):
        cooled = cool_down(draft, cluster, exited)
        if cooled is not None:
            exited = _spared(cooled) if held and not by_code else cooled
    if not exited.row:
        return exited
    status = cluster.status_of(exited.proc)
    target = draft.tables.job.fire(status, exited.row)
    return evolve(exited, source=status, target=target, reasons_kept=target == "Held")


def _is_final(cluster: Cluster, exited: JobExited) -> bool:
    """Return whether a hold is one that no cool-down replaces."""
    by_access_point = whole(exited.changes.get("HoldReasonCode", "")) in BY_THE_ACCESS_POINT
    return exited.outcome == "exited" or cluster.local or by_access_point or exited.cause == "deferral_missed"


def _spared(exited: JobExited) -> JobExited:
    """Return the end of a run whose job waits again instead of being held."""
    changes = {name: text for name, text in exited.changes.items() if name not in OF_A_HOLD}
    return evolve(exited, row="evict", changes=changes)
