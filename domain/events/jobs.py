"""Events of jobs: submission, transitions, processes, mail."""

from __future__ import annotations

from msgspec import field

from .base import Ad, ByProtocol, ClusterEvent, Procs, event


@event("cluster.submitted")
class ClusterSubmitted(ClusterEvent, frozen=True):
    """A user submitted a cluster of jobs, which are equal except for ``columns``."""

    submitter: str  #: the submitter's name, as alice@example.org
    ad: Ad  #: the attributes that all jobs share
    count: int  #: the number of jobs
    columns: tuple[bytes, ...]  #: the attributes that differ (`domain/state/proc_ads.py` packs and unpacks them)
    status: str  #: the initial status: Idle or Held
    factor: float = 0.0  #: the priority factor of a new submitter (0: it is not new, or the log is older)
    factory: bool = False  #: whether a factory adds the jobs to the queue later (`JobsMaterialized`)
    warnings: tuple[str, ...] = ()  #: the warnings of submit requirements, without repetitions, the last one last


@event("cluster.transformed")
class JobsTransformed(ClusterEvent, frozen=True):
    """A transform changed jobs at submission. The event after it has the resulting jobs."""

    transform: str  #: its name, as in JOB_TRANSFORM_NAMES
    procs: Procs  #: the jobs that it changed, in ranges of process numbers
    changes: Ad  #: the attributes that it set to the same value in all jobs (undefined: it deleted the attribute)
    before: Ad  #: their previous values (empty: not there)
    columns: tuple[bytes, ...] = ()  #: the attributes that it set to different values, as in `ClusterSubmitted`
    columns_before: tuple[bytes, ...] = ()  #: their previous values
    evidence: tuple[int, ...] = ()  #: positions of the `EvaluationRecorded` for the first of the jobs
    skipped: tuple[str, ...] = ()  #: its statements that had no effect, and why


@event("cluster.refused")
class SubmissionRefused(ClusterEvent, frozen=True):
    """The schedd rejected a submission. Its cluster number is not used again."""

    user: str  #: the user who submitted it
    setting: str  #: the setting that caused it, as SUBMIT_REQUIREMENT_OneGig
    job: str  #: the first job that was rejected, as 12.3
    reason: str  #: the message for the user
    evidence: int = 0  #: position of the `EvaluationRecorded` that decided it (0: none did)


@event("jobs.made")
class JobsMaterialized(ClusterEvent, frozen=True):
    """A cluster's factory added its next jobs to the queue."""

    procs: Procs  #: their process numbers: one range, after the earlier ones
    status: str  #: the initial status: Idle or Held


@event("factory.moved")
class FactoryTransitioned(ClusterEvent, frozen=True):
    """A cluster's factory was paused, resumed or removed."""

    source: str  #: the previous mode: Running or Paused
    target: str  #: the new mode: Running, Paused or Removed
    reason: str = ""  #: the reason given with the request


@event("jobs.moved")
class JobsTransitioned(ClusterEvent, frozen=True):
    """These jobs changed their status. The ``target`` of jobs that leave the queue is Left."""

    procs: Procs  #: their process numbers, in ranges
    row: str  #: the row in the table of jobs
    source: str  #: the previous status
    target: str  #: the new status
    changes: Ad  #: the changes to the ad of each job
    evidence: int = 0  #: position of the `EvaluationRecorded` that decided it (0: none did)
    left: bool = False  #: in logs of format 1: jobs that became Removed and were not running left with this event
    reasons_kept: bool = False  #: whether their ads count holds and keep previous reasons (older logs: no)
    holds: int = 1  #: how often their ads count the hold: the shadow repeats a policy's hold until the job is gone


