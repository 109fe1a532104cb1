"""The facts that the checks judge. Sizes are MiB, instants microseconds since 1970."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen


@frozen
class Program:
    """The program. ``command``: the ``poolbook`` on PATH; ``own``: the one beside this Python; empty if missing."""

    python: tuple[int, int, int]
    command: str = ""
    own: str = ""


@frozen
class Volume:
    """The file system of a folder, or of its nearest existing ancestor."""

    folder: str
    kind: str  #: the type in /proc/self/mountinfo; empty if unknown
    free: int
    writable: bool = True
    executable: bool = True
    there: bool = True  #: whether the folder itself exists


@frozen
class Machine:
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
class Waiting:
    """Alike jobs that no slot matches; ``job`` is the first."""

    job: str
    jobs: int
    slots: int


@frozen
class Book:
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
    unfit: tuple[Waiting, ...] = ()


@frozen
class Facts:
    """All facts. ``volumes``: of the log's folder, and of the folder where jobs run."""

    program: Program
    machine: Machine
    settings: Settings
    log: Book
    volumes: Mapping[str, Volume] = field(factory=dict)
