"""Events of machines, slots and claims."""

from __future__ import annotations

from msgspec import field

from .base import Ad, MachineEvent, SlotEvent, event


@event("machine.joined")
class MachineJoined(MachineEvent, frozen=True):
    """A machine joined the pool."""

    ad: Ad  #: the attributes of all its slots
    settings: Ad = field(
        default_factory=dict
    )  #: settings of its execution point that differ from the defaults (`domain/startd/startd_settings.py`)


@event("machine.configured")
class MachineConfigured(MachineEvent, frozen=True):
    """The execution point read its configuration again. ``SlotAdChanged`` events of the same stimulus have the changes
    to the slots' ads."""

    settings: Ad  #: changed settings (an empty text: the default)


@event("benchmarks.ran")
class BenchmarksRan(MachineEvent, frozen=True):
    """The machine's benchmarks completed."""

    slot: str  #: the slot on which they ran
    mips: int  #: the result of this run
    kflops: int  #: the result of this run
    published: tuple[int, int]  #: the new Mips and KFlops in the slots' ads


@event("cpu.busy")
class CpuBusyChanged(SlotEvent, frozen=True):
    """CpuBusy changed. Recorded only if an expression in force reads CpuBusyTime."""

    busy: bool  #: the new value


@event("drain.began")
class DrainBegan(MachineEvent, frozen=True):
    """The machine accepts no more jobs, and its jobs are being evicted."""

    drain: int  #: counts the machine's drains from 1
    schedule: str  #: how its jobs are evicted: Graceful, Quick or Fast
    reason: str = ""  #: the reason given with the request
    completion: str = ""  #: the completion action: none (empty), resume, reconfig, exit or restart
    start: str = ""  #: the value of START during the drain (empty: false)


@event("drain.moved")
class DrainTransitioned(MachineEvent, frozen=True):
    """The machine's drain changed its state."""

    drain: int  #: the drain's number
    row: str  #: the row in the table of drains: complete, cancel, resume or stop
    source: str  #: the previous state
    target: str  #: the new state


@event("drain.final")
class DrainFinal(MachineEvent, frozen=True):
    """All jobs that the machine had when the drain began are gone. Jobs accepted since then get no retirement time, and
    the machine accepts no more."""

    drain: int  #: the drain's number


@event("drain.badput")
class DrainBadputAdded(MachineEvent, frozen=True):
    """The drain ended a job."""

    slot: str  #: where it ran
    badput: int  #: core-seconds that it had run (TotalMachineDrainingBadput)


@event("backfill.started")
class BackfillStarted(MachineEvent, frozen=True):
    """The machine's backfill client is being started. The position of this event is the client's key, which identifies
    its processes."""

    slot: str  #: the first slot that it is for
    system: str  #: BOINC or EXEC
    client: Ad  #: the settings that say how to run it, as Executable


@event("backfill.executing")
class BackfillExecuting(MachineEvent, frozen=True):
    """The backfill client's process was started."""

    key: str  #: the client: the position of its `BackfillStarted`
    pid: int  #: its process id
    began: int = 0  #: when it was started, in microseconds, if earlier than `at` (else 0)


@event("backfill.signalled")
class BackfillSignalled(MachineEvent, frozen=True):
    """The backfill client and its descendants were killed."""

    key: str  #: the client: the position of its `BackfillStarted`
    until: int  #: when they are signalled again, in microseconds


@event("backfill.exited")
class BackfillExited(MachineEvent, frozen=True):
    """The backfill client and all its processes are gone."""

    key: str  #: the client: the position of its `BackfillStarted`
    outcome: str  #: exited, killed (by the pool), failed (it could not be started), unattended (without a pool) or lost
    code: int | None = None  #: its exit code (None: a signal ended it, or it is not known)
    signal: int | None = None  #: the signal that ended it (None: none did)
    reason: str = ""  #: why it could not be started
    failures: int = 0  #: how often in a row it exited soon after its start
    retry: int = 0  #: when it may be started again, in microseconds (0: at any time)
    user_cpu: int = 0  #: user CPU time, in microseconds
    system_cpu: int = 0  #: system CPU time, in microseconds
    ended: int = 0  #: when its process ended, in microseconds, if earlier than `at` (else 0)


@event("shutdown.began")
class ShutdownBegan(MachineEvent, frozen=True):
    """The execution point is shutting down."""

    how: str  #: Peaceful (jobs may complete), Graceful (jobs keep their retirement time) or Fast (jobs are killed)


@event("machine.left")
class MachineLeft(MachineEvent, frozen=True):
    """The machine and its slots left the pool."""


@event("slot.created")
class SlotCreated(SlotEvent, frozen=True):
    """A slot was created, in Owner/Idle."""

    machine: str  #: its machine
    kind: str  #: static, partitionable or dynamic
    parent: str  #: the slot from which a dynamic slot was carved (else empty)
    ad: Ad  #: its complete ad


