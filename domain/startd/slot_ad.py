"""A slot's ad as its policy's expressions read it, with the attributes of the moment.

An ad has two layers. What the log says of the slot (``Slot.ad``) is compiled once for each version, and the attributes
of the moment (``DYNAMIC_ATTRIBUTES``) lie over it. Only those that the slot's own expressions can read are computed,
unless everything is asked for.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from msgspec import Struct, field

from ..classad import ClassAd, Expression
from ..classad.evidence import MAKES_NAMES
from ..events import Ad
from ..names import SlotName
from ..ports.sensor_readings import Readings
from ..state.caches import Caches, ad_of, expression
from ..state.records import Slot
from ..state.state import ExecutionPoint
from .moment_attributes import DYNAMIC_ATTRIBUTES, Attribute, SlotSnapshot
from .startd_settings import EXPRESSIONS, setting


class SlotReferences(Struct, frozen=True):
    """The names that an expression of a slot's may read, in small letters, through its attributes too. ``foreign`` are
    those that the slot lacks: a job may have them."""

    names: frozenset[str]
    foreign: frozenset[str]


class CompiledAd(Struct, frozen=True):
    """A slot's ad compiled for one version of it."""

    version: int
    ad: ClassAd
    names: frozenset[str] | None
    """The attributes that its expressions may read, in small letters; None: any, since one makes names at run time."""
    foreign: frozenset[str]
    """The names that its policy reads and the slot lacks: a job may have them."""
    varied: bool
    """It has expressions for the vanilla universe alone."""
    texts: dict[str, str]
    reaches: dict[str, SlotReferences | None] = field(default_factory=dict)
    matches: dict[frozenset[str], frozenset[str] | None] = field(default_factory=dict)


_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_TARGETED = re.compile(r"\bTARGET\s*\.\s*([A-Za-z_][A-Za-z0-9_]*)", re.ASCII | re.IGNORECASE)
_PLAIN = re.compile(r"-?[0-9.]+|\"[^\"]*\"|true|false|undefined", re.ASCII | re.IGNORECASE)


class _CompiledAds(dict[str, CompiledAd]):
    """The compiled ads by slot name."""


def compiled_ad(state: ExecutionPoint, slot: Slot, caches: Caches) -> CompiledAd:
    kept = caches.of(_CompiledAds)
    known = kept.get(slot.name)
    if known is not None and known.version == slot.version:
        return known
    texts = {name.lower(): text for name, text in slot.ad.items()}
    asked = _words(texts, _ASKED)
    read = asked[0] | _words(texts, _MATCHED)[0]
    names = None if read & MAKES_NAMES else frozenset(read)
    foreign = _foreign(texts, *asked)
    varied = any(name.endswith("_vanilla") for name in texts)
    found = kept[slot.name] = CompiledAd(slot.version, ad_of(slot.ad), names, foreign, varied, texts)
    if len(kept) > 2 * len(state.slots) + 100:
        for name in [name for name in kept if name not in state.slots]:
            del kept[name]
    return found


def references(known: CompiledAd, name: str) -> SlotReferences | None:
    """Return what the expression of a name can read; None: anything, since one makes names at run time."""
    key = name.lower()
    if key not in known.reaches:
        words = _words(known.texts, frozenset({key}))
        reach = SlotReferences(frozenset(words[0]), _foreign(known.texts, *words))
        known.reaches[key] = None if known.names is None else reach
    return known.reaches[key]


def _foreign(texts: dict[str, str], words: set[str], targeted: set[str]) -> frozenset[str]:
    """Return what is read of a job: the words that the slot lacks, and those behind ``TARGET.``, which it may have."""
    return frozenset(words - texts.keys() - DYNAMIC_ATTRIBUTES.keys() - _NO_ATTRIBUTES | targeted)


def read_by_match(known: CompiledAd, also: frozenset[str]) -> frozenset[str] | None:
    """Return what a match reads of a slot: what its Requirements and Start can, and what the attributes that a job
    names can (``also``, in small letters). None: anything."""
    if also not in known.matches:
        found = [references(known, name) for name in ("requirements", "start", *(also & known.texts.keys()))]
        names = {name for one in found if one is not None for name in one.names}
        known.matches[also] = None if None in found else also | names
    return known.matches[also]


def _words(texts: dict[str, str], names: frozenset[str]) -> tuple[set[str], set[str]]:
    """Return all words of these attributes and their variants, and of the attributes that these lead to; and those of
    them that stand behind ``TARGET.``."""
    found: set[str] = set()
    targeted: set[str] = set()
    pending = [name for name in texts if name in names or name.removesuffix("_vanilla") in names]
    while pending:
        words, behind_target = _words_of(texts[pending.pop()])
        new = words - found
        found |= new
        targeted |= behind_target
        pending += [word for word in new if word in texts]
    return found, targeted


@lru_cache(4096)
def _words_of(text: str) -> tuple[frozenset[str], frozenset[str]]:
    if _PLAIN.fullmatch(text):
        return frozenset(), frozenset()
    return frozenset(map(str.lower, _WORD.findall(text))), frozenset(map(str.lower, _TARGETED.findall(text)))


_ASKED = frozenset(name.lower() for name in (*EXPRESSIONS, "CLAIM_WORKLIFE", "MachineMaxVacateTime", "Rank"))
"""The expressions that the policy asks."""
_MATCHED = frozenset({"requirements", "withinresourcelimits"})
"""The expressions that the negotiator asks besides."""

