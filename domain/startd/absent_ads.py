"""What the collector does with the ads of a machine that is silent or turned off: it keeps some as absent or offline
ads.

Of HTCondor's collector, this is OfflineCollectorPlugin::expire. The log has the absent ads, so no other file is needed
for them. An absent ad is complete: in HTCondor, the private ad of the slot may overwrite it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ..classad import unparse
from ..classad.value_evidence import truth_of
from ..decision.draft import Draft
from ..events import SlotAbsent
from ..state.caches import parse_cached
from ..state.offline_ads import RESET, is_offline
from ..state.pool_settings import COLLECTOR
from ..state.records import Machine, Slot
from ..state.state import Manager, State, acts_as
from ..units import SECOND
from .public_ad import PublishedSlots

MACHINE_LEFT: Final = "machine_left"  #: the cause of a slot's end if its machine was turned off
FOREVER: Final = 2**31 - 1  #: seconds
OWN_LIFETIME: Final = "ClassAdLifetime"
_EXPIRE_AFTER: Final = {True: "OFFLINE_EXPIRE_ADS_AFTER", False: "ABSENT_EXPIRE_ADS_AFTER"}


def lifetime(state: Manager, machine: Machine) -> int:
    """Return how long the ads of a silent machine stay, in microseconds. STARTD_ATTRS may add a lifetime to them."""
    slot = next(iter(machine.slots.values()), None)
    own = "" if slot is None else slot.ad.get(OWN_LIFETIME, "")
    return _microseconds(own if own.isdecimal() else _setting(state, "CLASSAD_LIFETIME"))


def keep_invalidated(draft: Draft[Any], slot: Slot) -> None:
    """Keep the ad of a slot whose machine was turned off as an offline ad if Offline is true in it, or as an absent ad
    if EXPIRE_INVALIDATED_ADS is true."""
    if acts_as(draft.state, Manager) and (
        is_offline(slot.ad) or _setting(draft.state, "EXPIRE_INVALIDATED_ADS").lower() == "true"
    ):
        keep_absent(draft, [slot], "shutdown")


def keep_absent(draft: Draft[State], slots: Iterable[Slot], cause: str) -> None:
    """Keep the ads of offline machines, and those for which ABSENT_REQUIREMENTS is true as absent ads."""
    requirements = _setting(draft.state, "ABSENT_REQUIREMENTS").strip()
    condition = parse_cached(requirements) if requirements else None
    published = PublishedSlots(draft.state, draft.caches, draft.now, draft.context)
    for slot in slots:
        offline = is_offline(slot.ad)
        if slot.kind == "dynamic" if offline else condition is None:
            continue
        ad = published.ad(slot)
        if offline or (condition is not None and truth_of(condition, ad, None, draft.context) is True):
            texts = {name: unparse(ad[name]) for name in ad}
            if offline:  # it refuses jobs only as long as it is heard
                texts |= {**RESET, **{name: slot.ad[name] for name in ("Start", "Requirements") if name in slot.ad}}
            until = draft.now + _microseconds(_setting(draft.state, _EXPIRE_AFTER[offline]))
            draft.emit(SlotAbsent(*draft.header(cause), slot.name, slot.machine, texts, until))


def _microseconds(seconds: str) -> int:
    return int((float(seconds) or FOREVER) * SECOND)


def _setting(state: Manager, name: str) -> str:
    return state.settings.get(name) or COLLECTOR[name].default
