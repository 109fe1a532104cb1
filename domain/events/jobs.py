"""Jobs: their submission, their life, their processes."""

from __future__ import annotations

from msgspec import field

from .base import Ad, ByProtocol, ClusterEvent, Procs, event


@event("cluster.submitted")
class ClusterSubmitted(ClusterEvent, frozen=True):
    """Jobs were submitted, alike but for ``columns``."""

    submitter: str  #: the submitter's name, as alice@example.org
    ad: Ad  #: what the ads of all of them say
    count: int  #: how many jobs
    columns: tuple[bytes, ...]  #: what differs between them (`domain/state/proc_ads.py` packs and unpacks it)
    status: str  #: in which status they begin: Idle or Held
    factor: float = 0.0  #: the priority factor of a submitter that is new (0: it is not, or the log is older)
    factory: bool = False  #: whether none of them is in the queue yet: `JobsMaterialized` tells when they come
    warnings: tuple[str, ...] = ()  #: what submit requirements that only warn said of it, each once, the last one last


@event("cluster.transformed")
class JobsTransformed(ClusterEvent, frozen=True):
    """A transform changed jobs at submission. The event after it has the resulting jobs."""

    transform: str  #: its name, as in JOB_TRANSFORM_NAMES
    procs: Procs  #: the jobs that it was for, by their process numbers, in ranges
    changes: Ad  #: what it set, where that is the same in all of them (undefined: it took the attribute away)
    before: Ad  #: what these attributes were (empty: they were not there)
    columns: tuple[bytes, ...] = ()  #: what it set and differs between them, as in `ClusterSubmitted`
    columns_before: tuple[bytes, ...] = ()  #: what that was
    evidence: tuple[int, ...] = ()  #: where the log has what it evaluated, for the first of the jobs
    skipped: tuple[str, ...] = ()  #: its statements that had no effect, and why


@event("cluster.refused")
class SubmissionRefused(ClusterEvent, frozen=True):
    """The schedd refused a submission, as a whole. Its number is used up."""

    user: str  #: who submitted it
    setting: str  #: by which setting, as SUBMIT_REQUIREMENT_OneGig
    job: str  #: the first job that is refused, as 12.3
    reason: str  #: the message for its user
    evidence: int = 0  #: where the log has what decided it (0: nothing had to be read)


@event("jobs.made")
class JobsMaterialized(ClusterEvent, frozen=True):
    """The next jobs of a cluster with a factory came into the queue."""

    procs: Procs  #: their process numbers: one range, after the earlier ones
    status: str  #: in which status they begin: Idle or Held


@event("factory.moved")
class FactoryTransitioned(ClusterEvent, frozen=True):
    """A cluster's factory was paused, resumed or ended: from here on it makes no jobs, or makes them again."""

    source: str  #: its mode before: Running or Paused
    target: str  #: its mode from here on: Running, Paused or Removed
    reason: str = ""  #: the reason given with the request


@event("jobs.moved")
class JobsTransitioned(ClusterEvent, frozen=True):
    """A transition of each of these jobs; its ``target`` is Left for jobs that leave the queue."""

    procs: Procs  #: their process numbers, in ranges
    row: str  #: the row of the table of jobs
    source: str  #: the status before
    target: str  #: the status from here on
    changes: Ad  #: what changes in the ad of each of them
    evidence: int = 0  #: where the log has what decided it (0: nothing had to be read)
    left: bool = False  #: in logs of format 1: jobs that became Removed, and of which nothing ran, left with this event
    reasons_kept: bool = False  #: whether their ads count holds and keep former reasons (in older logs they do not)
    holds: int = 1  #: how often their ads count the hold: a shadow repeats that of a policy until its job is gone


