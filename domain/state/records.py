"""The records of a state: slots and machines, claims and runs, submitters."""

from __future__ import annotations

from typing import NamedTuple

from attrs import define, field

from ..events import Ad
from ..state_machines import match_state
from ..state_machines.slot_rows import Activity, StateActivity
from ..state_machines.slot_rows import State as SlotState
from .job_ad import machine_attributes
from .slot_attributes import SlotAd

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
