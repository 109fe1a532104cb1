"""The state of a pool at one position of its log: what deciding reads, and what folding an event (``evolve``) changes.

Nothing here decides and nothing here refuses. The state holds what the live pool needs and no more: a job that has
left the queue is gone from it (history is a view of the log), and jobs alike cost next to nothing (``cluster``).
"""

from __future__ import annotations

from attrs import define, field

from ..events import Ad, Unmatched
from ..state_machines import MANUAL, Dialect
from .caches import ChangeLog
from .cluster import Cluster
from .job_ad import unquoted
from .settings import UID_DOMAIN
from .slot_attributes import SlotAd

RUNS = frozenset({"Running", "Suspended", "TransferringOutput"})
"""The statuses of a job that has processes and has not been told to end."""


@define
class Claim:
    """Who holds a slot, since when (microseconds), and what it counts for (thousandths). ``submitter`` is whom
    it counts for, ``user`` whose the job is that it was made for (empty: the same). ``rank`` is the slot's RANK of its
    job. ``holder`` is empty if the pool's own access point holds it, and ``job`` the one for which it waited, if it
    did; else ``job`` and ``ad`` are the job that the holder asked for. ``marks`` are those of ``events.CLAIM_FLAGS``,
    ``reason`` with its codes is why its job is to go, ``activations`` counts its jobs. ``lease`` is in seconds;
    ``until`` is when it ends, unless the holder is heard again (0: it is heard)."""

    id: str
    submitter: str
    weight: int
    since: int
    rank: float = 0.0
    holder: str = ""
    job: str = ""
    ad: Ad = field(factory=dict)
    lease: int = 0
    until: int = 0
    activations: int = 0
    marks: frozenset[str] = frozenset()
    reason: str = ""
    code: int = 0
    subcode: int = 0
    user: str = ""


@define
class Activation:
    """A job's processes on a slot, from the activation until the last of them is gone.

    ``stop`` is what they were told (empty, soft or hard), first at the instant ``stopped``; ``told`` is when they were
    told last and ``until`` when they are told again, harder (0: by the pool's settings). ``measured`` is when they were
    measured last. ``suspended`` is for how long the slot was in Suspended until ``since`` (0: it is not in Suspended
    now; else when it was suspended). ``vacate``: microseconds of MachineMaxVacateTime that it was promised. ``job`` and
    ``ad`` are those of a job that is not of this pool's queue (``cluster`` is 0 then)."""

    key: str
    cluster: int
    proc: int
    slot: str
    began: int
    executing: bool = False
    stop: str = ""
    stopped: int = 0
    told: int = 0
    until: int = 0
    measured: int = 0
    vacate: int = 0
    suspended: int = 0
    since: int = 0
    job: str = ""
    ad: Ad = field(factory=dict)

    def ran(self, now: int) -> int:
        """For how long it has run, in microseconds, without the time in which it was suspended."""
        return now - self.began - self.suspended - (now - self.since if self.since else 0)


@define
class Drain:
    """A machine's drain: see ``DrainBegan``. ``state`` is one of the drains' table; ``final``: all jobs that the
    machine had when it began are gone."""

    number: int
    schedule: str
    state: str
    began: int
    reason: str = ""
    completion: str = ""
    start: str = ""
    final: bool = False


@define
class Machine:
    """A member of the pool. ``settings`` are its execution point's (``policy.settings``), in expanded text, ``slots``
    its slots. ``drain`` is there while it drains; ``drains`` counts them; ``drain_began`` and ``drain_ended`` are the
    last one's instants; ``badput`` is what drains have cost, in core-seconds. ``shutdown`` is how it is being shut down
    (empty: it is not). ``benchmarks`` are the published averages of MIPS and KFLOPS, ``benchmarked`` when they were run
    last."""

    name: str
    ad: Ad
    joined: int
    settings: Ad = field(factory=dict)
    slots: dict[str, Slot] = field(factory=dict)
    drain: Drain | None = None
    drains: int = 0
    drain_began: int = 0
    drain_ended: int = 0
    badput: int = 0
    shutdown: str = ""
    benchmarks: tuple[int, int] = (0, 0)
    benchmarked: int = 0


@define
class Slot:
    name: str
    machine: str
    kind: str
    parent: str
    ad: SlotAd
    state_activity: str
    entered_state: int
    entered_activity: int
    claim: Claim | None = None
    waiting: Claim | None = None
    """The better match that waits for the present claim to go."""
    activation: Activation | None = None
    busy_since: int = 0
    """Since when CpuBusy is true; 0: it is not, or nobody asks."""
    spent: dict[str, int] = field(factory=dict)
    """Microseconds that it was in each pair of state and activity, until it entered the present one."""
    drained: float = 0.0
    """Core-microseconds that it stood in Drained, until the instant ``counted``."""
    counted: int = 0
    public: Ad = field(factory=dict)
    """What was published of its machine's sensors, at the instant ``published`` last."""
    published: int = 0
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
    def state(self) -> str:
        return self.state_activity.partition("/")[0]

    @property
    def activity(self) -> str:
        return self.state_activity.partition("/")[2]


