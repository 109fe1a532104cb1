"""The state of a pool at one position of its log: what deciding reads, and what folding an event (``evolve``) changes.

Nothing here decides and nothing here refuses. The state holds what the live pool needs and no more: a job that has
left the queue is gone from it (history is a view of the log), and jobs alike cost next to nothing (``cluster``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Protocol

from attrs import define, field, frozen

from ..events import Ad, ClaimMade, GroupQuota, MailDue, Unmatched
from ..names import AccountName
from ..state_machines import MANUAL, Dialect, match_state
from ..state_machines.slot_rows import Activity, StateActivity
from ..state_machines.slot_rows import State as SlotState
from .agenda import Agendas
from .caches import ChangeLog
from .cluster import IDLE, Cluster
from .cycles import Cycles
from .defrag_state import Defrag
from .job_ad import machine_attributes, unquoted
from .pool_settings import UID_DOMAIN
from .slot_attributes import SlotAd
from .user_maps import UserMaps, user_maps

NOTIFICATION = "JobNotification"
RUNS = frozenset({"Running", "Suspended", "TransferringOutput"})
"""The statuses of a job that has processes and has not been told to end."""


@define
class Claim:
    """Who holds a slot."""

    id: str  #: the claim's id
    submitter: str  #: whom it counts for
    weight: int  #: what it counts for, in thousandths
    since: int  #: the instant from which it is held, in microseconds
    rank: float = 0.0  #: the slot's RANK of its job
    holder: str = ""  #: the access point outside of this pool that holds it (empty: the pool's own)
    job: str = ""  #: the job that its holder asked for; of a claim of our own the one that waited for it, if one did
    ad: Ad = field(factory=dict)  #: the ad of that job (empty: the log has the queue, too)
    lease: int = 0  #: seconds without a sign of the holder after which it ends (0: none)
    until: int = 0  #: when it ends, unless the holder is heard again, in microseconds (0: it is heard)
    activations: int = 0  #: how many jobs it has had
    marks: frozenset[str] = frozenset()  #: what holds for it, of `events.CLAIM_FLAGS`
    reason: str = ""  #: why its job is to go (empty: it is not)
    code: int = 0  #: HTCondor's code of that
    subcode: int = 0  #: the further code
    user: str = ""  #: whose the job is that it was made for, as user@domain (empty: the submitter's)
    limits: str = ""  #: what it holds of concurrency limits (ConcurrencyLimits), from its match until its end
    negotiator: str = ""  #: in whose accounting it counts, if there are several negotiators (empty: NEGOTIATOR's)
    regrouped: bool = False  #: whether its match was negotiated by autoregroup


TRANSFER_STEPS = ("", "input", "input done", "checkpoint", "checkpoint done", "output", "output done")
"""How far the transfer of a job's files may be, in the order of time; there may be several checkpoints, or none."""


@define
class Activation:
    """A job's run as its access point knows it, from the activation until the last process is gone. Instants in
    microseconds."""

    key: str  #: the position of the event that began it
    cluster: int  #: the job's cluster
    proc: int  #: the job's process number in its cluster
    slot: str  #: the slot's name
    began: int  #: when it began
    executing: bool = False  #: whether the job's processes have begun to run
    stop: str = ""  #: what they were told: soft or hard (empty: nothing)
    stopped: int = 0  #: when they were told first
    told: int = 0  #: when they were told last
    until: int = 0  #: when they are told again, harder (0: by the pool's settings)
    measured: int = 0  #: when they were measured last
    deferred: int = 0  #: when its processes are to be started, if they wait for that (0: they do not)
    transfer: str = ""
    """How far the transfer of its files is: one of `TRANSFER_STEPS` (empty: none has begun)."""
    checkpoints: int = 0  #: the number of the last checkpoint that came to its end (0: none did)
    chirped: int = 0  #: how many writes of its condor_chirp the log has
    vacated: Ad = field(factory=dict)  #: what the job's ad will say of why it was ended, where a policy ended it


