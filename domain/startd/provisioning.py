"""Make a machine's slots, their ads, and its startd's settings from a configuration.

``offer`` returns the stimulus by which a machine joins the pool, ``reconfigured`` the one by which it takes another
configuration. The ads made here are the startd's own ads of its slots, policy expressions included; ``public_ad`` says
what others see of them. An expression is looked up under SLOT_TYPE_<N>_NAME, then SLOT<N>_NAME (which a real startd
reads for attributes alone, and before the type's), then NAME.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final

from attrs import Factory, evolve, frozen

from ..classad import unparse
from ..config import ConfigError, Configuration
from ..events import Ad
from ..ports.stimuli import AddMachine, Reconfigure, SlotPlan
from ..state.caches import expression
from ..state.job_ad import quoted, unquoted
from ..state.pool_settings import FILESYSTEM_DOMAIN, UID_DOMAIN
from ..state.records import Machine, Slot
from .custom_resources import Custom, custom_resources, hand_out, of_things
from .slot_types import CPUS, DISK, MEMORY, SWAP, ConfiguredSlots, Cut, SlotTypeError, Whole, divide
from .startd_settings import BACKFILL_SYSTEMS, FREE_DISK, SETTINGS


@frozen
class ExecuteVolume:
    """A file system on which jobs run, with its free and total space in KiB."""

    id: str
    free: int
    total: int


@frozen
class Equipment:
    cpus: int
    memory: int
    """MiB."""
    swap: int
    """KiB of virtual memory."""
    volumes: Mapping[str, ExecuteVolume]
    """By the execute directory that its configuration names."""
    system: Ad = Factory(dict)
    inventories: Mapping[str, str] = Factory(dict)


EXECUTE: Final = "EXECUTE"
_DOMAINS: Final = {"UidDomain": UID_DOMAIN, "FileSystemDomain": FILESYSTEM_DOMAIN}
"""Attributes of the machine as its configuration sets them, and else as its pool has them."""

POLICY: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    # attribute: the settings that may define it, and its default (empty: the ad has no such attribute)
    "Start": (("START",), "true"),
    "IS_OWNER": (("IsOwner", "IS_OWNER"), "START =?= false"),
    "RUNBENCHMARKS": (("RunBenchmarks",), ""),
    "SUSPEND": (("SUSPEND",), "false"),
    "CONTINUE": (("CONTINUE",), "true"),
    "PREEMPT": (("PREEMPT",), "false"),
    "KILL": (("KILL",), "false"),
    "WANT_SUSPEND": (("WANT_SUSPEND",), "false"),
    "WANT_VACATE": (("WANT_VACATE",), "true"),
    "WANT_HOLD": (("WANT_HOLD",), "false"),
    "WANT_HOLD_REASON": (("WANT_HOLD_REASON",), ""),
    "WANT_HOLD_SUBCODE": (("WANT_HOLD_SUBCODE",), ""),
    "CLAIM_WORKLIFE": (("CLAIM_WORKLIFE",), ""),
    "MaxJobRetirementTime": (("MaxJobRetirementTime",), "0"),
    "MachineMaxVacateTime": (("MachineMaxVacateTime",), ""),
    "Rank": (("RANK",), ""),  # what is published then, and what the startd does: published.with_unsaid, claiming.rank
    "CpuBusy": (("CpuBusy", "cpu_busy"), "false"),
    "SlotWeight": (("SLOT_WEIGHT", "SlotWeight"), "Cpus"),
    "START_BACKFILL": (("START_BACKFILL",), ""),
    "EVICT_BACKFILL": (("EVICT_BACKFILL",), ""),
}
"""The policy's expressions that stand in a slot's ad, with the startd's own defaults. They count where a configuration
has none: HTCondor's defaults are the configuration's."""
_VARIED: Final = ("SUSPEND", "CONTINUE", "PREEMPT", "KILL", "WANT_SUSPEND", "WANT_VACATE", "WANT_HOLD",
                  "WANT_HOLD_REASON", "WANT_HOLD_SUBCODE", "MaxJobRetirementTime")  # fmt: skip
"""The expressions that may have a variant for jobs of the vanilla universe."""
POLICY.update({f"{name}_VANILLA": ((f"{name}_VANILLA",), "") for name in _VARIED})

_OF_THE_POOL: Final = {"CLAIM_WORKLIFE": ("1200", "-1"), "MachineMaxVacateTime": ("10 * 60", "")}
"""The settings that a pool has itself, with HTCondor's defaults: they stand in an ad where the configuration differs.
The value is used in the ad if the configuration sets them to nothing: no limit."""

_REQUESTS: Final = tuple(f"MODIFY_REQUEST_EXPR_REQUEST{name}" for name in ("CPUS", "MEMORY", "DISK"))
"""The settings that a slot type may override: then they stand in its slots' ads."""

