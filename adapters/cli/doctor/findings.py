"""The facts, and the checks: each judges the facts and says what is in order, what is wrong, and what to do."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from attrs import field, frozen

from ....replay.narration.formatting import counted


@frozen
class Program:
    """The program. ``command``: the ``poolbook`` on PATH; ``own``: the one beside this Python; empty if missing."""

    python: tuple[int, int, int]
    command: str = ""
    own: str = ""


@frozen
class VolumeFacts:
    """The file system of a folder, or of its nearest existing ancestor."""

    folder: str
    kind: str  #: the type in /proc/self/mountinfo; empty if unknown
    free: int
    writable: bool = True
    executable: bool = True
    there: bool = True  #: whether the folder itself exists


@frozen
class MachineFacts:
    """This machine."""

    cores: int
    memory: int  #: with `cores`, what a pool offers by default
    granted_cores: float | None = None  #: with `granted_memory`, the limits of this process's control groups
    granted_memory: int | None = None  #: as of the cores, None: no limit
    open_files: int = 1024
    subreaper: bool = True
    numbered: bool = True  #: whether a job's processes can be marked by RLIMIT_RTTIME
    zone: str = "UTC"
    unknown_zone: str = ""
    logins: bool = True
    inputs: tuple[int, int] = (0, 0)  #: the number of keyboards and mice, and of those that may be read


@frozen
class Settings:
    """The configuration."""

    files: tuple[str, ...] = ()  #: none: a machine without a policy
    named: str = ""  #: the option or variable that names the files
    error: str = ""
    warnings: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    starts: Mapping[str, bool | None] = field(factory=dict)  #: each slot's START if it is constant, else None
    watches: bool = False  #: whether a slot's policy reads KeyboardIdle or ConsoleIdle
    cores: float = 0
    memory: float = 0  #: with `cores`, the sum over the slots


@frozen
class UnmatchedJobs:
    """Alike jobs that no slot matches; ``job`` is the first."""

    job: str
    jobs: int
    slots: int


@frozen
class LogFacts:
    """The log."""

    url: str
    there: bool = False
    error: str = ""
    position: int = 0
    imported: bool = False
    marked: bool = True
    ahead: int = 0  #: microseconds by which its last event is later than this machine's clock
    holder: str = ""  #: the process that writes it; empty if none does
    answers: bool = False  #: whether the holder takes requests
    claims: int = 0  #: jobs whose processes were started beside it and whose ends are not yet in it
    supervised: bool = False  #: whether their supervisor runs
    empty: bool = False  #: whether its file exists but never held an event
    counts: Mapping[int, int] = field(factory=dict)  #: jobs in the queue by JobStatus
    held: tuple[str, str] = ("", "")  #: a held job and its HoldReason
    unfit: tuple[UnmatchedJobs, ...] = ()


@frozen
class DoctorFacts:
    """All facts. ``volumes``: of the log's folder, and of the folder where jobs run."""

    program: Program
    machine: MachineFacts
    settings: Settings
    log: LogFacts
    volumes: Mapping[str, VolumeFacts] = field(factory=dict)


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Said(NamedTuple):
    """A check's answer. ``remedy``: what to do about it; empty if all is in order."""

    level: Level
    words: str
    remedy: str = ""


class Finding(NamedTuple):
    """An answer, and the check that gave it."""

    check: str
    level: Level
    words: str
    remedy: str


class Check(NamedTuple):
    """A check's name and function."""

    name: str
    look: Callable[[DoctorFacts], Iterator[Said]]


OK, WARNING, PROBLEM = Level.OK, Level.WARNING, Level.PROBLEM

OLDEST: Final = (3, 11)
"""The lowest Python that pyproject.toml allows."""
LITTLE_SPACE: Final = {PROBLEM: 100, WARNING: 1024}
"""MiB of free space below which each level is reported."""
FEW_FILES: Final = 256
BETWEEN_MACHINES: Final = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.sshfs", "gfs2", "gpfs", "lustre",
        "nfs", "nfs4", "ocfs2", "orangefs", "smb3", "smbfs", "virtiofs",
    }
)  # fmt: skip
"""Types of file systems that several machines may share."""
IN_MEMORY: Final = frozenset({"ramfs", "tmpfs"})
_IDLE, _HELD, _RUNNING = 1, 5, 2


