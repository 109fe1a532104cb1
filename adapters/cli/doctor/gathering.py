"""Gather facts about the machine, its configuration, the disk and the log, without changing anything."""

from __future__ import annotations

import os
import re
import resource
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from attrs import evolve

from ....domain.classad import EvaluationError
from ....domain.config import ConfigError
from ....domain.events import PoolFounded
from ....domain.ports.log import LogError
from ....domain.startd.provisioning import machine_offer
from ....domain.startd.slot_types import SlotTypeError
from ....domain.state.caches import ad_from_attributes
from ....domain.state.pool_settings import DOMAINS
from ....projections.job_query import SelectedJobs
from ....projections.views import Views
from ....replay.forensics.imported_log import is_imported
from ...machine.detection import detect_resources, execute_volume, machine_equipment, system_ad
from ...machine.execution.supervisor import processes
from ...machine.execution.supervisor.records import claimed_keys
from ...machine.host import host_name
from ...machine.sensors import logged_in
from ...runtime.config_sources import VARIABLE, config_files, environment_settings
from ...runtime.configuration import load
from ...runtime.pool_client import is_served, is_written
from ...runtime.queries import Queries
from ...stores.location import Location, locate, safe_url
from ...stores.log_paths import LogPaths, WriterLock, log_paths
from ...stores.opening import check_mark, mark_of, open_log
from .findings import DoctorFacts, LogFacts, MachineFacts, Program, Settings, UnmatchedJobs, VolumeFacts

_PER_MIB = 2**20
_POSIX_ZONE = re.compile(r"<?[A-Za-z+-]{3,}>?[-+]?\d.*")


