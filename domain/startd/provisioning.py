"""Build a machine's slots, their ads and its startd's settings from a configuration.

``machine_offer`` returns the stimulus that adds a machine to the pool; ``reconfiguration`` returns the stimulus that
reconfigures it. The ads built here are private and include the policy's expressions; ``public_ad`` builds the published
ads. An expression is looked up as SLOT_TYPE_<N>_NAME, then SLOT<N>_NAME, then NAME. (HTCondor uses SLOT<N>_NAME only
for attributes, where it has precedence over SLOT_TYPE_<N>_NAME.)
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
from ..state.caches import parse_cached
from ..state.job_ad import quoted, unquoted
from ..state.pool_settings import FILESYSTEM_DOMAIN, UID_DOMAIN
from ..state.records import Machine, Slot
from .custom_resources import (
    PREFIX,
    CustomResource,
    assign_devices,
    assigned_ids,
    attributes_of_devices,
    make_custom_resources,
    split_list,
)
from .slot_types import (
    CPUS,
    DISK,
    MEMORY,
    SWAP,
    ConfiguredSlots,
    DivisibleResources,
    SlotAllocation,
    SlotTypeError,
    divide_machine,
)
from .startd_settings import BACKFILL_SYSTEMS, FREE_DISK, SETTINGS


@frozen
class ExecuteVolume:
    """A file system on which jobs run, with its free and total space in KiB."""

    id: str
    free: int
    total: int


@frozen
class Equipment:
    """The detected hardware of a machine, and the attributes of its operating system."""

    cpus: int
    memory: int
    """MiB."""
    swap: int
    """Virtual memory in KiB."""
    volumes: Mapping[str, ExecuteVolume]
    """The volumes, by configured execute directory."""
    system: Ad = Factory(dict)
    inventories: Mapping[str, str] = Factory(dict)
    """The output of each MACHINE_RESOURCE_INVENTORY_<name>, by resource name."""


EXECUTE: Final = "EXECUTE"
_DOMAINS: Final = {"UidDomain": UID_DOMAIN, "FileSystemDomain": FILESYSTEM_DOMAIN}
"""The machine attributes for which a configured value takes precedence over the pool's value."""

POLICY: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    # attribute: the settings that may define it, and its default (empty: the ad omits the attribute)
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
    "Rank": (("RANK",), ""),
    "CpuBusy": (("CpuBusy", "cpu_busy"), "false"),
    "SlotWeight": (("SLOT_WEIGHT", "SlotWeight"), "Cpus"),
    "START_BACKFILL": (("START_BACKFILL",), ""),
    "EVICT_BACKFILL": (("EVICT_BACKFILL",), ""),
}
"""The policy expressions in a slot's ad, with the defaults for a configuration that does not define them. (HTCondor's
own defaults are in the configuration.)"""
_VARIED: Final = ("SUSPEND", "CONTINUE", "PREEMPT", "KILL", "WANT_SUSPEND", "WANT_VACATE", "WANT_HOLD",
                  "WANT_HOLD_REASON", "WANT_HOLD_SUBCODE", "MaxJobRetirementTime")  # fmt: skip
"""The expressions that may have a variant for vanilla universe jobs."""
POLICY.update({f"{name}_VANILLA": ((f"{name}_VANILLA",), "") for name in _VARIED})

_POOL_SETTINGS: Final = {"CLAIM_WORKLIFE": ("1200", "-1"), "MachineMaxVacateTime": ("10 * 60", "")}
"""The settings that a pool has too: HTCondor's default, and the value that means no limit. A slot's ad contains such a
setting only if the configured value differs from the default; an empty setting means no limit."""

_REQUESTS: Final = tuple(f"MODIFY_REQUEST_EXPR_REQUEST{name}" for name in ("CPUS", "MEMORY", "DISK"))
"""The settings that a slot's ad contains if its slot type overrides them."""

_KEPT_ATTRIBUTES: Final = frozenset({"TotalDisk", "DetectedDisk", "Disk", "Cpus", "Memory"})
"""The attributes of a slot's ad that a reconfiguration does not change."""


