"""What can come in: each kind of stimulus, with all that its decision needs of the world.

``id`` names the stimulus in every event that follows from it. Commands carry the ``user`` who asks; a command whose id
was answered before is not decided again.
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
    """Begin a log."""

    name: str
    dialect: str
    uid_domain: str
    version: str
    settings: dict[str, str]
    log: str = ""  #: the log's id, chosen by whoever makes the log


class AddMachine(Stimulus, frozen=True):
    machine: str
    ad: Ad
    slots: tuple[SlotPlan, ...]
    settings: Ad = field(default_factory=dict)


class RemoveMachine(Stimulus, frozen=True):
    """Take a machine that runs nothing out of the pool."""

    machine: str


# Commands


class Command(Stimulus, frozen=True):
    user: str


class Submit(Command, frozen=True):
    """``cluster`` 0: the next number. ``columns`` as ``variants.pack`` makes them; ``file``: what was submitted."""

    cluster: int
    ad: Ad
    count: int
    columns: tuple[bytes, ...]
    file: str = ""


class Selection(Struct, frozen=True):
    """Which jobs a command means: clusters, single jobs, owners, all, or those that a constraint accepts (also with
    one of the former, narrowing it)."""

    clusters: tuple[int, ...] = ()
    jobs: tuple[tuple[int, int], ...] = ()
    owners: tuple[str, ...] = ()
    everything: bool = False
    constraint: str = ""


class JobCommand(Command, frozen=True):
    """Do something with jobs. ``action``: its name in the log and in scenarios."""

    action: ClassVar[str]
    selection: Selection
    reason: str = ""


class Hold(JobCommand, frozen=True):
    action: ClassVar[str] = "hold"
    subcode: int = 0


class Release(JobCommand, frozen=True):
    action: ClassVar[str] = "release"


class ReleaseSpooled(JobCommand, frozen=True):
    """Release jobs whose input files submit -spool has brought, which no other release does."""

    action: ClassVar[str] = "spooled"


class Remove(JobCommand, frozen=True):
    action: ClassVar[str] = "remove"


class RemoveNow(JobCommand, frozen=True):
    """Do not wait any longer for jobs that are being removed."""

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
    """Run an idle job at once on what running ones have: these, the ``victims``, are vacated for it."""

    job: tuple[int, int]
    victims: tuple[tuple[int, int], ...]


class Edit(Command, frozen=True):
    """Set attributes of jobs; ``add`` adds to a number instead (``prio +1``). ``own``: others' jobs are passed over,
    unless a super user asks. ``together``: if any job may not be edited, none is. ``dry``: none is, whatever may be."""

    selection: Selection
    changes: Ad
    add: bool = False
    own: bool = False
    together: bool = False
    dry: bool = False


class VacateSlot(Command, frozen=True):
    slot: str
    fast: bool = False


class SuspendClaim(Command, frozen=True):
    """Suspend what runs on a slot; only ``ContinueClaim`` lets it go on."""

    slot: str


class ContinueClaim(Command, frozen=True):
    slot: str


class Drain(Command, frozen=True):
    """Empty a machine of jobs (``DrainBegan`` explains the fields). With ``check``, only if that expression is true for
    each of its slots."""

    machine: str
    schedule: str = "Graceful"
    reason: str = ""
    completion: str = ""
    check: str = ""
    start: str = ""


class CancelDrain(Command, frozen=True):
    """End a machine's drain; with ``drain``, only if it is the one of that number."""

    machine: str
    drain: int = 0


class SetSubmitter(Command, frozen=True):
    """Set one of ``events.SET`` of a submitter. ``duration``: seconds for which it holds (0: for good); only factor,
    floor and ceiling can be lent like that. With ``cancel`` such a lease ends now, whatever ``value`` is."""

    submitter: str
    name: str
    value: float = 0.0
    duration: int = 0
    cancel: bool = False
    negotiator: str = ""  #: in whose accounting, by the name of one of several negotiators


class ResetUsage(Command, frozen=True):
    """The usage that these submitters have accumulated counts from now on; that of all, if none are named."""

    submitters: tuple[str, ...] = ()
    negotiator: str = ""  #: in whose accounting, by the name of one of several negotiators


