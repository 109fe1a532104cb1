"""Pools in random states, made of events alone: whatever a negotiator may find in a log.

``Pool`` applies one event after the other to a state, as a log would. ``random_pool`` and ``run_random_events`` choose
the events by a seed, so that a failing pool can be repeated.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

from poolbook.domain import events as e
from poolbook.domain.classad import Context
from poolbook.domain.fold.evolve import evolve
from poolbook.domain.negotiator.cycle import CycleResult, hold_cycle
from poolbook.domain.startd.public_ad import PublishedSlots
from poolbook.domain.state.caches import Caches
from poolbook.domain.state.cluster import IDLE
from poolbook.domain.state.pool_settings import complete_settings
from poolbook.domain.state.proc_ads import pack
from poolbook.domain.state.records import Slot
from poolbook.domain.state.state import State

SECOND = 1_000_000
BEGAN = 1_700_000_000 * SECOND
USERS = ("ann", "bob", "cy", "dee")
JOB = {
    "Requirements": "true", "Rank": "0.0", "RequestCpus": "1", "RequestMemory": "128", "RequestDisk": "1024",
    "JobUniverse": "5",
}  # fmt: skip
SLOT = {
    "Requirements": "Start && WithinResourceLimits", "Start": "true", "WithinResourceLimits": "true", "Rank": "0.0",
    "Cpus": "1", "Memory": "1024", "Disk": "100000",
}  # fmt: skip


class Pool:
    """A pool that the test builds event by event."""

    def __init__(self, dialect: str = "htcondor-25", /, *roles: str, **configured: str) -> None:
        self.state = State()
        self.caches = Caches()
        self.log: list[e.Event] = []
        self.now = BEGAN
        self._serial = 0
        self._runs: dict[str, tuple[int, int]] = {}
        unlimited = {"SCHEDD_ENABLE_PER_USER_MATCH_LIMITS": "false"}
        self.tell(
            e.PoolFounded,
            "founded",
            "pool",
            dialect,
            "here",
            "1",
            complete_settings(unlimited | configured),
            roles=roles,
        )

    def serial(self) -> int:
        self._serial += 1
        return self._serial

    def tell(self, kind: type[e.Event], cause: str, *fields: object, **named: object) -> e.Event:
        return self.append(kind(self.now, cause, "test", *fields, **named))

    def append(self, event: e.Event) -> e.Event:
        self.log.append(event)
        evolve(self.state, event)
        return event

    def folded(self) -> State:
        """Return the state that results from folding the log again."""
        state = State()
        for event in self.log:
            evolve(state, event)
        return state

    def context(self) -> Context:
        return Context(now=self.now // SECOND, seed=1)

    def hold(self, state: State | None = None) -> CycleResult:
        caches = self.caches if state is None else Caches()
        return hold_cycle(
            state or self.state, caches, PublishedSlots, lambda cause: (self.now, cause, "cycle"), self.context()
        )

    # Machines and slots

    def machine(self, name: str, /, **configured: str) -> None:
        self.tell(e.MachineJoined, "configured", name, {}, configured)

    def slot(self, name: str, kind: str = "static", parent: str = "", /, **attributes: str) -> str:
        """Add an unclaimed slot. An empty text in the ad removes the attribute."""
        slot, _, machine = name.partition("@")
        if machine not in self.state.machines:
            self.machine(machine)
        ad = SLOT | {"Name": f'"{name}"', "Machine": f'"{machine}"', "SlotID": slot.removeprefix("slot").split("_")[0]}
        ad = {key: text for key, text in (ad | attributes).items() if text}
        self.tell(e.SlotCreated, "configured", name, machine, kind, parent, ad)
        self.move(name, "Unclaimed/Idle")
        return name

    def slots(self, count: int, machine: str = "h", /, **attributes: str) -> None:
        for number in range(1, count + 1):
            self.slot(f"slot{number}@{machine}", **attributes)

    def move(self, name: str, target: str) -> None:
        self.tell(e.SlotTransitioned, "test", name, "1", self.state.slots[name].state_activity, target)

    def claim(
        self, name: str, user: str, rank: float = 0.0, pair: str = "Claimed/Busy", weight: float = 1.0, limits: str = ""
    ) -> None:
        """Claim the slot for a user outside of the pool, who runs a job there."""
        serial = self.serial()
        owner = user.partition("@")[0]
        ad = {"Owner": f'"{owner}"', "User": f'"{user}"', "RequestMemory": "128"}
        self.tell(
            e.ClaimMade, "claimed", name, f"claim{serial}", user, round(weight * 1000), rank, "out", f"9{serial}.0", ad,
            limits=limits,
        )  # fmt: skip
        self.move(name, "Claimed/Idle")
        if pair != "Claimed/Idle":
            self.tell(e.ClaimActivated, "activated", name, f"claim{serial}", f"9{serial}.0", ad, 0)
            self.move(name, pair)

    def release(self, name: str) -> None:
        slot = self.state.slots[name]
        claim = slot.claim
        assert claim is not None
        if slot.activation is not None and not slot.activation.cluster:
            self.tell(e.ClaimDeactivated, "ended", name, claim.id, slot.activation.job)
        self.tell(e.ClaimEnded, "released", name, claim.id, claim.submitter, (self.now - claim.since) * claim.weight)
        self.move(name, "Unclaimed/Idle")

    # Jobs and users

    def submit(self, user: str, count: int = 1, variants: dict[str, list[str]] | None = None, /, **more: str) -> int:
        """Submit a cluster and return its number. An empty text in the ad removes the attribute."""
        number = self.state.next_cluster
        who = user if "@" in user else f"{user}@here"
        ad = JOB | {"Owner": f'"{user}"', "User": f'"{who}"'} | more
        ad = {key: text for key, text in ad.items() if text}
        self.tell(e.ClusterSubmitted, "submitted", number, who, ad, count, pack(variants or {}), "Idle")
        return number

    def grant(self, user: str, name: str, value: float) -> None:
        self.tell(e.SubmitterSet, "granted", user if "@" in user else f"{user}@here", "root", name, float(value))

    # What cycles decide

    def matched(self, cycle: CycleResult | None = None) -> list[tuple[str, str]]:
        """Return the jobs and slots that a cycle held now matches."""
        cycle_event = (cycle or self.hold()).held
        return [] if cycle_event is None else [(match.job, match.slot) for match in cycle_event.matches]

    def cycle(self) -> CycleResult:
        """Hold a cycle and append its decisions. Turn matches of whole slots into running claims immediately; preempted
        jobs are gone."""
        cycle = self.hold()
        for event in (cycle.priorities, cycle.held):
            if event is not None:
                self.append(event)
        for choice in cycle.choices:
            if self.state.slots[choice.slot].claim is not None:
                self.end_job(choice.slot)
            self.claim(choice.slot, choice.cluster.submitter, weight=choice.cores, limits=choice.limits)
            self._runs[choice.slot] = job = choice.cluster.id, choice.proc
            self.tell(e.JobsTransitioned, "activated", job[0], ((job[1], job[1]),), "3", "Idle", "Running", {})
        return cycle

    def end_job(self, name: str) -> None:
        """End the job on a slot: the slot is unclaimed again, and the job idle."""
        self.release(name)
        job = self._runs.pop(name, None)
        if job is not None:
            self.tell(e.JobsTransitioned, "ended", job[0], ((job[1], job[1]),), "4", "Running", "Idle", {})

    def has(self) -> dict[str, float]:
        """Return the number of cores of each submitter."""
        return {
            name.partition("@")[0]: submitter.weighted_in_use / 1000
            for name, submitter in self.state.submitters.items()
        }

    def match_counts(self, cycle: CycleResult | None = None) -> dict[str, int]:
        """Return how many matches each submitter gets in a cycle held now."""
        return dict(Counter(choice.cluster.submitter.partition("@")[0] for choice in (cycle or self.hold()).choices))


# Random pools

_STARTS = (
    "true", "true", "true", 'TARGET.Owner == "ann"', 'TARGET.Owner =!= "bob"', "TARGET.RequestMemory < 900",
    "undefined", "false", "KeyboardIdle > 60 || TARGET.Nice =?= true", "MY.Open", "Open", "1", "0.0", '"yes"',
    "LoadAvg < 0.5", "(TotalTimeUnclaimedIdle > 30) =!= false", "State == \"Unclaimed\" || Owner == \"cy\"",
    "RemoteUserPrio =?= undefined || RemoteUserPrio > 505",
)  # fmt: skip
_OPENS = ("true", 'TARGET.Department == "physics"', "TARGET.Department =?= undefined", "Memory > TARGET.Size", "")
_OWN_RANKS = (
    "0.0", "0.0", "", 'TARGET.Owner == "bob"', '(TARGET.Owner == "cy") * 10 + (TARGET.Department =?= "physics")',
    "TARGET.Size", '"high"', "TARGET.RequestMemory / 100.0", "Preference", "undefined", 'real("NaN")', "5",
)  # fmt: skip
_WEIGHTS = ("", "", "", "Cpus", "Cpus * 2", "Memory / 1000.0", "-1", '"heavy"', "0.5", "undefined", "true", "0")
_JOB_REQUIREMENTS = (
    "true", "true", "TARGET.Memory >= RequestMemory", "TARGET.Memory >= MY.RequestMemory && TARGET.Cpus >= RequestCpus",
    'TARGET.Arch == "X86_64"', "TARGET.Special", "Special =!= undefined", "false", "1", "TARGET.Special > 2",
    'TARGET.State == "Unclaimed"', "Fits", "RemoteUser =?= undefined", "TARGET.SlotID % 2 == Odd",
    "RemoteUserPrio =?= undefined || RemoteUserPrio > 505", "TARGET.slot1_RemoteUserPrio =!= undefined",
)  # fmt: skip
_JOB_RANKS = (
    "0.0", "0.0", "", "TARGET.Memory", "-TARGET.Memory", "TARGET.Special", "5", '"best"', "Wish", "TARGET.Cpus * 1e300",
    'TARGET.Arch == "X86_64"', 'real("NaN")', "TARGET.SlotID", "Memory % 3",
)  # fmt: skip
_SPECIALS = ("", "", "1", "3", "2.5", '"text"', "true", "error", "Memory / 100")
_PAIRS = (
    "Owner/Idle", "Unclaimed/Idle", "Unclaimed/Idle", "Unclaimed/Idle", "Unclaimed/Benchmarking", "Matched/Idle",
    "Preempting/Vacating", "Drained/Idle",
)  # fmt: skip
_HELD_PAIRS = (
    "Claimed/Busy", "Claimed/Busy", "Claimed/Busy", "Claimed/Idle", "Claimed/Suspended", "Claimed/Retiring",
    "Preempting/Killing",
)  # fmt: skip
_CONFIGURED: dict[str, tuple[str, ...]] = {
    "NEGOTIATOR_CONSIDER_PREEMPTION": ("false",),
    "NEGOTIATOR_CONSIDER_EARLY_PREEMPTION": ("true",),
    "NEGOTIATOR_USE_SLOT_WEIGHTS": ("false",),
    "NEGOTIATOR_IGNORE_USER_PRIORITIES": ("true",),
    "NEGOTIATOR_CROSS_SLOT_PRIOS": ("true",),
    "NEGOTIATE_ALL_JOBS_IN_CLUSTER": ("true",),
    "ADD_SIGNIFICANT_ATTRIBUTES": ("Department", "JobPrio, Size"),
    "NEGOTIATOR_SLOT_CONSTRAINT": ("Memory > 512", "Special =!= 1", "-1", "Arch =?= undefined"),
    "NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT": ("Memory > 512", "Cpus < 3"),
    "NEGOTIATOR_JOB_CONSTRAINT": ('Owner != "ann"', "RequestMemory < 600"),
    "NEGOTIATOR_PRE_JOB_RANK": ("", "Memory", "TARGET.Wish", "MY.Rank", '"x"', "-Cpus", "isUndefined(RemoteOwner)"),
    "NEGOTIATOR_POST_JOB_RANK": ("", "SlotID", "TARGET.Size * Memory", "-SlotID", "Special"),
    "PREEMPTION_REQUIREMENTS": (
        "", "true", "true", "1", "RemoteUserPrio > SubmitterUserPrio * 1.2", "TotalJobRunTime > 30",
        "TARGET.Department =?= \"physics\"", "undefined", "slot1_RemoteUserPrio > 1000",
    ),
    "PREEMPTION_RANK": ("", "-Memory", "RemoteUserPrio", "TARGET.Size", '"x"'),
}  # fmt: skip
_UNSTABLE: dict[str, tuple[str, ...]] = {
    "PREEMPTION_REQUIREMENTS": (
        "RemoteUserResourcesInUse > SubmitterUserResourcesInUse", "SubmitterUserResourcesInUse < 2",
        "RemoteUserResourcesInUse < 2", "true",
    ),
    "PREEMPTION_RANK": ("RemoteUserResourcesInUse", "-RemoteUserResourcesInUse"),
}  # fmt: skip


def random_pool(seed: int, *, unstable: bool = False) -> Pool:
    """Return a pool drawn by a seed: some machines, claims, jobs and settings."""
    dice = random.Random(seed)
    configured = {name: dice.choice(texts) for name, texts in _CONFIGURED.items() if dice.random() < 0.3}
    if dice.random() < 0.5:  # simple ranks make the other rules visible
        configured |= {"NEGOTIATOR_PRE_JOB_RANK": "", "NEGOTIATOR_POST_JOB_RANK": ""}
    if dice.random() < 0.4:
        configured["PREEMPTION_REQUIREMENTS"] = "true"
    if unstable:
        configured |= {name: dice.choice(texts) for name, texts in _UNSTABLE.items()}
        configured |= {"PREEMPTION_REQUIREMENTS_STABLE": "false", "PREEMPTION_RANK_STABLE": "false"}
        configured.pop("NEGOTIATOR_CONSIDER_PREEMPTION", None)
    if dice.random() < 0.1:
        limit = str(dice.randint(1, 4))
        configured |= {"SCHEDD_ENABLE_PER_USER_MATCH_LIMITS": "true", "MAX_CONCURRENT_UPLOADS_PER_USER": limit}
    if dice.random() < 0.2:
        configured |= {"GROUP_NAMES": "g", "GROUP_QUOTA_g": "2", "GROUP_PRIO_FACTOR_g": "2000"}
    pool = Pool(dice.choice(("manual", "htcondor-25")), **configured)
    for number in range(dice.randint(1, 4)):
        _machine(pool, dice, f"m{number}")
    for _ in range(dice.randint(1, 6)):
        _submits(pool, dice)
    run_random_events(pool, dice, dice.randint(0, 25))
    return pool


def run_random_events(pool: Pool, dice: random.Random, steps: int) -> None:
    """Let this many random events happen in the pool."""
    for _ in range(steps):
        pool.now += dice.choice((0, 1, 30)) * SECOND
        dice.choice(_HAPPENINGS)(pool, dice)


def _machine(pool: Pool, dice: random.Random, name: str) -> None:
    configured = {"STARTD_SLOT_ATTRS": "State, RemoteUser"} if dice.random() < 0.1 else {}
    pool.machine(name, **configured)
    partitionable = dice.random() < 0.35
    for number in range(1, 2 if partitionable else dice.randint(2, 5)):
        more = _attributes(dice)
        if partitionable:
            more |= {"Cpus": str(dice.randint(1, 6)), "Memory": str(dice.choice((512, 2048, 4096)))}
            more |= {"PartitionableSlot": "true"}
        pool.slot(f"slot{number}@{name}", "partitionable" if partitionable else "static", **more)


def _attributes(dice: random.Random) -> dict[str, str]:
    return {
        "Cpus": str(dice.choice((1, 1, 1, 2, 4))),
        "Memory": str(dice.choice((256, 512, 1024, 1024, 2048))),
        "Arch": dice.choice(('"X86_64"', '"X86_64"', '"ARM"', "")),
        "Start": dice.choice(_STARTS),
        "Open": dice.choice(_OPENS),
        "Requirements": dice.choice(("Start && WithinResourceLimits", "Start", "START", "true", "")),
        "WithinResourceLimits": "TARGET.RequestCpus <= MY.Cpus && TARGET.RequestMemory <= MY.Memory",
        "Rank": dice.choice(_OWN_RANKS),
        "Preference": dice.choice(("", "TARGET.Size", "3")),
        "Special": dice.choice(_SPECIALS),
        "SlotWeight": dice.choice(_WEIGHTS),
        "MaxJobRetirementTime": dice.choice(("0", "0", "100", "TARGET.Size")),
    }


def _job_attributes(dice: random.Random) -> dict[str, str]:
    return {
        "Requirements": dice.choice(_JOB_REQUIREMENTS),
        "Rank": dice.choice(_JOB_RANKS),
        "RequestCpus": dice.choice(("1", "1", "1", "2", "3", "undefined", "")),
        "RequestMemory": dice.choice(("128", "128", "600", "1500", "RequestCpus * 256")),
        "Department": dice.choice(("", '"physics"', '"chemistry"')),
        "Size": dice.choice(("", "1", "7", "1000", "2 * Extra", "TARGET.Memory / 7")),
        "Wish": dice.choice(("", "TARGET.Memory", "TARGET.SlotID * Extra", "1")),
        "Fits": dice.choice(("true", "TARGET.Cpus >= RequestCpus", "")),
        "Extra": dice.choice(("", "1", "-1", "3")),
        "Odd": dice.choice(("0", "1")),
    }


def _submits(pool: Pool, dice: random.Random) -> None:
    more = _job_attributes(dice)
    for name in ("PreJobPrio1", "PreJobPrio2", "JobPrio", "PostJobPrio1", "PostJobPrio2"):
        if dice.random() < 0.2:
            more[name] = dice.choice(("0", "1", "5", "-3"))
    count = dice.randint(1, 5)
    variants = {}
    for name, texts in (("RequestMemory", ("128", "600", "1500")), ("JobPrio", ("0", "1", "2")), ("Odd", ("0", "1"))):
        if dice.random() < 0.25:
            variants[name] = [dice.choice(texts) for _ in range(count)]
    user = dice.choice(USERS)
    if dice.random() < 0.15:
        user = f"g.{user}"
    pool.submit(user, count, variants, **more)


# The random events

Happening = Callable[[Pool, random.Random], None]


def _some(pool: Pool, dice: random.Random, is_candidate: Callable[[Slot], bool]) -> str | None:
    names = [name for name, slot in pool.state.slots.items() if is_candidate(slot)]
    return dice.choice(names) if names else None


def _moves(pool: Pool, dice: random.Random) -> None:
    name = _some(pool, dice, lambda slot: slot.claim is None and slot.machine in pool.state.machines)
    if name is not None:
        pool.move(name, dice.choice(_PAIRS))


def _is_claimed(pool: Pool, dice: random.Random) -> None:
    name = _some(pool, dice, lambda slot: slot.claim is None and slot.kind != "partitionable")
    if name is not None:
        user = dice.choice((*USERS, *USERS, "eve", "g.ann"))
        rank, weight = dice.choice((0.0, 0.0, 0.0, 1.0, 10.0)), dice.choice((1.0, 1.0, 2.0))
        pool.claim(name, f"{user}@here", rank, dice.choice(_HELD_PAIRS), weight)


def _is_released(pool: Pool, dice: random.Random) -> None:
    name = _some(pool, dice, lambda slot: slot.claim is not None and slot.queued_claim is None)
    if name is not None:
        pool.release(name)


def _is_awaited(pool: Pool, dice: random.Random) -> None:
    name = _some(pool, dice, lambda slot: slot.claim is not None)
    if name is None:
        return
    waiting = pool.state.slots[name].queued_claim
    if waiting is None:
        pool.tell(e.ClaimQueued, "claimed", name, f"claim{pool.serial()}", "eve@here", 1.0, "out", "7.0", {})
    else:
        pool.tell(e.ClaimWithdrawn, "claimed", name, waiting.id)


def _is_cut(pool: Pool, dice: random.Random) -> None:
    """Add a dynamic slot, or remove one whose name the next one gets."""
    parent = _some(pool, dice, lambda slot: slot.kind == "partitionable")
    child = _some(pool, dice, lambda slot: slot.kind == "dynamic" and slot.claim is None)
    if child is not None and dice.random() < 0.4:
        slot = pool.state.slots[child]
        if slot.name not in pool.state.matches:
            free_cores = int(pool.state.slots[slot.parent].ad["Cpus"])
            pool.tell(e.SlotDestroyed, "merged", child)
            pool.tell(e.SlotAdChanged, "merged", slot.parent, {"Cpus": str(free_cores + 1)})
    elif parent is not None and int(pool.state.slots[parent].ad["Cpus"]) > 0:
        slot = pool.state.slots[parent]
        name, machine = parent.split("@")
        number = next(n for n in range(1, 99) if f"{name}_{n}@{machine}" not in pool.state.slots)
        ad = {key: text for key, text in slot.ad.items() if key not in ("PartitionableSlot", "Name")}
        ad |= {"Cpus": "1", "Memory": "128", "Name": f'"{name}_{number}@{machine}"', "DynamicSlot": "true"}
        born = f"{name}_{number}@{machine}"
        pool.tell(e.SlotCreated, "carved", born, machine, "dynamic", parent, ad)
        pool.tell(e.SlotAdChanged, "carved", parent, {"Cpus": str(int(slot.ad["Cpus"]) - 1)})
        pool.move(born, "Unclaimed/Idle")


def _changes(pool: Pool, dice: random.Random) -> None:
    name = _some(pool, dice, lambda slot: True)
    if name is not None:
        attributes = _attributes(dice)
        key = dice.choice([attribute for attribute in attributes if attribute != "Cpus"])
        pool.tell(e.SlotAdChanged, "configured", name, {key: attributes[key]})


def _publishes(pool: Pool, dice: random.Random) -> None:
    name = _some(pool, dice, lambda slot: True)
    if name is not None:
        since = pool.now // SECOND - dice.choice((0, 30, 500))
        readings = {"KeyboardIdle": f"time() - {since}", "LoadAvg": dice.choice(("0.1", "0.9", "")), "Special": "3"}
        key = dice.choice(list(readings))
        pool.tell(e.SlotAdChanged, "published", name, {key: readings[key]})


def _drains(pool: Pool, dice: random.Random) -> None:
    name = dice.choice(list(pool.state.machines))
    machine = pool.state.machines[name]
    if machine.drain is not None:
        if dice.random() < 0.3:
            pool.tell(e.DrainFinal, "drained", name, machine.drain.number)
        else:
            pool.tell(e.DrainTransitioned, "drained", name, machine.drain.number, "cancel", machine.drain.state, "None")
        return
    start = dice.choice(("", 'TARGET.Owner == "ann"', "TARGET.Tiny =?= undefined", "TARGET.Size < 5"))
    pool.tell(e.DrainBegan, "drained", name, machine.drains + 1, dice.choice(("Graceful", "Fast")), "", "", start)
    for slot in list(machine.slots.values()):
        if slot.claim is None:
            pool.move(slot.name, "Drained/Retiring")


def _shuts_down(pool: Pool, dice: random.Random) -> None:
    if dice.random() < 0.2:
        name = dice.choice(list(pool.state.machines))
        pool.tell(e.ShutdownBegan, "test", name, "Peaceful")


def _edits(pool: Pool, dice: random.Random) -> None:
    clusters = list(pool.state.clusters.values())
    if not clusters:
        return
    cluster = dice.choice(clusters)
    attributes = _job_attributes(dice) | {"JobPrio": dice.choice(("0", "3"))}
    key = dice.choice(list(attributes))
    first = dice.randrange(cluster.count)
    pool.tell(e.JobsEdited, "edited", cluster.id, ((first, cluster.count - 1),), {key: attributes[key]})


def _holds(pool: Pool, dice: random.Random) -> None:
    cluster = dice.choice(list(pool.state.clusters.values()))
    proc = dice.randrange(cluster.count)
    source = cluster.status_of(proc)
    target = "Held" if source == "Idle" else "Idle"
    pool.tell(e.JobsTransitioned, "held", cluster.id, ((proc, proc),), "5", source, target, {})


def _is_matched(pool: Pool, dice: random.Random) -> None:
    matched_jobs = pool.state.matches
    if matched_jobs and dice.random() < 0.5:
        voided = dice.choice(list(matched_jobs))
        pool.tell(e.MatchVoided, "test", voided, "{}.{}".format(*next(iter(matched_jobs[voided]))))
        return
    name = _some(pool, dice, lambda slot: slot.claim is None and slot.name not in matched_jobs)
    for cluster in pool.state.clusters.values():
        proc = cluster.next_idle()
        if (
            name is not None
            and proc >= 0
            and cluster.status[proc] == IDLE
            and (cluster.id, proc) not in pool.state.assigned_slots
        ):
            pool.tell(e.CycleHeld, "negotiated", (e.Match(f"{cluster.id}.{proc}", name),), ())
            return


def _is_granted(pool: Pool, dice: random.Random) -> None:
    name, values = dice.choice(
        (("factor", (1, 10, 2000)), ("priority", (0.5, 5, 20)), ("floor", (0, 1, 3)), ("ceiling", (-1, 0, 1, 2, 4)))
    )  # fmt: skip
    pool.grant(dice.choice(USERS), name, dice.choice(values))


def _is_configured(pool: Pool, dice: random.Random) -> None:
    name = dice.choice(("NEGOTIATOR_USE_SLOT_WEIGHTS", "NEGOTIATOR_PRE_JOB_RANK", "ADD_SIGNIFICANT_ATTRIBUTES"))
    pool.tell(e.PoolConfigured, "configured", {name: dice.choice(_CONFIGURED[name])})


def _is_accounted(pool: Pool, dice: random.Random) -> None:
    cycle = pool.hold(pool.folded())
    if cycle.priorities is not None:
        pool.tell(e.PrioritiesUpdated, "accounted", cycle.priorities.priorities)


def _submits_more(pool: Pool, dice: random.Random) -> None:
    _submits(pool, dice)


_HAPPENINGS: Sequence[Happening] = (
    _is_claimed, _is_claimed, _is_claimed, _is_claimed, _moves, _is_released, _is_awaited, _is_cut, _is_cut, _changes,
    _publishes, _drains, _shuts_down, _edits, _holds, _is_matched, _is_granted, _is_granted, _is_configured,
    _is_accounted, _submits_more,
)  # fmt: skip