@define
class Starter:
    """A job's processes as the startd of their slot knows them, from the activation until the last of them is gone.
    Instants in microseconds."""

    key: str  #: the position of the event that began it
    cluster: int  #: the job's cluster (0: the job is not of this pool's queue)
    proc: int  #: the job's process number in its cluster
    slot: str  #: the slot's name
    began: int  #: when it began
    stop: str = ""  #: what they were told: soft or hard (empty: nothing)
    told: int = 0  #: when they were told last
    until: int = 0  #: when they are told again, harder (0: by the pool's settings)
    vacate: int = 0  #: the MachineMaxVacateTime that it was promised, in microseconds
    suspended: int = 0  #: for how long the slot was in Suspended until `since`, in microseconds
    since: int = 0  #: when the slot came to Suspended (0: it is not there)
    job: str = ""  #: with `cluster` 0: the job, as its own access point names it
    ad: Ad = field(factory=dict)
    """The job's ad, as the activation gave it and messages changed it since (empty: the log has the queue, too)."""
    user: str = ""  #: whose the job is, as user@domain (empty: its ad does not say)
    leaving: str = ""  #: the cause for which its slot's claim is about to end, where that is a reason of its own
    halted: int = 0  #: when the slot came to Preempting: from then on its run time stands still (0: it did not)

    def ran(self, now: int) -> int:
        """For how long it has run, in microseconds, without the time in which it was suspended or told to end."""
        return self._until(now) - self.began - self.suspended

    def ran_seconds(self, now: int) -> int:
        """The same in whole seconds, between the seconds in which it began and now (TotalJobRunTime)."""
        return self._until(now) // 1_000_000 - (self.began + self.suspended) // 1_000_000

    def _until(self, now: int) -> int:
        return self.since or self.halted or now


class Matched(NamedTuple):
    """A match of a slot with a job that is not yet claimed: see ``events.Match``."""

    order: tuple[int, int] = (0, 0)  #: the position of its cycle, and its place among the cycle's matches
    limits: str = ""  #: what it holds of concurrency limits
    preempts: tuple[str, ...] = ()  #: the dynamic slots that go for it
    negotiator: str = ""  #: which of several made it (empty: NEGOTIATOR)


@define
class Earmark:
    """Claims that are kept for a job which is to run at once: see `ClaimsEarmarked`."""

    claims: dict[str, str]  #: their ids, by their slots
    until: int  #: when the jobs that have them must be gone, in microseconds


@define
class MachineDrain:
    """A machine's drain: see `DrainBegan`."""

    number: int  #: which one of the machine's drains it is
    schedule: str  #: how quickly jobs have to go
    state: str  #: one of the states of the drains' table
    began: int  #: when it began, in microseconds
    reason: str = ""  #: why, in the words of whoever asked
    completion: str = ""  #: what follows when it is complete
    start: str = ""  #: what START is meanwhile (empty: false)
    final: bool = False  #: whether all jobs that the machine had when it began are gone


@define
class BackfillClient:
    """A machine's backfill client, from its start until the last of its processes is gone. Instants in microseconds."""

    key: str  #: the position of the event that began it
    system: str  #: BOINC or EXEC
    client: Ad  #: how it is run
    slot: str  #: the slot for which it was started
    began: int  #: when it was started
    pid: int = 0  #: the number of its process (0: it is not known to run yet)
    told: int = 0  #: when it was last told to end (0: it was not)
    until: int = 0  #: when it is told so again


@define
class Machine:
    """A member of the pool. Instants in microseconds."""

    name: str
    ad: Ad  #: what all of its slots say
    joined: int  #: when it came to the pool
    settings: Ad = field(factory=dict)  #: its execution point's (`startd.settings`), in expanded text
    slots: dict[str, Slot] = field(factory=dict)  #: its slots, by their names
    drain: MachineDrain | None = None  #: its drain, while it drains
    drains: int = 0  #: how many drains it has had
    drain_start: str = ""  #: what START is while it drains, or was in its last drain, unless that became final
    drain_began: int = 0  #: when the last one began
    drain_ended: int = 0  #: when the last one that ended did
    badput: int = 0  #: what drains have cost, in core-seconds
    shutdown: str = ""  #: how it is being shut down (empty: it is not)
    benchmarks: tuple[int, int] = (0, 0)  #: the published averages of MIPS and KFLOPS
    benchmarked: int = 0  #: when benchmarks were run last
    backfill: BackfillClient | None = None  #: its backfill client, while that is not known to be gone
    backfill_failures: int = 0  #: how often in a row a client ended by itself soon after its start
    backfill_retry: int = 0  #: not before this instant is a client started again


