"""Events of jobs: submission, transitions, processes and mail."""

from __future__ import annotations

from msgspec import field

from .base import Ad, ByProtocol, ClusterEvent, Procs, event


@event("cluster.submitted")
class ClusterSubmitted(ClusterEvent, frozen=True):
    """A user submitted a cluster of jobs, which are identical except for ``columns``."""

    submitter: str  #: the submitter's name, such as alice@example.org
    ad: Ad  #: the attributes that all jobs share
    count: int  #: the number of jobs submitted
    columns: tuple[bytes, ...]  #: the attributes that differ between jobs (packed by `domain/state/proc_ads.py`)
    status: str  #: the initial status: Idle or Held
    factor: float = 0.0  #: the priority factor, if the submitter is new (0: not new, or an older log)
    factory: bool = False  #: whether a factory adds the jobs to the queue later (`JobsMaterialized`)
    warnings: tuple[str, ...] = ()  #: the warnings of submit requirements, in order, without duplicates
    job_set: Ad = field(default_factory=dict)  #: the attributes that it gives its job set, whose JobSetId is in ``ad``


@event("cluster.transformed")
class JobsTransformed(ClusterEvent, frozen=True):
    """A transform changed jobs at submission. The next event contains the resulting jobs."""

    transform: str  #: the transform's name, as in JOB_TRANSFORM_NAMES
    procs: Procs  #: the process numbers of the changed jobs, in ranges
    changes: Ad  #: the attributes that it set to the same value in all jobs (undefined: attribute deleted)
    before: Ad  #: the previous values of these attributes (empty: not set)
    columns: tuple[bytes, ...] = ()  #: the attributes that it set to different values, as in `ClusterSubmitted`
    columns_before: tuple[bytes, ...] = ()  #: the previous values of these attributes
    evidence: tuple[int, ...] = ()  #: positions of the `EvaluationRecorded` events for the first of the jobs
    skipped: tuple[str, ...] = ()  #: statements that had no effect, with reasons


@event("cluster.refused")
class SubmissionRefused(ClusterEvent, frozen=True):
    """The schedd rejected a submission. Its cluster number is not used again."""

    user: str  #: the user who submitted the jobs
    setting: str  #: the setting that caused the rejection, such as SUBMIT_REQUIREMENT_OneGig
    job: str  #: the first rejected job, such as 12.3
    reason: str  #: the message to the user
    evidence: int = 0  #: position of the `EvaluationRecorded` that determined the rejection (0: none)


@event("jobs.made")
class JobsMaterialized(ClusterEvent, frozen=True):
    """A cluster's factory added its next jobs to the queue."""

    procs: Procs  #: the jobs' process numbers: one range, following the earlier ones
    status: str  #: the initial status: Idle or Held


@event("factory.moved")
class FactoryTransitioned(ClusterEvent, frozen=True):
    """A cluster's factory was paused, resumed or removed."""

    source: str  #: the previous mode: Running or Paused
    target: str  #: the new mode: Running, Paused or Removed
    reason: str = ""  #: the reason given with the request


@event("jobs.moved")
class JobsTransitioned(ClusterEvent, frozen=True):
    """The status of these jobs changed. For jobs that leave the queue, ``target`` is Left."""

    procs: Procs  #: the jobs' process numbers, in ranges
    row: str  #: the row of the job table
    source: str  #: the previous status
    target: str  #: the new status
    changes: Ad  #: the changes to each job's ad
    evidence: int = 0  #: position of the `EvaluationRecorded` that determined the transition (0: none)
    left: bool = False  #: in logs of format 1: whether jobs that became Removed without running left the queue too
    reasons_kept: bool = False  #: whether the ads count holds and keep previous reasons (older logs: no)
    holds: int = 1  #: how often the ads count the hold: the shadow repeats a policy's hold until the job has ended


@event("jobs.edited")
class JobsEdited(ClusterEvent, frozen=True):
    """The attributes of these jobs were changed by a user, by a transform at the end of a run, or by the running job
    (with condor_chirp). A running job may also have written notes to its log."""

    procs: Procs  #: the jobs' process numbers, in ranges
    changes: Ad  #: the new values
    transform: str = ""  #: the transform that changed them, as in TransformOnEvict (empty: none)
    before: Ad = field(default_factory=dict)  #: the values before a transform or the job changed them (empty: not set)
    noted: tuple[int, ...] = ()  #: positions of the transform's `EvaluationRecorded` events
    skipped: tuple[str, ...] = ()  #: statements of a transform, or writes by the job, that had no effect, with reasons
    number: int = 0  #: for writes by the job: the number of writes in this run so far
    delayed: tuple[str, ...] = ()  #: attributes that the job's event log does not report (set_job_attr_delayed)
    notes: tuple[str, ...] = ()  #: the lines that the job wrote to its log


