"""What prevents each slot from running a job now, although the slot could run it later or with other settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ...domain.classad import ClassAd, Context
from ...domain.classad.matching import is_satisfied, requirements_met
from ...domain.classad.values import EvaluationError
from ...domain.events import Ad
from ...domain.startd.public_ad import PublishedSlots
from ...domain.startd.slot_ad import drain_start
from ...domain.state.caches import Caches, ad_from_attributes
from ...domain.state.offline_ads import is_offline
from ...domain.state.records import Slot
from ...domain.state.state import State
from ..narration.sentence_tables import REJECTIONS
from ..narration.unmatchable_jobs import at_full_size

FREE, USED = "free", "used"
_POLICY = ("Start", "Requirements")  #: attributes that a slot does not publish while it accepts no jobs


def standings(state: State, job: Ad, context: Context) -> Counter[str]:
    """Return how many slots, without dynamic ones, have each standing to a job (names in ``rejections.txt``)."""
    published, job_ad = PublishedSlots(state, Caches(), state.at, context), ad_from_attributes(job)
    slots = [slot for slot in state.slots.values() if slot.kind != "dynamic"]
    return Counter(_standing(state, slot, published, job_ad, context) for slot in slots)


def standings_text(counts: Mapping[str, int]) -> str:
    """Return the counts of slots as clauses: "2 have too few resources left, 1 is draining"."""
    forms = {name: text.split(" | ") for name, text in REJECTIONS["standings"].items()}
    return ", ".join(forms[name][counts[name] != 1].format(counts[name]) for name in forms if counts.get(name))


def _standing(state: State, slot: Slot, published: PublishedSlots, job: ClassAd, context: Context) -> str:
    ad, machine = published.ad(slot), state.machines.get(slot.machine)
    hidden = ad_from_attributes({name: slot.ad[name] for name in _POLICY if name in slot.ad})
    start = drain_start(state, slot)
    if start is not None:
        hidden["Start"] = start
    full_texts = at_full_size(slot.ad.as_plain_dict())
    full = ad_from_attributes({name: text for name, text in full_texts.items() if slot.ad.get(name) != text})
    empty = ClassAd({**full, **hidden}, ad)
    if not requirements_met(job, empty, context):
        return "unmet"
    if not requirements_met(empty, job, context):
        return "small" if not _is_true(empty, "WithinResourceLimits", job, context) else "start"
    if machine is not None and (machine.expired or machine.shutdown):
        return "silent" if machine.expired else "ends"
    if is_offline(slot.ad):
        return "offline"
    if machine is not None and machine.drain is not None and not published.is_free(slot):
        return "drains"
    if slot.claim is not None or slot.queued_claim is not None or slot.name in state.slot_matches:
        return USED
    if not (requirements_met(job, ad, context) and requirements_met(ClassAd(hidden, ad), job, context)):
        return "full"
    return FREE if published.is_free(slot) else "owner" if slot.state == "Owner" else USED


def _is_true(ad: ClassAd, name: str, job: ClassAd, context: Context) -> bool:
    try:
        return name not in ad or is_satisfied(ad.eval(name, job, context))
    except EvaluationError:
        return False
