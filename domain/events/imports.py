"""Events imported from the records of an HTCondor pool.

``at`` is the record's timestamp. ``stimulus`` is the record's location, as source number and line: "3:1201". Events in
an import's log are in the order of reading, not of time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from .base import ClusterEvent, Event, MachineEvent, SlotEvent, event


class SourceEvent(Event, frozen=True):
    """An event about an imported file, or a chain of rotated files; ``at`` is when it was read."""

    source: int  #: the source's number, from 1

    @property
    def stream(self) -> str:
        return f"source/{self.source}"


@event("source.found", imported=True)
class SourceFound(SourceEvent, frozen=True):
    """The import found a file."""

    path: str  #: the path of the file
    kind: str  #: the kind of source; one of `record_sources.KINDS`
    machine: str  #: the host whose daemon wrote the file, if known
    zone: str  #: the time zone assumed for local times in the file
    follows: int = 0  #: the previous source in a chain of rotated files (0: none, or missing)


@event("source.read", imported=True)
class SourceRead(SourceEvent, frozen=True):
    """The import read a source up to an offset. ``head`` and ``digest`` identify the source if it is renamed."""

    path: str  #: the current path of the source
    offset: int  #: the number of bytes read
    lines: int  #: the number of lines read
    head_size: int  #: the number of bytes that `head` covers
    head: str  #: a digest of the first bytes
    digest: str  #: a digest of the bytes read
    state: str  #: the state from which the reader continues (JSON)
    left: int  #: the number of bytes of an incomplete record at the end


@event("source.refused", imported=True)
class SourceRefused(SourceEvent, frozen=True):
    """The import could not read a record."""

    line: int  #: the line of the record, from 1 (0: the whole file)
    words: str  #: why it could not be read
    text: str  #: the beginning of the record


@event("source.gap", imported=True)
class SourceGap(SourceEvent, frozen=True):
    """Records are missing in a source."""

    line: int  #: the line after the gap
    words: str  #: how the gap was detected
    since: int  #: the start of the gap, in microseconds (0: not known)
    until: int  #: the end of the gap, in microseconds (0: not known)


@event("daemon.reported", imported=True)
class DaemonReported(MachineEvent, frozen=True):
    """A record about a daemon of the machine."""

    daemon: str  #: the daemon, such as startd
    said: str  #: the kind of report; one of `reports.OF_DAEMONS`
    facts: dict[str, str]  #: the fields of the report


@event("slot.reported", imported=True)
class SlotReported(SlotEvent, frozen=True):
    """A record about a slot."""

    said: str  #: the kind of report; one of `reports.OF_SLOTS`
    facts: dict[str, str]  #: the fields of the report


Entry = tuple[int, int, int, int, int, str]
"""An entry of a job event log: its time, line, process, subprocess, number and text (see ``JobLogged``)."""


class JobLogged(ClusterEvent, frozen=True):
    """An entry of a job event log, which ``JobsLogged.logged`` yields. Logs do not contain events of this kind."""

    proc: int  #: the job's process number
    subproc: int  #: the entry's subprocess number, which is always 0
    number: int  #: the type of entry (`domain/imported/job_event_log.py`)
    text: str  #: the text after the time, with line feeds


@event("jobs.logged", imported=True)
class JobsLogged(ClusterEvent, frozen=True):
    """Consecutive entries of a job event log about one cluster. One event contains many entries, because job event logs
    are long and every event has a cost."""

    source: int  #: the source's number
    entries: tuple[Entry, ...]  #: time (microseconds), line, process, subprocess, number and text of each entry

    def logged(self) -> Iterator[JobLogged]:
        """Yield the entries in order."""
        cause, cluster, prefix = self.cause, self.cluster, f"{self.source}:"
        for at, line, proc, subproc, number, text in self.entries:
            yield JobLogged(at, cause, f"{prefix}{line}", cluster, proc, subproc, number, text)


@event("job.reported", imported=True)
class JobReported(ClusterEvent, frozen=True):
    """A record about a job."""

    proc: int  #: the job's process number
    said: str  #: the kind of report; one of `reports.OF_JOBS`
    facts: dict[str, str]  #: the fields of the report


@event("submitter.reported", imported=True)
class SubmitterReported(Event, frozen=True):
    """A record about a submitter."""

    submitter: str  #: the submitter's name
    said: str  #: the kind of report; one of `reports.OF_SUBMITTERS`
    facts: dict[str, str]  #: the fields of the report

    @property
    def stream(self) -> str:
        return f"submitter/{self.submitter}"


@event("cycle.reported", imported=True)
class CycleReported(Event, frozen=True):
    """A record about a negotiation cycle."""

    stream: ClassVar[str] = "negotiator"
    said: str  #: the kind of report; one of `reports.OF_CYCLES`
    facts: dict[str, str]  #: the fields of the report


@event("ads.kept", imported=True)
class AdsKept(Event, frozen=True):
    """Unchanged ads from one kind of source, packed by ``domain/imported/packed_ads.py``."""

    kind: str  #: the kind of source; one of `record_sources.KINDS`
    count: int  #: the number of ads
    ads: bytes  #: the texts of the ads, packed
    index: bytes  #: the fields that queries search by, packed

    @property
    def stream(self) -> str:
        return f"ads/{self.kind}"


@event("table.written", imported=True)
class TableWritten(Event, frozen=True):
    """A transaction in a daemon's table of ads."""

    kind: str  #: queue (job_queue.log) or accountant (Accountantnew.log)
    number: int  #: the number of the transaction in the table, from 1
    operations: tuple[tuple[int, str, str, str], ...]  #: HTCondor's number (101 to 107), key, attribute, text of each

    @property
    def stream(self) -> str:
        return f"table/{self.kind}"
