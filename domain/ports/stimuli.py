"""Stimuli: the inputs of decisions. A stimulus contains everything that its decision must know about the world.

The events of the decision contain the ``id`` of the stimulus. A command also contains the ``user`` who sent it, and a
command whose id has already been answered is not decided again.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from ..events import Ad, ByProtocol, Event, Procs


class Stimulus(Struct, frozen=True):
    id: str


class SlotPlan(Struct, frozen=True):
    """A slot that a machine offers. ``kind`` is static or partitionable."""

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
    roles: tuple[str, ...] = ()  #: the roles that act in the log (empty: all)


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

    cluster: int  #: the cluster number (0: the next one)
    ad: Ad
    count: int
    columns: tuple[bytes, ...]  #: the attributes that differ between the jobs, from ``proc_ads.pack``
    file: str = ""  #: the submit file
    job_set: Ad = field(default_factory=dict)  #: the attributes that it gives its job set


class Selection(Struct, frozen=True):
    """The jobs to which a command applies: clusters, single jobs, jobs of these owners, or all jobs. A constraint
    selects some of these jobs, or of all jobs if the command names none."""

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
    """Release jobs after submit -spool has transferred their input files. ``Release`` does not release such jobs."""

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
    """Run an idle job immediately on the slots of running jobs, the ``victims``, which are vacated (condor_now)."""

    job: tuple[int, int]
    victims: tuple[tuple[int, int], ...]


class Edit(Command, frozen=True):
    """Set attributes of jobs."""

    selection: Selection
    changes: Ad
    add: bool = False  #: add to a number instead of replacing it (``prio +1``)
    own: bool = False  #: skip other users' jobs, unless the user is a super user
    together: bool = False  #: edit no job unless all of them may be edited
    dry: bool = False  #: only check; edit no job


class VacateSlot(Command, frozen=True):
    """Vacate the jobs on a slot, or on all slots of a machine."""

    slot: str
    fast: bool = False


class SuspendClaim(Command, frozen=True):
    """Suspend the job on a slot until ``ContinueClaim``."""

    slot: str


class ContinueClaim(Command, frozen=True):
    """Continue the job that ``SuspendClaim`` suspended on a slot."""

    slot: str


class Drain(Command, frozen=True):
    """Drain a machine (``DrainBegan`` explains the fields). The machine drains only if ``check``, an expression, is
    true for all its slots."""

    machine: str
    schedule: str = "Graceful"
    reason: str = ""
    completion: str = ""
    check: str = ""
    start: str = ""


class CancelDrain(Command, frozen=True):
    """End a machine's drain. If ``drain`` is set, end it only if it has this number."""

    machine: str
    drain: int = 0


class SetSubmitter(Command, frozen=True):
    """Set one of a submitter's values, listed in ``events.SET``."""

    submitter: str
    name: str
    value: float = 0.0
    duration: int = 0  #: in seconds (0: permanent); only for factor, floor and ceiling
    cancel: bool = False  #: end a temporary value now, and ignore ``value``
    negotiator: str = ""  #: the negotiator with the account, if there are several


class ResetUsage(Command, frozen=True):
    """Reset the accumulated usage of these submitters, or of all if none is named."""

    submitters: tuple[str, ...] = ()
    negotiator: str = ""  #: the negotiator with the accounts, if there are several


class DeleteSubmitter(Command, frozen=True):
    """Delete a submitter's account: its priority, usage and settings."""

    submitter: str
    negotiator: str = ""  #: the negotiator with the account, if there are several


class SwitchDaemons(Command, frozen=True):
    """Turn a part of a manager, such as NEGOTIATOR or HAD, off or on."""

    daemon: str
    on: bool
    everywhere: bool = False  #: at all of the pool's managers


class ShutDown(Command, frozen=True):
    """Shut an execution point down: ``how`` is Peaceful, Graceful or Fast. With ``restart``, it joins again afterwards,
    with the slots of its configuration at that time."""

    machine: str
    how: str = "Graceful"
    restart: bool = False


