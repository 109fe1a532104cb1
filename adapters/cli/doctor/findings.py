"""The facts about a machine, and the checks, which report findings and remedies."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

from attrs import field, frozen

from ....replay.narration.formatting import counted


@frozen
class Program:
    """The program. ``command``: the ``poolbook`` on PATH; ``own``: the one next to this Python; empty if missing."""

    python: tuple[int, int, int]
    command: str = ""
    own: str = ""


@frozen
class VolumeFacts:
    """The file system of a directory, or of its nearest existing ancestor."""

    folder: str
    kind: str  #: the type in /proc/self/mountinfo, or empty if unknown
    free: int
    writable: bool = True
    executable: bool = True
    exists: bool = True  #: whether the directory itself exists


@frozen
class MachineFacts:
    cores: int
    memory: int  #: with `cores`, the default size of a pool
    granted_cores: float | None = None  #: with `granted_memory`, the limits of this process's control groups
    granted_memory: int | None = None  #: None: no limit (also for the cores)
    open_files: int = 1024
    has_subreaper: bool = True
    can_mark_jobs: bool = True  #: whether RLIMIT_RTTIME can mark a job's processes
    zone: str = "UTC"
    unknown_time_zone: str = ""
    knows_logins: bool = True
    input_devices: tuple[int, int] = (0, 0)  #: the number of keyboards and mice, and how many of them are readable


@frozen
class Settings:
    files: tuple[str, ...] = ()  #: empty: this machine has no policy
    named_by: str = ""  #: the option or variable that names the files
    error: str = ""
    warnings: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    constant_starts: Mapping[str, bool | None] = field(factory=dict)  #: each slot's START if it is constant, else None
    reads_keyboard: bool = False  #: whether a slot's policy reads KeyboardIdle or ConsoleIdle
    cores: float = 0
    memory: float = 0  #: with `cores`, the total over all slots


@frozen
class UnmatchedJobs:
    """Similar jobs that no slot matches; ``job`` is the first."""

    job: str
    jobs: int
    slots: int


@frozen
class LogFacts:
    url: str
    exists: bool = False
    error: str = ""
    position: int = 0
    imported: bool = False
    role: str = ""  #: the role that has a separate log (empty: the log has all roles)
    has_head_witness: bool = True
    ahead_us: int = 0  #: microseconds by which its last event is ahead of this machine's clock
    holder: str = ""  #: the process that writes the log, or empty if there is none
    accepts_requests: bool = False  #: whether the holder accepts requests
    open_claims: int = 0  #: jobs that were started and whose end is not in the log yet
    has_supervisor: bool = False  #: whether the supervisor of these jobs is running
    empty: bool = False  #: whether its file exists but never contained an event
    job_counts: Mapping[int, int] = field(factory=dict)  #: jobs in the queue by JobStatus
    held_job: tuple[str, str] = ("", "")  #: a held job and its HoldReason
    unmatched_jobs: tuple[UnmatchedJobs, ...] = ()


@frozen
class DoctorFacts:
    """All facts. ``volumes``: the file systems of the log's directory and of the directory in which jobs run."""

    program: Program
    machine: MachineFacts
    settings: Settings
    log: LogFacts
    volumes: Mapping[str, VolumeFacts] = field(factory=dict)


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(NamedTuple):
    """The result of a check. ``remedy``: how to fix the problem; empty if there is none."""

    check: str
    level: Level
    words: str
    remedy: str


Cases = Iterator[tuple[str, dict[str, Any]]]
"""The cases of a check that apply, each with the values for its row in ``findings.txt``."""

OLDEST_PYTHON: Final = (3, 11)
"""The lowest Python version that pyproject.toml allows."""
LOW_SPACE_MIB: Final = {Level.PROBLEM: 100, Level.WARNING: 1024}
"""Free space in MiB below which each level is reported."""
MIN_OPEN_FILES: Final = 256
NETWORK_FILE_SYSTEMS: Final = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.sshfs", "gfs2", "gpfs", "lustre",
        "nfs", "nfs4", "ocfs2", "orangefs", "smb3", "smbfs", "virtiofs",
    }
)  # fmt: skip
"""Types of file systems that several machines may share."""
MEMORY_FILE_SYSTEMS: Final = frozenset({"ramfs", "tmpfs"})
_IDLE, _HELD, _RUNNING = 1, 5, 2


