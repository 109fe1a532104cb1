"""What the records of a real HTCondor pool say.

Their ``at`` is the instant that the record states, and their ``stimulus`` is where it stands: the number of the source
and the line, "3:1201" (``domain/reports.py``). A log of these stands in the order of reading, not of time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from attrs import frozen

from .base import ClusterEvent, Event, MachineEvent, SlotEvent


@frozen
class SourceEvent(Event):
    """Of one file (or one chain of rotated files) that was imported; ``at`` is when it was read."""

    source: int

    @property
    def stream(self) -> str:
        return f"source/{self.source}"


@frozen
class SourceFound(SourceEvent):
    """A file was found. ``kind`` is one of ``reports.KINDS``; ``machine`` the host whose daemon wrote it, as far as
    known; ``zone`` the time zone in which its local times were read; ``follows`` the source whose rotated successor it
    is (0: none, or its predecessor was not there)."""

    path: str
    kind: str
    machine: str
    zone: str
    follows: int = 0


@frozen
class SourceRead(SourceEvent):
    """The source stands in the log up to byte ``offset``, the end of line ``lines``. ``head`` is a digest of its first
    ``head_size`` bytes and ``digest`` one of all that was read, by which it is known again under any name; ``state`` is
    what its reader has to know to go on (JSON); ``left`` counts the bytes of an unfinished record behind."""

    path: str
    offset: int
    lines: int
    head_size: int
    head: str
    digest: str
    state: str
    left: int


@frozen
class SourceRefused(SourceEvent):
    """A record that could not be read, at ``line``: why, and the beginning of its text."""

    line: int
    words: str
    text: str


@frozen
class SourceGap(SourceEvent):
    """Records are missing before ``line``: those between ``since`` and ``until`` (microseconds; 0: not known)."""

    line: int
    words: str
    since: int
    until: int


@frozen
class DaemonReported(MachineEvent):
    """A daemon of the machine: ``said`` is one of ``reports.OF_DAEMONS``."""

    daemon: str
    said: str
    facts: dict[str, str]


@frozen
class SlotReported(SlotEvent):
    """Of a slot: ``said`` is one of ``reports.OF_SLOTS``, ``facts`` are its fields."""

    said: str
    facts: dict[str, str]


Entry = tuple[int, int, int, int, int, str]
"""An entry of a job event log: its instant, line, process, subprocess, number and text (see ``JobLogged``)."""


@frozen
class JobLogged(ClusterEvent):
    """An entry of a job event log, as ``JobsLogged`` yields it: logs keep no event of this kind. ``number`` says of
    which kind it is (``domain/joblog.py``), ``text`` is what stands behind its time, line by line."""

    proc: int
    subproc: int
    number: int
    text: str


@frozen
class JobsLogged(ClusterEvent):
    """Entries of a job event log that stand one behind another there and are of one cluster. (Many in one event: job
    event logs are long, and an event costs more than its text.)"""

    source: int
    entries: tuple[Entry, ...]

    def logged(self) -> Iterator[JobLogged]:
        """Each entry by itself, in order."""
        cause, cluster, where = self.cause, self.cluster, f"{self.source}:"
        for at, line, proc, subproc, number, text in self.entries:
            yield JobLogged(at, cause, f"{where}{line}", cluster, proc, subproc, number, text)


@frozen
class JobReported(ClusterEvent):
    """Of a job: ``said`` is one of ``reports.OF_JOBS``, ``facts`` are its fields."""

    proc: int
    said: str
    facts: dict[str, str]


@frozen
class SubmitterReported(Event):
    """Of a submitter: ``said`` is one of ``reports.OF_SUBMITTERS``, ``facts`` are its fields."""

    submitter: str
    said: str
    facts: dict[str, str]

    @property
    def stream(self) -> str:
        return f"submitter/{self.submitter}"


@frozen
class CycleReported(Event):
    """Of a negotiation cycle: ``said`` is one of ``reports.OF_CYCLES``, ``facts`` are its fields."""

    stream: ClassVar[str] = "negotiator"
    said: str
    facts: dict[str, str]


@frozen
class AdsKept(Event):
    """``count`` ads of one kind of source (``kind`` is one of ``reports.KINDS``), as they stood there: ``ads`` and
    ``index`` are packed by ``domain/archive.py``."""

    kind: str
    count: int
    ads: bytes
    index: bytes

    @property
    def stream(self) -> str:
        return f"ads/{self.kind}"


@frozen
class TableWritten(Event):
    """A transaction of a daemon's table of ads: ``kind`` is "queue" (job_queue.log) or "accountant"
    (Accountantnew.log), ``number`` counts its transactions from 1. An operation is HTCondor's number for it (101 to
    107), the key, the attribute and the text."""

    kind: str
    number: int
    operations: tuple[tuple[int, str, str, str], ...]

    @property
    def stream(self) -> str:
        return f"table/{self.kind}"
