"""Events of machines, slots and claims."""

from __future__ import annotations

from msgspec import field

from .base import Ad, MachineEvent, SlotEvent, event


@event("machine.joined")
class MachineJoined(MachineEvent, frozen=True):
    """A machine joined the pool."""

    ad: Ad  #: the attributes that all its slots share
    settings: Ad = field(default_factory=dict)  #: settings of its execution point that differ from the defaults


@event("machine.configured")
class MachineConfigured(MachineEvent, frozen=True):
    """The execution point reread its configuration. ``SlotAdChanged`` events with the same stimulus contain the changes
    to the slots' ads."""

    settings: Ad  #: changed settings (empty text: back to the default)


@event("benchmarks.ran")
class BenchmarksRan(MachineEvent, frozen=True):
    """The machine's benchmarks completed."""

    slot: str  #: the slot on which they ran
    mips: int  #: MIPS measured by this run
    kflops: int  #: KFLOPS measured by this run
    published: tuple[int, int]  #: the new values of Mips and KFlops in the slots' ads


@event("cpu.busy")
class CpuBusyChanged(SlotEvent, frozen=True):
    """CpuBusy changed. Recorded only if an active expression reads CpuBusyTime."""

    busy: bool  #: the new value of CpuBusy


@event("drain.began")
class DrainBegan(MachineEvent, frozen=True):
    """The machine accepts no more jobs, and its jobs are being evicted."""

    drain: int  #: the number of the drain on this machine, from 1
    schedule: str  #: how its jobs are evicted: Graceful, Quick or Fast
    reason: str = ""  #: the reason given with the request
    completion: str = ""  #: the action on completion: none (empty), resume, reconfig, exit or restart
    start: str = ""  #: the START expression during the drain (empty: false)


@event("drain.moved")
class DrainTransitioned(MachineEvent, frozen=True):
    """The machine's drain changed its state."""

    drain: int  #: the drain's number
    row: str  #: the row of the drain table: complete, cancel, resume or stop
    source: str  #: the previous state
    target: str  #: the new state


@event("drain.final")
class DrainFinal(MachineEvent, frozen=True):
    """All jobs that the machine had when the drain began have ended. Jobs accepted since then have no retirement time,
    and the machine accepts no more jobs."""

    drain: int  #: the drain's number


@event("drain.badput")
class DrainBadputAdded(MachineEvent, frozen=True):
    """The drain ended a job."""

    slot: str  #: the slot where the job ran
    badput: int  #: the core-seconds that the job had run (TotalMachineDrainingBadput)


@event("backfill.started")
class BackfillStarted(MachineEvent, frozen=True):
    """The machine's backfill client is being started. This event's position is the client's key, which identifies its
    processes."""

    slot: str  #: the first slot that uses it
    system: str  #: the backfill system: BOINC or EXEC
    client: Ad  #: the settings that specify how to run it, such as Executable


@event("backfill.executing")
class BackfillExecuting(MachineEvent, frozen=True):
    """The backfill client's process was started."""

    key: str  #: the client's key: the position of its `BackfillStarted`
    pid: int  #: the client's process id
    began: int = 0  #: when it was started, in microseconds, if before `at` (else 0)


@event("backfill.signalled")
class BackfillSignalled(MachineEvent, frozen=True):
    """The backfill client and its descendants were killed."""

    key: str  #: the client's key: the position of its `BackfillStarted`
    until: int  #: when they are killed again, in microseconds


@event("backfill.exited")
class BackfillExited(MachineEvent, frozen=True):
    """The backfill client and all its processes have exited."""

    key: str  #: the client's key: the position of its `BackfillStarted`
    outcome: str  #: exited, killed (by the pool), failed (could not be started), unattended (without a pool) or lost
    code: int | None = None  #: the exit code (None: ended by a signal, or unknown)
    signal: int | None = None  #: the signal that ended it (None: no signal)
    reason: str = ""  #: why it could not be started
    failures: int = 0  #: how many times in a row it exited soon after its start
    retry: int = 0  #: when it may be started again, in microseconds (0: at any time)
    user_cpu: int = 0  #: user CPU time, in microseconds
    system_cpu: int = 0  #: system CPU time, in microseconds
    ended: int = 0  #: when its process ended, in microseconds, if before `at` (else 0)


