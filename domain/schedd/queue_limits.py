"""Limits on the number of jobs in the queue: MAX_JOBS_SUBMITTED, MAX_JOBS_PER_OWNER, MAX_JOBS_PER_SUBMISSION.

A submission that would exceed a limit is rejected as a whole. Submitting a factory adds no jobs; the factory then
creates as many jobs as the limits and MAX_MATERIALIZED_JOBS_PER_CLUSTER allow. Source: NewCluster, NewProc and
JobMaterializeTimerCallback (qmgmt.cpp) of HTCondor; condor_submit for the messages.
"""

from __future__ import annotations

from msgspec import Struct

from ..state.cluster import Cluster
from ..state.pool_settings import job_limit
from ..state.state import AccessPoint


class ExceededLimit(Struct, frozen=True):
    """A limit that a submission would exceed."""

    setting: str
    limit: int
    queued: int  #: the number of jobs already counted towards the limit
    proc: int  #: the first job of the submission that exceeds the limit

    @property
    def message(self) -> str:
        """Return condor_submit's error message."""
        failed = "Failed to create proc"
        if self.setting == "MAX_JOBS_SUBMITTED" and self.proc == 0:
            failed = f"MAX_JOBS_SUBMITTED exceeded. Current={self.queued}, Limit={self.limit}"
        return f"{failed}\nNumber of submitted jobs would exceed {self.setting}"


def exceeded_limit(state: AccessPoint, user: str, count: int) -> ExceededLimit | None:
    """Return the first limit that a submission of ``count`` jobs by this user would exceed; None if there is none."""
    exceeded_limits: list[ExceededLimit] = []
    for setting in ("MAX_JOBS_SUBMITTED", "MAX_JOBS_PER_OWNER", "MAX_JOBS_PER_SUBMISSION"):
        limit = job_limit(state.settings, setting, state.dialect.setting_defaults)
        if limit is None:
            continue
        queued = (
            0
            if setting == "MAX_JOBS_PER_SUBMISSION"
            else _jobs_in_queue(state, "" if setting == "MAX_JOBS_SUBMITTED" else user)
        )
        if queued + count > limit:
            exceeded_limits.append(ExceededLimit(setting, limit, queued, max(0, limit - queued)))
    return min(exceeded_limits, key=lambda exceeded: exceeded.proc, default=None)


FACTORY_LIMITS = (
    "MAX_MATERIALIZED_JOBS_PER_CLUSTER",
    "MAX_JOBS_PER_SUBMISSION",
    "MAX_JOBS_SUBMITTED",
    "MAX_JOBS_PER_OWNER",
)
SHARED_LIMITS = ("MAX_JOBS_SUBMITTED", "MAX_JOBS_PER_OWNER")
"""The limits that apply to the total of several clusters."""


def max_new_jobs(state: AccessPoint, cluster: Cluster) -> int | None:
    """Return how many more jobs a cluster's factory may create, or None if no limit applies."""
    limits = {name: job_limit(state.settings, name, state.dialect.setting_defaults) for name in FACTORY_LIMITS}
    counted = (limit - _counted_jobs(state, cluster, name) for name, limit in limits.items() if limit is not None)
    return min(counted, default=None)


def _counted_jobs(state: AccessPoint, cluster: Cluster, name: str) -> int:
    """Return the number of jobs that count towards a limit of the cluster."""
    if name not in SHARED_LIMITS:
        return cluster.live
    return _jobs_in_queue(state, "" if name == "MAX_JOBS_SUBMITTED" else state.owner(cluster))


def _jobs_in_queue(state: AccessPoint, owner: str) -> int:
    """Return the number of an owner's jobs in the queue, or of all jobs if ``owner`` is empty."""
    return sum(cluster.live for cluster in state.clusters.values() if not owner or state.owner(cluster) == owner)