_LIVES: Final = frozenset({"TotalDisk", "DetectedDisk", "Disk", "Cpus", "Memory"})
"""The attributes of a slot's ad that stay as of joining, or as the pool has them since, whatever is detected now."""


def offer(id: str, machine: str, configuration: Configuration, equipment: Equipment) -> AddMachine:
    """Return the stimulus by which a machine joins the pool.

    :raises SlotTypeError: the configured slots cannot be made of this machine
    :raises ConfigError: a text is no expression
    """
    customs = custom_resources(configuration, equipment.inventories)
    whole, volumes = _whole(configuration, equipment, customs)
    wanted = _wanted(configuration, whole)
    places = {n: _volume(configuration, equipment, n).id for n in range(1, sum(one.count for one in wanted) + 1)}
    cuts = divide(whole, wanted, places)
    things = hand_out(customs, cuts)
    spread = _provisioned(whole, cuts)
    common = _machine_ad(machine, configuration, equipment, whole, customs, len(cuts))
    names = [custom.name for custom in customs]
    alone = _slots_with_settings(configuration)

    @cache
    def said(number: int, type: int) -> tuple[Ad, Ad]:
        policy = _policy(configuration, number, type, names, _partitionable(configuration, type))
        return policy, _added(configuration, number, type)

    slots = []
    for cut in cuts:
        policy, added = said(cut.number if cut.number in alone else 0, cut.type.number)
        plan = _plan(machine, configuration, cut, _amounts(cut, customs, things[cut.number]))
        volume = volumes[cut.volume]
        disk = {"TotalDisk": str(spread[volume.id]), "DetectedDisk": str(volume.total), FREE_DISK: str(volume.free)}
        own = {**plan.ad, **disk, "ExecuteVolume": quoted(volume.id)}
        _not_taken(added, {**common, **own})
        slots.append(SlotPlan(plan.name, plan.kind, with_attributes({**own, **policy}, added)))
    return AddMachine(id, machine, common, tuple(slots), settings(configuration))


def reconfigured(
    id: str, machine: Machine, slots: Iterable[Slot], configuration: Configuration, equipment: Equipment
) -> Reconfigure:
    """Return the stimulus by which a machine with its slots takes another configuration.

    :raises SlotTypeError: the configured slots cannot be made of this machine
    :raises ConfigError: a text is no expression
    """
    known = {slot.name: slot for slot in slots}
    wanted = offer(id, machine.name, configuration, _as_it_joined(machine, known.values(), equipment))
    resources = unquoted(wanted.ad["MachineResources"]).split()
    plans = []
    for plan in wanted.slots:
        ad = {**wanted.ad, **plan.ad}
        if plan.name in known:
            had = known[plan.name].ad
            lives = _LIVES.union(resources, (f"Available{name}" for name in resources))
            ad |= {name: text for name, text in had.items() if name in lives}
        plans.append(SlotPlan(plan.name, plan.kind, ad))
    return Reconfigure(id, machine.name, wanted.settings, wanted.ad, tuple(plans))


