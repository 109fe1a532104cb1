"""This machine as a member of the pool: its detected hardware, and what it offers under a configuration."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ...domain.classad.time_zones import zone_of
from ...domain.config import Configuration, read
from ...domain.events import Ad
from ...domain.ports.stimuli import AddMachine, SlotPlan
from ...domain.startd.custom_resources import inventory_commands
from ...domain.startd.provisioning import Equipment, ExecuteVolume, execute_directories, machine_offer, with_attributes
from ...domain.startd.slot_types import SlotTypeError
from ...domain.state.job_ad import quoted
from ...domain.state.machine_times import ZONE
from ...domain.state.pool_settings import FILESYSTEM_DOMAIN, UID_DOMAIN
from ...domain.state.records import Machine, Slot
from .containers import runtime_attributes as runtimes
from .execution.activation import SCRATCH_DIRECTORY
from .host import CONDOR_VERSION, architecture, condor_platform, operating_system
from .local_time import local_zone
from .transfer_plugins import plugin_attributes

# Describe this machine's processor as machine ads do, from what Linux reports.

FEATURES: Final = ("avx", "avx2", "avx512_vnni", "avx512dq", "avx512f", "sse4_1", "sse4_2", "ssse3")
"""Processor features that have an attribute in ads, such as has_avx2."""
LEVELS: Final = {
    "x86_64-v4": {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"},
    "x86_64-v3": {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"},
    "x86_64-v2": {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"},
}
"""The features that each microarchitecture level requires, highest level first (HTCondor's lists)."""
_NUMBER_ATTRIBUTES: Final = {"CpuFamily": "cpu family", "CpuModelNumber": "model", "CpuCacheSize": "cache size"}


def processor_ad(cpuinfo: str) -> Ad:
    """Return a processor's ad, for the first processor in the text of /proc/cpuinfo."""
    facts = dict(re.findall(r"^([^:\n]+?)\s*:[ \t]*(.*)$", cpuinfo.partition("\n\n")[0], flags=re.MULTILINE))
    numbers = {attribute: re.match("[0-9]+", facts.get(name, "")) for attribute, name in _NUMBER_ATTRIBUTES.items()}
    ad = {attribute: number[0] for attribute, number in numbers.items() if number}
    flags = set(facts.get("flags", "").split())
    level = next((level for level, features in LEVELS.items() if features <= flags), "")
    if level:
        ad["Microarch"] = quoted(level)
    return ad | {f"has_{flag}": "true" for flag in FEATURES if flag in flags}


def system_names() -> Ad:
    """Return the attributes that uname reports, with the processor's ad."""
    names = platform.uname()
    ad = {
        "UtsnameMachine": quoted(names.machine),
        "UtsnameNodename": quoted(names.node),
        "UtsnameRelease": quoted(names.release),
        "UtsnameSysname": quoted(names.system),
        "UtsnameVersion": quoted(names.version),
    }
    try:
        return ad | processor_ad(Path("/proc/cpuinfo").read_text(errors="replace"))
    except OSError:
        return ad


_UNMEASURED_SPEED = "RunBenchmarks = false"


def detect_resources(execute: Path) -> dict[str, int]:
    """Return the cores, the memory (MiB) and the free disk space (KiB) where jobs run."""
    import psutil

    return {
        "Cpus": len(os.sched_getaffinity(0)),
        "Memory": psutil.virtual_memory().total // 2**20,
        "Disk": execute_volume(execute).free,
    }


def execute_volume(directory: Path) -> ExecuteVolume:
    """Return the file system of a directory, or of its nearest existing ancestor."""
    existing = directory
    while not existing.exists():
        existing = existing.parent
    usage = os.statvfs(existing)
    unit = usage.f_frsize
    return ExecuteVolume(str(existing.stat().st_dev), usage.f_bavail * unit // 1024, usage.f_blocks * unit // 1024)


def machine_equipment(configuration: Configuration, execute: Path, system: Ad) -> Equipment:
    """Return this machine's hardware; jobs run in ``execute`` unless the configuration names another directory. Raise
    `SlotTypeError` if a custom resource's inventory command fails."""
    import psutil

    resources = detect_resources(execute)
    memory = psutil.virtual_memory().total
    named_folders = execute_directories(configuration)
    volumes = {directory: execute_volume(Path(directory)) for directory in named_folders.values()}
    if 0 not in named_folders:
        volumes = {"": execute_volume(execute), **volumes}
    inventory = {name: _run_inventory(name, command) for name, command in inventory_commands(configuration).items()}
    swap = (memory + psutil.swap_memory().free) // 1024
    system = {**system, **system_names(), **_zone_ad(), **plugin_attributes(configuration), **runtimes(configuration)}
    return Equipment(resources["Cpus"], resources["Memory"], swap, volumes, system, inventory)


def _zone_ad() -> Ad:
    """Return the attribute with the name of this machine's time zone, if the zone database has the zone."""
    name, now = local_zone(), datetime.now(UTC)
    is_known = now.astimezone(zone_of(name)).utcoffset() == now.astimezone().utcoffset()
    return {ZONE: quoted(name)} if is_known else {}


_PATIENCE = 60  #: maximum number of seconds that an inventory command may take
_GPU_DISCOVERY = "condor_gpu_discovery"
"""The inventory program of `use FEATURE : GPUs`. If it is not installed, this package's own program runs."""
_OWN_GPU_DISCOVERY = "import sys; from poolbook.adapters.cli.gpu_tools import *; sys.exit(gpu_discovery(sys.argv[1:]))"
_GPU_DRIVERS = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
"""The devices of NVIDIA's driver (on Linux, and on Linux in Windows) and of AMD's."""
_WITHOUT_DRIVER = ("-sim", "-ope")
"""The first letters of the options with which discovery finds GPUs without these drivers."""


def _run_inventory(name: str, command: str) -> str:
    """Return what a program prints. A separate process loads the libraries of GPUs, because they cannot be unloaded."""
    import shlex

    try:
        words = shlex.split(command)
        if words[0].endswith(f"/{_GPU_DISCOVERY}") and not Path(words[0]).exists():
            if not any(map(os.path.exists, _GPU_DRIVERS)) and not any(w.startswith(_WITHOUT_DRIVER) for w in words):
                return "DetectedGPUs = 0\n"
            words = [sys.executable, "-c", _OWN_GPU_DISCOVERY, *words[1:]]
        completed = subprocess.run(
            words, capture_output=True, text=True, errors="replace", timeout=_PATIENCE, check=True
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise SlotTypeError(f"MACHINE_RESOURCE_INVENTORY_{name}: {command}: {error}: fix or remove it") from None
    return completed.stdout


def _distribution_ad() -> Ad:
    """Return the attributes of the Linux distribution: "Debian12", "Debian", 12 ..."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return {}
    name = release.get("NAME", "").split()[0] if release.get("NAME") else release["ID"].capitalize()
    major_version = release.get("VERSION_ID", "").partition(".")[0]
    ad = {
        "OpSysAndVer": quoted(name + major_version),
        "OpSysName": quoted(name),
        "OpSysShortName": quoted(name),
        "OpSysLongName": quoted(release.get("PRETTY_NAME", name)),
    }
    if major_version.isdigit():
        ad |= {"OpSysMajorVer": major_version, "OpSysVer": str(int(major_version) * 100)}
    return ad


def system_ad(domains: Mapping[str, str]) -> Ad:
    """Return a machine's system attributes; ``domains`` are its pool's, for a machine whose configuration sets none."""
    return {
        "Arch": quoted(architecture()),
        "OpSys": quoted(operating_system()),
        "OpSysLegacy": quoted(operating_system()),
        **_distribution_ad(),
        "CondorVersion": quoted(CONDOR_VERSION),
        "CondorPlatform": quoted(condor_platform()),
        "FileSystemDomain": quoted(domains[FILESYSTEM_DOMAIN]),
        "UidDomain": quoted(domains[UID_DOMAIN]),
        "CondorScratchDir": quoted(SCRATCH_DIRECTORY),
        "HasFileTransfer": "true",
        "HasJobDeferral": "true",
        "HasPerFileEncryption": "true",  # TLS encrypts all files between machines
        "HasSelfCheckpointTransfers": "true",
    }


def default_configuration(static: int = 0, *, benchmarks: bool = False) -> Configuration:
    """Return the default configuration: HTCondor's defaults, with one partitionable slot or `static` equal ones. With
    `benchmarks`, measure the machine's speed once, as HTCondor does by default; this takes a second of one core."""
    static_text = f"\nNUM_SLOTS = {static}\nSLOT_TYPE_0_PARTITIONABLE = false" if static else ""
    return read(("" if benchmarks else _UNMEASURED_SPEED) + static_text)


def _equipment_of_resources(resources: Mapping[str, int], domains: Mapping[str, str], cpus: int) -> Equipment:
    memory, volume = resources["Memory"], ExecuteVolume("", resources["Disk"], resources["Disk"])
    return Equipment(cpus, memory, memory * 1024, {"": volume}, {**system_ad(domains), **plugin_attributes()})


def equipment_of(machine: Machine, slots: Iterable[Slot], domains: Mapping[str, str]) -> Equipment:
    """Return a machine's hardware as its ads record it, to apply another configuration to it."""
    disk = max((int(slot.ad.get("DetectedDisk", "0")) for slot in slots), default=0)
    resources = {"Memory": int(machine.ad["DetectedMemory"]), "Disk": disk}
    return _equipment_of_resources(resources, domains, int(machine.ad["DetectedCpus"]))


def machine(
    id: str,
    name: str,
    resources: dict[str, int],
    domains: Mapping[str, str],
    static: int = 0,
    attributes: Mapping[str, str] | None = None,
    configuration: Configuration | None = None,
) -> AddMachine:
    """Return the command that adds a machine under a configuration. Without one, it has one partitionable slot, or
    `static` equal slots (there may be more slots than cores). `attributes` override attributes of its slots' ads; for
    ``domains``, see ``system_ad``. Raise `ValueError` if the resources are not sufficient for these slots."""
    described = _equipment_of_resources(resources, domains, max(resources["Cpus"], static))
    joining = machine_offer(
        id, name, default_configuration(static) if configuration is None else configuration, described
    )
    if not attributes:
        return joining
    slots = tuple(SlotPlan(plan.name, plan.kind, with_attributes(plan.ad, attributes)) for plan in joining.slots)
    return AddMachine(id, name, joining.ad, slots, joining.settings)
