"""The access point's own matching: whether one of its jobs fits a slot that it has claimed already."""

from __future__ import annotations

from collections.abc import Callable

from ..classad import ClassAd, symmetric_match
from ..decision.draft import Draft
from ..negotiator.autoclusters import Signature, words
from ..negotiator.negotiator_settings import settings_of
from ..startd.slot_ad import ad_at, compiled_ad, read_by_match
from ..startd.slot_policy_evaluation import policy_of
from ..state.job_limits import evaluated
from ..state.state import Slot

_FITS_KEPT = 10_000


class _Fits(dict[tuple[Signature, str, int, int], bool]):
    """By the job's signature, the slot's name and version, and the second."""


def fits(draft: Draft, slot: Slot, job: Callable[[], ClassAd], signature: Signature) -> bool:
    """Return whether job and slot accept each other now. The answer for jobs alike is kept for this second, and the
    job's ad is not put together for it."""
    kept = draft.caches.of(_Fits)
    key = (signature, slot.name, slot.version, draft.now // 1_000_000)
    found = kept.get(key)
    if found is None:
        if len(kept) >= _FITS_KEPT:
            kept.clear()
        slot_now = slot_ad(draft, slot, words(signature))
        found = kept[key] = symmetric_match(job(), slot_now, draft.context)
    return found


def takes_the_same(draft: Draft, slot: Slot, wish: str, job: Callable[[], ClassAd], signature: Signature) -> bool:
    """Return whether a job takes of concurrency limits what the slot's claim holds: else the claim is none for it. As
    in the reference, the text has to be the same (CLAIM_RECYCLING_CONSIDER_LIMITS).

    :param wish: the job's ConcurrencyLimits, as it stands in its ad
    """
    holds = "" if slot.claim is None else slot.claim.limits
    if not (wish or holds) or not settings_of(draft.state, draft.caches).considers_limits:
        return True
    takes = evaluated(job(), slot_ad(draft, slot, words(signature)), draft.context) if wish else ""
    return takes.lower() == holds.lower()


def slot_ad(draft: Draft, slot: Slot, also: frozenset[str]) -> ClassAd:
    """The ad of a slot at this moment as a match sees it: with the attributes of the moment that its own expressions
    read, and those of ``also``. While its machine drains, START is what the drain says."""
    policy = policy_of(draft, slot)
    found = policy.matched.get(also)
    if found is None:
        names = read_by_match(compiled_ad(draft.state, slot, draft.caches), also | _ALWAYS_READ)
        found = policy.matched[also] = ad_at(policy.snapshot(), only=names)
    return found


_ALWAYS_READ = frozenset({"state", "activity"})