def _as_it_joined(machine: Machine, slots: Iterable[Slot], equipment: Equipment) -> Equipment:
    """Return the equipment with the disk space of when the machine joined: what was filled since makes no other
    slots."""
    free = {unquoted(slot.ad["ExecuteVolume"]): int(slot.ad[FREE_DISK]) for slot in slots if FREE_DISK in slot.ad}
    volumes = {
        directory: evolve(volume, free=free.get(volume.id, volume.free))
        for directory, volume in equipment.volumes.items()
    }
    return evolve(equipment, volumes=volumes, swap=int(machine.ad.get("TotalVirtualMemory", equipment.swap)))


_TEXTS: Final = (
    "DEFAULT_DRAINING_START_EXPR", "STARTD_SLOT_ATTRS", "STARTD_LATCH_EXPRS", "STARTD_PARTITIONABLE_SLOT_ATTRS",
    "BACKFILL_SYSTEM",
    *(name for names in BACKFILL_SYSTEMS.values() for name in names),
)  # fmt: skip
_TRUTHS: Final = ("MUST_MODIFY_REQUEST_EXPRS", "ENABLE_BACKFILL", "ADVERTISE_PSLOT_ROLLUP_INFORMATION")
"""The settings, beside those for requests, that are no numbers."""


def settings(configuration: Configuration) -> Ad:
    """Return a startd's settings that differ from ``SETTINGS``.

    :raises ConfigError: a setting is no number, or backfill is enabled and lacks a setting
    """
    _check_backfill(configuration)
    found: Ad = {}
    for name, default in SETTINGS.items():
        value = configuration.get(name)
        if name in _TRUTHS:
            value = str(configuration.boolean(name, default == "true")).lower()
        elif value and name not in (*_REQUESTS, *_TEXTS):
            value = str(configuration.integer(name, 0))  # may be written as 10 * $(MINUTE)
        if configuration.source(name).kind != "default" or (value != default and name not in _REQUESTS):
            found[name] = value
    return found


_VANILLA: Final = ("vanilla", "5")
_PATHS: Final = ("Executable", "InitialDir")


def _check_backfill(configuration: Configuration) -> None:
    """Refuse a backfill that could not be run as it is configured."""
    if not configuration.boolean("ENABLE_BACKFILL", False):
        return
    system, known = configuration.get("BACKFILL_SYSTEM").upper(), " or ".join(BACKFILL_SYSTEMS)
    if system not in BACKFILL_SYSTEMS:
        named = f"{system} is no backfill system" if system else "it is not set"
        words = f"BACKFILL_SYSTEM: {named}, and ENABLE_BACKFILL is true: set {known}"
        raise configuration.error("BACKFILL_SYSTEM", words)
    for name in (f"{system}_{name}" for name in _PATHS):
        if not configuration.get(name).startswith("/"):
            words = f"{configuration.get(name) or 'it'} is no full path: the backfill client needs one"
            raise configuration.error(name, f"{name}: {words}")
    name = f"{system}_Universe"
    if configuration.get(name, "" if system == "BOINC" else "vanilla").lower() not in _VANILLA:
        raise configuration.error(name, f"{name}: backfill clients are of the vanilla universe: set it to vanilla")


def _slots_with_settings(configuration: Configuration) -> set[int]:
    found = (re.match("SLOT([0-9]+)_", name, re.ASCII | re.IGNORECASE) for name in configuration.names())
    return {int(match[1]) for match in found if match}


def _plan(machine: str, configuration: Configuration, cut: Cut, amounts: Ad) -> SlotPlan:
    partitionable = _partitionable(configuration, cut.type.number)
    name = f"{_prefix(configuration, cut.type.number)}{cut.number}@{machine}"
    ad = _identity(name, cut.number, cut.type.number, "Partitionable" if partitionable else "Static")
    return SlotPlan(name, "partitionable" if partitionable else "static", ad | amounts)