@event("jobs.deferred")
class JobsDeferred(ClusterEvent, frozen=True):
    """The ``cron_`` commands of these jobs determined their next start."""

    procs: Procs  #: the jobs' process numbers, in ranges
    until: int  #: the new DeferralTime, in microseconds


@event("job.activated")
class JobActivated(ClusterEvent, frozen=True):
    """A claim was activated for the job, which is now Running. This event's position is the activation's key, which
    identifies the job's processes."""

    proc: int  #: the job's process number
    slot: str  #: the slot where it runs; local@POOL in the local and scheduler universes
    claim: str  #: the claim's id; empty in these universes, which need no claim
    vacate: int = 0  #: the MachineMaxVacateTime that applies to the job, in microseconds (0: by the pool's settings)
    provides: Ad = field(
        default_factory=dict
    )  #: the slot's Cpus, Memory, Disk, (Assigned)GPUs, SlotWeight, recorded attributes (empty: older log, or no slot)
    expanded: Ad = field(default_factory=dict)  #: the values of $$() in the job's ad, and of NEGOTIATOR_MATCH_EXPRS
    deferred: int = 0  #: when its process should start, in microseconds, if deferred (0: immediately)
    evidence: int = 0  #: position of the `EvaluationRecorded` of START_LOCAL_UNIVERSE or a similar setting (0: none)
    ad: Ad = field(default_factory=dict)  #: the job's ad before activation (empty: it is in the log with the queue)
    flocked: str = ""  #: the manager in FLOCK_TO in whose pool it runs (empty: in the access point's own)
    files_first: bool = False  #: whether a deferred job's input files are transferred now, before its process starts
    recorded: tuple[str, ...] = ()  #: the slot attributes that the job's ad records, as in MachineAttrCpus0
    recorded_runs: int = 0  #: for how many runs it keeps them (0: as JobMachineAttrs and its history length say)


@event("job.due")
class JobDue(ClusterEvent, frozen=True):
    """The deferral time of an activated job was reached, and its input files have arrived: the job's process is being
    started."""

    proc: int  #: the job's process number


@event("job.transfer_began")
class JobTransferBegan(ClusterEvent, frozen=True):
    """A file transfer of an activated job began."""

    proc: int  #: the job's process number
    way: str  #: input (to the execution point), output (from there), or checkpoint (to the running job's spool)
    began: int = 0  #: when it began, in microseconds, if before `at` (else 0)


@event("job.transfer_ended")
class JobTransferEnded(ClusterEvent, frozen=True):
    """A file transfer of an activated job ended."""

    proc: int  #: the job's process number
    way: str  #: the direction, as in `JobTransferBegan`
    files: int  #: the number of files transferred
    size: int  #: the total size of these files, in bytes
    listed: int = 0  #: the number of files and directories that the job listed or created
    failed: bool = False  #: whether some files could not be transferred
    urls: ByProtocol = ()  #: for each URL protocol: files named, files transferred by plugins, and their bytes
    ended: int = 0  #: when it ended, in microseconds, if before `at` (else 0)
    number: int = 0  #: the checkpoint's number in this activation, from 1 (0: not a checkpoint)
    kept: bool = False  #: whether output went to the job's spool, for its next run, instead of its destination


@event("job.began")
class JobExecuting(ClusterEvent, frozen=True):
    """The job's process was started."""

    proc: int  #: the job's process number
    pid: int  #: the process id (0: the process ended before the pool could read it)
    scratch: str  #: the job's scratch directory
    began: int = 0  #: when it was started, in microseconds, if before `at` (else 0)


@event("job.measured")
class JobMeasured(ClusterEvent, frozen=True):
    """The resource usage of the job's processes was measured."""

    proc: int  #: the job's process number
    image: int  #: virtual memory, in KiB
    resident: int  #: resident memory, in KiB
    disk: int  #: size of the scratch directory, in KiB
    user_cpu: int  #: user CPU time, in microseconds
    system_cpu: int  #: system CPU time, in microseconds
    usage: Ad = field(default_factory=dict)  #: its use of devices (GPUsAverageUsage), and exact sizes (ImageSize_RAW)