# The program


def _python(facts: DoctorFacts) -> Iterator[Said]:
    version = ".".join(map(str, facts.program.python))
    if facts.program.python[:2] < OLDEST:
        least = ".".join(map(str, OLDEST))
        words = f"this is Python {version}; Poolbook needs {least}"
        yield Said(PROBLEM, words, f"install it with Python {least} or later")
    else:
        yield Said(OK, f"Python {version}")


def _command(facts: DoctorFacts) -> Iterator[Said]:
    program = facts.program
    folder = program.own.rpartition("/")[0]
    if not program.command:
        way = f'export PATH="{folder}:$PATH"' if folder else "install Poolbook with pip, uv or pipx"
        yield Said(WARNING, "a shell does not find the command poolbook", way)
    elif program.own and program.command != program.own:
        words = f"a shell finds another poolbook, {program.command}, before this one, {program.own}"
        yield Said(WARNING, words, f'remove one of them, or export PATH="{folder}:$PATH"')
    else:
        yield Said(OK, f"the command is {program.command}")


# The machine


def _cores(facts: DoctorFacts) -> Iterator[Said]:
    machine = facts.machine
    granted = machine.granted_cores
    if facts.settings.cores > machine.cores:
        words = f"the configuration offers {facts.settings.cores:g} cores, but this machine has {machine.cores}"
        yield Said(WARNING, words, "`poolbook config -verbose NUM_CPUS` says which line does that, if it is not meant")
    elif granted is not None and granted < machine.cores:
        words = f"a pool offers {machine.cores} cores, but this process may use no more than {granted:g}"
        words += " (control group)"
        yield Said(WARNING, words, f"poolbook serve -cpus {max(1, int(granted))}, and run and resume likewise")
    else:
        yield Said(OK, counted(machine.cores, "core"))


def _memory(facts: DoctorFacts) -> Iterator[Said]:
    machine = facts.machine
    granted = machine.granted_memory
    if facts.settings.memory > machine.memory:
        offered = f"{facts.settings.memory:.0f} MiB of memory"
        words = f"the configuration offers {offered}, but this machine has {machine.memory} MiB"
        yield Said(WARNING, words, "`poolbook config -verbose MEMORY` says which line does that, if it is not meant")
    elif granted is not None and granted < machine.memory:
        words = f"a pool offers {machine.memory} MiB of memory, but this process may use no more than {granted} MiB"
        words += " (control group)"
        yield Said(WARNING, words, f"poolbook serve -memory {granted}, and run and resume likewise")
    else:
        yield Said(OK, f"{machine.memory} MiB of memory")


def _files(facts: DoctorFacts) -> Iterator[Said]:
    most = facts.machine.open_files
    if most < FEW_FILES:
        yield Said(WARNING, f"a process may open {most} files only; each client of a pool takes one", "ulimit -n 1024")
    else:
        yield Said(OK, f"{most} open files are allowed")


def _processes(facts: DoctorFacts) -> Iterator[Said]:
    if not facts.machine.subreaper:
        words = "this kernel does not tell a process of its descendants' ends (subreaper): no job can be run here"
        yield Said(PROBLEM, words, "run Poolbook on Linux 3.4 or later, and not in a sandbox that forbids prctl")
    elif not facts.machine.numbered:
        words = "real-time CPU time is limited: a daemon that a job starts may not be known as the job's"
        yield Said(WARNING, words, "ulimit -R unlimited, where that is allowed")
    else:
        yield Said(OK, "all processes of a job are found (no control group is used)")


def _zone(facts: DoctorFacts) -> Iterator[Said]:
    machine = facts.machine
    if machine.unknown_zone:
        words = f"TZ={machine.unknown_zone} is no time zone that this machine knows: times are shown in {machine.zone}"
        yield Said(WARNING, words, "write it as in TZ=Europe/Berlin, or unset TZ")
    else:
        yield Said(OK, f"times are shown in {machine.zone}")