@define
class Slot:
    """A slot of a machine. Instants in microseconds."""

    name: str
    machine: str  #: the machine's name
    kind: str  #: static, partitionable or dynamic
    parent: str  #: the slot that a dynamic one was carved from (empty: none)
    ad: SlotAd  #: its own ad, without what its claim, its machine and the time make of it
    state_activity: StateActivity  #: its state and activity, as Claimed/Busy
    entered_state: int  #: when it came to its state
    entered_activity: int  #: when it came to its activity
    claim: Claim | None = None  #: who holds it
    waiting: Claim | None = None  #: the better match that waits for the present claim to go
    activation: Starter | None = None  #: the job that runs on it
    destination: str = ""  #: the state to which it goes from Backfill when its client is gone (empty: Owner)
    destined: int = 0  #: since when
    vacated: int = 0
    """When the last job's processes on it, or on a dynamic slot that was carved from it, were gone (0: there were
    none)."""
    busy_since: int = 0  #: since when CpuBusy is true (0: it is not, or nobody asks)
    spent: dict[str, int] = field(factory=dict)
    """Microseconds that it was in each pair of state and activity, until it entered the present one."""
    drained: float = 0.0  #: core-microseconds that it stood in Drained, until `counted`
    counted: int = 0  #: until when `drained` is counted
    public: Ad = field(factory=dict)  #: what was published of its machine's sensors
    published: int = 0  #: when that was last
    version: int = 0
    """The position of the event that changed ``ad`` last: what was computed from it may be kept until this changes."""

    @property
    def cores(self) -> float:
        """Its Cpus; 1 where they are no number."""
        try:
            return float(self.ad.get("Cpus", "1"))
        except ValueError:
            return 1.0

    def drained_until(self, at: int) -> float:
        """Core-microseconds that it stood in Drained, until ``at``."""
        return self.drained + ((at - self.counted) * self.cores if self.state == "Drained" else 0.0)

    @property
    def user(self) -> str:
        """Whose job has it, as user@domain: not always who it counts for. Empty: nobody has it."""
        if self.claim is None:
            return ""
        return (self.activation.user if self.activation is not None else "") or self.claim.user or self.claim.submitter

    @property
    def match_state(self) -> str:
        """The state of its match, if it has one."""
        return match_state(self.state_activity, self.destination)

    @property
    def state(self) -> SlotState:
        return self.state_activity.partition("/")[0]  # type: ignore[return-value]

    @property
    def activity(self) -> Activity:
        return self.state_activity.partition("/")[2]  # type: ignore[return-value]


@define
class Submitter:
    """Who has jobs in the pool, as the accountant knows it (`negotiator.accounting`). Instants in microseconds."""

    name: str  #: as alice@example.org
    priority: float = 0.5  #: the real priority at the instant `updated`
    updated: int = 0  #: when the real priority was written down last
    factor: float = 0.0  #: the priority factor that it began with, or that was set since (0: see `appeared_under`)
    floor: float = 0.0  #: cores that it is to have before others get theirs (0: none)
    ceiling: float = -1.0  #: cores that it may have at most (-1: no limit)
    leases: dict[str, tuple[float, int]] = field(factory=dict)
    """What goes before factor, floor or ceiling: its value, and until when."""
    weighted_in_use: int = 0  #: what its claims weigh now, in thousandths
    slots: int = 0  #: how many slots it has now
    counted: int = 0  #: until when its use is counted in the two that follow
    weighted_usage: int = 0  #: what it has used, in microseconds times thousandths
    unweighted_usage: int = 0  #: for how long it has had slots, in microseconds of slots
    usage_accounted: int = 0  #: what `weighted_usage` was when the priority was updated
    ended_usage: int = 0  #: that of its ended claims, in microseconds times thousandths, whatever was set since
    ended: int = 0  #: how many claims have ended
    begin: int = 0  #: when it used something first
    last: int = 0  #: when it used something last
    appeared_under: dict[str, str] | None = None
    """The pool's settings when it appeared, if the log does not say which factor it began with, as older ones do not:
    these tell it (``accounting.factor``)."""

    def used(self, at: int) -> int:
        """What it has used until ``at``, in microseconds times thousandths."""
        return self.weighted_usage + (at - self.counted) * self.weighted_in_use

    def count(self, at: int) -> None:
        """Count what it has used until ``at``."""
        self.weighted_usage += (at - self.counted) * self.weighted_in_use
        self.unweighted_usage += (at - self.counted) * self.slots
        self.counted = at

    def account(self, priority: float, at: int) -> None:
        """Take the real priority as of this instant, for which all usage until then counts."""
        self.priority, self.updated, self.usage_accounted = priority, at, self.used(at)

    def take(self, weight: int, at: int) -> None:
        """It has a claim more."""
        self.count(at)
        self.weighted_in_use += weight
        self.slots += 1
        self.begin = self.begin or at

    def give_back(self, weight: int | None, usage: int, at: int) -> None:
        """A claim of its is over. ``weight`` None: one of which nothing is known."""
        self.count(at)
        self.ended_usage += usage
        self.ended += 1
        self.last = at
        if weight is not None:
            self.weighted_in_use -= weight
            self.slots -= 1