def machine_offer(id: str, machine: str, configuration: Configuration, equipment: Equipment) -> AddMachine:
    """Return the stimulus that adds a machine to the pool.

    :raises SlotTypeError: if the machine cannot be divided into the configured slots
    :raises ConfigError: if a setting is not a valid expression
    """
    custom_resources = make_custom_resources(configuration, equipment.inventories)
    total, volumes = _divisible_resources(configuration, equipment, custom_resources)
    groups = _configured_slots(configuration, total)
    slot_count = sum(group.count for group in groups)
    volume_ids = {number: _volume(configuration, equipment, number).id for number in range(1, slot_count + 1)}
    allocations = divide_machine(total, groups, volume_ids)
    devices = assign_devices(custom_resources, allocations, may_break=_may_break(configuration))
    total_disk = _total_disk(total, allocations)
    machine_ad = _machine_ad(machine, configuration, equipment, total, custom_resources, len(allocations))
    names = [resource.name for resource in custom_resources]
    matches = (re.match("SLOT([0-9]+)_", name, re.ASCII | re.IGNORECASE) for name in configuration.names())
    slots_with_settings = {int(match[1]) for match in matches if match}

    @cache
    def configured_attributes(number: int, type: int) -> tuple[Ad, Ad]:
        policy = _policy(configuration, number, type, names, _is_partitionable(configuration, type))
        return policy, _startd_attrs(configuration, number, type)

    slots = []
    for allocation in allocations:
        number = allocation.number if allocation.number in slots_with_settings else 0
        policy, startd_attrs = configured_attributes(number, allocation.type.number)
        assignment = devices[allocation.number]
        amounts = _amounts(allocation, custom_resources, assignment.ids)
        plan = _plan(machine, configuration, allocation, amounts)
        volume = volumes[allocation.volume]
        disk = {"TotalDisk": str(total_disk[volume.id]), "DetectedDisk": str(volume.total), FREE_DISK: str(volume.free)}
        slot_ad = {**plan.ad, **disk, "ExecuteVolume": quoted(volume.id)}
        _check_startd_attrs(startd_attrs, {**machine_ad, **slot_ad})
        slot_ad = with_attributes({**slot_ad, **policy}, startd_attrs)
        slots.append(SlotPlan(plan.name, plan.kind, _break_slot(slot_ad, names, assignment.broken)))
    return AddMachine(id, machine, machine_ad, tuple(slots), configured_settings(configuration))


def reconfiguration(
    id: str, machine: Machine, slots: Iterable[Slot], configuration: Configuration, equipment: Equipment
) -> Reconfigure:
    """Return the stimulus that reconfigures a machine with these slots.

    :raises SlotTypeError: if the machine cannot be divided into the configured slots
    :raises ConfigError: if a setting is not a valid expression
    """
    slots_by_name = {slot.name: slot for slot in slots}
    equipment = _equipment_when_joined(machine, slots_by_name.values(), equipment)
    offer = machine_offer(id, machine.name, configuration, equipment)
    resources = unquoted(offer.ad["MachineResources"]).split()
    kept_names = _KEPT_ATTRIBUTES.union(resources)
    plans = []
    for plan in offer.slots:
        ad = {**offer.ad, **plan.ad}
        if plan.name in slots_by_name:
            slot_ad = slots_by_name[plan.name].ad
            ad |= {name: text for name, text in slot_ad.items() if name in kept_names}
            for resource in resources:
                listed = split_list(configuration.get(f"{PREFIX}{resource}"))
                if f"Available{resource}" in slot_ad and (
                    not listed or {*assigned_ids(slot_ad, resource)} <= {*listed}
                ):
                    ad = _with_devices_when_joined(ad, slot_ad, resource, configuration)
        plans.append(SlotPlan(plan.name, plan.kind, ad))
    return Reconfigure(id, machine.name, offer.settings, offer.ad, tuple(plans))


def _with_devices_when_joined(ad: Ad, old: Mapping[str, str], resource: str, configuration: Configuration) -> Ad:
    """Return a slot's ad with the devices that the machine had when it joined. Those that the configuration takes out
    of service are offline; devices that had failed are not any more."""
    attributes = {f"{prefix}{resource}" for prefix in ("Assigned", "Available", "Detected", "Total", "TotalSlot")}
    offline_names = {f"Offline{resource}", f"Offline{resource}Reason"}

    def is_of_devices(name: str) -> bool:
        return name in attributes or name.startswith(f"{resource}_")

    others = {name: text for name, text in ad.items() if not is_of_devices(name) and name not in offline_names}
    configured = split_list(configuration.get(f"OFFLINE_{PREFIX}{resource}"))
    detected = split_list(unquoted(old.get(f"Detected{resource}", '""')))
    offline = dict.fromkeys(id for id in detected if id in configured)
    more = {f"Offline{resource}": quoted(",".join(offline))} if offline else {}
    return {**others, **{name: text for name, text in old.items() if is_of_devices(name)}, **more}


