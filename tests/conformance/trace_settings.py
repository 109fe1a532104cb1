"""Reconstruct the configuration of a golden trace's startd, and its sensors' readings. The first configuration is
recorded (``scenario.conf`` over the base), later ones not always. Two rules then reconstruct the changes: a policy
expression whose ads differ between the snapshots before and after the reconfiguration changed; and an expression whose
logged value contradicts its known constant was given that value.

 The load average and the last key are known at the snapshots. In between, the load moves as a kernel's one-minute
average does, and after the last one it continues that way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import exp
from typing import Final

from attrs import frozen

from poolbook.domain.classad import parse, unparse
from poolbook.domain.config import Configuration, read
from poolbook.domain.events import Ad
from poolbook.domain.startd.provisioning import EXECUTE, Equipment, ExecuteVolume
from poolbook.domain.state.job_ad import quoted

from .trace_files import BASE, SCENARIO, SECOND, AdSnapshot, TraceFiles, number
from .trace_steps import StartdRun, TraceSlot

SHOWN: Final = {"MaxJobRetirementTime": "MAXJOBRETIREMENTTIME", "MachineMaxVacateTime": "MachineMaxVacateTime",
                "Start": "START", "Rank": "RANK"}  # fmt: skip
"""The policy's expressions in published ads -> their settings."""
SYSTEM: Final[tuple[str, ...]] = (
    "Arch", "OpSys", "OpSysAndVer", "FileSystemDomain", "UidDomain", "CondorVersion", "HasFileTransfer",
    "HasJobDeferral",
)  # fmt: skip
"""The attributes of a machine that jobs require, besides its resources."""
SAMPLED: Final = 5
"""Seconds between two samples of a kernel's load average."""
MINUTE: Final = 60


@frozen
class SensorReading:
    """The readings of the machine's own sensors from an instant on; the last inputs are instants."""

    at: int
    load: float
    last_input: int | None
    last_console: int | None


_NO_BACKFILL: Final = re.compile(r"BACKFILL_SYSTEM '\w+' not supported")


def configuration(files: TraceFiles, run: StartdRun, number: int) -> Configuration:
    """Return the configuration after the `number`-th reconfiguration; 0 is the first."""
    texts = files.configurations
    sources = [("base", BASE), (SCENARIO, texts[number] if number < len(texts) else texts[0])]
    if _NO_BACKFILL.search(files.text("StartLog")):  # that startd was built without it
        sources.append(("build", "ENABLE_BACKFILL = false\n"))
    if number:
        sources.append(("changes", "\n".join(_changes(files, run, number, _read(sources, run)))))
    return _read(sources, run)


def _read(sources: list[tuple[str, str]], run: StartdRun) -> Configuration:
    machine_ad = equipment(run.slots, {})
    return read(sources, detected={"DETECTED_CPUS": str(machine_ad.cpus), "DETECTED_MEMORY": str(machine_ad.memory)})


def _changes(files: TraceFiles, run: StartdRun, number: int, known: Configuration) -> Iterator[str]:
    """Yield the settings changed by a reconfiguration whose text is missing."""
    if number < len(files.configurations):
        return
    before = [snapshot for snapshot in files.snapshots if snapshot.reconfigurations < number]
    after = [snapshot for snapshot in files.snapshots if snapshot.reconfigurations == number]
    for attribute, name in SHOWN.items() if after else ():
        previous = before[-1].ads[0].get(attribute, "") if before else _written(known.get(name))
        now = after[0].ads[0].get(attribute, "")
        if now and now != previous:
            yield f"{name} = {now}"
    changes: Ad = {}
    for when, name, value in run.stated:
        if when == number:
            changes.setdefault(name, value)
    for name, value in changes.items():
        if {known.get(name).lower(), value} == {"true", "false"}:
            yield f"{name} = {value}"


def _written(text: str) -> str:
    return unparse(parse(text)) if text else ""


def equipment(slots: list[TraceSlot], ad: Ad) -> Equipment:
    """Return the machine's equipment: the sum of its slots, as far as the log shows."""
    static_slots = {
        name: max(len(slots), round(sum(float(slot.resources.get(name, default)) for slot in slots)))
        for name, default in _USUAL.items()
    }
    system = {name: ad[name] for name in SYSTEM if name in ad}
    volumes = {EXECUTE: ExecuteVolume(EXECUTE, static_slots["Disk"], static_slots["Disk"])}
    return Equipment(static_slots["Cpus"], static_slots["Memory"], static_slots["Swap"], volumes, system)


_USUAL: Final = {"Cpus": "1", "Memory": "1024", "Swap": "1048576", "Disk": "1048576"}
"""The resources of a slot whose line is missing."""


def system(files: TraceFiles) -> Ad:
    """Return an ad of the machine: the first snapshot's, any other, or one built from the startd's own lines."""
    if files.snapshots:
        return files.snapshots[0].ads[0]
    ads = (ad for name in files.names("machine-ads-*.txt") for ad in files.ads(name))
    return next(ads, None) or _of_startd(files.text("StartLog"))


_VERSION: Final = re.compile(r"\*\* (\$CondorVersion: [^\n]*\$)")
_PLATFORM: Final = re.compile(r"\*\* \$CondorPlatform: (\S+?)[_-](?!64)")
_ALIAS: Final = re.compile(r"command socket at <[^>]*[?&]alias=([^&>\s]+)")


def _of_startd(log: str) -> Ad:
    """Return an ad built from a startd's first lines; its domains are assumed to be its own name."""
    version, platform, alias = (pattern.search(log) for pattern in (_VERSION, _PLATFORM, _ALIAS))
    ad = {"OpSys": quoted("LINUX"), "HasFileTransfer": "true", "HasJobDeferral": "true"}
    if platform:
        ad["Arch"] = quoted(platform[1])
    if version:
        ad["CondorVersion"] = quoted(version[1])
    if alias:
        ad |= {"FileSystemDomain": quoted(alias[1]), "UidDomain": quoted(alias[1])}
    return ad


def sensed(files: TraceFiles, run: StartdRun) -> Iterator[SensorReading]:
    """Yield the readings of the machine's own sensors, from its first second to the last."""
    snapshots = [snapshot for snapshot in files.snapshots if run.began <= snapshot.at <= run.ended]
    if not snapshots:
        return
    first, asymptote = snapshots[0], 0.0
    load = _load(first)
    yield _said(run.began, first, load)
    for snapshot, following in zip(snapshots, [*snapshots[1:], None], strict=True):
        end = following.at if following else run.ended
        load = _load(snapshot)
        if following is not None and end > snapshot.at:
            decay = exp(-((end - snapshot.at) // SECOND) / MINUTE)
            asymptote = max(0.0, (_load(following) - load * decay) / (1 - decay))
        for at in range(snapshot.at, end, SAMPLED * SECOND):
            decay = exp(-((at - snapshot.at) // SECOND) / MINUTE)
            yield _said(at, snapshot, load * decay + asymptote * (1 - decay))


def _load(snapshot: AdSnapshot) -> float:
    return number(snapshot.ads, "TotalLoadAvg") or 0.0


def _said(at: int, snapshot: AdSnapshot, load: float) -> SensorReading:
    idle, console = (number(snapshot.ads, name) for name in ("KeyboardIdle", "ConsoleIdle"))
    return SensorReading(
        at,
        load,
        None if idle is None else snapshot.at - int(idle) * SECOND,
        None if console is None else snapshot.at - int(console) * SECOND,
    )