@event("shutdown.began")
class ShutdownBegan(MachineEvent, frozen=True):
    """The execution point is shutting down."""

    how: str  #: Peaceful (jobs may complete), Graceful (jobs use their retirement time) or Fast (jobs are killed)
    restart: bool = False  #: whether the machine joins the pool again when it has left it


@event("machine.left")
class MachineLeft(MachineEvent, frozen=True):
    """The machine and its slots left the pool."""


@event("slot.created")
class SlotCreated(SlotEvent, frozen=True):
    """A slot was created in Owner/Idle."""

    machine: str  #: the machine of the slot
    kind: str  #: static, partitionable or dynamic
    parent: str  #: the partitionable slot from which a dynamic slot was carved (else empty)
    ad: Ad  #: the complete ad of the slot


@event("slot.moved")
class SlotTransitioned(SlotEvent, frozen=True):
    """A slot changed its state or activity."""

    row: str  #: the row of the dialect's table (empty: an imported transition that no row allows)
    source: str  #: the previous state/activity, such as Claimed/Busy
    target: str  #: the new state/activity
    reason: str = ""  #: the record's text, for an imported transition that no row allows
    evidence: int = 0  #: position of the `EvaluationRecorded` that determined the transition (0: none)


@event("slot.changed")
class SlotAdChanged(SlotEvent, frozen=True):
    """The slot's ad changed."""

    changes: Ad  #: changed attributes (empty text: attribute removed)


@event("backfill.leaving")
class BackfillLeaving(SlotEvent, frozen=True):
    """The slot will leave Backfill when the backfill client has ended."""

    destination: str  #: the next state: Matched, Claimed or Owner (without this event, it is Owner)


@event("slot.destroyed")
class SlotDestroyed(SlotEvent, frozen=True):
    """The slot was destroyed."""


@event("claim.made")
class ClaimMade(SlotEvent, frozen=True):
    """The slot was claimed for a submitter."""

    claim: str  #: the claim's id
    submitter: str  #: the submitter, such as alice@example.org
    weight: int  #: the slot's weight in thousandths
    rank: float = 0.0  #: the value of RANK for the job
    holder: str = ""  #: the external access point that holds it (empty: the pool's own)
    job: str = ""  #: the job for which it was requested (empty: the matched job)
    ad: Ad = field(default_factory=dict)  #: the job's ad (empty: it is in the log with the queue)
    lease: int = 0  #: the seconds of silence by its holder after which the claim ends (0: no lease)
    factor: float = 0.0  #: the priority factor, if the submitter is new (0: not new, or an older log)
    limits: str = ""  #: the concurrency limits in use, such as xsw:2,y
    negotiator: str = ""  #: the negotiator that accounts for it, if there are several (empty: NEGOTIATOR)


@event("claim.queued")
class ClaimQueued(SlotEvent, frozen=True):
    """A preempting claim waits for the slot's current claim to end."""

    claim: str  #: the claim's id
    submitter: str  #: the submitter, such as alice@example.org
    rank: float  #: the value of RANK for the job
    holder: str  #: the external access point that waits (empty: the pool's own)
    job: str  #: the job for which it was requested, such as 12.3
    ad: Ad  #: the job's ad (empty: it is in the log with the queue)
    lease: int = 0  #: the seconds of silence by its holder after which the claim ends (0: no lease)
    limits: str = ""  #: the concurrency limits that it will use, such as xsw:2,y
    negotiator: str = ""  #: the negotiator that will account for it, if there are several (empty: NEGOTIATOR)


