"""What the records of a real HTCondor pool say.

Their ``at`` is the instant that the record states, and their ``stimulus`` is where it stands: the number of the source
and the line, "3:1201". A log of these stands in the order of reading, not of time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from .base import ClusterEvent, Event, MachineEvent, SlotEvent, event


class SourceEvent(Event, frozen=True):
    """Of one file (or one chain of rotated files) that was imported; ``at`` is when it was read."""

    source: int  #: the source's number, from 1

    @property
    def stream(self) -> str:
        return f"source/{self.source}"


@event("source.found", imported=True)
class SourceFound(SourceEvent, frozen=True):
    """A file was found."""

    path: str  #: where it stood
    kind: str  #: what it is: one of `record_sources.KINDS`
    machine: str  #: the host whose daemon wrote it, as far as known
    zone: str  #: the time zone in which its local times were read
    follows: int = 0  #: the source whose rotated successor it is (0: none, or its predecessor was not there)


@event("source.read", imported=True)
class SourceRead(SourceEvent, frozen=True):
    """The source was read up to here. ``head`` and ``digest`` identify it under any name."""

    path: str  #: where it stands now
    offset: int  #: how far it was read, in bytes
    lines: int  #: how far it was read, in lines
    head_size: int  #: of how many bytes `head` is
    head: str  #: a digest of its first bytes
    digest: str  #: a digest of all that was read
    state: str  #: what its reader needs to continue (JSON)
    left: int  #: how many bytes of an unfinished record are behind


@event("source.refused", imported=True)
class SourceRefused(SourceEvent, frozen=True):
    """A record that could not be read."""

    line: int  #: its line, from 1 (0: the file as a whole)
    words: str  #: why it could not be read
    text: str  #: the beginning of it


@event("source.gap", imported=True)
class SourceGap(SourceEvent, frozen=True):
    """Records are missing."""

    line: int  #: before this line
    words: str  #: how that is known
    since: int  #: missing from this instant on, in microseconds (0: not known)
    until: int  #: missing until this instant, in microseconds (0: not known)


@event("daemon.reported", imported=True)
class DaemonReported(MachineEvent, frozen=True):
    """A record about a daemon of the machine."""

    daemon: str  #: which daemon, as startd
    said: str  #: what is said: one of `reports.OF_DAEMONS`
    facts: dict[str, str]  #: its fields


@event("slot.reported", imported=True)
class SlotReported(SlotEvent, frozen=True):
    """A record about a slot."""

    said: str  #: what is said: one of `reports.OF_SLOTS`
    facts: dict[str, str]  #: its fields


Entry = tuple[int, int, int, int, int, str]
"""An entry of a job event log: its instant, line, process, subprocess, number and text (see ``JobLogged``)."""


class JobLogged(ClusterEvent, frozen=True):
    """An entry of a job event log, as ``JobsLogged`` yields it: logs keep no event of this kind."""

    proc: int  #: the job's process number
    subproc: int  #: the entry's subprocess number, which is 0
    number: int  #: of which kind it is (`domain/imported/job_event_log.py`)
    text: str  #: the text after its time, line by line


@event("jobs.logged", imported=True)
class JobsLogged(ClusterEvent, frozen=True):
    """Entries of a job event log that stand one behind another there and are of one cluster; ``logged`` yields each by
    itself. (Many in one event: job event logs are long, and an event costs more than its text.)"""

    source: int  #: the source's number
    entries: tuple[Entry, ...]  #: instant (microseconds), line, process, subprocess, number and text of each

    def logged(self) -> Iterator[JobLogged]:
        """Each entry by itself, in order."""
        cause, cluster, where = self.cause, self.cluster, f"{self.source}:"
        for at, line, proc, subproc, number, text in self.entries:
            yield JobLogged(at, cause, f"{where}{line}", cluster, proc, subproc, number, text)


@event("job.reported", imported=True)
class JobReported(ClusterEvent, frozen=True):
    """A record about a job."""

    proc: int  #: the job's process number
    said: str  #: what is said: one of `reports.OF_JOBS`
    facts: dict[str, str]  #: its fields


@event("submitter.reported", imported=True)
class SubmitterReported(Event, frozen=True):
    """A record about a submitter."""

    submitter: str  #: the submitter's name
    said: str  #: what is said: one of `reports.OF_SUBMITTERS`
    facts: dict[str, str]  #: its fields

    @property
    def stream(self) -> str:
        return f"submitter/{self.submitter}"


@event("cycle.reported", imported=True)
class CycleReported(Event, frozen=True):
    """A record about a negotiation cycle."""

    stream: ClassVar[str] = "negotiator"
    said: str  #: what is said: one of `reports.OF_CYCLES`
    facts: dict[str, str]  #: its fields


@event("ads.kept", imported=True)
class AdsKept(Event, frozen=True):
    """Ads of one kind of source, as they stood there, packed by ``domain/imported/packed_ads.py``."""

    kind: str  #: of which kind of source: one of `record_sources.KINDS`
    count: int  #: how many ads
    ads: bytes  #: their texts, packed
    index: bytes  #: what is searched for in them, packed

    @property
    def stream(self) -> str:
        return f"ads/{self.kind}"


@event("table.written", imported=True)
class TableWritten(Event, frozen=True):
    """A transaction of a daemon's table of ads."""

    kind: str  #: queue (job_queue.log) or accountant (Accountantnew.log)
    number: int  #: the table's transactions are counted from 1
    operations: tuple[
        tuple[int, str, str, str], ...
    ]  #: each: HTCondor's number for it (101 to 107), key, attribute, text

    @property
    def stream(self) -> str:
        return f"table/{self.kind}"
