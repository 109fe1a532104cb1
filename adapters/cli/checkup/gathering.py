"""Gather facts about the machine, its configuration and the disk. Nothing is changed."""

from __future__ import annotations

import os
import re
import resource
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ....domain.classad import EvaluationError
from ....domain.config import ConfigError
from ....domain.ports.log import LogError
from ....domain.startd.provisioning import offer
from ....domain.startd.slot_types import SlotTypeError
from ....domain.state.caches import ad_of
from ....domain.state.settings import DOMAINS
from ...machine.detection import detected, equipment, system_ad, volume
from ...machine.execution.supervisor import processes
from ...machine.host import host_name
from ...machine.sensors.idle import logged_in
from ...runtime.config_sources import VARIABLE, config_files, environment_settings
from ...runtime.configuration import load
from ...stores.location import locate
from ...stores.log_paths import LogPaths, log_paths
from .about_log import book
from .facts import Facts, Machine, Program, Settings, Volume

_PER_MIB = 2**20
_POSIX_ZONE = re.compile(r"<?[A-Za-z+-]{3,}>?[-+]?\d.*")


def gathered(url: str, files: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> Facts:
    """Return the facts as of now.

    :param url: the log
    :param files: the files that ``-config`` named
    :param environment: this process's, unless given
    """
    given = os.environ if environment is None else environment
    place = _place(url)
    volumes = {} if place is None else dict(_volumes(place))
    return Facts(_program(given), _machine(place, given), _settings(files, given, place), book(url, place), volumes)


def _place(url: str) -> LogPaths | None:
    try:
        return log_paths(url) if locate(url).kind != "memory" else None
    except (LogError, OSError):
        return None  # the checks of the log report a wrong URL


def _program(environment: Mapping[str, str]) -> Program:
    own = Path(sys.executable).parent / "poolbook"
    found = shutil.which("poolbook", path=environment.get("PATH", os.defpath))
    if found is not None and own.exists() and os.path.samefile(found, own):
        found = str(own)  # even if the shell finds it by a link
    return Program(sys.version_info[:3], found or "", str(own) if own.exists() else "")


# The machine


def _machine(place: LogPaths | None, environment: Mapping[str, str]) -> Machine:
    has = detected(Path.cwd() if place is None else place.folder)
    cores, memory = granted()
    inputs = [os.access(device, os.R_OK) for device in Path("/dev/input").glob("event*")]
    _, realtime = resource.getrlimit(resource.RLIMIT_RTTIME)
    return Machine(
        has["Cpus"],
        has["Memory"],
        cores,
        memory,
        resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        processes.has_subreaper(),
        realtime == resource.RLIM_INFINITY or realtime >= processes.FIRST_NUMBER,
        time.strftime("%Z"),
        _unknown_zone(environment.get("TZ", "")),
        logged_in(Path("/var/run/utmp")) is not None,
        (len(inputs), sum(inputs)),
    )


def granted(root: Path = Path("/")) -> tuple[float | None, int | None]:
    """Return the cores and the MiB of memory that this process's control groups allow; None where there is no limit.

    Source: cgroups(7). ``cpu.max`` and ``memory.max`` of version 2, ``cpu.cfs_quota_us`` and ``memory.limit_in_bytes``
    of version 1, each of the group and of its ancestors.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None, None
    cores, memory = [], []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for folder in _around(root / "sys/fs/cgroup", controllers, path):
            quota = _words(folder / "cpu.max") or [
                *_words(folder / "cpu.cfs_quota_us"),
                *_words(folder / "cpu.cfs_period_us"),
            ]
            if len(quota) == 2 and quota[0].isdigit():
                cores.append(int(quota[0]) / int(quota[1]))
            most = _words(folder / "memory.max") or _words(folder / "memory.limit_in_bytes")
            if most and most[0].isdigit():
                memory.append(int(most[0]) // _PER_MIB)
    return min(cores, default=None), min(memory, default=None)


def _around(base: Path, controllers: str, path: str) -> Iterator[Path]:
    """Yield the folder of a group and those of its ancestors. In a container, its outermost group is the last."""
    for name in controllers.split(",") if controllers else [""]:
        folder = base / name / path.lstrip("/")
        yield folder
        yield from (around for around in folder.parents if around == base / name or base / name in around.parents)


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _unknown_zone(name: str) -> str:
    """Return the time zone in TZ if it is unknown: the C library then takes UTC without a warning."""
    wanted = name.lstrip(":")
    if not wanted or wanted.startswith("/") or _POSIX_ZONE.fullmatch(wanted):
        return ""
    try:
        offset = datetime.now(UTC).astimezone(ZoneInfo(wanted)).utcoffset()
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return name
    here = datetime.now(UTC).astimezone().utcoffset()
    return "" if offset == here else name


# The folders


def _volumes(place: LogPaths) -> Iterator[tuple[str, Volume]]:
    mounts = _mounts(Path("/proc/self/mountinfo"))
    for name, folder in (("log", place.base.parent), ("execute", place.folder)):
        there = folder
        while not there.exists():
            there = there.parent
        kind, options = _mount_of(mounts, there)
        free = volume(there).free // 1024
        yield (
            name,
            Volume(
                str(folder),
                kind,
                free,
                os.access(there, os.W_OK | os.X_OK, effective_ids=True),
                "noexec" not in options,
                there == folder,
            ),
        )


def _mounts(path: Path) -> dict[str, tuple[str, list[str]]]:
    """Return the file system type and options of each mount point: proc_pid_mountinfo(5). The last mount counts."""
    found = {}
    for line in path.read_text(errors="surrogateescape").splitlines() if path.exists() else ():
        fields, _, rest = line.partition(" - ")
        where, options = fields.split(" ")[4:6]
        name = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), where)
        found[name] = (rest.split(" ")[0], options.split(","))
    return found


def _mount_of(mounts: Mapping[str, tuple[str, list[str]]], folder: Path) -> tuple[str, list[str]]:
    real = folder.resolve()
    return next((mounts[str(one)] for one in (real, *real.parents) if str(one) in mounts), ("", []))


# The configuration


def _settings(files: Sequence[str], environment: Mapping[str, str], place: LogPaths | None) -> Settings:
    named = "-config" if files else VARIABLE if environment.get(VARIABLE) else "it is in the current folder"
    variables = tuple(environment_settings(environment))
    paths = config_files(files, environment)
    names = tuple(map(str, paths))
    if not paths and not variables:
        return Settings()
    try:
        found = load(paths, environment=environment)
        folder = Path.cwd() if place is None else place.folder
        joins = offer(
            "doctor", host_name(), found, equipment(found, folder, system_ad(dict.fromkeys(DOMAINS, host_name())))
        )
    except (ConfigError, SlotTypeError) as error:
        return Settings(names, named, str(error), environment=variables)
    return Settings(
        names,
        named,
        "",
        tuple(found.warnings),
        variables,
        {plan.name: _constant(plan.ad.get("Start", "")) for plan in joins.slots},
        any(
            "keyboardidle" in text.lower() or "consoleidle" in text.lower()
            for plan in joins.slots
            for text in plan.ad.values()
        ),
        *(sum(float(plan.ad.get(name, 0)) for plan in joins.slots) for name in ("Cpus", "Memory")),
    )


def _constant(text: str) -> bool | None:
    """Return the value of an expression that is constant; None if it depends on its ad."""
    try:
        value = ad_of({"Start": text}).eval("Start")
    except (EvaluationError, KeyError):
        return None
    return value if isinstance(value, bool) else None
