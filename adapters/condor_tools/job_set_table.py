"""The ads of job sets, for ``q -jobset`` and ``htcondor jobset``: computed from the jobs in the queue, and the
attributes that their submissions gave the set.

Source: JobQueueJobSet and LiveJobCounters (qmgmt.h) of HTCondor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from ...domain.state.cluster import SCHEDULER_UNIVERSE
from .cells import COMPLETED, HELD, IDLE, REMOVED, RUNNING, SUSPENDED, TRANSFERRING_OUTPUT, number

if TYPE_CHECKING:
    from ...domain.classad import ClassAd

_COUNTS: Final = {
    IDLE: "Idle", RUNNING: "Running", TRANSFERRING_OUTPUT: "Running", REMOVED: "Removed", COMPLETED: "Completed",
    HELD: "Held", SUSPENDED: "Suspended",
}  # fmt: skip
_COUNTED: Final = tuple(dict.fromkeys(_COUNTS.values()))


def job_set_ads(jobs: Iterable[ClassAd], attributes: Mapping[int, Mapping[str, str]]) -> list[ClassAd]:
    """Return the ad of each job set with jobs among these, sorted by its id.

    :param attributes: the attributes that submissions gave to job sets, by the set's id
    """
    from ...domain.state.caches import ad_from_attributes

    members: dict[int, list[ClassAd]] = {}
    for job in jobs:
        if (set_id := number(job, "JobSetId")) is not None:
            members.setdefault(int(set_id), []).append(job)
    ads = []
    for set_id, ads_of_set in sorted(members.items()):
        first = min(ads_of_set, key=lambda job: int(number(job, "ClusterId") or 0))
        common = {name: first.eval(name) for name in ("JobSetName", "Owner", "User")}
        clusters = {number(job, "ClusterId") for job in ads_of_set}
        ad = {"MyType": "JobSet", "JobSetId": set_id, **common, "RefCount": len(clusters) + len(ads_of_set)}
        for prefix, is_scheduler in (("Num", False), ("NumScheduler", True)):
            states = [
                int(number(job, "JobStatus") or 0)
                for job in ads_of_set
                if (number(job, "JobUniverse") == int(SCHEDULER_UNIVERSE)) is is_scheduler
            ]
            counts = Counter(_COUNTS[state] for state in states if state in _COUNTS)
            names = [name for name in _COUNTED if not (is_scheduler and name == "Suspended")]
            ad |= {f"{prefix}{name}": counts[name] for name in names}
            ad[f"{prefix}Jobs"] = counts.total()
        set_ad = ad_from_attributes(attributes.get(set_id, {})).copy()
        for name, value in ad.items():
            set_ad[name] = value
        ads.append(set_ad)
    return ads