# The layout


def _volume(configuration: Configuration, equipment: Equipment, number: int) -> ExecuteVolume:
    directories = execute_directories(configuration)
    directory = directories.get(number) or directories.get(0, "")
    return equipment.volumes.get(directory) or next(iter(equipment.volumes.values()))


def execute_directories(configuration: Configuration) -> dict[int, str]:
    """Return the configured execute directories, by slot number; 0 is all others."""
    found = {0: configuration.get(EXECUTE)} if configuration.source(EXECUTE).kind != "default" else {}
    for name in configuration.names():
        if named := _OF_A_SLOT.fullmatch(name):
            found[int(named[1])] = configuration.get(name)
    return {number: directory for number, directory in found.items() if directory}


_OF_A_SLOT: Final = re.compile(rf"SLOT([0-9]{{1,6}})_{EXECUTE}", re.ASCII | re.IGNORECASE)


def _whole(
    configuration: Configuration, equipment: Equipment, customs: Sequence[Custom]
) -> tuple[Whole, dict[str, ExecuteVolume]]:
    """Return what there is to divide: what was detected or configured, without what is reserved."""
    volumes = {volume.id: volume for volume in equipment.volumes.values()}
    given = configuration.integer("DISK", 0)
    reserved = configuration.integer("RESERVED_DISK", 0) * 1024
    disks = {id: given or max(0, volume.free - reserved) for id, volume in volumes.items()}
    memory = configuration.integer("MEMORY", 0) or equipment.memory
    memory -= configuration.integer("RESERVED_MEMORY", 0)
    if memory <= 0:
        raise SlotTypeError("MEMORY less RESERVED_MEMORY leaves nothing for jobs: reserve less")
    cpus = configuration.integer("NUM_CPUS", 0) if configuration.defined("NUM_CPUS") else 0
    custom = {one.name: one.quantity for one in customs}
    return Whole(cpus or equipment.cpus, memory, equipment.swap, disks, custom), volumes


def _wanted(configuration: Configuration, whole: Whole) -> list[ConfiguredSlots]:
    for name in ("SLOT_TYPE_0", "NUM_SLOTS_TYPE_0"):
        if configuration.defined(name):
            raise SlotTypeError(f"{name}: type 0 is that of slots which divide a machine evenly: number types from 1")
    most = configuration.integer("MAX_SLOT_TYPES", 10)
    numbers = {int(named[1]) for name in configuration.names() if (named := _COUNT.fullmatch(name))}
    found = []
    for number in sorted(number for number in numbers if 1 <= number <= most):
        count = _counted(configuration, f"NUM_SLOTS_TYPE_{number}", 0)
        if count:
            found.append(ConfiguredSlots(number, configuration.get(f"SLOT_TYPE_{number}"), count))
            if configuration.boolean(f"SLOT_TYPE_{number}_BACKFILL", False):
                raise SlotTypeError(f"SLOT_TYPE_{number}_BACKFILL: there are no backfill slots here: leave it out")
    if not found:
        single = _partitionable(configuration, 0)
        found = [ConfiguredSlots(0, "auto", _counted(configuration, "NUM_SLOTS", 1 if single else int(whole.cpus)))]
    return found


_COUNT: Final = re.compile(r"NUM_SLOTS_TYPE_([0-9]{1,6})", re.ASCII | re.IGNORECASE)
_MOST_SLOTS: Final = 10_000
"""The most slots of one type on a machine."""


def _counted(configuration: Configuration, name: str, default: int) -> int:
    count = configuration.integer(name, default)
    if not 0 <= count <= _MOST_SLOTS:
        raise SlotTypeError(f"{name} = {count}: a machine has from 0 to {_MOST_SLOTS} slots of a type")
    return count


def _partitionable(configuration: Configuration, type: int) -> bool:
    return configuration.boolean(f"SLOT_TYPE_{type}_PARTITIONABLE", type == 0)