def gather_facts(url: str, files: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> DoctorFacts:
    """Return the current facts.

    :param url: the log
    :param files: the files given with ``-config``
    :param environment: the environment (default: this process's)
    """
    variables = os.environ if environment is None else environment
    place = _existing_log_paths(url)
    volumes = {} if place is None else dict(_volume_facts(place))
    return DoctorFacts(
        _program_facts(variables),
        _machine_facts(place, variables),
        _configuration_facts(files, variables, place),
        log_facts(url, place),
        volumes,
    )


def _existing_log_paths(url: str) -> LogPaths | None:
    try:
        return log_paths(url) if locate(url).kind != "memory" else None
    except (LogError, OSError):
        return None  # the checks of the log report an invalid URL


def _program_facts(environment: Mapping[str, str]) -> Program:
    own_path = Path(sys.executable).parent / "poolbook"
    path = shutil.which("poolbook", path=environment.get("PATH", os.defpath))
    if path is not None and own_path.exists() and os.path.samefile(path, own_path):
        path = str(own_path)  # even if the shell finds it through a link
    return Program(sys.version_info[:3], path or "", str(own_path) if own_path.exists() else "")


def _machine_facts(place: LogPaths | None, environment: Mapping[str, str]) -> MachineFacts:
    resources = detect_resources(Path.cwd() if place is None else place.folder)
    cores, memory = cgroup_limits()
    inputs = [os.access(device, os.R_OK) for device in Path("/dev/input").glob("event*")]
    _, realtime_limit = resource.getrlimit(resource.RLIMIT_RTTIME)
    return MachineFacts(
        resources["Cpus"],
        resources["Memory"],
        cores,
        memory,
        resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        processes.has_subreaper(),
        realtime_limit == resource.RLIM_INFINITY or realtime_limit >= processes.FIRST_NUMBER,
        time.strftime("%Z"),
        _unknown_time_zone(environment.get("TZ", "")),
        logged_in(Path("/var/run/utmp")) is not None,
        (len(inputs), sum(inputs)),
    )


def cgroup_limits(root: Path = Path("/")) -> tuple[float | None, int | None]:
    """Return the cores and the MiB of memory that this process's control groups allow, or None for no limit.

    Source: cgroups(7): ``cpu.max`` and ``memory.max`` in version 2, ``cpu.cfs_quota_us`` and ``memory.limit_in_bytes``
    in version 1, for the group and its ancestors.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None, None
    cores, memory = [], []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for folder in _group_directories(root / "sys/fs/cgroup", controllers, path):
            version_1 = _words_of_file(folder / "cpu.cfs_quota_us") + _words_of_file(folder / "cpu.cfs_period_us")
            quota = _words_of_file(folder / "cpu.max") or version_1
            if len(quota) == 2 and quota[0].isdigit():
                cores.append(int(quota[0]) / int(quota[1]))
            memory_limit = _words_of_file(folder / "memory.max") or _words_of_file(folder / "memory.limit_in_bytes")
            if memory_limit and memory_limit[0].isdigit():
                memory.append(int(memory_limit[0]) // _PER_MIB)
    return min(cores, default=None), min(memory, default=None)


def _group_directories(base: Path, controllers: str, path: str) -> Iterator[Path]:
    """Yield the directories of a control group and its ancestors, up to the container's outermost group."""
    for name in controllers.split(",") if controllers else [""]:
        folder = base / name / path.lstrip("/")
        yield folder
        yield from (above for above in folder.parents if above == base / name or base / name in above.parents)


def _words_of_file(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _unknown_time_zone(name: str) -> str:
    """Return TZ if it is an unknown zone, for which the C library uses UTC without a warning, otherwise ""."""
    key = name.lstrip(":")
    if not key or key.startswith("/") or _POSIX_ZONE.fullmatch(key):
        return ""
    try:
        offset = datetime.now(UTC).astimezone(ZoneInfo(key)).utcoffset()
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return name
    local_offset = datetime.now(UTC).astimezone().utcoffset()
    return "" if offset == local_offset else name


def _volume_facts(place: LogPaths) -> Iterator[tuple[str, VolumeFacts]]:
    mounts = _mounts_by_path(Path("/proc/self/mountinfo"))
    for name, folder in (("log", place.base.parent), ("execute", place.folder)):
        existing_parent = folder
        while not existing_parent.exists():
            existing_parent = existing_parent.parent
        kind, options = _mount_of(mounts, existing_parent)
        free_bytes = execute_volume(existing_parent).free // 1024
        yield (
            name,
            VolumeFacts(
                str(folder),
                kind,
                free_bytes,
                os.access(existing_parent, os.W_OK | os.X_OK, effective_ids=True),
                "noexec" not in options,
                existing_parent == folder,
            ),
        )


def _mounts_by_path(path: Path) -> dict[str, tuple[str, list[str]]]:
    """Return the file system type and options of each mount point; the last mount counts. See proc_pid_mountinfo(5)."""
    mounts = {}
    for line in path.read_text(errors="surrogateescape").splitlines() if path.exists() else ():
        fields, _, filesystem_text = line.partition(" - ")
        where, options = fields.split(" ")[4:6]
        name = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), where)
        mounts[name] = (filesystem_text.split(" ")[0], options.split(","))
    return mounts


def _mount_of(mounts: Mapping[str, tuple[str, list[str]]], folder: Path) -> tuple[str, list[str]]:
    real_folder = folder.resolve()
    return next((mounts[str(place)] for place in (real_folder, *real_folder.parents) if str(place) in mounts), ("", []))


def _configuration_facts(files: Sequence[str], environment: Mapping[str, str], place: LogPaths | None) -> Settings:
    option_text = "-config" if files else VARIABLE if environment.get(VARIABLE) else "it is in the current directory"
    variables = tuple(environment_settings(environment))
    paths = config_files(files, environment)
    names = tuple(map(str, paths))
    if not paths and not variables:
        return Settings()
    try:
        settings = load(paths, environment=environment)
        folder = Path.cwd() if place is None else place.folder
        joining = machine_offer(
            "doctor",
            host_name(),
            settings,
            machine_equipment(settings, folder, system_ad(dict.fromkeys(DOMAINS, host_name()))),
        )
    except (ConfigError, SlotTypeError) as error:
        return Settings(names, option_text, str(error), environment=variables)
    return Settings(
        names,
        option_text,
        "",
        tuple(settings.warnings),
        variables,
        {slot_plan.name: _constant_start(slot_plan.ad.get("Start", "")) for slot_plan in joining.slots},
        any(
            "keyboardidle" in text.lower() or "consoleidle" in text.lower()
            for slot_plan in joining.slots
            for text in slot_plan.ad.values()
        ),
        *(sum(float(slot_plan.ad.get(name, 0)) for slot_plan in joining.slots) for name in ("Cpus", "Memory")),
    )


