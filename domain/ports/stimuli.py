"""Stimuli: the inputs of decisions, each with everything that its decision needs to know about the world.

The resulting events contain the stimulus's ``id``. A command has the ``user`` who sent it; a command whose id was
answered before is not decided again.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from ..events import Ad, ByProtocol, Procs


class Stimulus(Struct, frozen=True):
    id: str


class SlotPlan(Struct, frozen=True):
    """A slot that a machine offers: ``kind`` is static or partitionable."""

    name: str
    kind: str
    ad: Ad


class FoundPool(Stimulus, frozen=True):
    """Create a log."""

    name: str
    dialect: str
    uid_domain: str
    version: str
    settings: dict[str, str]
    log: str = ""  #: the log's id, chosen by the caller


class AddMachine(Stimulus, frozen=True):
    machine: str
    ad: Ad
    slots: tuple[SlotPlan, ...]
    settings: Ad = field(default_factory=dict)


class RemoveMachine(Stimulus, frozen=True):
    """Remove an idle machine from the pool."""

    machine: str


# Commands


class Command(Stimulus, frozen=True):
    user: str


class Submit(Command, frozen=True):
    """Submit a cluster of jobs."""

    cluster: int  #: its number (0: the next one)
    ad: Ad
    count: int
    columns: tuple[bytes, ...]  #: the attributes that differ between the jobs, from ``proc_ads.pack``
    file: str = ""  #: the submit file


class Selection(Struct, frozen=True):
    """The jobs that a command is about: clusters, single jobs, the jobs of owners, or all jobs. A constraint restricts
    these, or selects from all jobs."""

    clusters: tuple[int, ...] = ()
    jobs: tuple[tuple[int, int], ...] = ()
    owners: tuple[str, ...] = ()
    everything: bool = False
    constraint: str = ""


class JobCommand(Command, frozen=True):
    """Act on jobs. ``action`` is the command's name in the log and in scenarios."""

    action: ClassVar[str]
    selection: Selection
    reason: str = ""


class Hold(JobCommand, frozen=True):
    action: ClassVar[str] = "hold"
    subcode: int = 0


class Release(JobCommand, frozen=True):
    action: ClassVar[str] = "release"


class ReleaseSpooled(JobCommand, frozen=True):
    """Release jobs after submit -spool has transferred their input files. `Release` does not release such jobs."""

    action: ClassVar[str] = "spooled"


class Remove(JobCommand, frozen=True):
    action: ClassVar[str] = "remove"


class RemoveNow(JobCommand, frozen=True):
    """Stop waiting for the processes of jobs that are being removed (condor_rm -forcex)."""

    action: ClassVar[str] = "remove now"


class Vacate(JobCommand, frozen=True):
    action: ClassVar[str] = "vacate"
    fast: bool = False


class Suspend(JobCommand, frozen=True):
    action: ClassVar[str] = "suspend"


class Continue(JobCommand, frozen=True):
    action: ClassVar[str] = "continue"


JOB_COMMANDS: dict[str, type[JobCommand]] = {
    kind.action: kind for kind in (Hold, Release, ReleaseSpooled, Remove, RemoveNow, Vacate, Suspend, Continue)
}


class RunNow(Command, frozen=True):
    """Run an idle job immediately on the slots of running jobs: vacate these ``victims`` for it (condor_now)."""

    job: tuple[int, int]
    victims: tuple[tuple[int, int], ...]


class Edit(Command, frozen=True):
    """Set attributes of jobs."""

    selection: Selection
    changes: Ad
    add: bool = False  #: add to a number instead of replacing it (``prio +1``)
    own: bool = False  #: skip other users' jobs, unless the user is a super user
    together: bool = False  #: edit no job if one of them may not be edited
    dry: bool = False  #: only check; edit no job


class VacateSlot(Command, frozen=True):
    slot: str
    fast: bool = False


class SuspendClaim(Command, frozen=True):
    """Suspend the job on a slot until ``ContinueClaim``."""

    slot: str


class ContinueClaim(Command, frozen=True):
    slot: str


class Drain(Command, frozen=True):
    """Drain a machine (``DrainBegan`` explains the fields). ``check``: an expression that must be true of all slots."""

    machine: str
    schedule: str = "Graceful"
    reason: str = ""
    completion: str = ""
    check: str = ""
    start: str = ""


class CancelDrain(Command, frozen=True):
    """End a machine's drain; with ``drain``, only if it has this number."""

    machine: str
    drain: int = 0


