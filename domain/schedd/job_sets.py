"""Job sets: the clusters of an owner with the same JobSetName.

With USE_JOBSETS, each job of a set has a JobSetId: the number of the cluster that began the set. A set ends when its
last cluster leaves the queue; the next cluster with its name begins a new one. Names are compared without case.

Source: jobsets.cpp, AddImplicitJobsets and SetAttribute (qmgmt.cpp) of HTCondor.
"""

from __future__ import annotations

from typing import Final

from ..decision.draft import Draft, Refusal
from ..events import Ad
from ..state.job_ad import unquoted
from ..state.state import AccessPoint

SET_NAME: Final = "JobSetName"
SET_ID: Final = "JobSetId"


def in_job_set(draft: Draft[AccessPoint], user: str, number: int, ad: Ad) -> Ad:
    """Return the ad of a new cluster with the id of its job set, if it has one."""
    if draft.state.settings.get("USE_JOBSETS", "false").lower() != "true":
        return ad
    if any(name.lower() == SET_ID.lower() for name in ad):
        raise Refusal(f"{SET_ID} cannot be set: the access point numbers job sets; use jobset = NAME")
    name = _set_name(ad)
    if not name:
        return ad
    ids = (
        cluster.ad[SET_ID]
        for cluster in draft.state.clusters.values()
        if SET_ID in cluster.ad and draft.state.owner(cluster) == user and _set_name(cluster.ad) == name
    )
    return {**ad, SET_ID: next(ids, str(number))}


def _set_name(ad: Ad) -> str:
    return next((unquoted(text).lower() for name, text in ad.items() if name.lower() == SET_NAME.lower()), "")
