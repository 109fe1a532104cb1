"""The state of a pool at one position of its log: what deciding reads, and what folding an event (``evolve``) changes.

Nothing here decides and nothing here refuses. The state holds what the live pool needs and no more: a job that has
left the queue is gone from it (history is a view of the log), and jobs alike cost next to nothing (``cluster``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Protocol

from attrs import define, field, frozen

from ..events import Ad, ClaimMade, GroupQuota, MailDue, Unmatched
from ..names import AccountName
from ..state_machines import MANUAL, Dialect
from .agenda import Agendas
from .caches import ChangeLog
from .cluster import IDLE, Cluster
from .cycles import Cycles
from .defrag_state import Defrag
from .job_ad import unquoted
from .pool_settings import UID_DOMAIN
from .records import (
    Activation,
    Earmark,
    Machine,
    Matched,
    Slot,
    Starter,
    Submitter,
)
from .user_maps import UserMaps, user_maps


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