class SetSubmitter(Command, frozen=True):
    """Set a value of a submitter, one of ``events.SET``."""

    submitter: str
    name: str
    value: float = 0.0
    duration: int = 0  #: for how many seconds (0: permanently); only for factor, floor and ceiling
    cancel: bool = False  #: end a temporary value now, and ignore ``value``
    negotiator: str = ""  #: the negotiator that keeps the account, if there are several


class ResetUsage(Command, frozen=True):
    """Reset the accumulated usage of these submitters; of all if none is named."""

    submitters: tuple[str, ...] = ()
    negotiator: str = ""  #: the negotiator that keeps the accounts, if there are several


class DeleteSubmitter(Command, frozen=True):
    """Delete a submitter's account: its priority, usage and settings."""

    submitter: str
    negotiator: str = ""  #: the negotiator that keeps the account, if there are several


class ShutDown(Command, frozen=True):
    """Shut an execution point down: ``how`` is Peaceful, Graceful or Fast."""

    machine: str
    how: str = "Graceful"


class Reconfigure(Stimulus, frozen=True):
    """The machine's configuration was read again: all its ``settings``, and the complete ad of each slot (attributes
    that the pool maintains do not change)."""

    machine: str
    settings: Ad
    ad: Ad
    slots: tuple[SlotPlan, ...]


class ConfigurePool(Stimulus, frozen=True):
    """The negotiator's configuration was read: all ``settings`` that differ from the defaults."""

    settings: Ad


# Messages to a slot, from roles of this pool or from claim holders outside. Some fields are only for roles of this
# pool: they go into the resulting event.


class SlotMessage(Stimulus, frozen=True):
    slot: str


class NotifyMatch(SlotMessage, frozen=True):
    """The negotiator has matched the slot."""

    dynamic_slot: str = ""  #: the name of a dynamic slot to carve from it (empty: none)
    ad: Ad = field(default_factory=dict)  #: the ad of the job for which to carve
    preempts: tuple[str, ...] = ()  #: the dynamic slots to preempt for that


class RequestClaim(SlotMessage, frozen=True):
    """An access point requests the slot for a job. From a partitionable slot, carve a dynamic slot for it. On a claimed
    slot, this is a better match."""

    claim: str  #: the claim's id (empty: the startd creates one)
    holder: str  #: the access point (empty: the pool's own)
    submitter: str
    job: str
    ad: Ad
    lease: int = 0  #: in seconds
    preempts: tuple[str, ...] = ()  #: the dynamic slots to preempt for it
    limits: str | None = None  #: the concurrency limits of its match (None: no match, so the startd computes them)
    negotiator: str | None = None  #: the negotiator of its match (None: no match, so the startd finds it)
    cause: str = "claimed"
    may_wait: bool = True  #: a better match may wait for the current claim to end


class FailClaim(SlotMessage, frozen=True):
    """The claiming protocol failed before the claim was made."""


class WithdrawClaim(SlotMessage, frozen=True):
    """Withdraw the better match that waits for the slot; with ``for_job``, only if it is for this job of the pool's own
    queue."""

    for_job: str = ""


class ActivateClaim(SlotMessage, frozen=True):
    """The holder starts a job on its claim."""

    job: str
    ad: Ad
    cluster: int = 0  #: of a job in the pool's own queue
    proc: int = 0
    job_machine_attrs: str = ""  #: its JobMachineAttrs
    expanded: Ad = field(default_factory=dict)  #: the values of ``$$(...)`` in its ad
    deferred: int = 0  #: when its processes are to start


class DeactivateClaim(SlotMessage, frozen=True):
    """The holder ends its job, and keeps the claim unless ``closing``. ``evidence`` and ``vacated``: see
    ``JobSignalled``. ``resumes``: continue a suspended job first."""

    fast: bool = False
    closing: bool = False
    cause: str = "deactivated"
    evidence: int = 0
    vacated: Ad = field(default_factory=dict)
    resumes: bool = False


class ReleaseClaim(SlotMessage, frozen=True):
    """The holder releases the claim."""

    cause: str = "released"


class StarterReported(SlotMessage, frozen=True):
    """The job has ended; its starter has sent the final report and is cleaning up."""


class StarterGone(SlotMessage, frozen=True):
    """The job's starter and all its processes are gone."""


