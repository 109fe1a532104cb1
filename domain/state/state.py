"""The state of a pool at a log position. Decisions read it; folding an event (``evolve``) changes it.

The state contains only what a running pool needs. Jobs that left the queue are not in the state, because the history is
a view of the log, and equal jobs share their data (``cluster``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, Final, TypeGuard, TypeVar

from msgspec import Struct

from ..events import Ad, ClaimMade, ClaimRequested, GroupQuota, MailDue, Unmatched
from ..names import AccountName
from ..state_machines import MANUAL, Dialect
from .agenda import Agendas
from .caches import ChangeLog
from .cluster import IDLE, Cluster
from .cycles import Cycles
from .defrag_state import Defrag
from .had_state import Had
from .job_ad import unquoted
from .offline_ads import OfflineAd
from .peers import ACCESS_POINT, EXECUTION_POINT, MANAGER, ROLES, Peers
from .pool_settings import UID_DOMAIN
from .records import Activation, Machine, PendingMatch, Reservation, Slot, Starter, Submitter
from .user_maps import UserMaps, user_maps


class SentAd(Struct, frozen=True):
    """A job's ad that its access point sent to the startd, and that later messages update."""

    ad: Ad

    def attributes(self) -> Ad:
        return self.ad

    def value(self, name: str) -> str:
        """Return the text of an attribute, whose name may be in any case, or an empty string if the ad lacks it."""
        if name in self.ad:
            return self.ad[name]
        key = name.lower()
        return next((text for other, text in self.ad.items() if other.lower() == key), "")

    def version(self) -> tuple[object, int]:
        """Return an object and a number, at least one of which changes when the ad changes."""
        return self.ad, 0


class QueuedAd(Struct, frozen=True):
    """A job's ad in the queue, if the log of the startd contains the queue."""

    cluster: Cluster
    proc: int

    def attributes(self) -> Ad:
        return self.cluster.attributes(self.proc)

    def value(self, name: str) -> str:
        return self.cluster.value(self.proc, name)

    def version(self) -> tuple[object, int]:
        return self.cluster.changes(self.proc), self.cluster.status[self.proc]


JobAd = SentAd | QueuedAd
"""The ad of the job of a slot's claim or activation, as the slot's startd reads it."""


@dataclass(init=False, repr=False, match_args=False)
class LogState:
    """The state that every role has: the log's end, the settings in force, and the answers to requests."""

    change_logs: ClassVar[tuple[str, ...]] = ()  #: the fields that are change logs
    position: int = 0  #: the position of the last event
    at: int = 0  #: the time of that event, in microseconds
    name: str = ""  #: the pool's name
    dialect: Dialect = MANUAL
    roles: frozenset[str] = frozenset(ROLES)
    """The roles that act in this log. The log of a role that runs separately also contains events of other roles."""
    peers: Peers = field(default_factory=Peers)  #: the logs of the roles elsewhere
    settings: dict[str, str] = field(
        default_factory=dict
    )  #: the settings in force; replaced by a new dict on each change
    founding_settings: dict[str, str] = field(default_factory=dict)
    """The settings when the log was created, to which settings that are no longer configured return."""
    configured: int = 0  #: the position of the last event that changed the settings
    epoch: int = 0  #: the writer's number
    served_since: int = 0  #: when that writer began, in microseconds
    answers: dict[str, str] = field(default_factory=dict)  #: the answers to the latest requests, by request id
    answers_size: int = 0  #: their length in characters
    agendas: Agendas = field(default_factory=Agendas, compare=False)  #: the timed actions that are due

    def __init__(self, **values: Any) -> None:
        """Set the given fields, and the others to their defaults. Generated methods would take 5 ms to compile."""
        for each in fields(self):
            make_default = each.default_factory
            default = each.default if make_default is MISSING else make_default()
            setattr(self, each.name, values.pop(each.name, default))
        if values:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(values)}")

    @property
    def uid_domain(self) -> str:
        """The domain of the pool's users."""
        return self.settings.get(UID_DOMAIN, "")

    @property
    def user_maps(self) -> UserMaps:
        """The maps for ``userMap()`` in the settings in force."""
        return user_maps(self.settings)

    def setting(self, name: str) -> int:
        """Return a setting that is a number of seconds, in microseconds."""
        return round(float(self.settings[name]) * 1_000_000)

    def trim_changes(self) -> None:
        """Drop old changes. Readers that have not read these must examine all objects."""
        for name in self.change_logs:
            log = getattr(self, name)
            if len(log) > ChangeLog.MAX_LENGTH:
                log.trim()