@event("job.signalled")
class JobSignalled(ClusterEvent, frozen=True):
    """The job's processes were signalled to exit."""

    proc: int  #: the job's process number
    how: str  #: soft (its kill signal) or hard (SIGKILL)
    until: int = 0  #: when they are signalled again, harder, in microseconds (0: by the pool's settings)
    evidence: int = 0  #: position of the `EvaluationRecorded` of the policy that ends the run (0: none)
    vacated: Ad = field(default_factory=dict)  #: the vacate reason, if a policy of the access point ends the run


@event("job.exited")
class JobExited(ClusterEvent, frozen=True):
    """All processes of an activation have exited. ``row``, ``source`` and ``target`` are empty if the job's status does
    not change, because the job was already held or removed."""

    proc: int  #: the job's process number
    slot: str  #: the slot where it ran
    key: str  #: the activation's key: the position of its `JobActivated`
    outcome: str  #: how the run ended: exited, evicted, failed or lost
    row: str  #: the row of the job table
    target: str  #: the new status
    changes: Ad  #: the changes to the job's ad
    code: int | None = None  #: the exit code of the job's process (None: ended by a signal, or unknown)
    signal: int | None = None  #: the signal that ended the job's process (None: none did)
    user_cpu: int = 0  #: user CPU time, in microseconds
    system_cpu: int = 0  #: system CPU time, in microseconds
    resident: int = 0  #: peak resident memory, in KiB
    disk: int = 0  #: peak size of the scratch directory, in KiB
    ended: int = 0  #: when the job's process ended, in microseconds, if before `at` (else 0)
    source: str = ""  #: the previous status
    evidence: int = 0  #: position of the `EvaluationRecorded` of the job's policy (0: none)
    left: bool = False  #: in logs of format 1: whether a Completed or Removed job left the queue too
    reasons_kept: bool = False  #: whether the ad counts holds by reason (older logs: no)
    protocol: str = ""  #: the URL protocol of the failed file transfer (empty: none failed)
    cooled: int = 0  #: position of the evidence for a requeued job's cool-down; for other jobs, see `evidence`
    vacates: int = 1  #: how often the ad counts the eviction: the shadow repeats it if a policy holds the job


@event("job.cooled_down")
class JobCooledDown(ClusterEvent, frozen=True):
    """The cool-down after an interrupted run has ended; the job may run again."""

    proc: int  #: the job's process number


@event("claims.reserved")
class ClaimsReserved(ClusterEvent, frozen=True):
    """These claims are reserved for a condor_now job, which will run on their slots after their current jobs have
    left."""

    proc: int  #: the job's process number
    claims: Ad  #: the ids of the claims, by slot
    until: int  #: the deadline for the current jobs to leave, in microseconds


@event("claims.reservation_ended")
class ReservationEnded(ClusterEvent, frozen=True):
    """The job's reservation ended: its claims' slots were combined for the job, or condor_now failed."""

    proc: int  #: the job's process number
    slot: str = ""  #: the combined slot, claimed for the job (empty: condor_now failed)


@event("job.checkpoints_deleted")
class CheckpointsDeleted(ClusterEvent, frozen=True):
    """Checkpoints of a job were deleted at its checkpoint_destination, or could not be. The job may have left the
    queue."""

    proc: int  #: the job's process number
    numbers: tuple[int, ...]  #: the numbers of the deleted checkpoints
    failure: str = ""  #: why others could not be deleted (empty: they were, or there are none)


@event("job.mail_due")
class MailDue(ClusterEvent, frozen=True):
    """A mail about a job must be sent (``notification``). The pool tries until the log contains the result."""

    proc: int  #: the job's process number
    to: tuple[str, ...]  #: the recipients' addresses
    subject: str  #: the subject line
    text: str  #: the text of the mail


@event("job.mailed")
class Mailed(ClusterEvent, frozen=True):
    """A mail was passed to the mail program, or could not be."""

    proc: int  #: the job's process number
    mail: int  #: the position of the `MailDue`
    failure: str = ""  #: why the mail could not be sent (empty: it was sent)