def _prefix(configuration: Configuration, type: int) -> str:
    return configuration.get(f"SLOT_TYPE_{type}_NAME_PREFIX") or configuration.get("STARTD_RESOURCE_PREFIX") or "slot"


def _provisioned(whole: Whole, cuts: Sequence[Cut]) -> dict[str, int]:
    """Return TotalDisk of each volume: all of it if a slot gets an equal part of the rest, else what was given out."""
    found = {}
    for volume, space in whole.disks.items():
        there = [cut for cut in cuts if cut.volume == volume]
        every = any(cut.type.shares[DISK] == "auto" for cut in there)
        found[volume] = int(space if every else sum(cut.amount(DISK) for cut in there))
    return found


# Ads


def _machine_ad(
    machine: str,
    configuration: Configuration,
    equipment: Equipment,
    whole: Whole,
    customs: Sequence[Custom],
    slots: int,
) -> Ad:
    ad = {**equipment.system, "MyType": '"Machine"', "TargetType": '"Job"', "Machine": quoted(machine)}
    ad |= {
        attribute: quoted(configuration.get(name))
        for attribute, name in _DOMAINS.items()
        if configuration.source(name).kind != "default" and configuration.get(name)
    }
    ad |= {
        "DetectedCpus": str(equipment.cpus),
        "DetectedMemory": str(equipment.memory),
        "TotalCpus": f"{float(whole.cpus)}",
        "TotalMemory": str(whole.memory),
        "TotalVirtualMemory": str(whole.swap),
        "TotalSlots": str(slots),
        "MachineResources": quoted(" ".join((CPUS, MEMORY, DISK, SWAP, *(custom.name for custom in customs)))),
    }
    for custom in customs:
        ad[f"Detected{custom.name}"] = ad[f"Total{custom.name}"] = _plain(custom.quantity)
        ad |= custom.facts
        if custom.offline:
            ad[f"Offline{custom.name}"] = quoted(",".join(custom.offline))
    return ad


def _identity(name: str, number: int, type: int, kind: str) -> Ad:
    return {
        "Name": quoted(name),
        "SlotID": str(number),
        "SlotTypeID": str(type),
        "SlotType": quoted(kind),
        **({"PartitionableSlot": "true"} if kind == "Partitionable" else {}),
    }


def _amounts(cut: Cut, customs: Sequence[Custom], things: Mapping[str, tuple[str, ...]]) -> Ad:
    cores = cut.amount(CPUS)
    cpus = _plain(cores) if cut.type.fractional else str(int(cores + 0.1))
    memory, disk = str(int(cut.amount(MEMORY))), str(int(cut.amount(DISK)))
    ad = {
        "Cpus": cpus, "TotalSlotCpus": cpus,
        "Memory": memory, "TotalSlotMemory": memory,
        "Disk": disk, "TotalSlotDisk": f"{cut.amount(DISK):.1f}",
        "VirtualMemory": str(int(cut.amount(SWAP))),
    }  # fmt: skip
    for custom in customs:
        ad[custom.name] = ad[f"TotalSlot{custom.name}"] = str(int(cut.amount(custom.name)))
        if custom.ids:
            ad |= of_things(custom.name, things.get(custom.name, ()), custom.properties)
    return ad


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(number)


def _under(configuration: Configuration, name: str, *prefixes: str) -> str:
    """Return the name of a setting with the first of the prefixes under which it is defined, else plain."""
    return next((prefix + name for prefix in prefixes if configuration.defined(prefix + name)), name)