@dataclass(init=False, repr=False, match_args=False)
class Queue(LogState):
    """The part of an access point's queue that a negotiator reads. Jobs are given as cluster and process numbers."""

    change_logs: ClassVar[tuple[str, ...]] = ("job_changes", "rejection_changes")
    clusters: dict[int, Cluster] = field(default_factory=dict)  #: the clusters with jobs in the queue
    idle: int = 0  #: the number of idle jobs, including those in `assigned_slots`
    assigned_slots: dict[tuple[int, int], str] = field(default_factory=dict)
    """The idle jobs that have a slot: they are matched, or wait for the slot's current claim to end."""
    ready_claims: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The slots whose queued claim can now be used, each with the job that it is for."""
    by_job: dict[tuple[int, int], Activation] = field(default_factory=dict)  #: the activations of running jobs
    cool_downs: dict[tuple[int, int], int] = field(default_factory=dict)
    """The jobs that are cooling down, each with the last second of its cool-down."""
    rejections: dict[int, dict[str, Unmatched]] = field(default_factory=dict)
    """Why the negotiator rejected jobs, by cluster and by the first job of an autocluster, until a job is matched."""
    further_rejections: dict[str, dict[int, dict[str, Unmatched]]] = field(default_factory=dict)
    """The rejections of further negotiators, by their names."""
    job_change_position: int = 0  #: the position of the last event that may make a job match
    cycle_requested: int = 0  #: the position of the last event for which the access point requests a cycle
    paused_until: int = 0  #: no job starts until this instant, because the machine failed to start one, in microseconds
    pause: int = 0  #: the length of that pause (0: the last start succeeded)
    job_changes: ChangeLog[tuple[int, int]] = field(default_factory=ChangeLog, compare=False)
    """The jobs that entered or left the queue, became idle, stopped being idle, or were edited; process -1: any jobs of
    the cluster."""
    rejection_changes: ChangeLog[tuple[int, str]] = field(default_factory=ChangeLog, compare=False)
    """The jobs whose entry in `rejections` changed, by cluster and name."""


@dataclass(init=False, repr=False, match_args=False)
class AccessPoint(Queue):
    """An access point: the queue, and the claims that it holds."""

    idle_local: int = 0  #: the number of idle jobs of the local universe
    next_cluster: int = 1  #: the lowest cluster number that was never allocated
    unused_cluster_ids: set[int] = field(default_factory=set)  #: lower numbers that were allocated but not used yet
    matches: dict[str, dict[tuple[int, int], PendingMatch]] = field(default_factory=dict)
    """The slots that are matched but not claimed yet, each with its jobs; a partitionable slot may have several."""
    claims: dict[str, ClaimMade] = field(default_factory=dict)
    """The claims that the pool's own access point holds, by slot."""
    queued_claims: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The slots with a pending preempting claim, each with the job that the claim is for."""
    next_start: int = 0  #: when the next job may start on a slot, in microseconds
    start_limit: str = ""  #: what delays it until then: NextJobStartDelay of the last job, or JOB_START_DELAY
    burst: int = 0  #: the number of jobs that have started in the present burst of JOB_START_COUNT
    cron_attributes: dict[str, str] = field(default_factory=dict)  #: what the programs of SCHEDD_CRON printed last
    kept_claims: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The slots whose claims are kept for a new job after the last one (keep_claim_idle), each with the end of this
    time, in microseconds, and the last job's cluster."""
    reservations: dict[tuple[int, int], Reservation] = field(default_factory=dict)
    """The condor_now jobs, each with the claims reserved for it."""
    activations: dict[str, Activation] = field(default_factory=dict)  #: by key
    ending: dict[str, str] = field(default_factory=dict)
    """The keys of signalled activations, each with the cause (empty if the job was no longer running then)."""
    factories: dict[int, None] = field(default_factory=dict)  #: the clusters whose factories have jobs to materialize
    deferred: dict[str, None] = field(default_factory=dict)
    """The keys of the activations whose processes have not reached their deferral time yet."""
    notifying: set[int] = field(default_factory=set)  #: the clusters with jobs whose users receive mail about them
    job_sets: dict[tuple[str, str], dict[int, str]] = field(default_factory=dict)
    """The clusters in the queue of each job set, by owner and lower-case name, each with its JobSetId."""
    noop: set[int] = field(default_factory=set)  #: the clusters whose jobs may complete without running (noop_job)
    mails: dict[int, MailDue] = field(default_factory=dict)  #: the mails that still have to be sent, by position
    claim_requests: dict[str, ClaimRequested] = field(default_factory=dict)
    """The requests for slots of execution points with separate logs that are not answered yet, by the claim's id."""
    disconnected: dict[str, int] = field(default_factory=dict)
    """The keys of the activations whose execution point is silent, each with the end of its lease."""

    def record_cluster_change(self, cluster: Cluster) -> None:
        """Record that a cluster was submitted or edited, or is about to leave."""
        self.update_idle_count(cluster, -1)
        self.job_changes.append((cluster.id, -1))

    def update_idle_count(self, cluster: Cluster, proc: int) -> None:
        """Update the number of idle jobs after statuses in a cluster may have changed. ``proc``: as in
        ``job_changes``."""
        idle, before = cluster.status_counts[IDLE], cluster.counted_idle
        if idle == before:
            return
        cluster.counted_idle = idle
        self.job_changes.append((cluster.id, proc))
        if cluster.is_local:
            self.idle_local += idle - before
        else:
            self.idle += idle - before

    def is_reserved(self, slot: str) -> bool:
        """Return True if the pool's own claim on a slot is reserved for a condor_now job."""
        claim = self.claims.get(slot)
        return claim is not None and any(each.claims.get(slot) == claim.claim for each in self.reservations.values())

    def runs_elsewhere(self, run: Activation) -> bool:
        """Return True if an execution point with a separate log runs the job."""
        return EXECUTION_POINT not in self.roles and not self.clusters[run.cluster].is_local

    def running_procs(self, cluster_id: int, procs: Sequence[int]) -> list[int]:
        """Return those processes of a cluster that have an activation. Its cost is the smaller of the two numbers."""
        if len(procs) <= len(self.by_job):
            return [proc for proc in procs if (cluster_id, proc) in self.by_job]
        running = {proc for cluster, proc in self.by_job if cluster == cluster_id}
        return [proc for proc in procs if proc in running] if running else []

    def owner(self, cluster: Cluster) -> str:
        return unquoted(cluster.ad.get("Owner", "")) or cluster.submitter.partition("@")[0]


