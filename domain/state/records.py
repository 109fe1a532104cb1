"""The records of a state: machines and slots, claims, activations, submitters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct, field

from ..events import Ad
from ..state_machines import match_state
from ..state_machines.slot_rows import Activity, StateActivity
from ..state_machines.slot_rows import State as SlotState
from .slot_attributes import SlotAd

NOTIFICATION = "JobNotification"
NOOP, KEEP_CLAIM_IDLE, NEXT_START_DELAY = "IsNoopJob", "KeepClaimIdle", "NextJobStartDelay"
RUNS = frozenset({"Running", "Suspended", "TransferringOutput"})
"""The statuses of a job that has processes and is not being evicted."""


class Claim(Struct):
    """A claim of a slot."""

    id: str  #: the claim's id
    submitter: str  #: the submitter charged for the claim
    weight: int  #: its accounting weight, in thousandths
    since: int  #: when it was made, in microseconds
    rank: float = 0.0  #: the slot's RANK of the claim's job
    holder: str = ""  #: the external access point that holds it (empty: the pool's own)
    job: str = ""  #: the job for which it was requested; for the pool's own access point, a job that waited for it
    ad: Ad = field(default_factory=dict)  #: the ad of that job (empty: it is in the log with the queue)
    lease: int = 0  #: the seconds of silence by its holder after which it ends (0: no lease)
    lease_end: int = 0  #: when it ends if the holder stays silent, in microseconds (0: the holder is not silent)
    activations: int = 0  #: the number of jobs that it has run
    flags: frozenset[str] = frozenset()  #: its flags, from `events.CLAIM_FLAGS`
    reason: str = ""  #: why the claim's job is being evicted (empty: it is not)
    code: int = 0  #: the reason's code in HTCondor
    subcode: int = 0  #: the reason's subcode
    user: str = ""  #: the user of the job for which it was made, as user@domain (empty: the submitter)
    limits: str = ""  #: the concurrency limits in use (ConcurrencyLimits), from its match until its end
    negotiator: str = ""  #: the negotiator that accounts for it, if there are several (empty: NEGOTIATOR)
    regrouped: bool = False  #: whether its match was negotiated by autoregroup


TRANSFER_STEPS = ("", "input", "input done", "checkpoint", "checkpoint done", "output", "output done")
"""The steps of file transfer, in order. There may be several checkpoints, or none."""


class Activation(Struct):
    """A job's run in the access point's state, until its last process has exited. Times are in microseconds."""

    key: str  #: the position of its first event
    cluster: int  #: the job's cluster
    proc: int  #: the job's process number in its cluster
    slot: str  #: the slot's name
    began: int  #: when it began
    executing: bool = False  #: whether the job's processes have started
    stop_signal: str = ""  #: how its processes were signalled to end: soft or hard (empty: not yet)
    first_signalled: int = 0  #: when they were first signalled to exit
    last_signalled: int = 0  #: when they were last signalled to exit
    next_signal: int = 0  #: when the next, harder signal is due (0: by the pool's settings)
    measured: int = 0  #: when they were last measured
    deferred: int = 0  #: when its processes should start, if deferred (0: not deferred)
    ready: int = 0  #: when it began, or its input files had arrived if they are transferred first (0: they have not)
    files_first: bool = False  #: whether input files are transferred before a deferred start
    transfer: str = ""
    """The latest step of its file transfers, from `TRANSFER_STEPS` (empty: none has started)."""
    checkpoints: int = 0  #: the number of the last completed checkpoint (0: none)
    chirped: int = 0  #: the number of its condor_chirp writes that are logged
    vacate_reason: Ad = field(default_factory=dict)  #: the attributes with the reason, if a policy evicted the job


class Starter(Struct):
    """A job's processes in the startd's state, until the last has exited. Times are in microseconds."""

    key: str  #: the position of its first event
    cluster: int  #: the job's cluster (0: the job is not in this pool's queue)
    proc: int  #: the job's process number in its cluster
    slot: str  #: the slot's name
    began: int  #: when it began
    stop_signal: str = ""  #: how the processes were signalled to end: soft or hard (empty: not yet)
    last_signalled: int = 0  #: when they were last signalled to exit
    next_signal: int = 0  #: when the next, harder signal is due (0: by the pool's settings)
    max_vacate_time: int = 0  #: the MachineMaxVacateTime that applies to the job, in microseconds
    suspended_time: int = 0  #: how long the slot was suspended before `suspended_since`, in microseconds
    suspended_since: int = 0  #: when the slot was suspended (0: it is not)
    job: str = ""  #: if `cluster` is 0: the job's id at its access point
    remote_key: str = ""  #: the run's key at that access point (empty: the access point runs the processes)
    deferred: int = 0  #: when the processes of such a run should start, if deferred (0: not deferred)
    ready: int = 0  #: for such a run, as in ``Activation``; likewise ``files_first``
    files_first: bool = False
    ad: Ad = field(default_factory=dict)
    """The job's ad from the activation, updated by later messages (empty: it is in the log with the queue)."""
    user: str = ""  #: the job's user, as user@domain (empty: not in its ad)
    leave_cause: str = ""  #: why the slot's claim is about to end, if that cause is recorded for the job
    preempting_since: int = 0  #: when the slot entered Preempting, which stops its run time (0: it has not)
    soft_signal: str = ""  #: the kind of the soft signal that it received, for a job with `remote_key`
    reports: dict[str, str] = field(default_factory=dict)
    """The last reports for the access point, by kind and direction, for a job with `remote_key`: their stimuli."""
    measured: tuple[int, ...] = ()  #: the last measurement among them: its time, image, resident and disk size

    @property
    def runs_here(self) -> bool:
        """True if the pool runs the processes, for its own queue or for an external access point."""
        return self.cluster != 0 or self.remote_key != ""

    def run_time(self, now: int) -> int:
        """Return its run time in microseconds, excluding time in which it was suspended or preempted."""
        return self._run_end(now) - self.began - self.suspended_time

    def run_seconds(self, now: int) -> int:
        """Return its run time in whole seconds, as HTCondor computes TotalJobRunTime."""
        return self._run_end(now) // 1_000_000 - (self.began + self.suspended_time) // 1_000_000

    def _run_end(self, now: int) -> int:
        return self.suspended_since or self.preempting_since or now


