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
    kind: str
    """The type in /proc/self/mountinfo; empty if unknown."""
    free: int
    writable: bool = True
    executable: bool = True
    there: bool = True
    """Whether the folder itself exists."""


@frozen
class Machine:
    """This machine."""

    cores: int
    memory: int
    """With `cores`, what a pool offers by default."""
    granted_cores: float | None = None
    granted_memory: int | None = None
    """With `granted_cores`, the limits of this process's control groups; None: no limit."""
    open_files: int = 1024
    subreaper: bool = True
    numbered: bool = True
    """Whether a job's processes can be marked by RLIMIT_RTTIME."""
    zone: str = "UTC"
    unknown_zone: str = ""
    logins: bool = True
    inputs: tuple[int, int] = (0, 0)
    """The number of keyboards and mice, and of those that may be read."""


@frozen
class Settings:
    """The configuration."""

    files: tuple[str, ...] = ()
    """None: a machine without a policy."""
    named: str = ""
    """The option or variable that names the files."""
    error: str = ""
    warnings: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    starts: Mapping[str, bool | None] = field(factory=dict)
    """Each slot's START if it is constant, else None."""
    watches: bool = False
    """Whether a slot's policy reads KeyboardIdle or ConsoleIdle."""
    cores: float = 0
    memory: float = 0
    """With `cores`, the sum over the slots."""


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
    ahead: int = 0
    """Microseconds by which its last event is later than this machine's clock."""
    holder: str = ""
    """The process that writes it; empty if none does."""
    answers: bool = False
    """Whether the holder takes requests."""
    claims: int = 0
    """Jobs whose processes were started beside it and whose ends are not yet in it."""
    supervised: bool = False
    """Whether their supervisor runs."""
    empty: bool = False
    """Whether its file exists but never held an event."""
    counts: Mapping[int, int] = field(factory=dict)
    """Jobs in the queue by JobStatus."""
    held: tuple[str, str] = ("", "")
    """A held job and its HoldReason."""
    unfit: tuple[Waiting, ...] = ()


@frozen
class Facts:
    """All facts. ``volumes``: of the log's folder, and of the folder where jobs run."""

    program: Program
    machine: Machine
    settings: Settings
    log: Book
    volumes: Mapping[str, Volume] = field(factory=dict)