def _equipment_when_joined(machine: Machine, slots: Iterable[Slot], equipment: Equipment) -> Equipment:
    """Return the equipment, with free disk space and swap as they were when the machine joined, so that files written
    since then do not change the slots."""
    free = {unquoted(slot.ad["ExecuteVolume"]): int(slot.ad[FREE_DISK]) for slot in slots if FREE_DISK in slot.ad}
    volumes = {path: evolve(disk, free=free.get(disk.id, disk.free)) for path, disk in equipment.volumes.items()}
    return evolve(equipment, volumes=volumes, swap=int(machine.ad.get("TotalVirtualMemory", equipment.swap)))


_TEXTS: Final = (
    "DEFAULT_DRAINING_START_EXPR", "STARTD_SLOT_ATTRS", "STARTD_JOB_ATTRS", "STARTD_LATCH_EXPRS",
    "STARTD_PARTITIONABLE_SLOT_ATTRS", "BACKFILL_SYSTEM",
    *(name for names in BACKFILL_SYSTEMS.values() for name in names),
)  # fmt: skip
_BOOLEANS: Final = ("MUST_MODIFY_REQUEST_EXPRS", "ENABLE_BACKFILL", "ADVERTISE_PSLOT_ROLLUP_INFORMATION")
"""The settings that are booleans. All others, except strings and ``_REQUESTS``, are numbers."""


def configured_settings(configuration: Configuration) -> Ad:
    """Return those settings of a startd that differ from ``SETTINGS``.

    :raises ConfigError: if a setting is not a number, or backfill is enabled without a required setting
    """
    _check_backfill(configuration)
    changed_settings: Ad = {}
    for name, default in SETTINGS.items():
        value = configuration.get(name)
        if name in _BOOLEANS:
            value = str(configuration.boolean(name, default == "true")).lower()
        elif value and name not in (*_REQUESTS, *_TEXTS):
            value = str(configuration.integer(name, 0))  # may be written as an expression such as 10 * $(MINUTE)
        if configuration.source(name).kind != "default" or (value != default and name not in _REQUESTS):
            changed_settings[name] = value
    return changed_settings


_VANILLA: Final = ("vanilla", "5")
_CLIENT_PATHS: Final = ("Executable", "InitialDir")


def _check_backfill(configuration: Configuration) -> None:
    """Check the settings of the backfill client.

    :raises ConfigError: if the client could not run with them
    """
    if not configuration.boolean("ENABLE_BACKFILL", False):
        return
    system, known_systems = configuration.get("BACKFILL_SYSTEM").upper(), " or ".join(BACKFILL_SYSTEMS)
    if system not in BACKFILL_SYSTEMS:
        problem = f"{system} is not a backfill system" if system else "it is not set"
        message = f"BACKFILL_SYSTEM: {problem}, but ENABLE_BACKFILL is true: set it to {known_systems}"
        raise configuration.error("BACKFILL_SYSTEM", message)
    for name in (f"{system}_{name}" for name in _CLIENT_PATHS):
        if not configuration.get(name).startswith("/"):
            problem = f"{configuration.get(name) or 'it'} is not a full path: the backfill client needs one"
            raise configuration.error(name, f"{name}: {problem}")
    name = f"{system}_Universe"
    if configuration.get(name, "" if system == "BOINC" else "vanilla").lower() not in _VANILLA:
        raise configuration.error(name, f"{name}: backfill clients run in the vanilla universe; set it to vanilla")


def _plan(machine: str, configuration: Configuration, allocation: SlotAllocation, amounts: Ad) -> SlotPlan:
    type = allocation.type.number
    partitionable = _is_partitionable(configuration, type)
    prefix = configuration.get(f"SLOT_TYPE_{type}_NAME_PREFIX") or configuration.get("STARTD_RESOURCE_PREFIX")
    name = f"{prefix or 'slot'}{allocation.number}@{machine}"
    ad = _identity(name, allocation.number, type, "Partitionable" if partitionable else "Static")
    return SlotPlan(name, "partitionable" if partitionable else "static", ad | amounts)