@event("claim.withdrawn")
class ClaimWithdrawn(SlotEvent, frozen=True):
    """The pending preempting claim was withdrawn."""

    claim: str  #: the claim's id


@event("claim.flagged")
class ClaimFlagged(SlotEvent, frozen=True):
    """Flags were added to the slot's claim."""

    claim: str  #: the claim's id
    flags: tuple[str, ...]  #: the new flags, from `CLAIM_FLAGS`
    reason: str = ""  #: why the claim's job is being evicted (empty: it is not)
    code: int = 0  #: the reason's code in HTCondor
    subcode: int = 0  #: the reason's subcode in HTCondor


@event("claim.activated")
class ClaimActivated(SlotEvent, frozen=True):
    """An external access point started a job on its claim."""

    claim: str  #: the claim's id
    job: str  #: the job's id at its access point
    ad: Ad  #: the job's ad
    vacate: int  #: the MachineMaxVacateTime that applies to the job, in microseconds
    key: str = ""  #: the run's key at its access point (empty: the access point itself runs the job's processes)
    deferred: int = 0  #: when its processes should start, in microseconds, if deferred (0: immediately)
    files_first: bool = False  #: whether a deferred job's input files are transferred now, before its processes start


@event("claim.job_edited")
class ClaimJobEdited(SlotEvent, frozen=True):
    """The access point of the external job on the slot changed the job's ad."""

    claim: str  #: the claim's id
    job: str  #: the job's id at its access point
    changes: Ad  #: the new values


@event("claim.deactivated")
class ClaimDeactivated(SlotEvent, frozen=True):
    """An external access point's job on the slot has ended."""

    claim: str  #: the claim's id
    job: str  #: the job's id at its access point
    starter: str = ""  #: the starter's key, the position of its `ClaimActivated` (empty: it ran at the access point)


@event("starter.signalled")
class StarterSignalled(SlotEvent, frozen=True):
    """The starter of an external job was signalled to end the job."""

    how: str  #: soft (its kill signal) or hard (SIGKILL)
    until: int  #: when it is signalled again, harder, in microseconds (0: by the pool's settings)
    signal: str = ""  #: the soft signal: hold or remove for a held or removed job (empty: the one for evictions)
    reason: str = ""  #: why the access point must hold the job (empty: it need not)
    code: int = 0  #: the reason's code in HTCondor
    subcode: int = 0  #: the reason's subcode in HTCondor


@event("run.reported")
class RunReported(SlotEvent, frozen=True):
    """The processes of an external access point's job, which run here, have sent a report for the access point."""

    claim: str  #: the id of the claim on which they were started
    job: str  #: the job's id at its access point
    key: str  #: the run's key at its access point, as in `ClaimActivated`
    report: str  #: its kind: ActivationDue, -Started, -Measured, -Chirped or -Ended, or Transferred
    fields: str  #: the report as JSON, without the key and without fields that have their default value


@event("claim.silent")
class ClaimHolderSilent(SlotEvent, frozen=True):
    """The claim's holder fell silent, or sent a message again."""

    claim: str  #: the claim's id
    until: int  #: when the lease expires if the holder stays silent, in microseconds (0: it sent a message again)


@event("claim.ended")
class ClaimEnded(SlotEvent, frozen=True):
    """The claim ended."""

    claim: str  #: the claim's id
    submitter: str  #: the submitter
    usage: int  #: the microseconds the claim was held, times the slot's weight in thousandths
    negotiator: str = ""  #: the negotiator that accounted for it, if there are several (empty: NEGOTIATOR)


CLAIM_FLAG_CODES: tuple[str, ...] = (
    "irrevocable",
    "preempted",
    "peaceful",
    "closing",
    "by_command",
    "resumed",
    "drained",
    "late",
    "job_over",
)
"""All flags of claims (``ClaimFlagged``), described in ``replay/narration/causes.txt``."""