_NO_ATTRIBUTES = frozenset(
    {
        "true", "false", "undefined", "error", "is", "isnt", "my", "target", "time", "ifthenelse", "strcat", "int",
        "real", "string", "floor", "ceiling", "round", "min", "max", "quantize", "regexp", "isundefined", "size",
    }
)  # fmt: skip
"""Words of expressions that are no attributes."""


@lru_cache(1000)
def _wanted(names: frozenset[str] | None) -> tuple[Attribute, ...]:
    return tuple(
        DYNAMIC_ATTRIBUTES.values()
        if names is None
        else [DYNAMIC_ATTRIBUTES[name] for name in sorted(names) if name in DYNAMIC_ATTRIBUTES]
    )


def ad_at(
    m: SlotSnapshot, *, whole: bool = False, also: frozenset[str] = frozenset(), only: frozenset[str] | None = None
) -> ClassAd:
    """Return the slot's ad at the moment: with ``whole``, all attributes of the moment, else those that its own
    expressions can read (of ``only``, if given), and those of ``also`` (in small letters)."""
    known, start = compiled_ad(m.state, m.slot, m.caches), drain_start(m.state, m.slot)
    names = None
    if not whole and known.names is not None and start is None and not _sensed_expressions(m):
        names = known.names if only is None else only
        names = names | also if also else names
    ad = ClassAd(_values(m, names), known.ad)
    if start is not None:
        ad["Start"] = start
    for name, value in attributes_of_other_slots(m).items():
        ad[name] = value
    return ad


def drain_start(state: ExecutionPoint, slot: Slot) -> Expression | None:
    """Return START while the slot's machine drains, if the drain has one of its own."""
    machine = state.machines.get(slot.machine)
    drain = None if machine is None else machine.drain
    return expression(drain.start) if drain is not None and drain.start else None


def extend_ad(ad: ClassAd, m: SlotSnapshot, names: frozenset[str]) -> None:
    for name, value in _values(m, names).items():
        ad[name] = value


def _values(m: SlotSnapshot, names: frozenset[str] | None) -> dict[str, Any]:
    """Return the wanted attributes of the moment (None: all), overridden by the sensors'."""
    found: dict[str, Any] = {}
    for name, value in _wanted(names):
        now = value(m)
        if now is not None:
            found[name] = now
    for source in (m.readings.attributes, m.readings.slots.get(m.slot.name, {})):
        for name, text in source.items():
            if names is None or name.lower() in names:
                meaning = expression(text)
                if meaning is not None:
                    found[name] = meaning
    return found


def _sensed_expressions(m: SlotSnapshot) -> bool:
    """Tell whether a sensor publishes an expression, which may read anything, and not a plain value."""
    sources = (m.readings.attributes, m.readings.slots.get(m.slot.name, {}))
    return any(not _PLAIN.fullmatch(text) for source in sources for text in source.values())


def attributes_of_other_slots(m: SlotSnapshot) -> dict[str, Any]:
    """Return the attributes of STARTD_SLOT_ATTRS of each of the machine's slots, as slot<N>_<attribute>."""
    wanted = setting(m.state, m.machine, "STARTD_SLOT_ATTRS").replace(",", " ").split()
    found: dict[str, Any] = {}
    for other in m.state.machine_slots(m.slot) if wanted else ():
        seen = SlotSnapshot(m.state, other, m.machine, m.readings, m.now, m.context, m.caches, m.estimates)
        prefix = SlotName.parse(other.name).slot
        for name in wanted:
            known = DYNAMIC_ATTRIBUTES.get(name.lower())
            value = known[1](seen) if known else None
            if value is None:
                text = _given(m.readings, other, name)
                value = None if text is None else expression(text)
            if value is not None:
                found[f"{prefix}_{name}"] = value
    return found


def _given(readings: Readings, slot: Slot, name: str) -> str | None:
    """Return a slot's attribute, in any case of letters, from its own sensors, its machine's, or its ad."""
    for source in (readings.slots.get(slot.name, {}), readings.attributes, slot.ad):
        for key, text in source.items():
            if key.lower() == name.lower():
                return text
    return None


def job_ad(state: ExecutionPoint, slot: Slot) -> Ad | None:
    """Return the ad of the job that runs on a slot, or that an outside holder claimed it for; None without a job."""
    activation = slot.activation
    if activation is None:
        return slot.claim.ad or None if slot.claim and slot.claim.holder else None
    return state.job_ad((activation.cluster, activation.proc), activation.ad).attributes()


class _JobAds(dict[str, tuple[str, object, int, ClassAd]]):
    """By the slots' names: the activation, the version of its job's ad, and the ad."""


def job_as_ad(state: ExecutionPoint, slot: Slot, caches: Caches) -> ClassAd | None:
    """Return the same as an ad to be read, kept for as long as nothing of the job has changed."""
    activation = slot.activation
    if activation is None:
        ad = job_ad(state, slot)
        return None if ad is None else ad_of(ad)
    job = state.job_ad((activation.cluster, activation.proc), activation.ad)
    kept = caches.of(_JobAds)
    known = kept.get(slot.name)
    changes, status = job.version()
    if known is None or known[0] != activation.key or known[1] is not changes or known[2] != status:
        known = kept[slot.name] = (activation.key, changes, status, ad_of(job.attributes()))
    return known[3]