# Division into slots


def _volume(configuration: Configuration, equipment: Equipment, number: int) -> ExecuteVolume:
    directories = execute_directories(configuration)
    directory = directories.get(number) or directories.get(0, "")
    return equipment.volumes.get(directory) or next(iter(equipment.volumes.values()))


def execute_directories(configuration: Configuration) -> dict[int, str]:
    """Return the configured execute directories by slot number; number 0 is the directory for all other slots."""
    directories = {0: configuration.get(EXECUTE)} if configuration.source(EXECUTE).kind != "default" else {}
    for name in configuration.names():
        if match := _SLOT_EXECUTE.fullmatch(name):
            directories[int(match[1])] = configuration.get(name)
    return {number: directory for number, directory in directories.items() if directory}


_SLOT_EXECUTE: Final = re.compile(rf"SLOT([0-9]{{1,6}})_{EXECUTE}", re.ASCII | re.IGNORECASE)


def _divisible_resources(
    configuration: Configuration, equipment: Equipment, custom_resources: Sequence[CustomResource]
) -> tuple[DivisibleResources, dict[str, ExecuteVolume]]:
    """Return the detected or configured resources without the reserved part, and the execute volumes by id."""
    volumes = {volume.id: volume for volume in equipment.volumes.values()}
    configured_disk = configuration.integer("DISK", 0)
    reserved = configuration.integer("RESERVED_DISK", 0) * 1024
    disks = {id: configured_disk or max(0, volume.free - reserved) for id, volume in volumes.items()}
    memory = configuration.integer("MEMORY", 0) or equipment.memory
    memory -= configuration.integer("RESERVED_MEMORY", 0)
    if memory <= 0:
        raise SlotTypeError("RESERVED_MEMORY leaves no memory for jobs; reserve less")
    cpus = configuration.integer("NUM_CPUS", 0) if configuration.is_defined("NUM_CPUS") else 0
    custom = {resource.name: resource.quantity for resource in custom_resources}
    return DivisibleResources(cpus or equipment.cpus, memory, equipment.swap, disks, custom), volumes


def _configured_slots(configuration: Configuration, total: DivisibleResources) -> list[ConfiguredSlots]:
    for name in ("SLOT_TYPE_0", "NUM_SLOTS_TYPE_0"):
        if configuration.is_defined(name):
            raise SlotTypeError(f"{name}: type 0 is reserved for evenly divided machines; number types from 1")
    max_types = configuration.integer("MAX_SLOT_TYPES", 10)
    numbers = {int(match[1]) for name in configuration.names() if (match := _NUM_SLOTS_TYPE.fullmatch(name))}
    groups = []
    for number in sorted(number for number in numbers if 1 <= number <= max_types):
        count = _slot_count(configuration, f"NUM_SLOTS_TYPE_{number}", 0)
        if count:
            groups.append(ConfiguredSlots(number, configuration.get(f"SLOT_TYPE_{number}"), count))
            if configuration.boolean(f"SLOT_TYPE_{number}_BACKFILL", False):
                raise SlotTypeError(
                    f"SLOT_TYPE_{number}_BACKFILL: backfill slots are not supported; remove this setting"
                )
    if not groups:
        default = 1 if _is_partitionable(configuration, 0) else int(total.cpus)
        groups = [ConfiguredSlots(0, "auto", _slot_count(configuration, "NUM_SLOTS", default))]
    return groups


_NUM_SLOTS_TYPE: Final = re.compile(r"NUM_SLOTS_TYPE_([0-9]{1,6})", re.ASCII | re.IGNORECASE)
_MAX_SLOTS: Final = 10_000
"""The maximum number of slots of one type on a machine."""


def _slot_count(configuration: Configuration, name: str, default: int) -> int:
    count = configuration.integer(name, default)
    if not 0 <= count <= _MAX_SLOTS:
        raise SlotTypeError(f"{name} = {count}: the number of slots of a type must be from 0 to {_MAX_SLOTS}")
    return count


