"""A slot's ad as its policy's expressions read it, with the attributes of the moment.

An ad has two layers. What the log says of the slot (``Slot.ad``) is compiled once for each version, and the attributes
of the moment (``DYNAMIC_ATTRIBUTES``) lie over it. Only those that the slot's own expressions can read are computed,
unless everything is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from attrs import Factory, define, frozen

from ..classad import ClassAd, Context, Expression
from ..events import Ad
from ..names import SlotName
from ..negotiator.accounting import NO_GROUP, assigned_group
from ..ports.sensor_readings import Readings
from ..state.caches import Caches, ad_of, expression
from ..state.job_ad import Changes, unquoted
from ..state.state import Machine, Slot, State
from .drain_estimates import DrainEstimates
from .load import load_of
from .settings import EXPRESSIONS, MICROSECONDS, duration, setting

UNIVERSE_VANILLA = "5"


@frozen
class References:
    """The names that an expression of a slot's may read, in small letters, through its attributes too. ``foreign`` are
    those that the slot lacks: a job may have them."""

    names: frozenset[str]
    foreign: frozenset[str]


@frozen
class CompiledAd:
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
    reaches: dict[str, References | None] = Factory(dict)
    matches: dict[frozenset[str], frozenset[str] | None] = Factory(dict)


_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_TARGETED = re.compile(r"\bTARGET\s*\.\s*([A-Za-z_][A-Za-z0-9_]*)", re.ASCII | re.IGNORECASE)
_PLAIN = re.compile(r"-?[0-9.]+|\"[^\"]*\"|true|false|undefined", re.ASCII | re.IGNORECASE)
MAKES_NAMES = frozenset({"eval", "unparse"})
"""Functions that make names when they are evaluated: no text tells what they read."""


class _CompiledAds(dict[str, CompiledAd]):
    """The compiled ads by slot name."""


def compiled_ad(state: State, slot: Slot, caches: Caches) -> CompiledAd:
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


def references(known: CompiledAd, name: str) -> References | None:
    """Return what the expression of a name can read; None: anything, since one makes names at run time."""
    key = name.lower()
    if key not in known.reaches:
        words = _words(known.texts, frozenset({key}))
        reach = References(frozenset(words[0]), _foreign(known.texts, *words))
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
        text = texts[pending.pop()]
        if _PLAIN.fullmatch(text):
            continue
        new = {word.lower() for word in _WORD.findall(text)} - found
        found |= new
        targeted |= {word.lower() for word in _TARGETED.findall(text)}
        pending += [word for word in new if word in texts]
    return found, targeted


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


@define
class SlotSnapshot:
    state: State
    slot: Slot
    machine: Machine | None
    readings: Readings
    now: int
    context: Context
    caches: Caches
    estimates: Callable[[], DrainEstimates | None]
    """What a drain of its machine would cost; None where nobody can tell."""

    @property
    def seconds(self) -> int:
        return self.now // MICROSECONDS


def input_idle(m: SlotSnapshot, console: bool) -> int:
    """Return KeyboardIdle or ConsoleIdle."""
    return max(0, m.seconds - last_input(m, console))


def last_input(m: SlotSnapshot, console: bool) -> int:
    """Return the second of the last input. A slot that is connected to neither keyboard nor console has been idle since
    the startd began, and DISCONNECTED_KEYBOARD_IDLE_BOOST longer."""
    began = m.machine.joined if m.machine else 0
    connected = setting(m.state, m.machine, f"SLOTS_CONNECTED_TO_{'CONSOLE' if console else 'KEYBOARD'}")
    number = m.slot.ad.get("SlotID", "1")
    if connected and not (number.isdigit() and int(number) <= int(float(connected))):
        boost = duration(m.state, m.machine, "DISCONNECTED_KEYBOARD_IDLE_BOOST")
        return (began - boost) // MICROSECONDS
    last = m.readings.last_console if console else m.readings.last_input
    return (began if last is None else last) // MICROSECONDS


def latches_cpu_busy(m: SlotSnapshot) -> bool:
    """Tell whether CpuBusy is one of STARTD_LATCH_EXPRS, as in the policy templates: then CpuBusyValue is 1 while it is
    true, and CpuBusyTime the instant (seconds since the epoch) when that began; else it is the seconds since then."""
    return "cpubusy" in setting(m.state, m.machine, "STARTD_LATCH_EXPRS").lower().replace(",", " ").split()


def _busy_time(m: SlotSnapshot) -> int:
    since = m.slot.busy_since // MICROSECONDS
    return since if latches_cpu_busy(m) or not since else m.seconds - since


def asks_busy(names: frozenset[str] | None) -> bool:
    """Tell whether expressions that read these attributes (None: any) read since when CpuBusy is true."""
    return names is None or not names.isdisjoint(("cpubusytime", "cpubusyvalue"))


def _local(m: SlotSnapshot) -> int:
    """Return the seconds since local midnight, with the days before them."""
    return m.seconds + m.context.offset(m.seconds)


def _ran(m: SlotSnapshot) -> Any:
    activation = m.slot.activation
    return None if activation is None else activation.ran_seconds(m.now)


def _suspended(m: SlotSnapshot) -> Any:
    activation = m.slot.activation
    if activation is None:
        return None
    if not activation.since:
        return activation.suspended // MICROSECONDS
    return m.seconds - (activation.since - activation.suspended) // MICROSECONDS


def _job_id(m: SlotSnapshot) -> Any:
    activation = m.slot.activation
    if activation is None:
        return None
    return activation.job or f"{activation.cluster}.{activation.proc}"


def _of_job(m: SlotSnapshot, name: str) -> Any:
    """Return an attribute of the slot's job as the starter reports it: a string or a whole number."""
    run = m.slot.activation
    cluster = None if run is None else m.state.clusters.get(run.cluster)
    text = "" if run is None or cluster is None else cluster.value(run.proc, name)
    return unquoted(text) if text.startswith('"') else int(text) if text.isdecimal() else None