class HolderSilent(SlotMessage, frozen=True):
    """The claim's holder is silent; it last sent a message at ``heard`` (microseconds)."""

    heard: int


class HolderHeard(SlotMessage, frozen=True):
    """The claim's holder, which was silent, has sent a message."""


# Timers and reports from the world


class EvaluatePolicies(Stimulus, frozen=True):
    """Evaluate the policies of these machines. Their sensors have just been read."""

    machines: tuple[str, ...]


class BenchmarksDone(Stimulus, frozen=True):
    """The slot's benchmarks are complete."""

    slot: str
    mips: int
    kflops: int


class BackfillRunning(Stimulus, frozen=True):
    """The process of a backfill client is running."""

    key: str
    pid: int
    at: int


class BackfillEnded(Stimulus, frozen=True):
    """A backfill client and all its processes are gone."""

    key: str
    at: int
    code: int | None = None
    signal: int | None = None
    user_cpu: int = 0
    system_cpu: int = 0
    failure: str = ""  #: why it could not be started
    lost: bool = False  #: there is no record of its end
    unattended: bool = False  #: it was ended because the pool was gone


class Negotiate(Stimulus, frozen=True):
    """Hold a negotiation cycle of ``negotiator`` (empty: NEGOTIATOR)."""

    negotiator: str = ""


class Defragment(Stimulus, frozen=True):
    """Poll the pool for machines to drain, and for drains to cancel."""


class ClaimMatches(Stimulus, frozen=True):
    """Claim the slots that were matched with the access point's jobs and activate the claims. Start jobs of the local
    universe."""


class FireTimers(Stimulus, frozen=True):
    """Carry out the timed actions that are due."""


class Transferred(Stimulus, frozen=True):
    """A file transfer of an activation has begun, or has ended."""

    key: str
    way: str  #: input, checkpoint or output
    began: int
    ended: int = 0  #: 0: it has not ended
    files: int = 0
    size: int = 0  #: in bytes
    listed: int = 0
    failed: bool = False  #: not all files could be transferred
    urls: ByProtocol = ()  #: the transfers of plugins
    number: int = 0  #: the checkpoint's number
    spooled: bool = False  #: the files are in the job's spool


class ActivationStarted(Stimulus, frozen=True):
    key: str
    pid: int
    scratch: str
    at: int


class ActivationChirped(Stimulus, frozen=True):
    """A job wrote attributes or notes with condor_chirp. After a restart, earlier writes may be reported again."""

    key: str
    writes: tuple[tuple[int, str, str, str], ...]  #: ascending number, kind (set, delayed or note), attribute, text


class ActivationMeasured(Stimulus, frozen=True):
    key: str
    image: int
    resident: int
    disk: int
    user_cpu: int
    system_cpu: int


class MailHandled(Stimulus, frozen=True):
    """A mail was handed to the mail program; with ``failure``, it was not."""

    mail: int  #: the position of its `MailDue`
    failure: str = ""


class LeaveQueue(Stimulus, frozen=True):
    """Evaluate which of these finished jobs leave the queue."""

    jobs: tuple[tuple[int, Procs], ...]


class EvaluateJobPolicies(Stimulus, frozen=True):
    """Evaluate the periodic policies of the jobs of these clusters that are not running, and of these running jobs."""

    clusters: tuple[int, ...]
    running: tuple[tuple[int, int], ...] = ()


class ScheduleJobs(Stimulus, frozen=True):
    """Give those of these jobs that have missed their scheduled time their next one. ``reschedule_all``: give it to all
    of them, because the configuration was read again."""

    jobs: tuple[tuple[int, Procs], ...]
    reschedule_all: bool = False


class ActivationEnded(Stimulus, frozen=True):
    """An activation's processes are gone."""

    key: str
    at: int
    code: int | None = None
    signal: int | None = None
    user_cpu: int = 0
    system_cpu: int = 0
    resident: int = 0
    disk: int = 0
    failed: bool = False  #: they could not be started
    hold_reason: str = ""  #: why to hold the job: it exceeded a limit, or could not be started
    hold_code: int = 0  #: of the hold; a VacateReasonCode: the machine caused the failed start, so evict the job
    hold_subcode: int = 0
    lost: bool = False  #: there is no record of its end
    undelivered: bool = False  #: output files are missing, so the job has not completed, whatever its exit code
    protocol: str = ""  #: the protocol of the plugin that failed
    core: str = ""  #: the path of its core file (empty: none)