def _may_break(configuration: Configuration) -> bool:
    """Return True if the other slots are created when the devices of one are missing."""
    mode = configuration.get("SLOT_CONFIG_FAILURE_MODE").upper()
    if mode not in ("", "CONTINUE", "ABORT"):
        raise configuration.error(
            "SLOT_CONFIG_FAILURE_MODE", f"SLOT_CONFIG_FAILURE_MODE: {mode} is not supported; use CONTINUE or ABORT"
        )
    return mode != "ABORT"


_BIND_FAILED: Final = "2"
"""The SlotBrokenCode of a slot whose devices are missing."""


def _break_slot(ad: Ad, resources: Iterable[str], reason: str) -> Ad:
    """Return the ad of a slot that is broken for a ``reason``, or the same ad if the reason is empty. As in HTCondor, a
    broken slot has no cores, no memory and no START, and its Requirements is the reason, so that no job matches it."""
    if not reason:
        return ad
    without = {"Start": "", "WithinResourceLimits": "", CPUS: "0", MEMORY: "0", **dict.fromkeys(resources, "0")}
    broken = {"SlotBrokenCode": _BIND_FAILED, "SlotBrokenReason": quoted(reason), "Requirements": quoted(reason)}
    return with_attributes(ad, {**without, **broken})


def _is_partitionable(configuration: Configuration, type: int) -> bool:
    return configuration.boolean(f"SLOT_TYPE_{type}_PARTITIONABLE", type == 0)


def _total_disk(total: DivisibleResources, allocations: Sequence[SlotAllocation]) -> dict[str, int]:
    """Return TotalDisk of each volume: its total space if a slot's share is ``auto``, else the sum of the shares."""
    totals = {}
    for volume, space in total.disks.items():
        slots = [allocation for allocation in allocations if allocation.volume == volume]
        has_auto = any(allocation.type.shares[DISK] == "auto" for allocation in slots)
        totals[volume] = int(space if has_auto else sum(allocation.amount(DISK) for allocation in slots))
    return totals


# Ads


def _machine_ad(
    machine: str,
    configuration: Configuration,
    equipment: Equipment,
    total: DivisibleResources,
    custom_resources: Sequence[CustomResource],
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
        "TotalCpus": f"{float(total.cpus)}",
        "TotalMemory": str(total.memory),
        "TotalVirtualMemory": str(total.swap),
        "TotalSlots": str(slots),
        "MachineResources": quoted(" ".join((CPUS, MEMORY, DISK, SWAP, *(custom.name for custom in custom_resources)))),
    }
    for custom in custom_resources:
        ad[f"Detected{custom.name}"] = ad[f"Total{custom.name}"] = _number_text(custom.quantity)
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


def _amounts(
    allocation: SlotAllocation, custom_resources: Sequence[CustomResource], device_ids: Mapping[str, tuple[str, ...]]
) -> Ad:
    cores = allocation.amount(CPUS)
    cpus = _number_text(cores) if allocation.type.fractional else str(int(cores + 0.1))
    memory, disk = str(int(allocation.amount(MEMORY))), str(int(allocation.amount(DISK)))
    ad = {
        "Cpus": cpus, "TotalSlotCpus": cpus,
        "Memory": memory, "TotalSlotMemory": memory,
        "Disk": disk, "TotalSlotDisk": f"{allocation.amount(DISK):.1f}",
        "VirtualMemory": str(int(allocation.amount(SWAP))),
    }  # fmt: skip
    for custom in custom_resources:
        ad[custom.name] = ad[f"TotalSlot{custom.name}"] = str(int(allocation.amount(custom.name)))
        if custom.ids:
            ad |= attributes_of_devices(custom.name, device_ids.get(custom.name, ()), custom.properties)
    return ad