def _user(m: SlotSnapshot) -> Any:
    return m.slot.user or None


def _group(m: SlotSnapshot) -> Any:
    """Return the submitter that the slot counts for, if it is not its job's user."""
    claim = m.slot.claim
    return None if claim is None or claim.submitter == m.slot.user else claim.submitter


def _quota_group(m: SlotSnapshot) -> Any:
    """Return the accounting group that the claim counts for; none where there are no groups."""
    claim, settings = m.slot.claim, m.state.settings
    return assigned_group(claim.submitter, settings) if claim and settings.get("GROUP_NAMES") else None


def _negotiated_group(m: SlotSnapshot) -> Any:
    """Return the group as which the claim was negotiated for: by autoregroup, that of those in none."""
    claim = m.slot.claim
    return None if claim is None else NO_GROUP if claim.regrouped else _quota_group(m) or NO_GROUP


def _next_user(m: SlotSnapshot) -> Any:
    waiting = m.slot.waiting
    return None if waiting is None else waiting.user or waiting.submitter


def _next_group(m: SlotSnapshot) -> Any:
    waiting = m.slot.waiting
    return None if waiting is None or waiting.submitter == _next_user(m) else waiting.submitter


def _drain(m: SlotSnapshot, what: Callable[[Any], Any]) -> Any:
    drain = m.machine.drain if m.machine else None
    return None if drain is None else what(drain)


def _expected(m: SlotSnapshot, name: str) -> int | None:
    """Return one of the estimates of a drain of the slot's machine."""
    found = m.estimates()
    return None if found is None else int(getattr(found, name))


def drain_start(state: State, slot: Slot) -> Expression | None:
    """Return START while the slot's machine drains, if the drain has one of its own."""
    machine = state.machines.get(slot.machine)
    drain = None if machine is None else machine.drain
    return expression(drain.start) if drain is not None and drain.start else None


def _instant(at: int) -> int | None:
    return at // MICROSECONDS if at else None


def unclaimed_in_drains(m: SlotSnapshot) -> int:
    """Return TotalMachineDrainingUnclaimedTime: core-seconds that the machine's slots spent in Drained."""
    if m.machine is not None and not m.machine.drains:
        return 0
    return int(sum(slot.drained_until(m.now) for slot in m.state.machine_slots(m.slot))) // MICROSECONDS


