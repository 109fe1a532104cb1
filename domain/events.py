"""What can happen in a pool: every kind of event that a log may hold, and nothing else.

The rules of this file:

* An event is a fact, named in the past tense, and is never edited once a release has written it: a new field gets a
  default, and a changed meaning gets a new class with an upcast (``adapters/stores/codec.py``).
* ``at`` is the instant in microseconds since the epoch, UTC. Ads are attribute -> expression text, so that an event
  reads the same whatever the version of the language's implementation.
* ``cause`` is one of ``CAUSES``; ``stimulus`` is the id of what came in and made the pool decide; ``poolbook why``
  follows both.
* An event knows its stream (``stream``), the log of one thing: a slot, a machine, a cluster of jobs.
* ``Procs``, ranges of process numbers with both ends included, makes one event of a change of many jobs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from attrs import frozen

Ad = dict[str, str]
"""Attribute -> expression text."""
Procs = tuple[tuple[int, int], ...]
"""Ascending, disjoint ranges of process numbers, both ends included."""

CAUSES: dict[str, str] = {
    # the pool and its machines
    "founded": "the log was begun",
    "writer": "another process took over the writing of the log",
    "configured": "the machine was configured so",
    "left": "the machine was taken out of the pool",
    "answered": "the request had been dealt with",
    # slots
    "not_owner": "START is not false, so the machine's owner lets jobs run",
    "carved": "a match took a part of the partitionable slot",
    "merged": "its resources went back to the partitionable slot",
    "matched": "the negotiator found that slot and job accept each other",
    "claimed": "the access point claimed the slot that it had been given",
    "match_timeout": "nobody claimed the slot within MATCH_TIMEOUT",
    "match_void": "the job that the slot was matched with no longer waits",
    "activated": "the claim's holder started a job on it",
    "local": "the access point started it itself: it is of the local universe",
    "job_ended": "the job's processes are gone",
    "no_more_jobs": "no waiting job of the claim's holder fits the slot",
    "worklife": "the claim is older than CLAIM_WORKLIFE",
    "vacate_command": "somebody asked for the slot or job to be vacated",
    "retirement_over": "the job's retirement time is over",
    "vacate_timeout": "the job did not end within MachineMaxVacateTime",
    "claim_over": "the claim ended and nobody was waiting to take it",
    "machine_left": "its machine was taken out of the pool",
    # jobs
    "submitted": "a user submitted it",
    "user_hold": "somebody asked for it to be held",
    "user_release": "somebody asked for it to be released",
    "user_remove": "somebody asked for it to be removed",
    "user_edit": "somebody changed its attributes",
    "user_vacate": "somebody asked for it to be vacated",
    "kill_timeout": "it did not end in the time that it was given",
    "evicted": "it was ended before it was done",
    "exited": "it ended by itself",
    "execution_failed": "it could not be started",
    "limit_exceeded": "it used more than it was given",
    "lost": "its process vanished without a record, as when the machine loses power",
    "measured": "its use of resources was measured",
    "negotiated": "a negotiation cycle was held",
    "suspend_command": "somebody asked for it to be suspended",
    "continue_command": "somebody asked for it to go on",
    # what was read of a real pool
    "reported": "a record of HTCondor's own says so",
    "read": "the import read so far",
    "refused": "the import could not read it",
}
"""Every cause that an event may name, with its words."""


@frozen
class Event:
    """What every event says: when, why, and what made the pool decide."""

    at: int
    cause: str
    stimulus: str

    @property
    def stream(self) -> str:
        raise TypeError(f"{type(self).__name__} is no kind of event: it belongs to no stream")


@frozen
class MachineEvent(Event):
    """Of one machine."""

    machine: str

    @property
    def stream(self) -> str:
        return f"machine/{self.machine}"


@frozen
class SlotEvent(Event):
    """Of one slot."""

    slot: str

    @property
    def stream(self) -> str:
        return f"slot/{self.slot}"


@frozen
class ClusterEvent(Event):
    """Of jobs of one cluster."""

    cluster: int

    @property
    def stream(self) -> str:
        return f"cluster/{self.cluster}"


@frozen
class Clause:
    """A condition of a Requirements expression, and how many of the slots it leaves (alone; with those before)."""

    text: str
    alone: int
    left: int


@frozen
class Match:
    """A cycle's decision: this job may use this slot; ``rank`` is the job's Rank of it."""

    job: str
    slot: str
    rank: float = 0.0


@frozen
class Unmatched:
    """Why jobs alike got nothing in a cycle: of ``slots`` looked at, what each clause of ``job``'s Requirements left,
    how many slots refused the job by their own, and how many that both accept were taken by jobs before it."""

    job: str
    jobs: int
    slots: int
    clauses: tuple[Clause, ...]
    refused_by_slot: int = 0
    taken: int = 0


# The pool, its writers and the requests that they answered


@frozen
class PoolFounded(Event):
    """The first event of every log."""

    stream: ClassVar[str] = "pool"
    name: str
    dialect: str
    uid_domain: str
    version: str
    settings: dict[str, str]


@frozen
class WriterBegan(Event):
    """A process that serves the log raised its epoch: every earlier writer's appends fail from here on."""

    stream: ClassVar[str] = "pool"
    epoch: int
    writer: str