@dataclass(init=False, repr=False, match_args=False)
class Slots(LogState):
    """Machines, their slots and claims, as the startd knows them and shows them to a negotiator."""

    change_logs: ClassVar[tuple[str, ...]] = ("slot_changes", "slot_ad_changes")
    machines: dict[str, Machine] = field(default_factory=dict)
    slots: dict[str, Slot] = field(default_factory=dict)  #: by name, in order of creation
    slot_matches: dict[str, dict[str, bool]] = field(default_factory=dict)
    """The slots with matches that are not claimed yet, each with its jobs (12.3), and True for matches by
    autoregroup."""
    slot_change_position: int = 0  #: the position of the last event that may have made a slot match, or match better
    claims_revoked: int = 0  #: when a startd last ended a claim because its START was false, in microseconds
    slot_changes: ChangeLog[str] = field(default_factory=ChangeLog, compare=False)
    """The slots that changed, except for being matched."""
    slot_ad_changes: ChangeLog[str] = field(default_factory=ChangeLog, compare=False)
    """The slots whose own ad or START changed."""
    offline: dict[str, OfflineAd] = field(default_factory=dict)  #: the ads of offline machines, by slot

    def machine_slots(self, slot: Slot) -> list[Slot]:
        """Return all slots of a slot's machine; only this one if the machine is unknown."""
        machine = self.machines.get(slot.machine)
        return [slot] if machine is None else list(machine.slots.values())

    def job_ad(self, job: tuple[int, int], sent_ad: Ad) -> JobAd:
        """Return the ad of the job of a claim or activation, which was received with `sent_ad`."""
        return SentAd(sent_ad)

    def job_user(self, job: tuple[int, int], sent_ad: Ad) -> str:
        """Return the user of the job of a claim or an activation, as user@domain."""
        return unquoted(sent_ad.get("User", ""))

    def ad_to_record(self, ad: Ad) -> Ad:
        """Return the part of a queued job's ad that events about claims and activations must repeat."""
        return ad