TOTALLED = (
    "Owner/Idle", "Unclaimed/Idle", "Unclaimed/Benchmarking", "Matched/Idle", "Claimed/Idle", "Claimed/Busy",
    "Claimed/Suspended", "Claimed/Retiring", "Claimed/Cleaning", "Preempting/Vacating", "Preempting/Killing",
    "Backfill/Idle", "Backfill/Busy", "Backfill/Killing", "Drained/Idle", "Drained/Retiring",
)  # fmt: skip
"""The pairs of which a slot's ad tells the total time."""


def total_name(pair: str) -> str:
    """Return TotalTimeClaimedBusy for Claimed/Busy."""
    return f"TotalTime{pair.replace('/', '')}"


def total_time(m: SlotSnapshot, pair: str) -> int | None:
    """Return the seconds that the slot was in a pair; None if it never was."""
    if m.slot.state_activity == pair:
        return m.seconds - total_since(m.slot)
    spent = m.slot.spent.get(pair, 0)
    return spent // MICROSECONDS if spent else None


def total_since(slot: Slot) -> int:
    """Return the second since which the slot would be in its present pair, had it been there without a break."""
    return (slot.entered_activity - slot.spent.get(slot.state_activity, 0)) // MICROSECONDS


Attribute = tuple[str, Callable[[SlotSnapshot], Any]]

_EXPECTED: tuple[Attribute, ...] = tuple(
    (name, partial(_expected, name=estimate))
    for name, estimate in (
        ("ExpectedMachineGracefulDrainingBadput", "graceful_badput"),
        ("ExpectedMachineGracefulDrainingCompletion", "graceful_completion"),
        ("ExpectedMachineQuickDrainingBadput", "quick_badput"),
        ("ExpectedMachineQuickDrainingCompletion", "quick_completion"),
    )
)
EXPECTED = frozenset(name.lower() for name, _ in _EXPECTED)
"""The estimates of a drain of the slot's machine, in small letters. They move by the clock while it has a job."""
_TOTALS: tuple[Attribute, ...] = tuple((total_name(pair), partial(total_time, pair=pair)) for pair in TOTALLED)