class JobAd(Protocol):
    """The ad of a job that runs on a slot, or that claims it, as the slot's startd reads it."""

    def attributes(self) -> Ad: ...
    def value(self, name: str) -> str:
        """Return the text of an attribute; empty: the ad has none of the name."""

    def version(self) -> tuple[object, int]:
        """Return another object, or another number, when the ad has changed."""


@frozen
class GivenAd:
    """An ad that the job's access point gave, and keeps up to date by its messages."""

    ad: Ad

    def attributes(self) -> Ad:
        return self.ad

    def value(self, name: str) -> str:
        """Return the text of an attribute, in any case of letters."""
        if name in self.ad:
            return self.ad[name]
        wanted = name.lower()
        return next((text for key, text in self.ad.items() if key.lower() == wanted), "")

    def version(self) -> tuple[object, int]:
        return self.ad, 0


@frozen
class QueuedAd:
    """An ad that the same log has with the queue: it is kept once."""

    cluster: Cluster
    proc: int

    def attributes(self) -> Ad:
        return self.cluster.attributes(self.proc)

    def value(self, name: str) -> str:
        return self.cluster.value(self.proc, name)

    def version(self) -> tuple[object, int]:
        return self.cluster.changes(self.proc), self.cluster.status[self.proc]


@define(slots=False)
class LogState:
    """What every role has of its log: where it ends, the settings in force, and the answers to requests."""

    change_logs: ClassVar[tuple[str, ...]] = ()  #: the fields that say what has changed
    position: int = 0  #: the position of the last event
    at: int = 0  #: its instant, in microseconds
    name: str = ""  #: the pool's name
    dialect: Dialect = MANUAL
    settings: dict[str, str] = field(factory=dict)  #: the pool's settings in force; another dict when they change
    founded: dict[str, str] = field(factory=dict)
    """The settings as they were when the log was begun: what no configuration sets goes back to these."""
    configured: int = 0  #: the position of the event that changed the settings last
    epoch: int = 0  #: the writer's number
    served_since: int = 0  #: when that writer began, in microseconds
    answers: dict[str, str] = field(factory=dict)  #: the answers to the latest requests, by the requests' ids
    answers_size: int = 0  #: how many characters these are
    agendas: Agendas = field(factory=Agendas, eq=False, repr=False)  #: what is due by itself, and when

    @property
    def uid_domain(self) -> str:
        """The domain of the pool's users."""
        return self.settings.get(UID_DOMAIN, "")

    @property
    def user_maps(self) -> UserMaps:
        """What ``userMap()`` looks names up in, by the settings in force."""
        return user_maps(self.settings)

    def setting(self, name: str) -> int:
        """A setting that is a number of seconds, in microseconds."""
        return round(float(self.settings[name]) * 1_000_000)

    def trim_changes(self) -> None:
        """Forget changes that are long past: readers that have not seen them look at everything."""
        for name in self.change_logs:
            log = getattr(self, name)
            if len(log) > ChangeLog.KEPT:
                log.trim()