def _number_text(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(number)


def _most_specific_name(configuration: Configuration, name: str, *prefixes: str) -> str:
    """Return the setting's name with the first prefix for which it is defined, or without a prefix."""
    return next((prefix + name for prefix in prefixes if configuration.is_defined(prefix + name)), name)


def _policy(configuration: Configuration, number: int, type: int, resources: Sequence[str], partitionable: bool) -> Ad:
    def setting_name(name: str) -> str:
        return _most_specific_name(configuration, name, f"SLOT_TYPE_{type}_", f"SLOT{number}_")

    ad: Ad = {}
    for attribute, (names, default) in POLICY.items():
        text = next(filter(None, (_expression(configuration, setting_name(name)) for name in names)), default)
        if attribute in _POOL_SETTINGS:
            htcondor_default, unlimited = _POOL_SETTINGS[attribute]
            is_configured = text != htcondor_default or configuration.source(setting_name(attribute)).kind != "default"
            text = (text or unlimited) if is_configured else ""
        if text:
            ad[attribute] = text
    ad["Requirements"] = "Start && WithinResourceLimits"
    has_consumption_policy = partitionable and configuration.boolean(setting_name("CONSUMPTION_POLICY"), False)
    if has_consumption_policy:
        for resource in (CPUS, MEMORY, DISK, *resources):
            request = f"target.Request{resource}"
            text = _expression(configuration, setting_name(f"CONSUMPTION_{resource}"))
            ad[f"Consumption{resource}"] = text or f"ifthenelse({request} =?= undefined,0,{request})"
    ad |= {name: _expression(configuration, setting_name(name)) for name in _REQUESTS if setting_name(name) != name}
    limits = _consumption_limits(resources) if has_consumption_policy else within_resource_limits(resources)
    ad["WithinResourceLimits"] = _expression(configuration, setting_name("WithinResourceLimits")) or limits
    return ad


def _expression(configuration: Configuration, name: str) -> str:
    """Return an expression as configured; unparsed if its old syntax means something else in new ClassAd syntax."""
    configured, text = configuration.expression(name), configuration.get(name)
    if configured is None:
        return ""
    reparsed = parse_cached(text)
    same = reparsed is not None and unparse(reparsed) == unparse(configured)
    return text if same else unparse(configured)


def within_resource_limits(custom_names: Sequence[str]) -> str:
    """Return the expression that is true if a job requests no more than the slot has."""
    parts = [f"MY.{name} > 0 && TARGET.Request{name} <= MY.{name}" for name in (CPUS, MEMORY, DISK)]
    parts += [f"(TARGET.Request{name} =?= undefined || MY.{name} >= TARGET.Request{name})" for name in custom_names]
    return " && ".join(parts)


def _consumption_limits(custom_names: Sequence[str]) -> str:
    names = sorted((CPUS, MEMORY, DISK, *custom_names), key=str.lower)
    return " && ".join(
        f"ifThenElse(TARGET._cp_orig_Request{name} isnt undefined,TARGET.Request{name} <= MY.{name},"
        f"MY.Consumption{name} <= MY.{name})"
        for name in names
    )


def _startd_attrs(configuration: Configuration, number: int, type: int) -> Ad:
    """Return the attributes listed in STARTD_ATTRS, in the slot type's and the slot's list, and in STARTD_LATCH_EXPRS,
    with their values for the slot."""
    list_name, by_slot, by_type = "STARTD_ATTRS", f"SLOT{number}_", f"SLOT_TYPE_{type}_"
    lists = (_most_specific_name(configuration, list_name, by_type), by_slot + list_name, "STARTD_LATCH_EXPRS")
    setting_names = {name: name for name in split_list(configuration.get(list_name))}
    for name in (name for setting in lists for name in split_list(configuration.get(setting))):
        setting_names[name] = _most_specific_name(configuration, name, by_slot, by_type)
    ad = {name: _expression(configuration, setting) for name, setting in setting_names.items()}
    return {name: text for name, text in ad.items() if text}


def _check_startd_attrs(startd_attrs: Ad, built_in: Ad) -> None:
    """Check that STARTD_ATTRS does not redefine built-in attributes.

    :raises SlotTypeError: if it redefines one
    """
    lower_names = {name.lower() for name in built_in} if startd_attrs else set()
    for name in startd_attrs:
        if name.lower() in lower_names:
            raise SlotTypeError(f"STARTD_ATTRS: {name} is set by the startd; choose another name")


def with_attributes(ad: Ad, added: Mapping[str, str]) -> Ad:
    """Return the ad with attributes added. They replace attributes in any spelling; an empty text removes one."""
    spellings = {name.lower(): name for name in ad}
    combined = {**ad, **{spellings.get(name.lower(), name): text for name, text in added.items()}}
    return {name: text for name, text in combined.items() if text}


__all__ = ["ConfigError", "Equipment", "ExecuteVolume", "SlotTypeError", "machine_offer", "reconfiguration"]