@event("jobs.edited")
class JobsEdited(ClusterEvent, frozen=True):
    """Somebody changed attributes of these jobs, or a transform of a job's own did, at the end of a run; or a job that
    runs did itself, or wrote into its log, with condor_chirp."""

    procs: Procs  #: their process numbers, in ranges
    changes: Ad  #: what their ads say from here on
    transform: str = ""  #: the transform, as in TransformOnEvict (empty: none did)
    before: Ad = field(
        default_factory=dict
    )  #: what these attributes were before a transform or the job set them (empty: not there)
    noted: tuple[int, ...] = ()  #: where the log has what a transform evaluated
    skipped: tuple[str, ...] = ()  #: a transform's statements, or a job's writes, that had no effect, and why
    number: int = 0  #: of what a job wrote itself: how many writes of its run there are up to here
    delayed: tuple[str, ...] = ()  #: attributes that its event log does not report (set_job_attr_delayed)
    notes: tuple[str, ...] = ()  #: the lines that it wrote into its log


@event("jobs.deferred")
class JobsDeferred(ClusterEvent, frozen=True):
    """The schedule of these jobs, their ``cron_`` commands, gave them a time to begin at."""

    procs: Procs  #: their process numbers, in ranges
    until: int  #: their DeferralTime from here on, in microseconds


@event("job.activated")
class JobActivated(ClusterEvent, frozen=True):
    """A claim was activated for the job, which is Running from here on. The position of this event in the log is the
    activation's key: by it the processes are found again."""

    proc: int  #: the job's process number
    slot: str  #: where it runs; local@ and the name of the pool for the local and the scheduler universe
    claim: str  #: the claim's id; empty for these, which have none
    vacate: int = 0  #: microseconds of MachineMaxVacateTime that it was promised (0: what the pool's setting says)
    provides: Ad = field(
        default_factory=dict
    )  #: of the slot: Cpus, Memory, Disk, GPUs, SlotWeight, the job's JobMachineAttrs (empty: an older log, or no slot)
    expanded: Ad = field(default_factory=dict)  #: what its ad keeps of each $$() that the slot filled in
    deferred: int = 0  #: when its process is to be started, in microseconds, if it waits for that (0: at once)
    evidence: int = 0  #: where the log has what let it begin: START_LOCAL_UNIVERSE or its like (0: no such)
    ad: Ad = field(default_factory=dict)  #: the job's ad until then (empty: the log has it with the queue)


@event("job.due")
class JobDue(ClusterEvent, frozen=True):
    """The time has come for which the start of an activated job was deferred: its process is started."""

    proc: int  #: the job's process number


@event("job.transfer_began")
class JobTransferBegan(ClusterEvent, frozen=True):
    """Files of an activated job begin to move."""

    proc: int  #: the job's process number
    way: str  #: input, to where it runs; output, from there back; checkpoint, to its spool, and it continues there
    began: int = 0  #: when, in microseconds, if earlier than `at` (else 0)


@event("job.transfer_ended")
class JobTransferEnded(ClusterEvent, frozen=True):
    """They have moved, all of them; or, with ``failed``, not all could."""

    proc: int  #: the job's process number
    way: str  #: as of its `JobTransferBegan`
    files: int  #: how many came whole
    size: int  #: of these together, in bytes
    listed: int = 0  #: of how many files and directories that the job named or made
    failed: bool = False  #: whether something is missing
    urls: ByProtocol = ()  #: of each protocol of URLs: files that the job named, that plugins moved, their bytes
    ended: int = 0  #: when, in microseconds, if earlier than `at` (else 0)
    number: int = 0  #: of a checkpoint: which one of the activation's, from 1 (0: it is none)
    kept: bool = False  #: whether outputs went to the job's spool, for its next run, and not to where they belong


@event("job.began")
class JobExecuting(ClusterEvent, frozen=True):
    """The job's own process runs."""

    proc: int  #: the job's process number
    pid: int  #: the number of its process (0: it ran, and ended before anybody could tell)
    scratch: str  #: its scratch folder
    began: int = 0  #: when it was started, in microseconds, if earlier than `at` (else 0)


