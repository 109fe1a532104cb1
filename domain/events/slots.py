"""Machines, their slots and the claims on them."""

from __future__ import annotations

from msgspec import field

from .base import Ad, MachineEvent, SlotEvent, event


@event("machine.joined")
class MachineJoined(MachineEvent, frozen=True):
    """A machine is part of the pool."""

    ad: Ad  #: the attributes that all its slots have
    settings: Ad = field(
        default_factory=dict
    )  #: how its execution point works (`domain/startd/startd_settings.py`); others: the default


@event("machine.configured")
class MachineConfigured(MachineEvent, frozen=True):
    """The execution point read its configuration again. What changed in the slots' ads, ``SlotAdChanged`` events of the
    same stimulus say."""

    settings: Ad  #: changed settings (an empty text: the default again)


@event("benchmarks.ran")
class BenchmarksRan(MachineEvent, frozen=True):
    """The machine's benchmarks are done."""

    slot: str  #: on which slot they ran
    mips: int  #: the result of this run alone
    kflops: int  #: the result of this run alone
    published: tuple[int, int]  #: Mips and KFlops as the slots' ads say them from here on


@event("cpu.busy")
class CpuBusyChanged(SlotEvent, frozen=True):
    """CpuBusy changed. Written where an expression in force asks for CpuBusyTime."""

    busy: bool  #: whether it is true from here on


@event("drain.began")
class DrainBegan(MachineEvent, frozen=True):
    """The machine accepts no more jobs, and its jobs are being evicted."""

    drain: int  #: the machine's drains are numbered from 1
    schedule: str  #: how its jobs go: Graceful, Quick or Fast
    reason: str = ""  #: the reason given with the request
    completion: str = ""  #: the completion action: none (empty), resume, reconfig, exit or restart
    start: str = ""  #: what START is meanwhile (empty: false)


@event("drain.moved")
class DrainTransitioned(MachineEvent, frozen=True):
    """The machine's drain went on."""

    drain: int  #: the drain's number
    row: str  #: the row of the drains' table: complete, cancel, resume or stop
    source: str  #: its state before
    target: str  #: its state from here on


@event("drain.final")
class DrainFinal(MachineEvent, frozen=True):
    """All jobs that the machine had when the drain began are gone: jobs that it accepted since have no retirement
    time, and no more are accepted."""

    drain: int  #: the drain's number


@event("drain.badput")
class DrainBadputAdded(MachineEvent, frozen=True):
    """A job was ended by the drain."""

    slot: str  #: where it ran
    badput: int  #: core-seconds that it had run (TotalMachineDrainingBadput)


@event("backfill.started")
class BackfillStarted(MachineEvent, frozen=True):
    """The machine's backfill client is to run. The position of this event in the log is its key: by it the process is
    found again."""

    slot: str  #: the first slot that it is for
    system: str  #: BOINC or EXEC
    client: Ad  #: how it is run: the settings of its system, as Executable


@event("backfill.executing")
class BackfillExecuting(MachineEvent, frozen=True):
    """The backfill client's process runs."""

    key: str  #: the client: the position of its `BackfillStarted`
    pid: int  #: the number of its process
    began: int = 0  #: when it was started, in microseconds, if earlier than `at` (else 0)


@event("backfill.signalled")
class BackfillSignalled(MachineEvent, frozen=True):
    """The backfill client and its descendants were killed."""

    key: str  #: the client: the position of its `BackfillStarted`
    until: int  #: when they are signalled again, in microseconds


@event("backfill.exited")
class BackfillExited(MachineEvent, frozen=True):
    """The backfill client is gone, and all that it started."""

    key: str  #: the client: the position of its `BackfillStarted`
    outcome: str  #: exited, killed (by the pool), failed (it could not be started), unattended (without a pool) or lost
    code: int | None = None  #: its exit code (None: a signal ended it, or nothing is known)
    signal: int | None = None  #: the signal that ended it (None: none did)
    reason: str = ""  #: why it could not be started
    failures: int = 0  #: how often in a row it exited soon after its start
    retry: int = 0  #: not before this instant is it started again, in microseconds (0: whenever a slot wants it)
    user_cpu: int = 0  #: user's time on processors, in microseconds
    system_cpu: int = 0  #: system's time on processors, in microseconds
    ended: int = 0  #: when its process ended, in microseconds, if earlier than `at` (else 0)


@event("shutdown.began")
class ShutdownBegan(MachineEvent, frozen=True):
    """The execution point is to end when its claims have."""

    how: str  #: Peaceful (jobs run to their end), Graceful (their retirement time is kept) or Fast (they are killed)


@event("machine.left")
class MachineLeft(MachineEvent, frozen=True):
    """The machine and its slots are no longer in the pool."""


@event("slot.created")
class SlotCreated(SlotEvent, frozen=True):
    """A slot exists from here on, in Owner/Idle."""

    machine: str  #: the machine that it is of
    kind: str  #: static, partitionable or dynamic
    parent: str  #: of a dynamic slot: the one whose resources it was carved from (else empty)
    ad: Ad  #: its whole ad