class Reconfigure(Stimulus, frozen=True):
    """The machine's configuration was read again. ``settings`` are all its settings, and the slots have their complete
    ads. Attributes that the pool maintains do not change."""

    machine: str
    settings: Ad
    ad: Ad
    slots: tuple[SlotPlan, ...]
    drains: bool = False  #: whether changed slots drain the machine, which then joins again (False: they are rejected)


class ConfigurePool(Stimulus, frozen=True):
    """The negotiator's configuration was read. ``settings`` are the settings that differ from the defaults."""

    settings: Ad


# Messages to a slot, from roles of this pool or from external claim holders. Some fields are only for roles of this
# pool; they are copied into the resulting event.


class SlotMessage(Stimulus, frozen=True):
    slot: str


class NotifyMatch(SlotMessage, frozen=True):
    """The negotiator has matched the slot."""

    dynamic_slot: str = ""  #: the dynamic slot to carve from the slot (empty: none)
    ad: Ad = field(default_factory=dict)  #: the ad of the job to carve the slot for
    preempts: tuple[str, ...] = ()  #: dynamic slots to preempt for the new one


class RequestClaim(SlotMessage, frozen=True):
    """An access point requests the slot for a job. A dynamic slot is carved if the slot is partitionable. If the slot
    is claimed, the request is for a claim that preempts the current one."""

    claim: str  #: the claim's id (empty: the startd creates one)
    holder: str  #: the access point (empty: the pool's own)
    submitter: str
    job: str
    ad: Ad
    lease: int = 0  #: in seconds
    preempts: tuple[str, ...] = ()  #: the dynamic slots to preempt for the claim
    limits: str | None = None  #: the concurrency limits of the match (None: no match, so the startd computes them)
    negotiator: str | None = None  #: the negotiator that made the match (None: no match, so the startd determines it)
    cause: str = "claimed"
    may_wait: bool = True  #: whether a preempting claim may wait for the current claim to end
    reason: str = ""  #: why the match preempts the slot's current claim: rank or priority (empty: the slot has none)


class FailClaim(SlotMessage, frozen=True):
    """The claiming protocol failed before the claim was made."""


class WithdrawClaim(SlotMessage, frozen=True):
    """Withdraw the preempting claim that waits for the slot. If ``for_job`` is set, withdraw the claim only if it is
    for this job in the pool's own queue."""

    for_job: str = ""


class ActivateClaim(SlotMessage, frozen=True):
    """The holder starts a job on its claim."""

    job: str
    ad: Ad
    cluster: int = 0  #: of a job in the pool's own queue
    proc: int = 0
    recorded: tuple[str, ...] = ()  #: the slot attributes that the job's ad records
    recorded_runs: int = 0  #: as in `JobActivated`
    expanded: Ad = field(default_factory=dict)  #: the values of ``$$(...)`` in the job's ad
    deferred: int = 0  #: when the job's processes should start
    key: str = ""  #: the run's key at an external holder for which the startd runs the job (empty: the holder runs it)


class DeactivateClaim(SlotMessage, frozen=True):
    """The holder ends its job, and keeps the claim unless ``closing``. ``JobSignalled`` explains ``evidence`` and
    ``vacated``. ``resumes``: whether a suspended job is continued first. ``signal``: as in ``StarterSignalled``."""

    fast: bool = False
    closing: bool = False
    cause: str = "deactivated"
    evidence: int = 0
    vacated: Ad = field(default_factory=dict)
    resumes: bool = False
    signal: str = ""


class ReleaseClaim(SlotMessage, frozen=True):
    """The holder releases the claim."""

    cause: str = "released"


class StarterReported(SlotMessage, frozen=True):
    """The job has ended; its starter has sent the final report and is cleaning up."""


class StarterGone(SlotMessage, frozen=True):
    """The job's starter and all processes of the job have exited."""


class HolderSilent(SlotMessage, frozen=True):
    """The claim's holder has been silent since ``heard`` (microseconds)."""

    heard: int