DUE, START, MEASUREMENT = "ActivationDue", "ActivationStarted", "ActivationMeasured"
"""The kinds of reports (``RunReported``) that change the starter's record or the job's ad in it."""


def report_name(kind: str, way: str) -> str:
    """Return the name of a report in ``Starter.reports``, from its kind and, for a file transfer, the direction."""
    return f"{kind} {way}".rstrip()


class PendingMatch(NamedTuple):
    """A match of a slot with a job that is not claimed yet; see ``events.Match``."""

    order: tuple[int, int] = (0, 0)  #: the position of its cycle, and its index among the cycle's matches
    limits: str = ""  #: the concurrency limits that it uses
    preempts: tuple[str, ...] = ()  #: the dynamic slots that it preempts
    negotiator: str = ""  #: the negotiator that made it, if there are several (empty: NEGOTIATOR)
    reason: str = ""  #: why it preempts the slot's current claim (empty: the slot has none)


class Reservation(Struct):
    """Claims reserved for a condor_now job; see `ClaimsReserved`."""

    claims: dict[str, str]  #: their ids, by slot
    deadline: int  #: the deadline for the jobs that use them to leave, in microseconds


class MachineDrain(Struct):
    """A machine's drain; see `DrainBegan`."""

    number: int  #: the number of the drain on this machine
    schedule: str  #: how quickly jobs are evicted
    state: str  #: a state from the table of drains
    began: int  #: when it began, in microseconds
    reason: str = ""  #: the reason that the user gave
    completion: str = ""  #: the action on completion
    start: str = ""  #: the START expression during the drain (empty: false)
    final: bool = False  #: whether all jobs that were running when it began have ended
    cause: str = ""  #: why it began