def _python(facts: DoctorFacts) -> Cases:
    version, oldest_version = (".".join(map(str, numbers)) for numbers in (facts.program.python, OLDEST_PYTHON))
    yield "old" if facts.program.python[:2] < OLDEST_PYTHON else "good", {"version": version, "least": oldest_version}


def _command(facts: DoctorFacts) -> Cases:
    command, own = facts.program.command, facts.program.own
    folder = own.rpartition("/")[0]
    if not command:
        yield "missing", {"way": f'export PATH="{folder}:$PATH"' if folder else "install Poolbook with pip, uv or pipx"}
    else:
        yield ("other" if own and command != own else "good", {"command": command, "own": own, "folder": folder})


def _cores(facts: DoctorFacts) -> Cases:
    present_cores, granted_cores = facts.machine.cores, facts.machine.granted_cores
    if facts.settings.cores > present_cores:
        yield "configured", {"offered": facts.settings.cores, "there": present_cores}
    elif granted_cores is not None and granted_cores < present_cores:
        yield "granted", {"there": present_cores, "granted": granted_cores, "least": max(1, int(granted_cores))}
    else:
        yield "good", {"cores": counted(present_cores, "core")}


def _memory(facts: DoctorFacts) -> Cases:
    present, granted, offered_memory = facts.machine.memory, facts.machine.granted_memory, facts.settings.memory
    is_limited = granted is not None and granted < present
    case_name = "configured" if offered_memory > present else "granted" if is_limited else "good"
    yield case_name, {"there": present, "granted": granted, "offered": offered_memory}


def _open_files(facts: DoctorFacts) -> Cases:
    open_files = facts.machine.open_files
    yield "few" if open_files < MIN_OPEN_FILES else "good", {"most": open_files}


def _processes(facts: DoctorFacts) -> Cases:
    yield "lost" if not facts.machine.has_subreaper else "good" if facts.machine.can_mark_jobs else "unmarked", {}


def _time_zone(facts: DoctorFacts) -> Cases:
    unknown = facts.machine.unknown_time_zone
    yield "unknown" if unknown else "good", {"unknown": unknown, "zone": facts.machine.zone}


def _sensors(facts: DoctorFacts) -> Cases:
    present_inputs, readable_inputs = facts.machine.input_devices
    if not facts.settings.reads_keyboard:
        yield "unwatched", {}
        return
    if present_inputs > readable_inputs:
        yield "unreadable", {"hidden": present_inputs - readable_inputs, "there": present_inputs}
    if not facts.machine.knows_logins:
        yield "logins", {}
    if present_inputs == readable_inputs and facts.machine.knows_logins:
        yield "good", {"there": present_inputs}


def _folder(facts: DoctorFacts) -> Cases:
    volume = facts.volumes.get("log")
    if volume is None:
        return
    cases = (
        ("missing", not volume.exists),
        ("locked", not volume.writable),
        ("shared", volume.kind in NETWORK_FILE_SYSTEMS),
        ("memory", volume.kind in MEMORY_FILE_SYSTEMS),
        ("good", True),
    )
    kind = volume.kind or "file system unknown"
    case_facts = {"folder": volume.folder, "quoted": shlex.quote(volume.folder), "kind": kind}
    yield next(case_name for case_name, holds in cases if holds), case_facts


def _space(facts: DoctorFacts) -> Cases:
    if "log" in facts.volumes:
        yield _space_case(facts.volumes["log"])


def _execute(facts: DoctorFacts) -> Cases:
    volume = facts.volumes.get("execute")
    if volume is None:
        return
    if not volume.executable:
        yield "noexec", {"folder": volume.folder}
    yield _space_case(volume)


def _space_case(volume: VolumeFacts) -> tuple[str, dict[str, Any]]:
    level = next((level for level, least_space in LOW_SPACE_MIB.items() if volume.free < least_space), None)
    return "little" if level else "good", {"level": level, "free": volume.free, "folder": volume.folder}