def _sensors(facts: DoctorFacts) -> Iterator[Said]:
    machine = facts.machine
    there, readable = machine.inputs
    if not facts.settings.watches:
        yield Said(OK, "no policy asks for the keyboard")
        return
    if there > readable:
        words = (
            f"{there - readable} of {there} keyboards and mice in /dev/input cannot be read: who uses them is not seen"
        )
        yield Said(WARNING, words, "let the user who runs the pool read them: the group input, or run it as root")
    if not machine.logins:
        words = "nothing tells who is logged in (/var/run/utmp): every terminal counts as somebody's"
        yield Said(WARNING, words, "that is safe for the owner; STARTD_HAS_BAD_UTMP = True says that it is meant")
    if there == readable and machine.logins:
        yield Said(OK, f"terminals and {there} keyboards and mice are watched")


# The folders


def _folder(facts: DoctorFacts) -> Iterator[Said]:
    volume = facts.volumes.get("log")
    if volume is None:
        return
    if not volume.there:
        words = f"there is no folder {volume.folder}, and a log cannot be begun there"
        yield Said(PROBLEM, words, f"mkdir -p {shlex.quote(volume.folder)}, or name another place: -log FILE")
    elif not volume.writable:
        words = f"{volume.folder} cannot be written: a log there can be read, and no pool can be served"
        yield Said(PROBLEM, words, "see to its rights, or name another place: -log FILE")
    elif volume.kind in BETWEEN_MACHINES:
        words = (
            f"{volume.folder} is on a network file system ({volume.kind}): SQLite keeps its log whole there only while "
            "all commands run on one machine"
        )
        yield Said(WARNING, words, "use a local disk, -log FILE, or a log in PostgreSQL, -log postgresql://...")
    elif volume.kind in IN_MEMORY:
        words = f"{volume.folder} is in memory ({volume.kind}): the log is gone when the machine stops"
        yield Said(WARNING, words, "name a folder on a disk: -log FILE")
    else:
        yield Said(OK, f"{volume.folder} can be written ({volume.kind or 'file system unknown'})")


def _space(facts: DoctorFacts) -> Iterator[Said]:
    if "log" in facts.volumes:
        yield _left(facts.volumes["log"], "the log", "make room: a pool whose log cannot grow decides nothing")


def _execute(facts: DoctorFacts) -> Iterator[Said]:
    volume = facts.volumes.get("execute")
    if volume is None:
        return
    if not volume.executable:
        words = f"jobs run in {volume.folder}, where nothing may be executed (noexec): a program that they write fails"
        yield Said(WARNING, words, "name a log in another folder, -log FILE: jobs run beside it")
    yield _left(volume, "jobs", "make room: request_disk of a job is compared with what is free")


def _left(volume: VolumeFacts, whose: str, remedy: str) -> Said:
    words = f"{volume.free} MiB are free for {whose} in {volume.folder}"
    level = next((level for level, least in LITTLE_SPACE.items() if volume.free < least), OK)
    return Said(level, words, "" if level is OK else remedy)


# The configuration


def _configuration(facts: DoctorFacts) -> Iterator[Said]:
    settings = facts.settings
    if settings.error:
        words = f"the configuration cannot be taken: {settings.error}"
        yield Said(PROBLEM, words, "mend it; `poolbook config` reads it, too")
    elif settings.files:
        yield Said(OK, f"this machine is offered under {', '.join(settings.files)} ({settings.named})")
    elif settings.environment:
        yield Said(OK, "this machine is offered under what the environment sets: there is no file of a configuration")
    else:
        yield Said(
            OK, "this machine is offered without a policy: no configuration is named, and no poolbook.conf is here"
        )
    for warning in settings.warnings:
        yield Said(WARNING, warning, "`poolbook config -verbose NAME` says what is in force, and why")


def _environment(facts: DoctorFacts) -> Iterator[Said]:
    settings = facts.settings
    if not settings.environment:
        return
    names = ", ".join(settings.environment)
    effect = "that goes before every file" if settings.files else "a pool here follows that without any file"
    yield Said(WARNING, f"the environment sets {names}: {effect}", "unset what is not meant")


