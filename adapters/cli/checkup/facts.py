"""What was found out, as values. Sizes are MiB, instants microseconds since 1970."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen


@frozen
class Program:
    """``command``: the ``poolbook`` that a shell finds; ``own``: the one beside this Python. Empty: there is none."""

    python: tuple[int, int, int]
    command: str = ""
    own: str = ""


@frozen
class Volume:
    """The file system of a folder. ``kind``: as /proc/self/mountinfo names it; empty where that does not tell.
    ``there``: whether the folder is; where not, the rest is of the nearest one above it."""

    folder: str
    kind: str
    free: int
    writable: bool = True
    executable: bool = True
    there: bool = True


@frozen
class Machine:
    """``cores`` and ``memory`` are what a pool offers by itself, ``granted_cores`` and ``granted_memory`` what the
    control groups of this process allow (None: they set no limit). ``inputs``: keyboards and mice that there are, and
    those of them that may be read. ``numbered``: whether a job's processes can be known by RLIMIT_RTTIME."""

    cores: int
    memory: int
    granted_cores: float | None = None
    granted_memory: int | None = None
    open_files: int = 1024
    subreaper: bool = True
    numbered: bool = True
    zone: str = "UTC"
    unknown_zone: str = ""
    logins: bool = True
    inputs: tuple[int, int] = (0, 0)


@frozen
class Settings:
    """The configuration. ``files``: those that hold it, ``named``: by what; none: a machine without a policy.
    ``starts``: each slot's START where it is the same for every job, else None. ``watches``: whether a slot's policy
    asks for the keyboard. ``cores`` and ``memory``: what the slots have together."""

    files: tuple[str, ...] = ()
    named: str = ""
    error: str = ""
    warnings: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    starts: Mapping[str, bool | None] = field(factory=dict)
    watches: bool = False
    cores: float = 0
    memory: float = 0


@frozen
class Waiting:
    """Jobs that are alike, of which ``job`` is the first, and that no slot fits."""

    job: str
    jobs: int
    slots: int


@frozen
class Book:
    """The log. ``empty``: its file is there, and nothing was ever in it. ``ahead``: by how much its last event is later
    than this machine's clock. ``holder``: the process that writes it, empty if none does; ``answers``: whether it takes
    requests. ``claims``: jobs whose processes were begun beside it and whose ends are not yet in it; ``supervised``:
    whether their supervisor runs. ``counts``: jobs in the queue by JobStatus. ``held``: one of those on hold, and why.
    """

    url: str
    there: bool = False
    error: str = ""
    position: int = 0
    imported: bool = False
    marked: bool = True
    ahead: int = 0
    holder: str = ""
    answers: bool = False
    claims: int = 0
    supervised: bool = False
    empty: bool = False
    counts: Mapping[int, int] = field(factory=dict)
    held: tuple[str, str] = ("", "")
    unfit: tuple[Waiting, ...] = ()


@frozen
class Facts:
    """All of it. ``volumes``: of the log's folder, and of the one where jobs run."""

    program: Program
    machine: Machine
    settings: Settings
    log: Book
    volumes: Mapping[str, Volume] = field(factory=dict)