@define(slots=False)
class Queue(LogState):
    """The jobs of an access point, as far as a negotiator reads them. Jobs are named by cluster and process."""

    change_logs: ClassVar[tuple[str, ...]] = ("job_changes", "rejection_changes")
    clusters: dict[int, Cluster] = field(factory=dict)  #: those with jobs in the queue
    idle: int = 0  #: how many jobs wait for a slot, those included that have been given one and not begun
    reserved: dict[tuple[int, int], str] = field(factory=dict)
    """The jobs that wait for a slot which they have been given: matched, or until the slot's present claim has gone."""
    claim_ready: dict[str, tuple[int, int]] = field(factory=dict)
    """Slots that came to their better match, and the job that it is for."""
    by_job: dict[tuple[int, int], Activation] = field(factory=dict)  #: the jobs that run
    cooling: dict[tuple[int, int], int] = field(factory=dict)
    """The jobs that are in a cool-down, each with its last second."""
    rejections: dict[int, dict[str, Unmatched]] = field(factory=dict)
    """The reasons that the negotiator gave for jobs that got nothing, by the cluster and the name of the first job of
    each kind; cleared by a match."""
    further_rejections: dict[str, dict[int, dict[str, Unmatched]]] = field(factory=dict)
    """The same of further negotiators, by their names."""
    job_news: int = 0  #: the position of the last event by which a job may be matched that could not before
    requested: int = 0  #: the position of the last event for which the access point asks for a cycle
    paused_until: int = 0  #: until when nothing is started, since the machine could not start a job, in microseconds
    pause: int = 0  #: how long that is (0: the last start succeeded)
    job_changes: ChangeLog[tuple[int, int]] = field(factory=ChangeLog, eq=False, repr=False)
    """The jobs, by cluster and process, that came, left, began or ceased to wait, or were edited; with the process -1
    any jobs of the cluster."""
    rejection_changes: ChangeLog[tuple[int, str]] = field(factory=ChangeLog, eq=False, repr=False)
    """The jobs of which the log has another reason than before why they got nothing, or none any more: by cluster and
    name."""


@define(slots=False)
class AccessPoint(Queue):
    """An access point: the queue, and the claims that it holds."""

    idle_local: int = 0  #: how many jobs of the local universe wait
    next_cluster: int = 1  #: the lowest cluster number that was never given out
    unused_cluster_ids: set[int] = field(factory=set)  #: numbers below it that were given out and not yet used
    matches: dict[str, dict[tuple[int, int], Matched]] = field(factory=dict)
    """Slots that were matched and not yet claimed, each with its jobs: several of a partitionable slot."""
    claims: dict[str, ClaimMade] = field(factory=dict)
    """The claims that the pool's own access point holds, by the slots."""
    queued: dict[str, tuple[int, int]] = field(factory=dict)
    """Slots of which a claim waits until the present one has gone, each with the job that it is for."""
    earmarks: dict[tuple[int, int], Earmark] = field(factory=dict)
    """The jobs that are to run at once in place of others, each with the claims that are kept for it."""
    activations: dict[str, Activation] = field(factory=dict)  #: by their keys
    ending: dict[str, str] = field(factory=dict)
    """The keys of the activations that were told to end; why, as a cause, if the job was to run until then."""
    factories: dict[int, None] = field(factory=dict)  #: the clusters whose factories have jobs to make
    deferred: dict[str, None] = field(factory=dict)
    """The keys of the activations whose processes wait for their time."""
    notifying: set[int] = field(factory=set)  #: the clusters with jobs whose users are to be told of them
    mails: dict[int, MailDue] = field(factory=dict)  #: those that are still to be sent, by their positions

    def note_cluster(self, cluster: Cluster) -> None:
        """A cluster has come, is about to go, or was edited."""
        self.note_idle(cluster, -1)
        self.job_changes.append((cluster.id, -1))

    def note_idle(self, cluster: Cluster, proc: int) -> None:
        """Count the jobs of a cluster that wait, behind every event that changes their status: all to one, so that with
        their number those that wait are the same. ``proc``: as in ``job_changes``."""
        idle, before = cluster.counts[IDLE], cluster.waiting
        if idle == before:
            return
        cluster.waiting = idle
        self.job_changes.append((cluster.id, proc))
        if cluster.local:
            self.idle_local += idle - before
        else:
            self.idle += idle - before

    def is_earmarked(self, slot: str) -> bool:
        """Whether the pool's own claim of a slot is kept for a job that is to run at once."""
        held = self.claims.get(slot)
        return held is not None and any(one.claims.get(slot) == held.claim for one in self.earmarks.values())

    def running(self, number: int, procs: Sequence[int]) -> list[int]:
        """Those of a cluster's processes, in their order, that have an activation. Of these and all activations those
        are looked through that are fewer."""
        if len(procs) <= len(self.by_job):
            return [proc for proc in procs if (number, proc) in self.by_job]
        runs = {proc for one, proc in self.by_job if one == number}
        return [proc for proc in procs if proc in runs] if runs else []

    def owner(self, cluster: Cluster) -> str:
        return unquoted(cluster.ad.get("Owner", "")) or cluster.submitter.partition("@")[0]