@dataclass(init=False, repr=False, match_args=False)
class ExecutionPoint(Slots):
    """Execution points: machines, slots, and the starters of the jobs that run there."""

    starters: dict[tuple[int, int], Starter] = field(default_factory=dict)
    """The starters of jobs in the pool's own queue, by job: the same objects as ``Slot.activation``."""
    stopping: dict[tuple[int, int], None] = field(default_factory=dict)  #: the jobs in `starters` that were signalled
    remote_runs: dict[str, str] = field(default_factory=dict)
    """The starters that run a job of an external access point, by key, each with its slot."""
    matched: dict[str, None] = field(default_factory=dict)  #: the slots in Matched
    preempting: dict[str, None] = field(default_factory=dict)  #: the slots in Preempting
    silent_claims: dict[str, None] = field(default_factory=dict)  #: the slots whose claim's holder is silent
    backfill_clients: dict[str, str] = field(
        default_factory=dict
    )  #: the machines with a backfill client, each with its key
    matched_in_backfill: dict[str, None] = field(
        default_factory=dict
    )  #: the slots that will enter Matched when their client has ended


@dataclass(init=False, repr=False, match_args=False)
class Manager(Slots, Queue):
    """The central manager: the slots and idle jobs that other roles published to it, and the accounting. ``resources``
    (the name in HTCondor's accountant) contains the weight of each claim."""

    change_logs: ClassVar[tuple[str, ...]] = (
        *Slots.change_logs,
        *Queue.change_logs,
        "slots_matched",
        "submitter_changes",
    )
    has_further_accounts: bool = False  #: whether negotiators other than NEGOTIATOR have, or had, accounts
    submitters: dict[str, Submitter] = field(default_factory=dict)
    """By account name (``names.AccountName``): each of several negotiators has its own account for a submitter."""
    priorities_updated_at: int = 0  #: when the priorities were last updated, in microseconds
    accounted: dict[str, int] = field(default_factory=dict)
    """When the priorities of other negotiators were last updated, by negotiator name."""
    resources: dict[str, tuple[int, str]] = field(default_factory=dict)
    """The claimed slots, each with its weight, in thousandths, and the concurrency limits that its claim uses."""
    match_limits: dict[str, dict[str, str]] = field(default_factory=dict)
    """The slots that are matched but not claimed yet, each with its jobs and the limits used by the matches."""
    queued_limits: dict[str, str] = field(default_factory=dict)
    """The limits used by claims that wait for a slot's current claim to end, by slot."""
    limits_in_use: Counter[str] = field(default_factory=Counter)
    """How many matches and claims use the same limits, by text (``concurrency_limits.requested_amounts``)."""
    quotas: tuple[GroupQuota, ...] = ()  #: the quotas of the accounting groups in the last cycle
    remainders: dict[str, int] = field(default_factory=dict)
    """The accounting groups that received slots from the fractions of quotas, each with the last time."""
    defrag: Defrag = field(default_factory=Defrag)  #: the state of defragmentation
    cycles: Cycles = field(default_factory=Cycles)  #: the negotiation cycles
    had: Had = field(default_factory=Had)  #: the other managers of the pool, and which one is active
    slots_matched: ChangeLog[str] = field(default_factory=ChangeLog, compare=False)
    """The slots that cycles matched."""
    submitter_changes: ChangeLog[str] = field(default_factory=ChangeLog, compare=False)
    """The submitters whose accounts may have changed."""

    def count_limits(self, limits: str, change: int) -> None:
        """Change the number of matches and claims that use these concurrency limits."""
        if limits:
            self.limits_in_use[limits] += change
            if not self.limits_in_use[limits]:
                del self.limits_in_use[limits]

    def record_submitter_change(self, name: str) -> None:
        """Record that a submitter's account may change. Each cycle changes the accounts of all submitters with idle
        jobs, so the change log is trimmed here."""
        self.submitter_changes.append(name)
        if len(self.submitter_changes) > ChangeLog.MAX_LENGTH:
            self.submitter_changes.trim()

    def submitter(self, name: str, factor: float = 0.0) -> Submitter:
        """Return the account with this name, to change it. Create it with this priority factor if necessary."""
        self.record_submitter_change(name)
        account = self.submitters.get(name)
        if account is None:
            negotiator, submitter = AccountName.parse(name)
            self.has_further_accounts |= negotiator != ""
            account = Submitter(submitter, updated=self.at, counted_until=self.at, factor=factor)
            self.submitters[name] = account
            if not factor:
                account.appeared_under = self.settings
        return account

    @property
    def usage(self) -> dict[str, int]:
        """Submitter -> microseconds of ended claims times the slots' weights in thousandths."""
        usage: dict[str, int] = {}
        for account in self.submitters.values():
            if account.ended_claims:
                usage[account.name] = usage.get(account.name, 0) + account.ended_usage
        return usage