@frozen
class RequestAnswered(Event):
    """What was asked, by whom, and the answer, which a repeated request with the same id gets again."""

    stream: ClassVar[str] = "requests"
    user: str
    request: str
    arguments: str
    answer: str


@frozen
class EvidenceNoted(Event):
    """An expression that decided something: its text, its value, and the values of the attributes that it read
    (``MY.`` and ``TARGET.`` tell whose). Written once for a stimulus, however many slots or jobs it decided about."""

    stream: ClassVar[str] = "evidence"
    name: str
    expression: str
    value: str
    read: dict[str, str]


# Machines and slots


@frozen
class MachineJoined(MachineEvent):
    ad: Ad


@frozen
class MachineLeft(MachineEvent):
    """The machine and its slots are no longer in the pool."""


@frozen
class SlotBorn(SlotEvent):
    """A slot exists from here on, in Owner/Idle. ``kind``: static, partitionable or dynamic (then ``parent`` is the
    slot whose resources it was carved from). ``ad`` is its whole ad."""

    machine: str
    kind: str
    parent: str
    ad: Ad


@frozen
class SlotMoved(SlotEvent):
    """A transition of a slot's state and activity, by a row of the dialect's table. One that was imported and that no
    row allows has none, and ``reason`` is what the record says of it."""

    row: str
    source: str
    target: str
    reason: str = ""


@frozen
class SlotChanged(SlotEvent):
    """The slot's ad has these new values (an empty text: the attribute is gone)."""

    changes: Ad


@frozen
class SlotDied(SlotEvent):
    """The slot is gone."""


@frozen
class ClaimMade(SlotEvent):
    """``submitter`` holds the slot from here on; ``weight`` is the slot's weight in thousandths."""

    claim: str
    submitter: str
    weight: int


@frozen
class ClaimEnded(SlotEvent):
    """The claim is over. ``usage``: microseconds that it was held, times the slot's weight in thousandths."""

    claim: str
    submitter: str
    usage: int


# Matchmaking


@frozen
class CycleHeld(Event):
    """A negotiation cycle and all that it decided. A refusal stands here when it differs from the last one that the
    log has for these jobs."""

    stream: ClassVar[str] = "negotiator"
    matches: tuple[Match, ...]
    unmatched: tuple[Unmatched, ...]


@frozen
class MatchVoided(SlotEvent):
    """A match that will not be claimed."""

    job: str


# Jobs


@frozen
class ClusterSubmitted(ClusterEvent):
    """``count`` jobs, alike but for ``columns`` (``domain/variants.py`` packs and unpacks them)."""

    submitter: str
    ad: Ad
    count: int
    columns: tuple[bytes, ...]
    status: str


