"""The state of a pool at one position of its log: what deciding reads, and what folding an event (``evolve``) changes.

Nothing here decides and nothing here refuses. The state holds what the live pool needs and no more: a job that has
ended is gone from it (history is a view of the log), and a job costs memory of its own only where it differs from its
cluster: one byte for its status, four for the number of its *cohort*, the set of changes that it shares with all jobs
that went the same way.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import Any

from attrs import define, field

from .accounting.priorities import Terms, initial, terms
from .events import Ad, Event, Procs, Unmatched
from .job_ad import STATUS_NAMES, STATUS_NUMBERS, Changes, fold_job, unquoted
from .settings import UID_DOMAIN
from .slot_ad import SlotAd
from .variants import Variants

IDLE = STATUS_NUMBERS["Idle"]
RUNS = frozenset({"Running", "Suspended", "TransferringOutput"})
"""The statuses of a job that has processes and has not been told to end."""
LOCAL_UNIVERSE = "12"
_GONE = 0
_STATUSES = max(STATUS_NUMBERS.values()) + 1
_UNFOLDED_MOST = 16
"""Events of one job that are kept unfolded, at most."""
_STATUS_BYTES = {name: bytes([number]) for name, number in STATUS_NUMBERS.items()}


@define
class Claim:
    """Who holds a slot, since when (microseconds), and what it counts for (thousandths). ``submitter`` is whom
    it counts for, ``user`` whose the job is that it was made for (empty: the same). ``rank`` is the slot's RANK of its
    job. ``holder`` is empty if the pool's own access point holds it, and ``job`` the one for which it waited, if it
    did; else ``job`` and ``ad`` are the job that the holder asked for. ``marks`` are those of ``events.MARKS``,
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
    pair: str
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
        return self.pair.partition("/")[0]

    @property
    def activity(self) -> str:
        return self.pair.partition("/")[2]


@define
class Submitter:
    """Who has jobs in the pool, as the accountant knows it (``domain/accounting``).

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


class Cluster:
    """The jobs of one submission that have not ended."""

    __slots__ = (
        "_first",
        "_free",
        "_unfolded",
        "ad",
        "cohorts",
        "count",
        "counts",
        "edited",
        "edits",
        "id",
        "live",
        "members",
        "of",
        "status",
        "submitter",
        "variants",
    )  # fmt: skip

    def __init__(self, id: int, submitter: str, ad: Ad, count: int, variants: Variants, status: str) -> None:
        self.id, self.submitter, self.ad, self.count, self.variants = id, submitter, ad, count, variants
        self.status = bytearray(_STATUS_BYTES[status] * count)
        self.of = array("I", bytes(4 * count))
        self.cohorts: list[Changes | None] = [{}]
        self.members = [count]
        self.live = count
        self.counts = [0] * _STATUSES
        self.counts[STATUS_NUMBERS[status]] = count
        self._first = 0
        self._unfolded: dict[int, list[Event]] = {}
        self._free: list[int] = []
        self.edited: set[str] = set()
        """The attributes, in small letters, that were edited for some of the jobs since the submission."""
        self.edits = 0
        """How often jobs were edited."""

    @property
    def local(self) -> bool:
        """Whether its jobs are of the local universe: run by the access point itself, without a slot."""
        return self.ad.get("JobUniverse") == LOCAL_UNIVERSE

    def __contains__(self, proc: object) -> bool:
        return isinstance(proc, int) and 0 <= proc < self.count and self.status[proc] != _GONE

    def status_of(self, proc: int) -> str:
        return STATUS_NAMES[self.status[proc]]

    def changes(self, proc: int) -> Changes:
        """What has happened to the job's ad since its submission. Not to be changed."""
        return self._folded(self.of[proc])

    def _folded(self, cohort: int) -> Changes:
        """A cohort's changes. Events of single jobs are folded when somebody asks: most jobs end before that."""
        events = self._unfolded.pop(cohort, None)
        changes = self.cohorts[cohort] or {}
        if events:
            changes = dict(changes)
            for event in events:
                fold_job(changes, self.ad, event)
            self.cohorts[cohort] = changes
        return changes

    def value(self, proc: int, name: str, default: str = "") -> str:
        """The text of one attribute of the job's ad."""
        changes = self.changes(proc)
        if name in changes:
            return changes[name] or default
        if name in self.variants.names:
            return self.variants.of(proc)[name]
        return self.ad.get(name, default)

    def attributes(self, proc: int) -> Ad:
        """The whole ad of one job."""
        whole = {**self.ad, **self.variants.of(proc), **self.changes(proc)}
        whole["ClusterId"], whole["ProcId"] = str(self.id), str(proc)
        whole["JobStatus"] = str(self.status[proc])
        return {name: text for name, text in whole.items() if text}

    def next_idle(self, after: int = -1) -> int:
        """The first process behind `after` that waits, or -1."""
        found = self.status.find(IDLE, max(after + 1, self._first))
        if after < self._first:
            self._first = found if found >= 0 else self.count
        return found

    def procs(self, keep: Callable[[int], bool] = bool) -> Iterator[int]:
        """The processes whose status number `keep` accepts; all that are left, unless told otherwise."""
        return (proc for proc, status in enumerate(self.status) if status and keep(status))

    # Folding

    def _set_status(self, proc: int, number: int) -> None:
        before = self.status[proc]
        if before == number:
            return
        self.counts[before] -= 1
        self.counts[number] += 1
        self.status[proc] = number
        if number == IDLE and proc < self._first:
            self._first = proc

    def edit(self, proc: int, event: Event, status: str | None) -> None:
        """Take note of an event about one job; `status` is its status afterwards, None: as before."""
        cohort = self.of[proc]
        unfolded = self._unfolded
        if self.members[cohort] == 1 and cohort:
            events = unfolded.get(cohort)
            if events is None:
                unfolded[cohort] = [event]
            else:
                events.append(event)
                if len(events) > _UNFOLDED_MOST:
                    self._folded(cohort)
        else:
            self.members[cohort] -= 1
            changes = self._folded(cohort) if cohort in unfolded else self.cohorts[cohort]
            cohort = self.of[proc] = self._new_cohort(changes, 1)
            unfolded[cohort] = [event]
        if status is not None:
            self._set_status(proc, STATUS_NUMBERS[status])

    def edit_all(self, procs: Procs, event: Event, status: str | None) -> None:
        """Fold an event about many jobs; `status` None leaves each its own. Jobs that went the same way until now go on
        sharing their changes: the fold is done once for each cohort."""
        moved: dict[int, int] = {}
        of, members = self.of, self.members
        number = None if status is None else STATUS_NUMBERS[status]
        for first, last in procs:
            for proc in range(first, last + 1):
                if not self.status[proc]:
                    continue
                before = of[proc]
                after = moved.get(before)
                if after is None:
                    changes = dict(self._folded(before))
                    fold_job(changes, self.ad, event)
                    after = moved[before] = self._new_cohort(changes, 0)
                of[proc] = after
                members[before] -= 1
                members[after] += 1
                if number is not None:
                    self._set_status(proc, number)
        for before in moved:
            if not members[before]:
                self._forget(before)

    def _new_cohort(self, changes: Changes | None, members: int) -> int:
        if self._free:
            cohort = self._free.pop()
            self.cohorts[cohort], self.members[cohort] = changes, members
            return cohort
        self.cohorts.append(changes)
        self.members.append(members)
        return len(self.cohorts) - 1

    def _forget(self, cohort: int) -> None:
        """A cohort has no member left."""
        self.cohorts[cohort] = None
        self._unfolded.pop(cohort, None)
        if cohort:
            self._free.append(cohort)

    def end(self, proc: int) -> None:
        """The job is over: it leaves the active state."""
        cohort = self.of[proc]
        self.members[cohort] -= 1
        if not self.members[cohort]:
            self._forget(cohort)
        self.counts[self.status[proc]] -= 1
        self.status[proc] = _GONE
        self.live -= 1

    def end_all(self, procs: Procs) -> None:
        if sum(last - first + 1 for first, last in procs) == self.live == self.count:
            self.live = 0  # all at once: nobody will look at the rest again
            self.counts = [0] * _STATUSES
            self.status = bytearray(self.count)
            return
        for first, last in procs:
            for proc in range(first, last + 1):
                if self.status[proc]:
                    self.end(proc)


