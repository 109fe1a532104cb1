"""The tables of ``poolbook status``: their columns, their ads, and the totals under them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from .cells import Cell, Setting, date, date_of, evaluate, length, metric, number, number_of, shown, text, text_of
from .layout import Column
from .status_totals import (
    ACTIVITIES,
    ACTIVITY_CODES,
    CLAIMS,
    MACHINES,
    QUEUES,
    SERVERS,
    SLOTS,
    STATE_CODES,
    USERS,
    Totals,
    short_platform,
)

if TYPE_CHECKING:
    from ...domain.classad import ClassAd


def _since(name: str, *clocks: str) -> Cell:
    """Return the column of the time from an instant to the ad's making: by the first of these attributes that it has,
    else now."""

    def cell(ad: ClassAd, setting: Setting) -> str | None:
        since = number(ad, name)
        if since is None:
            return None
        times = [number(ad, clock) for clock in clocks]
        at = next((time for time in times if time is not None), setting.now)
        return length(max(0, at - since))

    return cell


def _keyboard(ad: ClassAd, setting: Setting) -> str | None:
    idle = evaluate(ad, "KeyboardIdle", setting.context())  # the time since an instant
    return length(idle) if isinstance(idle, int | float) else None


def _gpus(ad: ClassAd, _: Setting) -> str | None:
    devices = ad.eval("DetectedGPUs")
    if isinstance(devices, str):
        return str(len([device for device in re.split(r"[,\s]+", devices) if device]))
    return None if isinstance(devices, int | float) or not hasattr(devices, "__len__") else str(len(devices))


def _version(room: bool) -> Cell:
    """Return the column of the version; with ``room``, including what follows the date: ``25.14.1.PackageID:``."""

    def cell(ad: ClassAd, _: Setting) -> str | None:
        words = (text(ad, "CondorVersion") or "").split()
        if len(words) < 2:
            return None
        dated = 3 if len(words) > 2 and words[2].count("-") == 2 else 5
        build = words[dated] if len(words) > dated else "$"
        return words[1] + ("." + build.partition("-")[0] if build != "$" and room else "")

    return cell


def _activity(ad: ClassAd, _: Setting) -> str | None:
    activity = text(ad, "Activity")
    if activity is None:
        return "??"
    return "OCU" if activity == "Idle" and number(ad, "OCU") else activity


def _state_code(ad: ClassAd, _: Setting) -> str | None:
    return (STATE_CODES.get(text(ad, "State") or "") or " ") + (ACTIVITY_CODES.get(text(ad, "Activity") or "") or " ")


def _gpu_memory(ad: ClassAd, _: Setting) -> str:
    size = number(ad, "GPUs_GlobalMemoryMB")
    return metric(size * 1024 * 1024) if size is not None else " " * 8


_GPU_NAME = 'GPUs_DeviceName ?: join(",", evalInEachContext(DeviceName, AvailableGPUs)) ?: CUDADeviceName'


def _forgotten(ad: ClassAd, setting: Setting) -> str | None:
    heard, lifetime = number(ad, "LastHeardFrom"), number(ad, "ClassAdLifetime")
    return None if heard is None else date(heard + (lifetime or 0), setting.timezone)


def _listed(name: str) -> Cell:
    """Return the column of a list of texts."""

    def cell(ad: ClassAd, _: Setting) -> str | None:
        found = ad.eval(name)
        return ", ".join(map(shown, found)) if hasattr(found, "__len__") and not isinstance(found, str) else None

    return cell


_NAME = Column("Name", text_of("Name"), -34, missing="??", grow=True)
_SYSTEM = Column("OpSys", "OpSys", -10, "")
_ARCH = Column("Arch", "Arch", -8, "")
_LOAD = Column("LoadAv", number_of("CondorLoadAvg", "{:.3f}".format), 6, missing="??", cut=True)
ACTIVITY_TIME = Column(
    "  ActvtyTime",
    _since("EnteredCurrentActivity", "MyCurrentTime", "LastHeardFrom"),
    12,
    missing="-",
    cut=True,
    joined=True,
)
WIDE_ACTIVITY_TIME = ACTIVITY_TIME._replace(heading="ActivityTime", joined=False)
_MEMORY = Column("  Memory", number_of("DetectedMemory", lambda size: metric(size * 1024 * 1024)), 10, missing="??")
_DAEMON = Column("Name", "Name", -15, grow=True)
_PLACE = Column("Machine", "Machine", -12, grow=True)
_UPTIME = Column("   Uptime", _since("DaemonStartTime", "LastHeardFrom"), 13)
_SHORT = _DAEMON._replace(width=-12)


def _count(heading: str, name: str, width: int) -> Column:
    return Column(heading, name, form=f"%{width}d")


class View(NamedTuple):
    """A table: the kind of ads (MyType), the columns, a filter of ads, and the totals."""

    kind: str
    columns: tuple[Column, ...]
    totals: Totals | None = None
    constraint: str = ""
    keys: int | None = 14


def _slots(*columns: Column) -> tuple[Column, ...]:
    return (_NAME, _SYSTEM, _ARCH, *columns)


NORMAL = _slots(
    Column("State", "State", missing="??"),
    Column("Activity", _activity, -8),
    _LOAD,
    Column("Mem   ", "Memory", 6, "%6d", missing="??"),
    ACTIVITY_TIME,
)

VIEWS: dict[str, View] = {
    "slots": View("Machine", NORMAL, SLOTS),
    "avail": View("Machine", NORMAL, SLOTS, 'State == "Unclaimed" && Cpus > 0 && Memory > 0'),
    "claimed": View(
        "Machine",
        _slots(_LOAD, Column("RemoteUser", "RemoteUser", -20, ""), Column("ClientMachine", "ClientMachine", -16, "")),
        CLAIMS,
        'State == "Claimed"',
    ),
    "absent": View(
        "Machine",
        _slots(
            Column("Went Absent", date_of("LastHeardFrom"), -11, missing="??"),
            Column("Will Forget", _forgotten, -11, missing="??"),
        ),
        SLOTS,
        "Absent",
    ),
    "offline": View(
        "Machine",
        (_NAME, Column("Offline Universes", _listed("OfflineUniverses"), -42, missing="  ")),
        SLOTS,
        "size(OfflineUniverses) != 0",
    ),
    "java": View(
        "Machine",
        (
            _NAME,
            Column("JavaVendor", "JavaVendor", -10, "", "??"),
            Column("JavaVersion", "JavaVersion", -6, "", "??"),
            *NORMAL[3:],
        ),
        SLOTS,
        "HasJava",
    ),
    "vm": View(
        "Machine",
        (
            _NAME,
            Column("VmType", "VM_Type", -6, "", "??"),
            Column("Network", "VM_Networking_Types", -9, "", "??"),
            *NORMAL[3:6],
            Column("VMMem", "VM_Memory", 5, "%4d", "??"),
            ACTIVITY_TIME,
        ),
        SLOTS,
        "HasVM",
    ),
    "gpus": View(
        "Machine",
        (
            Column("Name", "Name"),
            Column("ST", _state_code, 2),
            Column("User", "RemoteUser", form="%s", missing="_"),
            Column("GPUs", "GPUs", form="%4d"),
            Column("GPU-Memory", _gpu_memory),
            Column("GPU-Name", _GPU_NAME, form="%s", missing="*"),
        ),
        ACTIVITIES,
        "(PartitionableSlot && AssignedGPUs isnt undefined) ?: Gpus",
    ),
    "server": View(
        "Machine",
        _slots(
            _LOAD,
            Column("Memory", "Memory", 8, "%8d", missing="??"),
            Column("Disk", "Disk", 9, "%9d", missing="??"),
            Column("Mips", "Mips", 7, "%7d", missing="??"),
            Column("KFlops", "KFlops", 9, "%9d", missing="??"),
        ),
        SERVERS,
    ),
    "state": View(
        "Machine",
        (
            _NAME,
            Column("Cpu", "Cpus"),
            Column(" Mem", "Memory", 5, ""),  # for strings alone: HTCondor leaves the number out, and so the place
            _LOAD,
            Column("  KbdIdle", _keyboard, 12, missing="??", cut=True),
            Column("State", "State", -7, ""),
            Column("  StateTime", _since("EnteredCurrentState", "LastHeardFrom"), 12, missing="??", cut=True),
            Column("Activ", "Activity"),
            Column("  ActvtyTime", _since("EnteredCurrentActivity", "LastHeardFrom"), 12, missing="-", cut=True),
        ),
        ACTIVITIES,
    ),
    "startd": View(
        "StartD",
        (
            Column("Name", "Name"),
            Column("Platform", short_platform),
            Column("Version", _version(True)),
            Column("Cpus", "DetectedCpus", 4, "%4d", missing="??"),
            _MEMORY,
            Column("GPUs", _gpus, 5, missing=" "),
            _UPTIME,
        ),
        MACHINES,
    ),
    "schedd": View(
        "Scheduler",
        (
            _DAEMON,
            _PLACE,
            _count("RunningJobs", "TotalRunningJobs", 11),
            _count("  IdleJobs", "TotalIdleJobs", 10),
            _count("  HeldJobs", "TotalHeldJobs", 10),
        ),
        QUEUES,
    ),
    "run": View(
        "Scheduler",
        (
            _DAEMON,
            _count("TotalJobs", "TotalJobAds", 9),
            _count("Shadows", "ShadowsRunning", 7),
            _count("ActiveDAGs", "TotalSchedulerJobsRunning", 10),
            _count("IdleDAGs", "TotalSchedulerJobsIdle", 8),
            _count("RcntDone", "RecentJobsCompleted", 8),
            _count("RcntStart", "RecentJobsStarted", 9),
        ),
        constraint="ShadowsRunning + TotalSchedulerJobsRunning > 0",
    ),
    "submitters": View(
        "Submitter",
        (
            _DAEMON,
            _PLACE,
            _count("RunningJobs", "RunningJobs", 11),
            _count("  IdleJobs", "IdleJobs", 10),
            _count("  HeldJobs", "HeldJobs", 10),
        ),
        USERS,
        keys=None,
    ),
    "master": View(
        "DaemonMaster",
        (
            _SHORT,
            Column("Version", _version(True), -14),
            Column("Cpus", "DetectedCpus", 4, "%4d", missing="??"),
            _MEMORY,
            _UPTIME,
        ),
    ),
    "collector": View(
        "Collector",
        (
            Column("Name", "Name"),
            Column("Machine", "Machine", -18),
            _count("RunningJobs", "RunningJobs", 11),
            _count("  IdleJobs", "IdleJobs", 10),
            _count("HostsTotal", "HostsTotal", 10),
        ),
    ),
    "negotiator": View(
        "Negotiator",
        (
            _SHORT,
            Column("LastCycleEnd", date_of("LastNegotiationCycleEnd0"), 12),
            _count("(Sec)", "LastNegotiationCycleDuration0", 5),
            _count("  Slots", "LastNegotiationCycleCandidateSlots0", 7),
            _count("Submitrs", "LastNegotiationCycleActiveSubmitterCount0", 8),
            _count("Schedds", "LastNegotiationCycleNumSchedulers0", 7),
            _count("   Jobs", "LastNegotiationCycleNumIdleJobs0", 7),
            _count("Matches", "LastNegotiationCycleMatches0", 7),
            _count("Rejections", "LastNegotiationCycleRejections0", 10),
        ),
    ),
    "defrag": View(
        "Defrag",
        (
            _SHORT,
            _count("Draining", "MachinesDraining", 8),
            _count("    Peak", "MachinesDrainingPeak", 8),
            _count("TotalDrained", "DrainedMachines", 12),
        ),
    ),
    "any": View(
        "",
        (
            Column("MyType", 'MyType ?: "None"', -18, ""),
            Column("TargetType", 'TargetType ?: "None"', -18, ""),
            Column("Name", "Name", -41, "", missing="?"),
        ),
    ),
}
"""The tables. The columns are those of HTCondor 25.14, including their quirks."""
