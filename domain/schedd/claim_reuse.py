"""The access point's own matching: whether one of its jobs fits a slot that it has claimed already."""

from __future__ import annotations

from ..classad import ClassAd, symmetric_match
from ..decision.draft import Draft
from ..negotiator.autoclusters import Signature, words
from ..negotiator.match_evidence import job_ad
from ..startd.slot_ad import ad_at, compiled_ad, read_by_match, snapshot
from ..state.cluster import Cluster
from ..state.state import Slot

_FITS_KEPT = 10_000


class _Fits(dict[tuple[Signature, str, int, int], bool]):
    """By the job's signature, the slot's name and version, and the second."""


def fits(draft: Draft, slot: Slot, cluster: Cluster, proc: int, signature: Signature) -> bool:
    """Return whether job and slot accept each other now. The answer for jobs alike is kept for this second."""
    kept = draft.caches.of(_Fits)
    key = (signature, slot.name, slot.version, draft.now // 1_000_000)
    found = kept.get(key)
    if found is None:
        if len(kept) >= _FITS_KEPT:
            kept.clear()
        slot_now = slot_ad(draft, slot, words(signature))
        found = kept[key] = symmetric_match(job_ad(cluster, proc), slot_now, draft.context)
    return found


def slot_ad(draft: Draft, slot: Slot, also: frozenset[str]) -> ClassAd:
    """The ad of a slot at this moment as a match sees it: with the attributes of the moment that its own expressions
    read, and those of ``also``. While its machine drains, START is what the drain says."""
    found = snapshot(draft.state, slot, draft.sense, draft.now, draft.context, draft.caches)
    return ad_at(found, only=read_by_match(compiled_ad(draft.state, slot, draft.caches), also | _ALWAYS_READ))


_ALWAYS_READ = frozenset({"state", "activity"})