@frozen
class JobsMoved(ClusterEvent):
    """A transition of each of these jobs, by a row of the job table; ``changes`` are the same for all of them."""

    procs: Procs
    row: str
    source: str
    target: str
    changes: Ad


@frozen
class JobsEdited(ClusterEvent):
    procs: Procs
    changes: Ad


@frozen
class JobActivated(ClusterEvent):
    """A claim was activated for the job, which is Running from here on. A job of the local universe has no claim, and
    "local@" and the pool's name for its slot. The position of this event in the log is the
    activation's key: by it the processes are found again."""

    proc: int
    slot: str
    claim: str


@frozen
class JobExecuting(ClusterEvent):
    """The job's own process runs (``pid`` 0: it did, and ended before anybody could tell). ``began``: when it was
    started, if earlier than ``at``."""

    proc: int
    pid: int
    scratch: str
    began: int = 0


@frozen
class JobMeasured(ClusterEvent):
    """Memory in KiB (``image`` virtual, ``resident`` real), scratch ``disk`` in KiB, CPU times in microseconds."""

    proc: int
    image: int
    resident: int
    disk: int
    user_cpu: int
    system_cpu: int


@frozen
class JobSignalled(ClusterEvent):
    """The job's processes were told to end: ``soft`` by its kill signal, ``hard`` at once."""

    proc: int
    how: str


@frozen
class JobExited(ClusterEvent):
    """All processes of the activation ``key`` are gone. ``outcome``: exited, evicted, failed or lost. ``source``,
    ``row`` and ``target`` are the job's transition that follows (empty if there is none: a job that was held or removed
    meanwhile stays so). ``code`` or ``signal`` is how the job's own process ended, ``ended`` when that was, if earlier
    than ``at``. CPU times in microseconds, memory and disk in KiB."""

    proc: int
    slot: str
    key: str
    outcome: str
    row: str
    target: str
    changes: Ad
    code: int | None = None
    signal: int | None = None
    user_cpu: int = 0
    system_cpu: int = 0
    resident: int = 0
    disk: int = 0
    ended: int = 0
    source: str = ""


# What the records of a real HTCondor pool say. Their ``at`` is the instant that the record states, and their
# ``stimulus`` is where it stands: the number of the source and the line, "3:1201" (``domain/reports.py``). A log of
# these stands in the order of reading, not of time.


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


TOPICS: dict[str, type[Event]] = {
    "founded": PoolFounded,
    "writer": WriterBegan,
    "answered": RequestAnswered,
    "evidence": EvidenceNoted,
    "machine+": MachineJoined,
    "machine-": MachineLeft,
    "slot+": SlotBorn,
    "slot": SlotMoved,
    "slot=": SlotChanged,
    "slot-": SlotDied,
    "claim+": ClaimMade,
    "claim-": ClaimEnded,
    "cycle": CycleHeld,
    "match-": MatchVoided,
    "submit": ClusterSubmitted,
    "jobs": JobsMoved,
    "jobs=": JobsEdited,
    "run+": JobActivated,
    "run": JobExecuting,
    "run=": JobMeasured,
    "run!": JobSignalled,
    "run-": JobExited,
    "source+": SourceFound,
    "source": SourceRead,
    "source!": SourceRefused,
    "source?": SourceGap,
    "of-daemon": DaemonReported,
    "of-slot": SlotReported,
    "entries": JobsLogged,
    "of-job": JobReported,
    "of-submitter": SubmitterReported,
    "of-cycle": CycleReported,
    "ads": AdsKept,
    "table": TableWritten,
}
"""The short name under which a log keeps each kind of event; a name once released is never given to another kind."""

OF_IMPORTS: frozenset[type[Event]] = frozenset(
    {
        SourceFound,
        SourceRead,
        SourceRefused,
        SourceGap,
        DaemonReported,
        SlotReported,
        JobsLogged,
        JobReported,
        SubmitterReported,
        CycleReported,
        AdsKept,
        TableWritten,
    }
)
"""The kinds that only an import writes; no pool's own log has any."""