DYNAMIC_ATTRIBUTES: dict[str, Attribute] = {
    name.lower(): (name, value)
    for name, value in (
        # attribute, its value (None: the slot has none now)
        ("State", lambda m: m.slot.state),
        ("Activity", lambda m: m.slot.activity),
        ("EnteredCurrentState", lambda m: m.slot.entered_state // MICROSECONDS),
        ("EnteredCurrentActivity", lambda m: m.slot.entered_activity // MICROSECONDS),
        ("MyCurrentTime", lambda m: m.seconds),
        ("KeyboardIdle", lambda m: input_idle(m, console=False)),
        ("ConsoleIdle", lambda m: input_idle(m, console=True)),
        ("LoadAvg", lambda m: load_of(m.state, m.slot, m.readings, m.caches).load),
        ("CondorLoadAvg", lambda m: load_of(m.state, m.slot, m.readings, m.caches).condor),
        ("TotalLoadAvg", lambda m: m.readings.load),
        ("TotalCondorLoadAvg", lambda m: float(m.readings.pool_load)),
        ("ClockMin", lambda m: _local(m) // 60 % 1440),
        ("ClockDay", lambda m: (_local(m) // 86400 + 4) % 7),  # the epoch was a Thursday
        ("CpuBusyTime", _busy_time),
        ("CpuBusyValue", lambda m: int(bool(m.slot.busy_since)) if latches_cpu_busy(m) else None),
        ("LastBenchmark", lambda m: m.machine.benchmarked // MICROSECONDS if m.machine else 0),
        ("Mips", lambda m: m.machine.benchmarks[0] or None if m.machine else None),
        ("KFlops", lambda m: m.machine.benchmarks[1] or None if m.machine else None),
        ("Rank", lambda m: 0.0 if m.slot.ad.spelling("rank") is None else None),
        ("CurrentRank", lambda m: m.slot.claim.rank if m.slot.claim else 0.0),
        ("RemoteOwner", _user),
        ("RemoteUser", _user),
        ("AccountingGroup", _group),
        ("RemoteGroup", _quota_group),
        ("RemoteNegotiatingGroup", _negotiated_group),
        ("RemoteAutoregroup", lambda m: False if m.slot.claim else None),  # HTCondor's negotiator never sets it
        ("PublicClaimId", lambda m: m.slot.claim.id if m.slot.claim else None),
        ("ClientMachine", lambda m: (m.slot.claim.holder or m.state.name) if m.slot.claim else None),
        ("ConcurrencyLimits", lambda m: (m.slot.claim.limits or None) if m.slot.claim else None),
        ("RemoteScheddName", lambda m: (m.slot.claim.holder or m.state.name) if m.slot.claim else None),
        ("IsSplittable", lambda m: True if m.slot.claim and m.slot.kind == "dynamic" else None),
        ("JobId", _job_id),
        ("GlobalJobId", lambda m: _of_job(m, "GlobalJobId")),
        ("JobUniverse", lambda m: _of_job(m, "JobUniverse")),
        ("JobStart", lambda m: m.slot.activation.began // MICROSECONDS if m.slot.activation else None),
        ("TotalJobRunTime", _ran),
        ("TotalJobSuspendTime", _suspended),
        ("TotalClaimRunTime", lambda m: m.seconds - m.slot.claim.since // MICROSECONDS if m.slot.claim else None),
        ("PreemptingRank", lambda m: m.slot.waiting.rank if m.slot.waiting else None),
        ("PreemptingUser", _next_user),
        ("PreemptingOwner", _next_user),
        ("PreemptingAccountingGroup", _next_group),
        ("PreemptingConcurrencyLimits", lambda m: (m.slot.waiting.limits or None) if m.slot.waiting else None),
        ("AcceptedWhileDraining", lambda m: bool(m.slot.claim and "late" in m.slot.claim.marks)),
        ("Draining", lambda m: _drain(m, lambda drain: True)),
        ("DrainReason", lambda m: _drain(m, lambda drain: drain.reason)),
        ("DrainingRequestId", lambda m: _drain(m, lambda drain: str(drain.number))),
        ("LastDrainStartTime", lambda m: _instant(m.machine.drain_began) if m.machine else None),
        ("LastDrainStopTime", lambda m: _instant(m.machine.drain_ended) if m.machine else None),
        ("TotalMachineDrainingBadput", lambda m: (m.machine.badput or None) if m.machine else None),
        ("TotalMachineDrainingUnclaimedTime", lambda m: unclaimed_in_drains(m) or None),
        *_EXPECTED,
        *_TOTALS,
    )
}  # fmt: skip
"""The attributes of the moment, by their names in small letters."""

OF_EVENTS = frozenset({"state", "activity", "enteredcurrentstate", "enteredcurrentactivity"})
"""Those that the transitions alone tell: of a slot of a real pool that is all that is known besides its own ad."""


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


def job_ad(state: State, slot: Slot) -> Ad | None:
    """Return the ad of the job that runs on a slot, or that an outside holder claimed it for; None without a job."""
    activation = slot.activation
    if activation is None:
        return slot.claim.ad or None if slot.claim else None
    if not activation.cluster:
        return activation.ad
    cluster = state.clusters.get(activation.cluster)
    return None if cluster is None else cluster.attributes(activation.proc)


class _JobAds(dict[str, tuple[str, Changes, int, ClassAd]]):
    """By the slots' names: the activation, what of the job has changed and its status then, and its ad."""


def job_as_ad(state: State, slot: Slot, caches: Caches) -> ClassAd | None:
    """Return the same as an ad to be read, kept for as long as nothing of the job has changed."""
    activation = slot.activation
    cluster = state.clusters.get(activation.cluster) if activation is not None else None
    if activation is None or cluster is None:
        ad = job_ad(state, slot)
        return None if ad is None else ad_of(ad)
    kept = caches.of(_JobAds)
    known = kept.get(slot.name)
    changes, status = cluster.changes(activation.proc), cluster.status[activation.proc]
    if known is None or known[0] != activation.key or known[1] is not changes or known[2] != status:
        known = kept[slot.name] = (activation.key, changes, status, ad_of(cluster.attributes(activation.proc)))
    return known[3]