class BackfillClient(Struct):
    """A machine's backfill client, from its start until its last process has exited. Times are in microseconds."""

    key: str  #: the position of its first event
    system: str  #: BOINC or EXEC
    client: Ad  #: the settings that specify how to run it
    slot: str  #: the slot for which it was started
    began: int  #: when it was started
    pid: int = 0  #: its process id (0: not known yet)
    last_signalled: int = 0  #: when it was last signalled to end (0: never)
    next_signal: int = 0  #: when the next signal is due


class Machine(Struct):
    """A machine in the pool. Times are in microseconds."""

    name: str
    ad: Ad  #: the attributes of all its slots
    joined: int  #: when it joined the pool
    settings: Ad = field(default_factory=dict)  #: the settings of its execution point (`startd.settings`), expanded
    slots: dict[str, Slot] = field(default_factory=dict)  #: its slots, by their names
    drain: MachineDrain | None = None  #: its drain, while it is draining
    drains: int = 0  #: the number of drains so far
    drain_start: str = ""  #: the START expression of its current or last drain, unless that drain became final
    drain_began: int = 0  #: when the last drain began
    drain_ended: int = 0  #: when the last completed drain ended
    badput: int = 0  #: the cost of its drains, in core-seconds
    shutdown: str = ""  #: how it is being shut down (empty: it is not)
    restart: bool = False  #: whether it joins again after the shutdown
    benchmarks: tuple[int, int] = (0, 0)  #: the published averages of MIPS and KFLOPS
    benchmarked: int = 0  #: when benchmarks last ran
    backfill: BackfillClient | None = None  #: its backfill client, unless that is known to have ended
    backfill_failures: int = 0  #: how many clients in a row exited soon after their start
    backfill_retry: int = 0  #: when a client may be started again
    expired: bool = False  #: whether its execution point, which has a separate log, does not answer
    gone: bool = False  #: whether the manager has not heard from it for so long that its ads are gone


class Slot(Struct):
    """A slot of a machine. Times are in microseconds."""

    name: str
    machine: str  #: the machine's name
    kind: str  #: static, partitionable or dynamic
    parent: str  #: the slot from which a dynamic slot was carved (empty: none)
    ad: SlotAd  #: its ad, without the attributes that depend on its claim, its machine or the time
    state_activity: StateActivity  #: its state/activity, such as Claimed/Busy
    entered_state: int  #: when it entered its state
    entered_activity: int  #: when it entered its activity
    claim: Claim | None = None  #: its claim
    queued_claim: Claim | None = None  #: the preempting claim that waits for the current claim to end
    activation: Starter | None = None  #: the job that runs on it
    destination: str = ""  #: the state that it enters when its backfill client has ended (empty: Owner)
    destination_since: int = 0  #: when that was decided
    vacated: int = 0
    """When the last process of a job exited on it, or on a dynamic slot carved from it (0: never)."""
    busy_since: int = 0  #: when CpuBusy became true (0: it is false, or not evaluated)
    time_spent: dict[str, int] = field(default_factory=dict)
    """The microseconds it has spent in each state/activity, before the current activity."""
    drained_core_time: float = 0.0  #: the core-microseconds it has spent in Drained, until `drained_counted_until`
    drained_counted_until: int = 0  #: the instant until which `drained_core_time` is counted
    published_ad: Ad = field(default_factory=dict)  #: the published attributes of its machine's sensors
    published: int = 0  #: when those were last published
    version: int = 0
    """The position of the last event that changed ``ad``. Values computed from the ad are valid until this changes."""

    @property
    def cores(self) -> float:
        """Its Cpus; 1 if that is not a number."""
        try:
            return float(self.ad.get("Cpus", "1"))
        except ValueError:
            return 1.0

    def drained_until(self, at: int) -> float:
        """Return the core-microseconds it has spent in Drained, until ``at``."""
        current = (at - self.drained_counted_until) * self.cores if self.state == "Drained" else 0.0
        return self.drained_core_time + current

    @property
    def user(self) -> str:
        """The user of its job or claim, as user@domain, who may differ from the submitter. Empty: not claimed."""
        if self.claim is None:
            return ""
        return (self.activation.user if self.activation is not None else "") or self.claim.user or self.claim.submitter

    @property
    def match_state(self) -> str:
        """The state of its match."""
        return match_state(self.state_activity, self.destination)

    @property
    def state(self) -> SlotState:
        return self.state_activity.partition("/")[0]  # type: ignore[return-value]

    @property
    def activity(self) -> Activity:
        return self.state_activity.partition("/")[2]  # type: ignore[return-value]


