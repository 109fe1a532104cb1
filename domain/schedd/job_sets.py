"""Job sets: the clusters of an owner with the same JobSetName.

With USE_JOBSETS, each job of a set has a JobSetId: the number of the cluster that began the set. A set ends when its
last cluster leaves the queue; the next cluster with its name begins a new one. Names are compared without case.

Source: jobsets.cpp, AddImplicitJobsets and SetAttribute (qmgmt.cpp) of HTCondor.
"""

from __future__ import annotations

from ..decision.draft import Draft, Refusal
from ..events import Ad
from ..state.job_ad import SET_ID, set_of
from ..state.state import AccessPoint


def in_job_set(draft: Draft[AccessPoint], user: str, number: int, ad: Ad) -> Ad:
    """Return the ad of a new cluster with the id of its job set, if it has one."""
    if draft.state.settings.get("USE_JOBSETS", "false").lower() != "true":
        return ad
    if any(name.lower() == SET_ID.lower() for name in ad):
        raise Refusal(f"{SET_ID} cannot be set: the access point numbers job sets; use jobset = NAME")
    owner, name = set_of(ad, user)
    if not name:
        return ad
    ids = draft.state.job_sets.get((owner, name), {}).values()
    return {**ad, SET_ID: next(iter(ids), str(number))}