class DeleteSubmitter(Command, frozen=True):
    """Forget a submitter: its priority, its usage, and what was set of it."""

    submitter: str
    negotiator: str = ""  #: in whose accounting, by the name of one of several negotiators


class ShutDown(Command, frozen=True):
    """End an execution point: ``how`` is Peaceful, Graceful or Fast."""

    machine: str
    how: str = "Graceful"


class Reconfigure(Stimulus, frozen=True):
    """The machine's configuration was read again: all of its ``settings``, and for each slot its whole ad as the
    configuration has it (what the pool itself keeps in an ad is left alone)."""

    machine: str
    settings: Ad
    ad: Ad
    slots: tuple[SlotPlan, ...]


class ConfigurePool(Stimulus, frozen=True):
    """The negotiator's configuration was read: all ``settings`` that it makes others than the defaults
    (``negotiation.settings.followed``)."""

    settings: Ad


# What a slot hears from those who match and hold it: roles of this pool, or holders of claims outside of it. Fields
# that only roles of this pool fill in say what the event that answers has besides.


class SlotMessage(Stimulus, frozen=True):
    slot: str


class NotifyMatch(SlotMessage, frozen=True):
    """The negotiator tells the slot that it was matched: with ``part``, that a dynamic slot of this name is to be
    carved from it for the job of the ad, and that its dynamic slots ``preempts`` are to go for that."""

    part: str = ""
    ad: Ad = field(default_factory=dict)
    preempts: tuple[str, ...] = ()


class RequestClaim(SlotMessage, frozen=True):
    """``submitter`` of the access point ``holder`` (empty: the pool's own) wants the slot for a job. From a
    partitionable one a dynamic slot is carved for it; on one that is claimed, it is a better match, which waits if it
    ``may_wait``. ``claim``: its id (empty: the startd makes one). ``lease``: seconds. ``preempts``: dynamic slots that
    go for it.

    ``limits``: what its match holds of concurrency limits; ``negotiator``: whose match it is. None: the slot's startd
    works it out, since there is no match."""

    claim: str
    holder: str
    submitter: str
    job: str
    ad: Ad
    lease: int = 0
    preempts: tuple[str, ...] = ()
    limits: str | None = None
    negotiator: str | None = None
    cause: str = "claimed"
    may_wait: bool = True


class FailClaim(SlotMessage, frozen=True):
    """The claiming protocol failed before the claim was made."""


class WithdrawClaim(SlotMessage, frozen=True):
    """The better match that waits for the slot is wanted no longer; with ``for_job``, only if it is for this job of the
    pool's own queue."""

    for_job: str = ""


class ActivateClaim(SlotMessage, frozen=True):
    """The holder starts a job on its claim. One of the pool's own queue is ``cluster``.``proc``; ``wanted`` are its
    JobMachineAttrs, ``expanded`` what its ad was filled in with, ``deferred`` when its processes are to begin."""

    job: str
    ad: Ad
    cluster: int = 0
    proc: int = 0
    wanted: str = ""
    expanded: Ad = field(default_factory=dict)
    deferred: int = 0


class DeactivateClaim(SlotMessage, frozen=True):
    """The holder ends its job, and keeps the claim unless ``closing``. ``evidence`` and ``vacated``: see
    ``JobSignalled``; with ``resumes``, a suspended job is let go on for it."""

    fast: bool = False
    closing: bool = False
    cause: str = "deactivated"
    evidence: int = 0
    vacated: Ad = field(default_factory=dict)
    resumes: bool = False


class ReleaseClaim(SlotMessage, frozen=True):
    """The holder gives the claim up."""

    cause: str = "released"


class StarterReported(SlotMessage, frozen=True):
    """The job has ended, and its starter has sent the last report: it cleans up."""


class StarterGone(SlotMessage, frozen=True):
    """The job's starter is gone, and everything that it started."""


class HolderSilent(SlotMessage, frozen=True):
    """The claim's holder was last heard of at ``heard`` (microseconds)."""

    heard: int


class HolderHeard(SlotMessage, frozen=True):
    """The claim's holder, which was silent, is heard again."""


# What happens by itself


class EvaluatePolicies(Stimulus, frozen=True):
    """The policy of these machines is due: their readings were taken, and are whole in what ``decide`` may sense."""

    machines: tuple[str, ...]


