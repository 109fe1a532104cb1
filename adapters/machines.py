"""This machine as a member of the pool: what it has, and the slots that are made of it."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from ..domain.decide.slots import RESOURCES
from ..domain.decide.stimuli import AddMachine, SlotPlan
from ..domain.events import Ad
from ..domain.job_ad import quoted
from .facts import CONDOR_VERSION, architecture, condor_platform, operating_system

WITHIN_RESOURCE_LIMITS = (
    "MY.Cpus > 0 && TARGET.RequestCpus <= MY.Cpus && MY.Memory > 0 && TARGET.RequestMemory <= MY.Memory && "
    "MY.Disk > 0 && TARGET.RequestDisk <= MY.Disk && "
    "(TARGET.RequestGPUs =?= undefined || MY.GPUs >= TARGET.RequestGPUs)"
)


def detected(execute: Path) -> dict[str, int]:
    """Cores, memory (MiB) and the disk space (KiB) that is free where jobs run."""
    import psutil

    existing = execute
    while not existing.exists():
        existing = existing.parent
    return {
        "Cpus": len(os.sched_getaffinity(0)),
        "Memory": psutil.virtual_memory().total // 2**20,
        "Disk": psutil.disk_usage(str(existing)).free // 1024,
    }


def _distribution() -> Ad:
    """What HTCondor's ads say of the distribution: "Debian12", "Debian", 12 ..."""
    try:
        found = platform.freedesktop_os_release()
    except OSError:
        return {}
    name = found.get("NAME", "").split()[0] if found.get("NAME") else found["ID"].capitalize()
    major = found.get("VERSION_ID", "").partition(".")[0]
    ad = {
        "OpSysAndVer": quoted(name + major),
        "OpSysName": quoted(name),
        "OpSysShortName": quoted(name),
        "OpSysLongName": quoted(found.get("PRETTY_NAME", name)),
    }
    if major.isdigit():
        ad |= {"OpSysMajorVer": major, "OpSysVer": str(int(major) * 100)}
    return ad


def machine_ad(name: str, resources: dict[str, int], uid_domain: str) -> Ad:
    """What all slots of a machine say of it."""
    ad = {
        "MyType": '"Machine"',
        "TargetType": '"Job"',
        "Machine": quoted(name),
        "Arch": quoted(architecture()),
        "OpSys": quoted(operating_system()),
        **_distribution(),
        "CondorVersion": quoted(CONDOR_VERSION),
        "CondorPlatform": quoted(condor_platform()),
        "FileSystemDomain": quoted(uid_domain),
        "UidDomain": quoted(uid_domain),
        "HasFileTransfer": "true",
        "GPUs": "0",
        "MaxJobRetirementTime": "0",
        "Rank": "0.0",
        "SlotWeight": "Cpus",
        "Start": "true",
        "Requirements": "Start && WithinResourceLimits",
        "WithinResourceLimits": WITHIN_RESOURCE_LIMITS,
    }
    for key, amount in resources.items():
        ad[f"Total{key}"] = ad[f"Detected{key}"] = str(amount)
    return ad


def machine(id: str, name: str, resources: dict[str, int], uid_domain: str, static: int = 0) -> AddMachine:
    """A machine with one partitionable slot, or with `static` equal slots.

    :raises ValueError: if the resources do not suffice for that many slots.
    """
    ad = machine_ad(name, resources, uid_domain)
    count = static or 1
    share = {key: max(resources[key] // count, 1 if key == "Cpus" else 0) for key, _, _ in RESOURCES}
    if not all(share.values()):
        lacking = ", ".join(key for key, amount in share.items() if not amount)
        raise ValueError(f"{count} slots are too many for this machine: nothing is left for each of {lacking}")
    kind = "static" if static else "partitionable"
    slots = tuple(_slot(name, number, kind, share, count) for number in range(1, count + 1))
    return AddMachine(id, name, ad, slots)


def _slot(machine: str, number: int, kind: str, share: dict[str, int], count: int) -> SlotPlan:
    name = f"slot{number}@{machine}"
    ad = {
        "Name": quoted(name),
        "SlotID": str(number),
        "SlotTypeID": "1",
        "SlotType": quoted(kind.capitalize()),
        "PartitionableSlot": "true" if kind == "partitionable" else "false",
        "DynamicSlot": "false",
        "TotalSlots": str(count),
    }
    for key, amount in share.items():
        ad[key] = ad[f"TotalSlot{key}"] = str(amount)
    return SlotPlan(name, kind, ad)
