"""The access point's own matching: whether one of its jobs fits a slot that it has claimed already."""

from __future__ import annotations

from collections.abc import Callable

from ..classad import ClassAd, symmetric_match
from ..decision.draft import Draft
from ..ports.messages import ShowAd
from ..requests.autoclusters import Signature, words
from ..state.job_limits import evaluated
from ..state.state import AccessPoint

_FITS_KEPT = 10_000
_CONSIDERS_LIMITS = "CLAIM_RECYCLING_CONSIDER_LIMITS"


class _Fits(dict[tuple[Signature, str, int, int], bool]):
    """By the job's signature, the slot's name and version, and the second."""


def fits(draft: Draft[AccessPoint], slot: str, version: int, job: Callable[[], ClassAd], signature: Signature) -> bool:
    """Return whether job and slot accept each other now. The answer for jobs alike is kept for this second, and the
    job's ad is not put together for it.

    :param version: another one when the slot's own ad has changed
    """
    kept = draft.caches.of(_Fits)
    key = (signature, slot, version, draft.now // 1_000_000)
    found = kept.get(key)
    if found is None:
        if len(kept) >= _FITS_KEPT:
            kept.clear()
        slot_now = draft.send(ShowAd(slot, words(signature)))
        found = kept[key] = symmetric_match(job(), slot_now, draft.context)
    return found


def takes_the_same(
    draft: Draft[AccessPoint], slot: str, wish: str, job: Callable[[], ClassAd], signature: Signature
) -> bool:
    """Return whether a job takes of concurrency limits what the slot's claim holds: else the claim is none for it. As
    in the reference, the text has to be the same (CLAIM_RECYCLING_CONSIDER_LIMITS).

    :param wish: the job's ConcurrencyLimits, as it stands in its ad
    """
    holds = draft.state.claims[slot].limits
    if not (wish or holds) or draft.state.settings.get(_CONSIDERS_LIMITS, "true").lower() != "true":
        return True
    takes = evaluated(job(), draft.send(ShowAd(slot, words(signature))), draft.context) if wish else ""
    return takes.lower() == holds.lower()
