"""A slot's ad, including dynamic attributes, as its policy expressions read it.

An ad has two layers: the static ad from the log (``Slot.ad``), which is compiled once per version, and the dynamic
attributes (``DYNAMIC_ATTRIBUTES``), which override it. To save time, only those dynamic attributes that the slot's own
expressions can read are computed, unless the caller requests all.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import compress
from operator import ne
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ..classad import ClassAd, Expression
from ..classad.tree import Literal
from ..classad.value_evidence import DYNAMIC_REFERENCES
from ..events import Ad
from ..names import SlotName
from ..ports.sensor_readings import Readings
from ..state.caches import Caches, ad_from_attributes, parse_cached
from ..state.records import Slot
from ..state.slot_attributes import Layout
from ..state.state import ExecutionPoint
from .dynamic_attributes import DYNAMIC_ATTRIBUTES, Attribute, SlotSnapshot
from .startd_settings import EXPRESSIONS, setting


class SlotReferences(Struct, frozen=True):
    """The lower-case names that a slot's expression may read, directly or through other attributes. The slot's ad lacks
    the ``foreign`` names, but a job's ad may have them."""

    names: frozenset[str]
    foreign: frozenset[str]


class AdForm(Struct, frozen=True):
    """The common part of slots' ads that differ only in constants. Those ads are chained to the first such ad."""

    layout: Layout
    ad: ClassAd
    values: list[str]
    texts: dict[str, str]
    names: frozenset[str] | None
    """The lower-case attributes that its expressions may read; None: any, because one computes names at run time."""
    foreign: frozenset[str]
    """The names that its policy reads but the slot's ad lacks; a job's ad may have them."""
    has_vanilla_variants: bool
    names_read: dict[str, SlotReferences | None] = field(default_factory=dict)
    match_names: dict[frozenset[str], frozenset[str] | None] = field(default_factory=dict)


class CompiledAd(Struct, frozen=True):
    """One version of a slot's ad, with the names that its expressions read."""

    version: int
    ad: ClassAd
    form: AdForm


_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_TARGETED = re.compile(r"\bTARGET\s*\.\s*([A-Za-z_][A-Za-z0-9_]*)", re.ASCII | re.IGNORECASE)
_PLAIN = re.compile(r"-?[0-9.]+|\"[^\"]*\"|true|false|undefined", re.ASCII | re.IGNORECASE)


class _CompiledAds(dict[str, CompiledAd]):
    """The most recently compiled ads, by slot name."""

    MAX_LENGTH = 4_000


class _Forms(dict[int, AdForm]):
    """The latest form of each ad layout, by the layout's id."""


def compiled_ad(state: ExecutionPoint, slot: Slot, caches: Caches) -> CompiledAd:
    """Return the slot's ad, compiled and cached for its current version."""
    cache = caches.get(_CompiledAds)
    cached = cache.get(slot.name)
    if cached is not None and cached.version == slot.version:
        return cached
    forms, layout = caches.get(_Forms), slot.ad.layout
    form = cached.form if cached is not None and cached.form.layout is layout else forms.get(id(layout))
    ad = None if form is None else _chained(form, slot)
    if form is None or ad is None:
        form = forms[id(layout)] = _form(slot)
        ad = form.ad
        if len(forms) > len(state.slots) + 100:
            forms.clear()
    if len(cache) >= cache.MAX_LENGTH:
        cache.clear()
    compiled = cache[slot.name] = CompiledAd(slot.version, ad, form)
    return compiled


def _form(slot: Slot) -> AdForm:
    texts = {name.lower(): text for name, text in slot.ad.items()}
    policy_words = _words(texts, _POLICY_NAMES)
    all_words = policy_words[0] | _words(texts, _MATCH_NAMES)[0]
    names = None if all_words & DYNAMIC_REFERENCES else frozenset(all_words)
    foreign = _names_read_from_job(texts, *policy_words)
    has_vanilla_variants = any(name.endswith("_vanilla") for name in texts)
    return AdForm(
        slot.ad.layout, ad_from_attributes(slot.ad), list(slot.ad.values()), texts, names, foreign, has_vanilla_variants
    )


def _chained(form: AdForm, slot: Slot) -> ClassAd | None:
    """Return the slot's ad chained to the form's ad, or None if the two differ in more than constants."""
    changes = []
    values = slot.ad.values()
    for name, old_text, text in compress(zip(slot.ad, form.values, values, strict=True), map(ne, form.values, values)):
        value = parse_cached(text)
        if not isinstance(value, Literal) or not isinstance(parse_cached(old_text), Literal):
            return None
        changes.append((name, value))
    return ClassAd.from_expressions(changes, ClassAd(chained=form.ad))