class BenchmarksDone(Stimulus, frozen=True):
    """The benchmarks that the slot ran are done."""

    slot: str
    mips: int
    kflops: int


class BackfillRunning(Stimulus, frozen=True):
    """The process of the backfill client of this key runs."""

    key: str
    pid: int
    at: int


class BackfillEnded(Stimulus, frozen=True):
    """The backfill client of this key is gone, and all that it started. ``failure``: why it could not be started;
    ``lost``: no record of its end exists; ``unattended``: it was ended because the pool was gone."""

    key: str
    at: int
    code: int | None = None
    signal: int | None = None
    user_cpu: int = 0
    system_cpu: int = 0
    failure: str = ""
    lost: bool = False
    unattended: bool = False


class Negotiate(Stimulus, frozen=True):
    """Hold a negotiation cycle. ``negotiator``: whose, if there are several (empty: NEGOTIATOR's)."""

    negotiator: str = ""


class Defragment(Stimulus, frozen=True):
    """Look which machines are to be drained, or are to drain no longer."""


class ClaimMatches(Stimulus, frozen=True):
    """The access point claims the slots that it was matched with and activates the claims; jobs of the local universe
    it starts itself."""


class FireTimers(Stimulus, frozen=True):
    """Time has passed: what is due by now happens."""


class Transferred(Stimulus, frozen=True):
    """An activation's files began to move on their ``way``, input, checkpoint (the ``number``-th of it) or output;
    ``ended``: when they had moved (0: they have not yet), so many files, of so many bytes together; ``failed``: not all
    could; ``urls``: what plugins moved; ``kept``: they went to the job's spool."""

    key: str
    way: str
    began: int
    ended: int = 0
    files: int = 0
    size: int = 0
    listed: int = 0
    failed: bool = False
    urls: ByProtocol = ()
    number: int = 0
    kept: bool = False


class ActivationStarted(Stimulus, frozen=True):
    key: str
    pid: int
    scratch: str
    at: int


class ActivationChirped(Stimulus, frozen=True):
    """A job wrote with condor_chirp: number, kind (set, delayed or note), attribute and text of each,
    ascending. A number that was told before is told again after a restart."""

    key: str
    writes: tuple[tuple[int, str, str, str], ...]


class ActivationMeasured(Stimulus, frozen=True):
    key: str
    image: int
    resident: int
    disk: int
    user_cpu: int
    system_cpu: int


class MailHandled(Stimulus, frozen=True):
    """The mail whose `MailDue` stands at this position was handed to what sends it; ``failure``: why it was not."""

    mail: int
    failure: str = ""


class LeaveQueue(Stimulus, frozen=True):
    """See which of these jobs, by their clusters, leave the queue: they have come to their end, or something is new of
    them since, or the time has come to ask again."""

    jobs: tuple[tuple[int, Procs], ...]


class EvaluateJobPolicies(Stimulus, frozen=True):
    """Ask the periodic policies of jobs: of those of these clusters that do not run, and of these that do, by cluster
    and process."""

    clusters: tuple[int, ...]
    running: tuple[tuple[int, int], ...] = ()


class ScheduleJobs(Stimulus, frozen=True):
    """See which of these jobs, by their clusters, have missed the time that their schedule gave them: each waits for
    the next one. ``again``: all of them are given their next time, as when the configuration was read again."""

    jobs: tuple[tuple[int, Procs], ...]
    again: bool = False


class ActivationEnded(Stimulus, frozen=True):
    """An activation's processes are gone. ``hold_reason``, with HTCondor's code and subcode, if the job is to be held
    for it: it exceeded a limit, or (``failed``) could not be started. With a VacateReasonCode a failed start is the
    machine's fault: the job is evicted for that reason. ``lost``: no record of its end exists. ``undelivered``: its
    files did not all come to where they belong, so it has not ended by itself, whatever its process did;
    ``protocol``: that of the plugin which failed, if one did; ``core``: the path of its core file (empty: none)."""

    key: str
    at: int
    code: int | None = None
    signal: int | None = None
    user_cpu: int = 0
    system_cpu: int = 0
    resident: int = 0
    disk: int = 0
    failed: bool = False
    hold_reason: str = ""
    hold_code: int = 0
    hold_subcode: int = 0
    lost: bool = False
    undelivered: bool = False
    protocol: str = ""
    core: str = ""