@event("jobs.edited")
class JobsEdited(ClusterEvent, frozen=True):
    """A user, a transform at the end of a run, or the running job (with condor_chirp) changed attributes of these jobs.
    A job may also have written notes into its log."""

    procs: Procs  #: their process numbers, in ranges
    changes: Ad  #: the new values
    transform: str = ""  #: the transform, as in TransformOnEvict (empty: none)
    before: Ad = field(default_factory=dict)  #: the values before a transform or the job set them (empty: not there)
    noted: tuple[int, ...] = ()  #: positions of the `EvaluationRecorded` of a transform
    skipped: tuple[str, ...] = ()  #: a transform's statements, or a job's writes, that had no effect, and why
    number: int = 0  #: for a job's own writes: how many writes its run has made so far
    delayed: tuple[str, ...] = ()  #: attributes that its event log does not report (set_job_attr_delayed)
    notes: tuple[str, ...] = ()  #: the lines that the job wrote into its log


@event("jobs.deferred")
class JobsDeferred(ClusterEvent, frozen=True):
    """The ``cron_`` commands of these jobs determined their next start."""

    procs: Procs  #: their process numbers, in ranges
    until: int  #: the new DeferralTime, in microseconds


@event("job.activated")
class JobActivated(ClusterEvent, frozen=True):
    """A claim was activated for the job, which is now Running. The position of this event is the activation's key,
    which identifies the job's processes."""

    proc: int  #: the job's process number
    slot: str  #: where it runs; local@ and the pool's name for the local and the scheduler universe
    claim: str  #: the claim's id; empty for these universes, which need no claim
    vacate: int = 0  #: microseconds of MachineMaxVacateTime that it was promised (0: by the pool's settings)
    provides: Ad = field(
        default_factory=dict
    )  #: the slot's Cpus, Memory, Disk, GPUs, SlotWeight and JobMachineAttrs (empty: an older log, or no slot)
    expanded: Ad = field(default_factory=dict)  #: the values of $$() in its ad
    deferred: int = 0  #: when its process is to start, in microseconds, if that is deferred (0: immediately)
    evidence: int = 0  #: position of the `EvaluationRecorded` of START_LOCAL_UNIVERSE or a similar setting (0: none)
    ad: Ad = field(default_factory=dict)  #: the job's ad before (empty: the log has it with the queue)


@event("job.due")
class JobDue(ClusterEvent, frozen=True):
    """The deferral time of an activated job has come: its process is being started."""

    proc: int  #: the job's process number


@event("job.transfer_began")
class JobTransferBegan(ClusterEvent, frozen=True):
    """A file transfer of an activated job began."""

    proc: int  #: the job's process number
    way: str  #: input (to the execution point), output (from there), or checkpoint (to the spool of the running job)
    began: int = 0  #: when, in microseconds, if earlier than `at` (else 0)


@event("job.transfer_ended")
class JobTransferEnded(ClusterEvent, frozen=True):
    """A file transfer of an activated job ended."""

    proc: int  #: the job's process number
    way: str  #: the same as in `JobTransferBegan`
    files: int  #: the number of files transferred
    size: int  #: their total size in bytes
    listed: int = 0  #: the number of files and directories that the job named or created
    failed: bool = False  #: whether some files could not be transferred
    urls: ByProtocol = ()  #: for each URL protocol: files named, files transferred by plugins, their bytes
    ended: int = 0  #: when, in microseconds, if earlier than `at` (else 0)
    number: int = 0  #: the checkpoint's number in this activation, from 1 (0: not a checkpoint)
    kept: bool = False  #: whether outputs went to the job's spool, for its next run, instead of their destination


@event("job.began")
class JobExecuting(ClusterEvent, frozen=True):
    """The job's process was started."""

    proc: int  #: the job's process number
    pid: int  #: its process id (0: it ended before the pool learned it)
    scratch: str  #: its scratch folder
    began: int = 0  #: when it was started, in microseconds, if earlier than `at` (else 0)