def names_read_by(form: AdForm, name: str) -> SlotReferences | None:
    """Return the names that an expression can read, or None for any, because one computes names at run time."""
    key = name.lower()
    if key not in form.names_read:
        words = _words(form.texts, frozenset({key}))
        names = SlotReferences(frozenset(words[0]), _names_read_from_job(form.texts, *words))
        form.names_read[key] = None if form.names is None else names
    return form.names_read[key]


def _names_read_from_job(texts: dict[str, str], words: set[str], targeted: set[str]) -> frozenset[str]:
    """Return the names that are read from a job: names that the slot's ad lacks, and names after ``TARGET.``."""
    return frozenset(words - texts.keys() - DYNAMIC_ATTRIBUTES.keys() - _NO_ATTRIBUTES | targeted)


def names_read_by_match(form: AdForm, also: frozenset[str]) -> frozenset[str] | None:
    """Return the names that a match can read from a slot: through Requirements, Start, and the attributes ``also`` (in
    lower case) that the job reads. None: any name."""
    if also not in form.match_names:
        reads = [names_read_by(form, name) for name in ("requirements", "start", *(also & form.texts.keys()))]
        names = {name for read in reads if read is not None for name in read.names}
        form.match_names[also] = None if None in reads else also | names
    return form.match_names[also]


def _words(texts: dict[str, str], names: frozenset[str]) -> tuple[set[str], set[str]]:
    """Return all words in these attributes and those they refer to, and separately all words after ``TARGET.``."""
    all_words: set[str] = set()
    targeted: set[str] = set()
    pending_names = [name for name in texts if name in names or name.removesuffix("_vanilla") in names]
    while pending_names:
        words, after_target = _words_of(texts[pending_names.pop()])
        new_words = words - all_words
        all_words |= new_words
        targeted |= after_target
        pending_names += [word for word in new_words if word in texts]
    return all_words, targeted


@lru_cache(4096)
def _words_of(text: str) -> tuple[frozenset[str], frozenset[str]]:
    if _PLAIN.fullmatch(text):
        return frozenset(), frozenset()
    return frozenset(map(str.lower, _WORD.findall(text))), frozenset(map(str.lower, _TARGETED.findall(text)))


_POLICY_NAMES = frozenset(name.lower() for name in (*EXPRESSIONS, "CLAIM_WORKLIFE", "MachineMaxVacateTime", "Rank"))
"""The expressions that the policy evaluates, in lower case."""
_MATCH_NAMES = frozenset({"requirements", "withinresourcelimits"})
"""The expressions that the negotiator evaluates too."""

_NO_ATTRIBUTES = frozenset(
    {
        "true", "false", "undefined", "error", "is", "isnt", "my", "target", "time", "ifthenelse", "strcat", "int",
        "real", "string", "floor", "ceiling", "round", "min", "max", "quantize", "regexp", "isundefined", "size",
    }
)  # fmt: skip
"""Words in expressions that are not attribute names."""


@lru_cache(1000)
def _dynamic_attributes(names: frozenset[str] | None) -> tuple[Attribute, ...]:
    if names is None:
        return tuple(DYNAMIC_ATTRIBUTES.values())
    return tuple([DYNAMIC_ATTRIBUTES[name] for name in sorted(names) if name in DYNAMIC_ATTRIBUTES])


def snapshot_ad(
    snapshot: SlotSnapshot,
    *,
    whole: bool = False,
    also: frozenset[str] = frozenset(),
    only: frozenset[str] | None = None,
) -> ClassAd:
    """Return the slot's ad with dynamic attributes: all of them if ``whole``, else those in ``only`` (default: those
    that the slot's own expressions can read) and in ``also`` (both in lower case)."""
    compiled = compiled_ad(snapshot.state, snapshot.slot, snapshot.caches)
    start = drain_start(snapshot.state, snapshot.slot)
    names = None
    if not whole and compiled.form.names is not None and start is None and not _sensors_publish_expressions(snapshot):
        names = compiled.form.names if only is None else only
        names = names | also if also else names
    ad = ClassAd(_values(snapshot, names), compiled.ad)
    if start is not None:
        ad["Start"] = start
    for name, value in copied_attributes(snapshot).items():
        ad[name] = value
    return ad


def drain_start(state: ExecutionPoint, slot: Slot) -> Expression | None:
    """Return the drain's own START while the slot's machine drains, if it has one."""
    machine = state.machines.get(slot.machine)
    drain = None if machine is None else machine.drain
    return parse_cached(drain.start) if drain is not None and drain.start else None


