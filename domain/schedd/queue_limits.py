"""How many jobs the queue takes: MAX_JOBS_SUBMITTED, MAX_JOBS_PER_OWNER, MAX_JOBS_PER_SUBMISSION.

A submission that would come to more is refused as a whole. That of a factory counts no job; the factory makes as many
as there is room for, of its cluster MAX_MATERIALIZED_JOBS_PER_CLUSTER at most. Source: NewCluster, NewProc and
JobMaterializeTimerCallback (qmgmt.cpp) of HTCondor, condor_submit for the words.
"""

from __future__ import annotations

from msgspec import Struct

from ..state.cluster import Cluster
from ..state.pool_settings import job_limit
from ..state.state import AccessPoint


class Exceeded(Struct, frozen=True):
    """A limit that a submission would exceed."""

    setting: str
    limit: int
    there: int  #: how many jobs count for it already
    proc: int  #: the first job that there is no place for

    @property
    def words(self) -> str:
        """What condor_submit says."""
        failed = "Failed to create proc"
        if self.setting == "MAX_JOBS_SUBMITTED" and self.proc == 0:
            failed = f"MAX_JOBS_SUBMITTED exceeded. Current={self.there}, Limit={self.limit}"
        return f"{failed}\nNumber of submitted jobs would exceed {self.setting}"


def exceeded(state: AccessPoint, user: str, count: int) -> Exceeded | None:
    """The limit that a submission of ``count`` further jobs of a user would exceed first; None: there is none."""
    reached: list[Exceeded] = []
    for setting in ("MAX_JOBS_SUBMITTED", "MAX_JOBS_PER_OWNER", "MAX_JOBS_PER_SUBMISSION"):
        most = job_limit(state.settings, setting)
        if most is None:
            continue
        queued = (
            0
            if setting == "MAX_JOBS_PER_SUBMISSION"
            else _in_the_queue(state, "" if setting == "MAX_JOBS_SUBMITTED" else user)
        )
        if queued + count > most:
            reached.append(Exceeded(setting, most, queued, max(0, most - queued)))
    return min(reached, key=lambda one: one.proc, default=None)


FOR_FACTORIES = (
    "MAX_MATERIALIZED_JOBS_PER_CLUSTER",
    "MAX_JOBS_PER_SUBMISSION",
    "MAX_JOBS_SUBMITTED",
    "MAX_JOBS_PER_OWNER",
)
SHARED = ("MAX_JOBS_SUBMITTED", "MAX_JOBS_PER_OWNER")
"""The limits for which the jobs of several clusters count together."""


def most_more(state: AccessPoint, cluster: Cluster) -> int | None:
    """How many further jobs a cluster's factory may have in the queue; None: no limit says so."""
    given = [(name, most) for name in FOR_FACTORIES if (most := job_limit(state.settings, name)) is not None]
    return min((most - _counting(state, cluster, name) for name, most in given), default=None)


def _counting(state: AccessPoint, cluster: Cluster, name: str) -> int:
    """How many jobs count for a limit of the cluster's."""
    if name not in SHARED:
        return cluster.live
    return _in_the_queue(state, "" if name == "MAX_JOBS_SUBMITTED" else state.owner(cluster))


def _in_the_queue(state: AccessPoint, owner: str) -> int:
    """How many jobs there are in the queue, of one owner or (empty) of all."""
    return sum(cluster.live for cluster in state.clusters.values() if not owner or state.owner(cluster) == owner)