@define(slots=False)
class Slots(LogState):
    """Machines and their slots, with the claims that they grant: as their startd has them, and as it shows them to a
    negotiator."""

    change_logs: ClassVar[tuple[str, ...]] = ("slot_changes", "slot_ad_changes")
    machines: dict[str, Machine] = field(factory=dict)
    slots: dict[str, Slot] = field(factory=dict)  #: by their names, in the order of their births
    slot_matches: dict[str, dict[str, bool]] = field(factory=dict)
    """The slots that were matched and that are not yet claimed, each with its jobs, as 12.3, and whether it was by
    autoregroup."""
    slot_news: int = 0  #: the position of the last event by which a slot may have become better for a job
    taken_back: int = 0  #: when a startd last took a claim back because its START is false, in microseconds
    slot_changes: ChangeLog[str] = field(factory=ChangeLog, eq=False, repr=False)
    """The slots of which anything changed but that they were matched."""
    slot_ad_changes: ChangeLog[str] = field(factory=ChangeLog, eq=False, repr=False)
    """The slots whose own ad changed, or what their START is."""

    def machine_slots(self, slot: Slot) -> list[Slot]:
        """All slots of a slot's machine; it alone where the machine is not known."""
        machine = self.machines.get(slot.machine)
        return [slot] if machine is None else list(machine.slots.values())

    def job_ad(self, job: tuple[int, int], given: Ad) -> JobAd:
        """Return the ad of the job of a claim or an activation, by what that gave of it."""
        return GivenAd(given)

    def job_user(self, job: tuple[int, int], given: Ad) -> str:
        """Return whose the job of a claim or an activation is, as user@domain."""
        return unquoted(given.get("User", ""))

    def recorded(self, ad: Ad) -> Ad:
        """Return what events of claims and activations repeat of the ad of a job of the pool's own queue."""
        return ad


@define(slots=False)
class ExecutionPoint(Slots):
    """Execution points: their machines and slots, and the starters of the jobs that run there."""

    starters: dict[tuple[int, int], Starter] = field(factory=dict)
    """Those of the pool's own queue, by their jobs: ``Slot.activation`` has the same."""
    stopping: dict[tuple[int, int], None] = field(factory=dict)  #: the jobs of these that were told to end
    matched: dict[str, None] = field(factory=dict)  #: the slots that are in Matched
    preempting: dict[str, None] = field(factory=dict)  #: the slots that are in Preempting
    silent_claims: dict[str, None] = field(factory=dict)  #: the slots whose claim's holder is silent
    clients: dict[str, str] = field(factory=dict)  #: the machines with a backfill client, each with its key
    destined: dict[str, None] = field(factory=dict)  #: the slots that go to Matched when their client is gone


