"""Job sets: the clusters of an owner with the same JobSetName.

With USE_JOBSETS, each job of a set has a JobSetId: the number of the cluster that began the set. A set ends when its
last cluster leaves the queue; the next cluster with its name begins a new one. Names are compared without case. A set
has the attributes of the ``JOBSET.`` commands of its clusters; later clusters override earlier ones.

Source: jobsets.cpp, QmgmtHandleSendJobsetAd, AddImplicitJobsets and SetAttribute (qmgmt.cpp) of HTCondor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..decision.draft import Draft, Refusal
from ..events import Ad
from ..state.job_ad import SET_ID, SET_NAME, set_of
from ..state.pool_settings import USE_JOBSETS
from ..state.state import AccessPoint
from .job_edits import SECURE, protection_of


def in_job_set(draft: Draft[AccessPoint], user: str, number: int, ad: Ad) -> Ad:
    """Return the ad of a new cluster with the id of its job set, if it has one."""
    if draft.state.settings.get(USE_JOBSETS, "false").lower() != "true":
        return ad
    if any(name.lower() == SET_ID.lower() for name in ad):
        raise Refusal(f"{SET_ID} cannot be set: the access point numbers job sets; use jobset = NAME")
    owner, name = set_of(ad, user)
    if not name:
        return ad
    ids = draft.state.job_sets.get((owner, name), {}).values()
    return {**ad, SET_ID: next(iter(ids), str(number))}


_RESERVED: Final = frozenset({SET_NAME.lower(), SET_ID.lower(), "owner", "user"})
"""Attributes that the access point alone sets; a submission's values are ignored, as in HTCondor."""


def job_set_attributes(settings: Mapping[str, str], ad: Ad, job_set: Ad) -> Ad:
    """Return the attributes that a submission gives the job set of its cluster, whose ad has the set's id."""
    if SET_ID not in ad:
        return {}
    if secure := [name for name in job_set if protection_of(name, settings) == SECURE]:
        raise Refusal(f"Failed to submit jobset: only the access point sets {secure[0]}; leave JOBSET.{secure[0]} out")
    return {name: text for name, text in job_set.items() if name.lower() not in _RESERVED}