@event("job.measured")
class JobMeasured(ClusterEvent, frozen=True):
    """What the job uses."""

    proc: int  #: the job's process number
    image: int  #: virtual memory in KiB
    resident: int  #: real memory in KiB
    disk: int  #: scratch folder in KiB
    user_cpu: int  #: user's time on processors, in microseconds
    system_cpu: int  #: system's time on processors, in microseconds


@event("job.signalled")
class JobSignalled(ClusterEvent, frozen=True):
    """The job's processes were signalled to end."""

    proc: int  #: the job's process number
    how: str  #: soft (by its kill signal) or hard (at once)
    until: int = 0  #: when they are signalled again, harder, in microseconds (0: by the pool's settings)
    evidence: int = 0  #: where the log has what a policy read that ends the run (0: nothing had to be read)
    vacated: Ad = field(
        default_factory=dict
    )  #: the reason in the job's ad, if a policy of the access point ends the run


@event("job.exited")
class JobExited(ClusterEvent, frozen=True):
    """All processes of an activation are gone. ``row``, ``source`` and ``target`` are empty if no transition of the job
    follows: one that was held or removed meanwhile stays so."""

    proc: int  #: the job's process number
    slot: str  #: where it ran
    key: str  #: the activation: the position of its `JobActivated`
    outcome: str  #: exited, evicted, failed or lost
    row: str  #: the row of the job table that follows
    target: str  #: its status from here on
    changes: Ad  #: what changes in its ad
    code: int | None = None  #: the exit code of the job's own process (None: a signal ended it, or nothing is known)
    signal: int | None = None  #: the signal that ended the job's own process (None: none did)
    user_cpu: int = 0  #: user's time on processors, in microseconds
    system_cpu: int = 0  #: system's time on processors, in microseconds
    resident: int = 0  #: real memory at most, in KiB
    disk: int = 0  #: scratch folder at most, in KiB
    ended: int = 0  #: when the job's own process ended, in microseconds, if earlier than `at` (else 0)
    source: str = ""  #: its status before
    evidence: int = 0  #: where the log has what the job's own policy read (0: nothing had to be read)
    left: bool = False  #: in logs of format 1: a job that was Completed or Removed then left the queue with this event
    reasons_kept: bool = False  #: whether its ad counts a hold by its reason (in older logs it does not)
    protocol: str = ""  #: the protocol of URLs by which its files could not be moved (empty: it was not for that)
    cooled: int = 0  #: where the log has what gave a requeued job its cool-down; other jobs' is their `evidence`
    vacates: int = 1  #: how often its ad counts the eviction: a shadow repeats it where a policy holds the job


@event("job.cooled_down")
class JobCooledDown(ClusterEvent, frozen=True):
    """The cool-down of a job whose run was interrupted is over: it may run again."""

    proc: int  #: the job's process number


@event("claims.earmarked")
class ClaimsEarmarked(ClusterEvent, frozen=True):
    """These claims are kept for the job: as soon as the jobs that have them are gone, it is to run at once on what they
    hold (condor_now)."""

    proc: int  #: the job's process number
    claims: Ad  #: the ids of the claims, by their slots
    until: int  #: when the jobs that have them must be gone, in microseconds


@event("claims.earmark_ended")
class EarmarkEnded(ClusterEvent, frozen=True):
    """No claims are kept for the job any more. What they held was put together for it, or nothing came of it."""

    proc: int  #: the job's process number
    slot: str = ""  #: the slot that was made of it, and claimed for the job (empty: nothing came of it)


@event("job.mail_due")
class MailDue(ClusterEvent, frozen=True):
    """A mail is to be sent about a job, as its notification asks for. It is sent until the log says that it was."""

    proc: int  #: the job's process number
    to: tuple[str, ...]  #: the addresses
    subject: str  #: its subject line
    text: str  #: what it says


@event("job.mailed")
class Mailed(ClusterEvent, frozen=True):
    """A mail was handed to what sends it, or could not be."""

    proc: int  #: the job's process number
    mail: int  #: the position of its `MailDue`
    failure: str = ""  #: why it could not be sent (empty: it was)