def _constant_start(text: str) -> bool | None:
    """Return the value of a START expression, or None if the value depends on the job."""
    try:
        value = ad_from_attributes({"Start": text}).eval("Start")
    except (EvaluationError, KeyError):
        return None
    return value if isinstance(value, bool) else None


_HELD_STATUS = 5


def log_facts(url: str, place: LogPaths | None) -> LogFacts:
    """Return the facts about the log at `url`, with the files next to it in `place`."""
    name = safe_url(url)
    try:
        location = locate(url)
        if location.kind == "memory" or (location.kind == "sqlite" and not os.path.exists(location.place)):
            return LogFacts(name)
        if location.kind == "sqlite" and not os.path.getsize(location.place) and not _has_head_witness(location):
            return LogFacts(name, empty=True)
        check_mark(url)
        facts = _facts_of_log(url, name)
    except LogError as error:
        return LogFacts(name, True, str(error))
    facts = evolve(facts, has_head_witness=_has_head_witness(location))
    if facts.imported or place is None:
        return facts
    return _with_queue_counts(url, _with_writer_and_claims(url, place, facts))


def _has_head_witness(location: Location) -> bool:
    mark = mark_of(location)
    return mark is not None and os.path.exists(mark)


def _facts_of_log(url: str, name: str) -> LogFacts:
    log = open_log(url, create=False, read_only=True)
    try:
        position = log.head.position
        last = next((event.at for _, event in log.read(max(0, position - 1))), 0)
        ahead = max(0, last - time.time_ns() // 1000)
        founded = next((event for _, event in log.read(0, 1)), None)
        role = "".join(founded.roles) if isinstance(founded, PoolFounded) and len(founded.roles) == 1 else ""
        return LogFacts(name, True, position=position, imported=is_imported(log), role=role, ahead_us=ahead)
    finally:
        log.close()


def _with_writer_and_claims(url: str, place: LogPaths, facts: LogFacts) -> LogFacts:
    holder = WriterLock(url).holder() if is_written(url) else ""
    return evolve(
        facts,
        holder=holder,
        accepts_requests=is_served(url),
        open_claims=len(claimed_keys(str(place.folder))),
        has_supervisor=_has_supervisor(place.folder),
    )


def _has_supervisor(folder: Path) -> bool:
    """Check whether the process that the directory's lock names is alive and is its supervisor. Trying to take the lock
    could prevent a starting supervisor from taking it."""
    try:
        pid = (folder / "lock").read_text().strip()
        return str(folder).encode() in Path("/proc", pid, "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def _with_queue_counts(url: str, facts: LogFacts) -> LogFacts:
    with Queries(url) as queries:
        views = queries.views
        counts: Counter[int] = Counter()
        hold = ("", "")
        for cluster in views.batches():
            counts.update(cluster.counts)
            if cluster.counts.get(_HELD_STATUS) and not hold[0]:
                hold = _held_job_and_reason(views, cluster.cluster)
        unmatched = [row for row in views.rejections() if row.clauses and not row.clauses[-1][2]]
        unfit = tuple(UnmatchedJobs(row.job, row.jobs, row.slots) for row in unmatched)
    return evolve(facts, job_counts=dict(counts), held_job=hold, unmatched_jobs=unfit)


def _held_job_and_reason(views: Views, cluster: int) -> tuple[str, str]:
    ad = next(ad for ad in views.ads(SelectedJobs(((cluster, None),))) if ad.eval("JobStatus") == _HELD_STATUS)
    return f"{cluster}.{ad.eval('ProcId')}", str(ad.eval("HoldReason"))