def extend_ad(ad: ClassAd, snapshot: SlotSnapshot, names: frozenset[str]) -> None:
    for name, value in _values(snapshot, names).items():
        ad[name] = value


def _values(snapshot: SlotSnapshot, names: frozenset[str] | None) -> dict[str, Any]:
    """Return the named dynamic attributes (None: all). Attributes published by sensors override them."""
    values: dict[str, Any] = {}
    for name, compute in _dynamic_attributes(names):
        value = compute(snapshot)
        if value is not None:
            values[name] = value
    for source in (snapshot.readings.attributes, snapshot.readings.slots.get(snapshot.slot.name, {})):
        for name, text in source.items():
            if names is None or name.lower() in names:
                parsed = parse_cached(text)
                if parsed is not None:
                    values[name] = parsed
    return values


def _sensors_publish_expressions(snapshot: SlotSnapshot) -> bool:
    """Return True if a sensor publishes an expression other than a plain value, which may read any attribute."""
    sources = (snapshot.readings.attributes, snapshot.readings.slots.get(snapshot.slot.name, {}))
    return any(not _PLAIN.fullmatch(text) for source in sources for text in source.values())


def copied_attributes(snapshot: SlotSnapshot) -> dict[str, Any]:
    """Return the attributes that a slot's ad has from other ads: from its machine's slots, and from its job."""
    return {**_attributes_of_other_slots(snapshot), **_attributes_of_job(snapshot)}


def _attributes_of_job(snapshot: SlotSnapshot) -> dict[str, Any]:
    """Return the attributes of the slot's job that STARTD_JOB_ATTRS lists. As in HTCondor, they are expressions, whose
    references are resolved in the slot's ad."""
    names = setting(snapshot.state, snapshot.machine, "STARTD_JOB_ATTRS").replace(",", " ").split()
    ad = job_classad(snapshot.state, snapshot.slot, snapshot.caches) if names else None
    return {name: ad[name] for name in names if name in ad} if ad is not None else {}


def _attributes_of_other_slots(snapshot: SlotSnapshot) -> dict[str, Any]:
    """Return the STARTD_SLOT_ATTRS attributes of each of the machine's slots, named slot<N>_<attribute>."""
    names = setting(snapshot.state, snapshot.machine, "STARTD_SLOT_ATTRS").replace(",", " ").split()
    attributes: dict[str, Any] = {}
    for other in snapshot.state.machine_slots(snapshot.slot) if names else ():
        other_snapshot = replace(snapshot, slot=other)
        prefix = SlotName.parse(other.name).slot
        for name in names:
            dynamic = DYNAMIC_ATTRIBUTES.get(name.lower())
            value = dynamic[1](other_snapshot) if dynamic else None
            if value is None:
                text = _published_text(snapshot.readings, other, name)
                value = None if text is None else parse_cached(text)
            if value is not None:
                attributes[f"{prefix}_{name}"] = value
    return attributes


def _published_text(readings: Readings, slot: Slot, name: str) -> str | None:
    """Return a slot's attribute, in any capitalization, from its sensors, its machine's sensors, or its ad."""
    for source in (readings.slots.get(slot.name, {}), readings.attributes, slot.ad):
        for key, text in source.items():
            if key.lower() == name.lower():
                return text
    return None


def job_ad(state: ExecutionPoint, slot: Slot) -> Ad | None:
    """Return the ad of a slot's running job, or of the job for which an external holder claimed it; None if unknown."""
    activation = slot.activation
    if activation is None:
        return slot.claim.ad or None if slot.claim and slot.claim.holder else None
    return state.job_ad((activation.cluster, activation.proc), activation.ad).attributes()


class _JobAds(dict[str, tuple[str, object, int, ClassAd]]):
    """By slot name: the activation, the version (changes and status) of its job's ad, and the ad."""


def job_classad(state: ExecutionPoint, slot: Slot, caches: Caches) -> ClassAd | None:
    """Return ``job_ad`` as a ClassAd, cached until the job changes."""
    activation = slot.activation
    if activation is None:
        ad = job_ad(state, slot)
        return None if ad is None else ad_from_attributes(ad)
    job = state.job_ad((activation.cluster, activation.proc), activation.ad)
    cache = caches.get(_JobAds)
    entry = cache.get(slot.name)
    changes, status = job.version()
    if entry is None or entry[0] != activation.key or entry[1] is not changes or entry[2] != status:
        entry = cache[slot.name] = (activation.key, changes, status, ad_from_attributes(job.attributes()))
    return entry[3]