@define(slots=False)
class Manager(Slots, Queue):
    """The central manager: what roles published to it, which it only reads (slots, and the jobs that wait), and the
    accounting. By ``resources``, as HTCondor's accountant calls them, it knows what each claim counts for."""

    change_logs: ClassVar[tuple[str, ...]] = (
        *Slots.change_logs,
        *Queue.change_logs,
        "slots_matched",
        "submitter_changes",
    )
    has_further_accounts: bool = False  #: whether there are, or were, accounts of others than NEGOTIATOR
    submitters: dict[str, Submitter] = field(factory=dict)
    """By the names of their accounts (``names.AccountName``): of several negotiators, each has one for a submitter."""
    priorities_updated_at: int = 0  #: when the priorities were brought up to date last, in microseconds
    accounted: dict[str, int] = field(factory=dict)
    """The same of the accountings of further negotiators, by their names."""
    resources: dict[str, tuple[int, str]] = field(factory=dict)
    """Slots that are claimed: what each counts for, in thousandths, and what its claim holds of concurrency limits."""
    match_limits: dict[str, dict[str, str]] = field(factory=dict)
    """Slots that were matched and not yet claimed, each with its jobs, and what their matches hold of these limits."""
    queued_limits: dict[str, str] = field(factory=dict)
    """What claims that wait until a slot's present one has gone hold of them, if anything."""
    limits_in_use: Counter[str] = field(factory=Counter)
    """How many matches and claims hold the same of concurrency limits, by its text (``concurrency_limits.asked``)."""
    quotas: tuple[GroupQuota, ...] = ()  #: what the accounting groups may have, as a cycle has said last
    remainders: dict[str, int] = field(factory=dict)
    """The accounting groups that got whole slots out of fractions of quotas, each with the instant of the last time."""
    defrag: Defrag = field(factory=Defrag)  #: what its defragmentation did
    cycles: Cycles = field(factory=Cycles)  #: what decides when the next negotiation cycle is held
    slots_matched: ChangeLog[str] = field(factory=ChangeLog, eq=False, repr=False)
    """The slots that cycles matched."""
    submitter_changes: ChangeLog[str] = field(factory=ChangeLog, eq=False, repr=False)
    """The submitters whose record may have changed."""

    def hold_limits(self, limits: str, more: int) -> None:
        """So many matches or claims more hold this of concurrency limits."""
        if limits:
            self.limits_in_use[limits] += more
            if not self.limits_in_use[limits]:
                del self.limits_in_use[limits]

    def note_submitter(self, name: str) -> None:
        """The record of a submitter may change. Where many wait, each cycle changes all of theirs: nobody else trims as
        often."""
        self.submitter_changes.append(name)
        if len(self.submitter_changes) > ChangeLog.KEPT:
            self.submitter_changes.trim()

    def submitter(self, name: str, factor: float = 0.0) -> Submitter:
        """Return the record of a submitter, which is about to change, by the name of its account; make one with this
        priority factor if it has none yet."""
        self.note_submitter(name)
        known = self.submitters.get(name)
        if known is None:
            negotiator, who = AccountName.parse(name)
            self.has_further_accounts |= negotiator != ""
            known = self.submitters[name] = Submitter(who, updated=self.at, counted=self.at, factor=factor)
            if not factor:
                known.appeared_under = self.settings
        return known

    @property
    def usage(self) -> dict[str, int]:
        """Submitter -> microseconds of ended claims times the slots' weights in thousandths."""
        found: dict[str, int] = {}
        for one in self.submitters.values():
            if one.ended:
                found[one.name] = found.get(one.name, 0) + one.ended_usage
        return found


@define(slots=False)
class State(AccessPoint, ExecutionPoint, Manager):
    """A whole pool in one log: its roles together. Made empty; `evolve` brings it forward. Its log has the jobs' ads
    with the queue, so events of claims and activations do not repeat them."""

    def job_ad(self, job: tuple[int, int], given: Ad) -> JobAd:
        cluster = self.clusters.get(job[0])
        return GivenAd(given) if cluster is None else QueuedAd(cluster, job[1])

    def job_user(self, job: tuple[int, int], given: Ad) -> str:
        cluster = self.clusters.get(job[0])
        return unquoted(given.get("User", "") if cluster is None else cluster.requested_value(job[1], "User"))

    def recorded(self, ad: Ad) -> Ad:
        return {}


PROVIDED = ("Cpus", "Memory", "Disk", "GPUs")


def provides(slot: Slot, wanted: str = "") -> Ad:
    """What a job's ad is told of its slot when it begins there, with its JobMachineAttrs (``wanted``). Every slot has
    GPUs, if none."""
    weight = 0 if slot.claim is None else slot.claim.weight
    given = {name: slot.ad[name] for name in PROVIDED if name in slot.ad}
    if wanted:
        known = {name.lower(): text for name, text in slot.ad.items()}
        given |= {name: known[name.lower()] for name in machine_attributes(wanted) if name.lower() in known}
    return {"GPUs": "0", **given, "SlotWeight": str(weight // 1000) if weight % 1000 == 0 else repr(weight / 1000)}