Role = TypeVar("Role", bound=LogState)
_NAMES: Final[dict[type[LogState], str]] = {
    AccessPoint: ACCESS_POINT, ExecutionPoint: EXECUTION_POINT, Manager: MANAGER,
}  # fmt: skip


def acts_as(state: LogState, role: type[Role]) -> TypeGuard[Role]:
    """Return True if a role acts in the state's log: it takes its timed actions there, and decides its messages."""
    return isinstance(state, role) and _NAMES[role] in state.roles


_NO_AD: Final[Ad] = {}  #: shared by all claims and activations of a pool with one log


@dataclass(init=False, repr=False, match_args=False)
class State(AccessPoint, ExecutionPoint, Manager):
    """A pool with all roles in one log. `evolve` folds events into it. The log contains the queue with the jobs' ads,
    so events about claims and activations do not repeat the ads.

    >>> sorted(pool.state.machines), pool.state.idle
    (['node1'], 2)
    """

    @property
    def running_keys(self) -> list[str]:
        """The keys of all runs of jobs, including runs of external access points on this pool's slots."""
        return [run.key for run in self.runs_here] + [*self.remote_runs]

    @property
    def runs_here(self) -> list[Activation]:
        """The runs of jobs in the queue whose processes this pool starts. An access point with a separate log starts
        only the jobs that need no slot."""
        return [run for run in self.activations.values() if not self.runs_elsewhere(run)]

    def job_ad(self, job: tuple[int, int], sent_ad: Ad) -> JobAd:
        cluster = self.clusters.get(job[0])
        return SentAd(sent_ad) if cluster is None else QueuedAd(cluster, job[1])

    def job_user(self, job: tuple[int, int], sent_ad: Ad) -> str:
        cluster = self.clusters.get(job[0])
        return unquoted(sent_ad.get("User", "") if cluster is None else cluster.requested_value(job[1], "User"))

    def ad_to_record(self, ad: Ad) -> Ad:
        return _NO_AD