@event("slot.moved")
class SlotTransitioned(SlotEvent, frozen=True):
    """A slot changed its state or activity."""

    row: str  #: the row in the dialect's table (empty: an imported transition that no row allows)
    source: str  #: the previous state and activity, as Claimed/Busy
    target: str  #: the new state and activity
    reason: str = ""  #: for an imported transition that no row allows: the record's text
    evidence: int = 0  #: position of the `EvaluationRecorded` with the expression that decided it (0: none did)


@event("slot.changed")
class SlotAdChanged(SlotEvent, frozen=True):
    """The slot's ad changed."""

    changes: Ad  #: changed attributes (an empty text: the attribute was removed)


@event("backfill.leaving")
class BackfillLeaving(SlotEvent, frozen=True):
    """The slot will leave Backfill when its client is gone."""

    destination: str  #: the next state: Matched, Claimed or Owner (Owner if there is no such event)


@event("slot.destroyed")
class SlotDestroyed(SlotEvent, frozen=True):
    """The slot was destroyed."""


@event("claim.made")
class ClaimMade(SlotEvent, frozen=True):
    """The slot was claimed for a submitter."""

    claim: str  #: the claim's id
    submitter: str  #: the submitter, as alice@example.org
    weight: int  #: the slot's weight in thousandths
    rank: float = 0.0  #: the value of RANK for its job
    holder: str = ""  #: the access point outside this pool that holds it (empty: the pool's own)
    job: str = ""  #: the job for which it was requested (empty: the job with which the slot was matched)
    ad: Ad = field(default_factory=dict)  #: the job's ad (empty: the log has it with the queue)
    lease: int = 0  #: the claim ends if its holder is silent for this many seconds (0: no lease)
    factor: float = 0.0  #: the priority factor of a new submitter (0: it is not new, or the log is older)
    limits: str = ""  #: the concurrency limits that it uses, as xsw:2,y
    negotiator: str = ""  #: the negotiator that accounts for it, if there are several (empty: NEGOTIATOR)


@event("claim.queued")
class ClaimQueued(SlotEvent, frozen=True):
    """A better match waits for the slot's current claim to end."""

    claim: str  #: the claim's id
    submitter: str  #: the submitter, as alice@example.org
    rank: float  #: the value of RANK for its job
    holder: str  #: the access point outside this pool that waits (empty: the pool's own)
    job: str  #: the job that it is for, as 12.3
    ad: Ad  #: the job's ad (empty: the log has it with the queue)
    lease: int = 0  #: the claim ends if its holder is silent for this many seconds (0: no lease)
    limits: str = ""  #: the concurrency limits that it uses, as xsw:2,y
    negotiator: str = ""  #: the negotiator that will account for it, if there are several (empty: NEGOTIATOR)


@event("claim.withdrawn")
class ClaimWithdrawn(SlotEvent, frozen=True):
    """The better match was withdrawn."""

    claim: str  #: the claim's id


@event("claim.flagged")
class ClaimFlagged(SlotEvent, frozen=True):
    """The slot's claim got flags."""

    claim: str  #: the claim's id
    flags: tuple[str, ...]  #: its new flags, from `CLAIM_FLAGS`
    reason: str = ""  #: why its job is being evicted (empty: it is not)
    code: int = 0  #: the reason's code in HTCondor
    subcode: int = 0  #: the reason's subcode in HTCondor


@event("claim.activated")
class ClaimActivated(SlotEvent, frozen=True):
    """An access point outside this pool started a job on its claim."""

    claim: str  #: the claim's id
    job: str  #: the job's id at its access point
    ad: Ad  #: the job's ad
    vacate: int  #: microseconds of MachineMaxVacateTime that it was promised


@event("claim.deactivated")
class ClaimDeactivated(SlotEvent, frozen=True):
    """The job of an access point outside this pool is gone from the slot."""

    claim: str  #: the claim's id
    job: str  #: the job's id at its access point


@event("starter.signalled")
class StarterSignalled(SlotEvent, frozen=True):
    """The starter of a job from outside this pool was signalled to end the job."""

    how: str  #: soft (its kill signal) or hard (SIGKILL)
    until: int  #: when it is signalled again, more forcefully, in microseconds (0: by the pool's settings)


@event("claim.silent")
class ClaimHolderSilent(SlotEvent, frozen=True):
    """The claim's holder has become silent, or was heard from again."""

    claim: str  #: the claim's id
    until: int  #: when the lease ends if it stays silent, in microseconds (0: it was heard from again)


@event("claim.ended")
class ClaimEnded(SlotEvent, frozen=True):
    """The claim ended."""

    claim: str  #: the claim's id
    submitter: str  #: the submitter
    usage: int  #: the microseconds that it was held, times the slot's weight in thousandths
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
"""All flags of claims (``ClaimFlagged``); ``replay/narration/causes.txt`` describes them."""