def _configuration(facts: DoctorFacts) -> Cases:
    settings = facts.settings
    if settings.error:
        yield "wrong", {"error": settings.error}
    elif settings.files:
        yield "files", {"files": ", ".join(settings.files), "named": settings.named_by}
    else:
        yield "environment" if settings.environment else "none", {}
    yield from (("warned", {"warning": warning}) for warning in settings.warnings)


def _environment(facts: DoctorFacts) -> Cases:
    settings = facts.settings
    if settings.environment:
        effect = "these override all files" if settings.files else "a pool here uses them without a configuration file"
        yield "set", {"names": ", ".join(settings.environment), "effect": effect}


def _start(facts: DoctorFacts) -> Cases:
    starts = facts.settings.constant_starts
    unstartable_slots = [slot for slot, start in starts.items() if start is False]
    if unstartable_slots:
        yield "never" if len(unstartable_slots) == len(starts) else "some", {"slots": ", ".join(unstartable_slots)}


def _log(facts: DoctorFacts) -> Cases:
    log = facts.log
    case_name = "wrong" if log.error else "empty" if log.empty else "good" if log.exists else "missing"
    kind = "imported records" if log.imported else f"of the role {log.role}" if log.role else "a pool's own"
    yield case_name, {"error": log.error, "url": log.url, "position": log.position, "kind": kind}
    if log.exists and not log.error and not log.has_head_witness:
        yield "unmarked", {"url": log.url}


def _clock(facts: DoctorFacts) -> Cases:
    seconds_ahead = facts.log.ahead_us // 1_000_000
    if seconds_ahead > 0:
        yield "behind", {"ahead": seconds_ahead}


def _writer(facts: DoctorFacts) -> Cases:
    log = facts.log
    if log.accepts_requests or log.holder:
        yield "serves" if log.accepts_requests else "writes", {"holder": log.holder}
    elif log.open_claims:
        continuing_text = f"{counted(log.open_claims, 'job continues', 'jobs continue')} without a pool"
        unmanaged_text = f"{counted(log.open_claims, 'started job is', 'started jobs are')} not managed by a pool"
        yield "gone", {"jobs": continuing_text if log.has_supervisor else unmanaged_text}
    elif log.exists and not log.imported:
        yield "none", {}


def _jobs(facts: DoctorFacts) -> Cases:
    log = facts.log
    held_count, idle_count, running_count = (log.job_counts.get(status, 0) for status in (_HELD, _IDLE, _RUNNING))
    if held_count:
        job, reason = log.held_job
        yield "held", {"jobs": counted(held_count, "job is", "jobs are"), "job": job, "reason": reason}
    for row in log.unmatched_jobs:
        alike_text = f", or {row.jobs - 1} more like it" if row.jobs > 1 else ""
        yield "unfit", {"job": row.job, "others": alike_text, "slots": counted(row.slots, "slot was", "slots were")}
    if log.job_counts and not held_count and not log.unmatched_jobs:
        run = counted(running_count, "job runs", "jobs run")
        yield "good", {"run": run, "idle": idle_count, "waits": "waits" if idle_count == 1 else "wait"}


CHECKS: Final[dict[str, Callable[[DoctorFacts], Cases]]] = {
    "python": _python, "command": _command, "cores": _cores, "memory": _memory, "open files": _open_files,
    "processes": _processes, "time zone": _time_zone, "configuration": _configuration, "environment": _environment,
    "START": _start, "sensors": _sensors, "folder": _folder, "space": _space, "scratch": _execute, "log": _log,
    "clock": _clock, "server": _writer, "jobs": _jobs,
}  # fmt: skip


def examine(facts: DoctorFacts) -> list[Finding]:
    """Return the findings of all checks, in the order of ``CHECKS``."""
    text = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").replace("\n    ", " ")
    rows = {case_name: cells for case_name, *cells in (line.split("  ") for line in text.splitlines())}
    findings = []
    for check, examine in CHECKS.items():
        for case_name, case_facts in examine(facts):
            level, sentence, remedy = (cell.format(**case_facts) for cell in (*rows[f"{check}/{case_name}"], "")[:3])
            findings.append(Finding(check, Level(level), sentence, remedy))
    return findings