def _policy(configuration: Configuration, number: int, type: int, customs: Sequence[str], partitionable: bool) -> Ad:
    def own(name: str) -> str:
        return _under(configuration, name, f"SLOT_TYPE_{type}_", f"SLOT{number}_")

    ad: Ad = {}
    for attribute, (names, default) in POLICY.items():
        text = next(filter(None, (_expression(configuration, own(name)) for name in names)), default)
        if attribute in _OF_THE_POOL:
            usual, unlimited = _OF_THE_POOL[attribute]
            given = text != usual or configuration.source(own(attribute)).kind != "default"
            text = (text or unlimited) if given else ""
        if text:
            ad[attribute] = text
    ad["Requirements"] = "Start && WithinResourceLimits"
    consumes = partitionable and configuration.boolean(own("CONSUMPTION_POLICY"), False)
    if consumes:
        for resource in (CPUS, MEMORY, DISK, *customs):
            wish = f"target.Request{resource}"
            text = _expression(configuration, own(f"CONSUMPTION_{resource}"))
            ad[f"Consumption{resource}"] = text or f"ifthenelse({wish} =?= undefined,0,{wish})"
    ad |= {name: _expression(configuration, own(name)) for name in _REQUESTS if own(name) != name}
    limits = _consumption_limits(customs) if consumes else within_resource_limits(customs)
    ad["WithinResourceLimits"] = _expression(configuration, own("WithinResourceLimits")) or limits
    return ad


def _expression(configuration: Configuration, name: str) -> str:
    """Return an expression as written, or rewritten where that means something else in the language's one syntax."""
    found, text = configuration.expression(name), configuration.get(name)
    if found is None:
        return ""
    alike = expression(text)
    return text if alike is not None and unparse(alike) == unparse(found) else unparse(found)


def within_resource_limits(customs: Sequence[str]) -> str:
    """Return the expression that tells whether a job requests no more than a slot has."""
    parts = [f"MY.{name} > 0 && TARGET.Request{name} <= MY.{name}" for name in (CPUS, MEMORY, DISK)]
    parts += [f"(TARGET.Request{name} =?= undefined || MY.{name} >= TARGET.Request{name})" for name in customs]
    return " && ".join(parts)


def _consumption_limits(customs: Sequence[str]) -> str:
    """Return the same for a slot with a consumption policy."""
    names = sorted((CPUS, MEMORY, DISK, *customs), key=str.lower)
    return " && ".join(
        f"ifThenElse(TARGET._cp_orig_Request{name} isnt undefined,TARGET.Request{name} <= MY.{name},"
        f"MY.Consumption{name} <= MY.{name})"
        for name in names
    )


def _added(configuration: Configuration, number: int, type: int) -> Ad:
    """Return the attributes of STARTD_ATTRS, of the slot type's list if any, and of the slot's own list, with the
    slot's values; without those that a type's list leaves out."""
    everywhere, by_slot, by_type = "STARTD_ATTRS", f"SLOT{number}_", f"SLOT_TYPE_{type}_"
    lists = (_under(configuration, everywhere, by_type), by_slot + everywhere, "STARTD_LATCH_EXPRS")
    found = {name: name for name in _words(configuration.get(everywhere))}
    for name in (name for each in lists for name in _words(configuration.get(each))):
        found[name] = _under(configuration, name, by_slot, by_type)
    ad = {name: _expression(configuration, key) for name, key in found.items()}
    return {name: text for name, text in ad.items() if text}


def _not_taken(added: Ad, taken: Ad) -> None:
    """Refuse attributes with the names of those that the pool itself gives a slot."""
    lower = {name.lower() for name in taken} if added else set()
    for name in added:
        if name.lower() in lower:
            raise SlotTypeError(f"STARTD_ATTRS: {name} is what the pool itself says of a slot: rename yours")


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()


def with_attributes(ad: Ad, added: Mapping[str, str]) -> Ad:
    """Return an ad with further attributes, in its own spelling of their names; an empty text removes one."""
    spelled = {name.lower(): name for name in ad}
    whole = {**ad, **{spelled.get(name.lower(), name): text for name, text in added.items()}}
    return {name: text for name, text in whole.items() if text}


__all__ = ["ConfigError", "Equipment", "ExecuteVolume", "SlotTypeError", "offer", "reconfigured"]