class HolderHeard(SlotMessage, frozen=True):
    """The claim's holder has sent a message again after being silent."""


# Timers and reports from the world


class EvaluatePolicies(Stimulus, frozen=True):
    """Evaluate the policies of these machines, whose sensors have just been read."""

    machines: tuple[str, ...]


class SensorsReported(Stimulus, frozen=True):
    """The machine's sensors have new readings that are published at once."""

    machine: str
    names: frozenset[str]  #: the attributes, in lower case


class ScheddReported(Stimulus, frozen=True):
    """A program of SCHEDD_CRON has printed a record."""

    attributes: Ad  #: all attributes of the programs' last records


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
    """A backfill client and all its processes have exited."""

    key: str
    at: int
    code: int | None = None
    signal: int | None = None
    user_cpu: int = 0
    system_cpu: int = 0
    failure: str = ""  #: why the client could not be started
    lost: bool = False  #: there is no record of the client's end
    unattended: bool = False  #: the client was ended because the pool no longer existed


class Negotiate(Stimulus, frozen=True):
    """Hold a negotiation cycle of ``negotiator`` (empty: NEGOTIATOR)."""

    negotiator: str = ""


class Defragment(Stimulus, frozen=True):
    """Poll the pool for machines to drain and drains to cancel, by the policy of ``daemon`` (empty: DEFRAG)."""

    daemon: str = ""


class ClaimMatches(Stimulus, frozen=True):
    """Claim the slots matched with the access point's jobs, and activate the claims. Start local universe jobs."""


class FireTimers(Stimulus, frozen=True):
    """Perform the timed actions that are due."""


class Transferred(Stimulus, frozen=True):
    """A file transfer of an activation has begun, or has ended."""

    key: str
    way: str  #: input, checkpoint or output
    began: int
    ended: int = 0  #: 0: not ended yet
    files: int = 0
    size: int = 0  #: in bytes
    listed: int = 0
    failed: bool = False  #: whether some files could not be transferred
    urls: ByProtocol = ()  #: transfers by plugins
    number: int = 0  #: the checkpoint's number
    spooled: bool = False  #: whether the files are in the job's spool


class ActivationDue(Stimulus, frozen=True):
    """The deferral time of an external access point's job has come, or was missed."""

    key: str
    missed: bool = False


class ActivationStarted(Stimulus, frozen=True):
    key: str
    pid: int
    scratch: str
    at: int


class ActivationChirped(Stimulus, frozen=True):
    """A job set attributes or wrote log notes with condor_chirp. A restart may report earlier writes again."""

    key: str
    writes: tuple[tuple[int, str, str, str], ...]  #: ascending number, kind (set, delayed or note), attribute, text


class ActivationMeasured(Stimulus, frozen=True):
    key: str
    image: int
    resident: int
    disk: int
    user_cpu: int
    system_cpu: int
    usage: Ad = field(default_factory=dict)  #: attributes of the job that describe its use of devices
    every: int = 300  #: STARTER_UPDATE_INTERVAL: the seconds after which a measurement is always logged
    first: int = 0  #: STARTER_INITIAL_UPDATE_INTERVAL: the seconds before the first one is logged


class DevicesFailed(Stimulus, frozen=True):
    """Devices of a machine have failed: a GPU fell off the bus, for example."""

    machine: str
    resource: str
    devices: tuple[str, ...]  #: their ids; a device may be named several times, by different ids
    reason: str


class MailHandled(Stimulus, frozen=True):
    """A mail was passed to the mail program, or with ``failure``, could not be."""

    mail: int  #: the position of its ``MailDue``
    failure: str = ""


class CheckpointsCleaned(Stimulus, frozen=True):
    """Checkpoints of a job were deleted at its checkpoint_destination, or with ``failure``, some could not be."""

    cluster: int
    proc: int
    numbers: tuple[int, ...]
    failure: str = ""


class LeaveQueue(Stimulus, frozen=True):
    """Decide which of these ended jobs leave the queue."""

    jobs: tuple[tuple[int, Procs], ...]