@event("job.measured")
class JobMeasured(ClusterEvent, frozen=True):
    """The resource usage of the job's processes was measured."""

    proc: int  #: the job's process number
    image: int  #: virtual memory in KiB
    resident: int  #: resident memory in KiB
    disk: int  #: scratch folder in KiB
    user_cpu: int  #: user CPU time, in microseconds
    system_cpu: int  #: system CPU time, in microseconds


@event("job.signalled")
class JobSignalled(ClusterEvent, frozen=True):
    """The job's processes were signalled to end."""

    proc: int  #: the job's process number
    how: str  #: soft (its kill signal) or hard (SIGKILL)
    until: int = 0  #: when they are signalled again, more forcefully, in microseconds (0: by the pool's settings)
    evidence: int = 0  #: position of the `EvaluationRecorded` of the policy that ends the run (0: none did)
    vacated: Ad = field(
        default_factory=dict
    )  #: the reason for the job's ad, if a policy of the access point ends the run


@event("job.exited")
class JobExited(ClusterEvent, frozen=True):
    """All processes of an activation are gone. ``row``, ``source`` and ``target`` are empty if the job's status does
    not change, because it was held or removed before."""

    proc: int  #: the job's process number
    slot: str  #: where it ran
    key: str  #: the activation: the position of its `JobActivated`
    outcome: str  #: exited, evicted, failed or lost
    row: str  #: the row in the table of jobs
    target: str  #: the new status
    changes: Ad  #: the changes to its ad
    code: int | None = None  #: the exit code of the job's process (None: a signal ended it, or it is not known)
    signal: int | None = None  #: the signal that ended the job's process (None: none did)
    user_cpu: int = 0  #: user CPU time, in microseconds
    system_cpu: int = 0  #: system CPU time, in microseconds
    resident: int = 0  #: peak resident memory in KiB
    disk: int = 0  #: peak size of the scratch folder in KiB
    ended: int = 0  #: when the job's process ended, in microseconds, if earlier than `at` (else 0)
    source: str = ""  #: the previous status
    evidence: int = 0  #: position of the `EvaluationRecorded` of the job's policy (0: none)
    left: bool = False  #: in logs of format 1: a Completed or Removed job left the queue with this event
    reasons_kept: bool = False  #: whether its ad counts holds by reason (older logs: no)
    protocol: str = ""  #: the URL protocol of a failed file transfer (empty: none failed)
    cooled: int = 0  #: position of the evidence for the cool-down of a requeued job; for other jobs see `evidence`
    vacates: int = 1  #: how often its ad counts the eviction: the shadow repeats it if a policy holds the job


@event("job.cooled_down")
class JobCooledDown(ClusterEvent, frozen=True):
    """The cool-down after an interrupted run is over: the job may run again."""

    proc: int  #: the job's process number


@event("claims.reserved")
class ClaimsReserved(ClusterEvent, frozen=True):
    """These claims are reserved for the job of condor_now, which runs on their slots when their current jobs are
    gone."""

    proc: int  #: the job's process number
    claims: Ad  #: the ids of the claims, by their slots
    until: int  #: when the current jobs must be gone, in microseconds


@event("claims.reservation_ended")
class ReservationEnded(ClusterEvent, frozen=True):
    """The job's reservation ended: the claims' slots were combined for it, or condor_now failed."""

    proc: int  #: the job's process number
    slot: str = ""  #: the combined slot, which was claimed for the job (empty: condor_now failed)


@event("job.mail_due")
class MailDue(ClusterEvent, frozen=True):
    """A mail about a job is due (``notification``). The pool retries until the log has the result."""

    proc: int  #: the job's process number
    to: tuple[str, ...]  #: the addresses
    subject: str  #: its subject line
    text: str  #: its text


@event("job.mailed")
class Mailed(ClusterEvent, frozen=True):
    """A mail was handed to the mail program, or could not be."""

    proc: int  #: the job's process number
    mail: int  #: the position of its `MailDue`
    failure: str = ""  #: why it could not be sent (empty: it was)