@define
class Submitter:
    """Who has jobs in the pool, as the accountant knows it (``domain/negotiator/accounting``).

    ``priority`` is the real priority at the instant ``updated``. ``factor`` is what the
    settings said when it was new, or what an administrator set since, as ``floor`` and ``ceiling`` are (0: no floor;
    -1: no ceiling); ``leases`` go before them until an instant.
    ``using`` is what its claims weigh now, in thousandths, ``slots`` how many they are. Until the instant ``counted``
    it has used ``weighted`` (microseconds times thousandths) and ``plain`` (microseconds of slots); when ``priority``
    was updated, ``weighted`` was ``drawn``. ``usage`` is that of its ``ended`` claims, whatever was set since."""

    name: str
    priority: float = 0.5
    updated: int = 0
    factor: float = 0.0
    floor: float = 0.0
    ceiling: float = -1.0
    leases: dict[str, tuple[float, int]] = field(factory=dict)
    using: int = 0
    slots: int = 0
    counted: int = 0
    weighted: int = 0
    plain: int = 0
    drawn: int = 0
    usage: int = 0
    ended: int = 0
    begin: int = 0
    last: int = 0
    appeared_under: dict[str, str] | None = None
    """The pool's settings when it appeared, if the log does not say which factor it began with, as older ones do not:
    these tell it (``accounting.factor``)."""

    def used(self, at: int) -> int:
        """What it has used until ``at``, in microseconds times thousandths."""
        return self.weighted + (at - self.counted) * self.using

    def count(self, at: int) -> None:
        """Count what it has used until ``at``."""
        self.weighted += (at - self.counted) * self.using
        self.plain += (at - self.counted) * self.slots
        self.counted = at

    def take(self, weight: int, at: int) -> None:
        """It has a claim more."""
        self.count(at)
        self.using += weight
        self.slots += 1
        self.begin = self.begin or at

    def give_back(self, weight: int | None, usage: int, at: int) -> None:
        """A claim of its is over. ``weight`` None: one of which nothing is known."""
        self.count(at)
        self.usage += usage
        self.ended += 1
        self.last = at
        if weight is not None:
            self.using -= weight
            self.slots -= 1


@define
class State:
    """A whole pool. Made empty; `evolve` brings it forward."""

    position: int = 0
    at: int = 0
    name: str = ""
    dialect: Dialect = MANUAL
    settings: dict[str, str] = field(factory=dict)
    founded: dict[str, str] = field(factory=dict)
    """The settings as they were when the log was begun: what no configuration sets goes back to these."""
    epoch: int = 0
    machines: dict[str, Machine] = field(factory=dict)
    slots: dict[str, Slot] = field(factory=dict)
    clusters: dict[int, Cluster] = field(factory=dict)
    queued: int = 0
    """Changes whenever a cluster comes, goes or has an attribute edited."""
    next_cluster: int = 1
    skipped: set[int] = field(factory=set)
    """Cluster numbers below the next that were given out and not yet used."""
    submitters: dict[str, Submitter] = field(factory=dict)
    accounted: int = 0
    """When the priorities were brought up to date last."""
    configured: int = 0
    """The position of the event that changed the pool's settings last."""
    matches: dict[str, tuple[int, int]] = field(factory=dict)
    """Slots that were matched and not yet claimed, each with its job."""
    promised: dict[tuple[int, int], str] = field(factory=dict)
    """The jobs that wait for a slot which they have been given: matched, or until the slot's present claim has gone."""
    ready: dict[str, tuple[int, int]] = field(factory=dict)
    """Slots that came to their better match, and the job that it is for."""
    matched: dict[str, None] = field(factory=dict)
    """The slots that are in Matched."""
    preempting: dict[str, None] = field(factory=dict)
    """The slots that are in Preempting."""
    unheard: dict[str, None] = field(factory=dict)
    """The slots whose claim's holder is silent."""
    ending: dict[str, None] = field(factory=dict)
    """The activations that were told to end."""
    activations: dict[str, Activation] = field(factory=dict)
    by_job: dict[tuple[int, int], Activation] = field(factory=dict)
    answers: dict[str, str] = field(factory=dict)
    """The answers to the latest requests, by the requests' ids."""
    answers_size: int = 0
    slot_changes: ChangeLog = field(factory=ChangeLog, eq=False, repr=False)
    """The slots of which anything changed but that they were matched."""
    slot_ad_changes: ChangeLog = field(factory=ChangeLog, eq=False, repr=False)
    """The slots whose own ad changed, or what their expressions are."""
    slots_matched: ChangeLog = field(factory=ChangeLog, eq=False, repr=False)
    """The slots that cycles matched."""
    refusals: dict[str, Unmatched] = field(factory=dict)
    """The reasons that the log has for jobs that got nothing, by the first job of each kind; cleared by a match."""

    @property
    def uid_domain(self) -> str:
        """The domain of the pool's users."""
        return self.settings.get(UID_DOMAIN, "")

    def setting(self, name: str) -> int:
        """A setting that is a number of seconds, in microseconds."""
        return round(float(self.settings[name]) * 1_000_000)

    def submitter(self, name: str, factor: float = 0.0) -> Submitter:
        """Return the record of a submitter; make one with this priority factor if it has none yet."""
        known = self.submitters.get(name)
        if known is None:
            known = self.submitters[name] = Submitter(name, updated=self.at, counted=self.at, factor=factor)
            if not factor:
                known.appeared_under = self.settings
        return known

    @property
    def usage(self) -> dict[str, int]:
        """Submitter -> microseconds of ended claims times the slots' weights in thousandths."""
        return {name: one.usage for name, one in self.submitters.items() if one.ended}

    def user(self, slot: Slot) -> str:
        """Whose job has a slot, as user@domain: not always who it counts for. Empty: nobody has it."""
        claim, activation = slot.claim, slot.activation
        if claim is None:
            return ""
        text = "" if activation is None else activation.ad.get("User", "")
        if activation is not None and activation.cluster in self.clusters:
            text = self.clusters[activation.cluster].value(activation.proc, "User")
        return unquoted(text) or claim.user or claim.submitter

    def owner(self, cluster: Cluster) -> str:
        return unquoted(cluster.ad.get("Owner", "")) or cluster.submitter.partition("@")[0]