@event("slot.moved")
class SlotTransitioned(SlotEvent, frozen=True):
    """A transition of a slot's state and activity."""

    row: str  #: the row of the dialect's table (empty: an imported one that no row allows)
    source: str  #: state and activity before, as Claimed/Busy
    target: str  #: state and activity from here on
    reason: str = ""  #: of an imported one that no row allows: the record's text
    evidence: int = 0  #: position of the `EvaluationRecorded` with the expression that decided it (0: none did)


@event("slot.changed")
class SlotAdChanged(SlotEvent, frozen=True):
    """The slot's ad has new values."""

    changes: Ad  #: changed attributes (an empty text: the attribute is gone)


@event("backfill.leaving")
class BackfillLeaving(SlotEvent, frozen=True):
    """Where the slot goes from Backfill when its client is gone."""

    destination: str  #: Matched, Claimed or Owner; what is not said is Owner


@event("slot.destroyed")
class SlotDestroyed(SlotEvent, frozen=True):
    """The slot is gone."""


@event("claim.made")
class ClaimMade(SlotEvent, frozen=True):
    """A submitter holds the slot from here on."""

    claim: str  #: the claim's id
    submitter: str  #: who holds it, as alice@example.org
    weight: int  #: the slot's weight in thousandths
    rank: float = 0.0  #: the value of RANK for its job
    holder: str = ""  #: the access point outside of this pool that holds it (empty: the pool's own)
    job: str = ""  #: the job that was asked for (empty: the one that the slot was matched with)
    ad: Ad = field(default_factory=dict)  #: the job's ad (empty: the log has it with the queue)
    lease: int = 0  #: seconds without a sign of the holder after which the claim ends (0: none)
    factor: float = 0.0  #: the priority factor of a submitter that is new (0: it is not, or the log is older)
    limits: str = ""  #: what it holds of concurrency limits, as xsw:2,y
    negotiator: str = ""  #: in whose accounting it counts, if there are several negotiators (empty: NEGOTIATOR's)


@event("claim.queued")
class ClaimQueued(SlotEvent, frozen=True):
    """A better match waits until the slot's present claim has gone."""

    claim: str  #: the claim's id
    submitter: str  #: who waits, as alice@example.org
    rank: float  #: the value of RANK for its job
    holder: str  #: the access point outside of this pool that waits (empty: the pool's own)
    job: str  #: the job that it waits for, as 12.3
    ad: Ad  #: the job's ad (empty: the log has it with the queue)
    lease: int = 0  #: seconds without a sign of the holder after which the claim ends (0: none)
    limits: str = ""  #: what it holds of concurrency limits, as xsw:2,y
    negotiator: str = ""  #: in whose accounting it will count, if there are several negotiators (empty: NEGOTIATOR's)


@event("claim.withdrawn")
class ClaimWithdrawn(SlotEvent, frozen=True):
    """The better match waits no longer."""

    claim: str  #: the claim's id


@event("claim.flagged")
class ClaimFlagged(SlotEvent, frozen=True):
    """Something holds for the slot's claim from here on."""

    claim: str  #: the claim's id
    flags: tuple[str, ...]  #: what: each is one of `CLAIM_FLAGS`
    reason: str = ""  #: why its job is to go (empty: it is not)
    code: int = 0  #: HTCondor's code of that
    subcode: int = 0  #: HTCondor's subcode of that


@event("claim.activated")
class ClaimActivated(SlotEvent, frozen=True):
    """A holder outside of this pool started a job on its claim."""

    claim: str  #: the claim's id
    job: str  #: the job, as its holder names it
    ad: Ad  #: the job's ad
    vacate: int  #: microseconds of MachineMaxVacateTime that it was promised


@event("claim.deactivated")
class ClaimDeactivated(SlotEvent, frozen=True):
    """The job of a holder outside of this pool is gone from the slot."""

    claim: str  #: the claim's id
    job: str  #: the job, as its holder names it


@event("starter.signalled")
class StarterSignalled(SlotEvent, frozen=True):
    """The starter of an external holder was signalled to end its job."""

    how: str  #: soft (by its kill signal) or hard (at once)
    until: int  #: when it is signalled again, harder, in microseconds (0: by the pool's settings)


@event("claim.silent")
class ClaimHolderSilent(SlotEvent, frozen=True):
    """The claim's holder sends no more signs of life, or was heard again."""

    claim: str  #: the claim's id
    until: int  #: when the lease is over if none comes, in microseconds (0: it was heard again)


@event("claim.ended")
class ClaimEnded(SlotEvent, frozen=True):
    """The claim is over."""

    claim: str  #: the claim's id
    submitter: str  #: who held it
    usage: int  #: microseconds that it was held, times the slot's weight in thousandths
    negotiator: str = ""  #: in whose accounting it counted, if there are several negotiators (empty: NEGOTIATOR's)


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
"""Every flag that a claim may have (``ClaimFlagged``); ``replay/narration/causes.txt`` has the words for each."""