class Submitter(Struct):
    """A submitter's account, as the accountant records it (`negotiator.accounting`). Times are in microseconds."""

    name: str  #: such as alice@example.org
    priority: float = 0.5  #: the real priority at the time `updated`
    updated: int = 0  #: when the real priority was last recorded
    factor: float = 0.0  #: the initial priority factor, or the last one set (0: see `appeared_under`)
    floor: float = 0.0  #: the cores that it receives before other submitters (0: none)
    ceiling: float = -1.0  #: the maximum number of cores (-1: no limit)
    leases: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Temporary values of factor, floor or ceiling, each with its end time."""
    weighted_in_use: int = 0  #: the weight of its current claims, in thousandths
    slots: int = 0  #: the number of its current slots
    counted_until: int = 0  #: the time until which the next two fields are counted
    weighted_usage: int = 0  #: its usage, in microseconds times thousandths
    unweighted_usage: int = 0  #: its usage in slot-microseconds
    usage_accounted: int = 0  #: `weighted_usage` when the priority was updated
    ended_usage: int = 0  #: the usage by ended claims, in microseconds times thousandths, which no command resets
    ended_claims: int = 0  #: the number of its ended claims
    first_used: int = 0  #: when its usage began
    last_used: int = 0  #: when its last claim ended
    appeared_under: dict[str, str] | None = None
    """The pool's settings when it appeared, if the log does not record its initial factor, as in older logs;
    ``accounting.factor`` computes the factor from these."""

    def usage_until(self, at: int) -> int:
        """Return its usage until ``at``, in microseconds times thousandths."""
        return self.weighted_usage + (at - self.counted_until) * self.weighted_in_use

    def count_usage(self, at: int) -> None:
        """Count its usage until ``at``."""
        self.weighted_usage += (at - self.counted_until) * self.weighted_in_use
        self.unweighted_usage += (at - self.counted_until) * self.slots
        self.counted_until = at

    def set_priority(self, priority: float, at: int) -> None:
        """Set the real priority that follows from all usage until ``at``."""
        self.priority, self.updated, self.usage_accounted = priority, at, self.usage_until(at)

    def add_claim(self, weight: int, at: int) -> None:
        """Charge a new claim."""
        self.count_usage(at)
        self.weighted_in_use += weight
        self.slots += 1
        self.first_used = self.first_used or at

    def end_claim(self, weight: int | None, usage: int, at: int) -> None:
        """Stop charging a claim. ``weight`` is None for a claim that was never charged."""
        self.count_usage(at)
        self.ended_usage += usage
        self.ended_claims += 1
        self.last_used = at
        if weight is not None:
            self.weighted_in_use -= weight
            self.slots -= 1


PROVISIONED = ("Cpus", "Memory", "Disk", "GPUs", "AssignedGPUs")


def provided_attributes(slot: Slot, recorded: Sequence[str] = ()) -> Ad:
    """Return the slot attributes that are copied to a job's ad when it starts there. GPUs is always included."""
    weight = 0 if slot.claim is None else slot.claim.weight
    attributes = {name: slot.ad[name] for name in PROVISIONED if name in slot.ad}
    if recorded:
        by_key = {name.lower(): text for name, text in slot.ad.items()}
        attributes |= {name: by_key[name.lower()] for name in recorded if name.lower() in by_key}
    slot_weight = str(weight // 1000) if weight % 1000 == 0 else repr(weight / 1000)
    return {"GPUs": "0", **attributes, "SlotWeight": slot_weight}