def _start(facts: DoctorFacts) -> Iterator[Said]:
    starts = facts.settings.starts
    never = [slot for slot, start in starts.items() if start is False]
    if starts and len(never) == len(starts):
        words = "START is false for every job on every slot: no job ever starts on this machine"
        yield Said(PROBLEM, words, "`poolbook config -verbose START` says which line does that")
    elif never:
        words = f"START is false for every job on {', '.join(never)}"
        yield Said(WARNING, words, "`poolbook config -verbose START` says which line does that")


# The log


def _log(facts: DoctorFacts) -> Iterator[Said]:
    log = facts.log
    if log.error:
        yield Said(PROBLEM, log.error, "`poolbook doc log` tells in which files a log is, and how it is copied")
    elif log.empty:
        yield Said(OK, f"{log.url} is empty: `poolbook run` and `poolbook serve` begin a log in it")
    elif not log.there:
        yield Said(OK, f"there is no log at {log.url} yet: `poolbook run` and `poolbook serve` begin one")
    else:
        kind = "imported records" if log.imported else "a pool's own"
        yield Said(OK, f"{log.url} can be read: {log.position:,} events, {kind}")
    if log.there and not log.error and not log.marked:
        words = f"{log.url} has no mark beside it: that its end was cut off would not be noticed"
        yield Said(WARNING, words, "the next command that writes makes one; a copy of a log takes along its .head")


def _clock(facts: DoctorFacts) -> Iterator[Said]:
    ahead = facts.log.ahead // 1_000_000
    if ahead > 0:
        words = f"the last event of the log is {ahead} s later than this machine's clock, which was set back"
        yield Said(WARNING, words, "set the clock right; meanwhile a pool counts on from the log's last instant")


def _served(facts: DoctorFacts) -> Iterator[Said]:
    log = facts.log
    if log.answers:
        yield Said(OK, f"process {log.holder} serves the log, and takes requests")
    elif log.holder:
        words = f"process {log.holder} writes the log, and takes no requests"
        yield Said(WARNING, words, "wait for it to end; if it does not, end it: nothing that was acknowledged is lost")
    elif log.claims:
        watched = f"{counted(log.claims, 'job goes', 'jobs go')} on without a pool"
        alone = f"{counted(log.claims, 'job was', 'jobs were')} begun that nobody watches over"
        words = f"{watched if log.supervised else alone}: the log tells of no end yet"
        yield Said(WARNING, words, "`poolbook resume` or `poolbook serve` takes them over")
    elif log.there and not log.imported:
        yield Said(OK, "nobody serves the log: commands write it themselves, and no job runs until one does")


def _jobs(facts: DoctorFacts) -> Iterator[Said]:
    log = facts.log
    held, idle, running = (log.counts.get(status, 0) for status in (_HELD, _IDLE, _RUNNING))
    if held:
        job, reason = log.held
        words = f"{counted(held, 'job is', 'jobs are')} on hold; {job}: {reason}"
        yield Said(WARNING, words, f"`poolbook why {job}` says what can be done; `poolbook q -hold` lists them")
    for one in log.unfit:
        others = f", nor {one.jobs - 1} more like it" if one.jobs > 1 else ""
        words = f"no slot fits job {one.job}{others} ({counted(one.slots, 'slot was', 'slots were')} asked)"
        yield Said(WARNING, words, f"`poolbook q -better-analyze {one.job}` says why")
    if log.counts and not held and not log.unfit:
        yield Said(OK, f"{counted(running, 'job runs', 'jobs run')}, {idle} {'waits' if idle == 1 else 'wait'}")


CHECKS: Final = (
    Check("python", _python),
    Check("command", _command),
    Check("cores", _cores),
    Check("memory", _memory),
    Check("open files", _files),
    Check("processes", _processes),
    Check("time zone", _zone),
    Check("configuration", _configuration),
    Check("environment", _environment),
    Check("START", _start),
    Check("sensors", _sensors),
    Check("folder", _folder),
    Check("space", _space),
    Check("scratch", _execute),
    Check("log", _log),
    Check("clock", _clock),
    Check("server", _served),
    Check("jobs", _jobs),
)


def examined(facts: DoctorFacts) -> list[Finding]:
    """Return the findings of all checks, in the order of ``CHECKS``."""
    return [Finding(check.name, *said) for check in CHECKS for said in check.look(facts)]