@define
class State:
    """A whole pool. Made empty; `evolve` brings it forward."""

    position: int = 0
    at: int = 0
    name: str = ""
    dialect: str = ""
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
    reworded: dict[str, bool] = field(factory=dict, eq=False, repr=False)
    """The same of slots whose own ad has changed, for whoever keeps what their expressions read."""
    answers: dict[str, str] = field(factory=dict)
    """The answers to the latest requests, by the requests' ids."""
    answers_size: int = 0
    kept: dict[str, Any] = field(factory=dict, eq=False, repr=False)
    """What was computed of the state and may be used again while what it was computed of is the same. No event made
    it, and nothing that is decided depends on its being there."""
    touched: dict[str, bool] = field(factory=dict, eq=False, repr=False)
    """The slots of which anything has changed since whoever keeps something of all slots has last looked; false: only
    that they were matched."""
    refusals: dict[str, Unmatched] = field(factory=dict)
    """The reasons that the log has for jobs that got nothing, by the first job of each kind; cleared by a match."""

    @property
    def uid_domain(self) -> str:
        """The domain of the pool's users."""
        return self.settings.get(UID_DOMAIN, "")

    def setting(self, name: str) -> int:
        """A setting that is a number of seconds, in microseconds."""
        return round(float(self.settings[name]) * 1_000_000)

    def submitter(self, name: str) -> Submitter:
        """The record of a submitter; a new one if it has none yet."""
        known = self.submitters.get(name)
        if known is None:
            begins = initial(name, self._terms())
            known = self.submitters[name] = Submitter(name, updated=self.at, counted=self.at, factor=begins)
        return known

    def _terms(self) -> Terms:
        """The accountant's settings, kept until others are configured."""
        known: tuple[int, Terms] | None = self.kept.get("terms")
        if known is None or known[0] != self.configured:
            known = self.kept["terms"] = (self.configured, terms(self.settings))
        return known[1]

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