class EvaluateJobPolicies(Stimulus, frozen=True):
    """Evaluate the periodic policies of the clusters' jobs that are not running, and of these running jobs."""

    clusters: tuple[int, ...]
    running: tuple[tuple[int, int], ...] = ()


class ScheduleJobs(Stimulus, frozen=True):
    """Set the next start of those given jobs that missed their scheduled start. With ``reschedule_all``, set it for all
    given jobs, because the configuration was read again."""

    jobs: tuple[tuple[int, Procs], ...]
    reschedule_all: bool = False


class ActivationEnded(Stimulus, frozen=True):
    """All processes of an activation have exited."""

    key: str
    at: int
    code: int | None = None
    signal: int | None = None
    user_cpu: int = 0
    system_cpu: int = 0
    resident: int = 0
    disk: int = 0
    failed: bool = False  #: the processes could not be started
    hold_reason: str = ""  #: the hold reason, if the job exceeded a limit or could not be started
    hold_code: int = 0  #: the hold's code; a VacateReasonCode: the machine caused the failure, so evict the job
    hold_subcode: int = 0
    lost: bool = False  #: there is no record of the activation's end
    undelivered: bool = False  #: output files are missing, so the job has not completed, whatever its exit code
    protocol: str = ""  #: the protocol of the plugin that failed
    core: str = ""  #: the path of the core file (empty: none)
    expired: bool = False  #: the processes were killed because their deadline was not renewed (``World.renew``)
    usage: Ad = field(default_factory=dict)  #: attributes of the job that describe its use of devices


class OutboxEntry(Struct, frozen=True):
    """An entry of a peer's outbox (``events.Sent``)."""

    version: int
    digest: str  #: the digest of the outbox up to this entry, as the peer recorded it
    positions: tuple[int, ...]  #: the positions of the events in the peer's log
    events: tuple[Event, ...]


class RejectedRequests(Struct, frozen=True):
    """Requests of one sender that were rejected for the same reason: the fields of `RequestsRejected`."""

    address: str
    sender: str
    reason: str
    text: str
    count: int
    since: int


class RejectRequests(Stimulus, frozen=True):
    """The HTTPS service has rejected requests."""

    rejections: tuple[RejectedRequests, ...]


class Follow(Stimulus, frozen=True):
    """The next entries of the outbox that a peer keeps for this role were read."""

    peer: str
    log: str  #: the id of the peer's log
    epoch: int
    base: tuple[int, str]  #: the version and digest of the entry before these
    last: int  #: the version of the outbox's last entry
    entries: tuple[OutboxEntry, ...]
    asked: int = 0  #: when they were requested, in microseconds, if they are all that there was; else 0


class ExecutionPointSilent(Stimulus, frozen=True):
    """The execution point of these slots, on which this access point has claims, is silent."""

    slots: tuple[str, ...]
    until: int  #: when the leases of the claims expire, in microseconds
    cause: str = "unheard"  #: or ``writer``: this access point was restarted


class ExecutionPointHeard(Stimulus, frozen=True):
    """The execution point of these slots answers again, before the leases have expired."""

    slots: tuple[str, ...]


class LeaseOver(Stimulus, frozen=True):
    """The leases of this access point's claims on these slots have expired."""

    slots: tuple[str, ...]


class RequestsUnanswered(Stimulus, frozen=True):
    """The execution points to which these claim requests were sent do not answer."""

    claims: tuple[str, ...]


class ExecutionPointExpired(Stimulus, frozen=True):
    """The manager has not heard from a machine's execution point for too long; with ``expired`` False, it has heard
    from it again."""

    machine: str
    expired: bool = True


class HadStep(Stimulus, frozen=True):
    """The election of the active manager changes this manager's state."""

    row: str
    cause: str
    manager: str = ""  #: the other manager concerned
    heard: int = 0  #: when it was last heard, in microseconds


class ManagerSilence(Stimulus, frozen=True):
    """Another manager is silent, or is heard again."""

    peer: str
    heard: bool
    last: int  #: when it was last heard before, in microseconds
