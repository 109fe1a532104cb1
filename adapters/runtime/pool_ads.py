"""Build the ads of a pool's daemons, users and slots for condor_status, from its views and its log.

A pool is a single process that does the work of all HTCondor daemons. Their ads contain the recorded values under
HTCondor's names, and omit attributes without a value. The negotiator's ad contains the statistics of the last cycles in
the log: a cycle without decisions has no event, and cycles take no time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from datetime import tzinfo
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...domain.classad import ClassAd
from ...domain.coverage.settings import DEFRAG
from ...domain.defrag.choice import BADPUT, UNCLAIMED
from ...domain.defrag.defrag_settings import DefragPolicy, policies_in_force
from ...domain.names import JOBS_PER_ACCESS_POINT
from ...domain.state.defrag_state import Defrag
from ...domain.state.had_state import HAD
from ...domain.state.peers import ACCESS_POINT, EXECUTION_POINT, MANAGER
from ...domain.units import SECOND
from ..condor_tools.cells import HELD, IDLE, REMOVED, RUNNING, SUSPENDED, TRANSFERRING_OUTPUT, number, text
from .flocking_shares import FlockingShares, Share

if TYPE_CHECKING:
    from ...domain.classad import ClassAd
    from ...domain.ports.log import EventStore
    from ...projections.views import Views

WINDOW = 1200
"""The number of seconds that HTCondor's Recent... attributes cover: STATISTICS_WINDOW_SECONDS."""
_STATES = {"RunningJobs": (RUNNING, TRANSFERRING_OUTPUT, SUSPENDED), "IdleJobs": (IDLE,), "HeldJobs": (HELD,)}


_SEPARATE_UNIVERSES = {"local": "Local", "scheduler": "Scheduler"}
"""Universes whose jobs are counted separately, with the word used in the names of these counts."""


_NONE: Mapping[str, int] = {}


class PoolInstant(NamedTuple):
    """A pool at a point in time: its name, the time, and since when it is served (None: not served), in seconds."""

    name: str
    now: int
    since: int | None


class Count(NamedTuple):
    """The number of a submitter's jobs in a JobStatus. ``universe`` is local or scheduler, which are counted
    separately, or empty for all others."""

    submitter: str
    owner: str
    universe: str
    status: int
    jobs: int


class Recent(NamedTuple):
    """Job starts and completions in the last ``WINDOW`` seconds."""

    started: int
    completed: int


def daemon_ad(kind: str, name: str, machine: str, pool: PoolInstant) -> ClassAd:
    from ..machine.host import CONDOR_VERSION, condor_platform

    ad = ClassAd({"MyType": kind, "Name": name, "Machine": machine})
    ad["CondorVersion"], ad["CondorPlatform"] = CONDOR_VERSION, condor_platform()
    ad["MyCurrentTime"] = pool.now
    if pool.since is not None:
        ad["DaemonStartTime"] = pool.since
    return ad


_OF_ALL_DAEMONS = frozenset({"Machine", "CondorVersion", "CondorPlatform", "MyCurrentTime", "DaemonStartTime"})


def _jobs(counts: Iterable[Count], statuses: tuple[int, ...], universe: str = "") -> int:
    return sum(count.jobs for count in counts if count.status in statuses and count.universe == universe)


def _by_state(counts: list[Count]) -> dict[str, int]:
    """Return the numbers of running, idle and held jobs. Held jobs are counted over all universes."""
    totals = {name: _jobs(counts, statuses) for name, statuses in _STATES.items()}
    totals["HeldJobs"] += sum(_jobs(counts, (HELD,), universe) for universe in _SEPARATE_UNIVERSES)
    return totals


def _count_separately(counts: list[Count], prefix: str = "") -> dict[str, int]:
    """Return the numbers of running and idle jobs in the access point's own universes."""
    totals = {}
    for universe, name in _SEPARATE_UNIVERSES.items():
        totals[f"{prefix}{name}JobsRunning"] = _jobs(counts, _STATES["RunningJobs"], universe)
        totals[f"{prefix}{name}JobsIdle"] = _jobs(counts, (IDLE,), universe)
    return totals


def scheduler_ad(pool: PoolInstant, counts: list[Count], recent: Recent, flocked: Mapping[str, int] = _NONE) -> ClassAd:
    """Return the ad of an access point. ``flocked``: the number of running jobs in other pools, by submitter."""
    ad = daemon_ad("Scheduler", pool.name, pool.name, pool)
    states = _by_state(counts)
    ad.update({f"Total{name}": jobs for name, jobs in states.items()})
    ad.update(_count_separately(counts, "Total"))
    ad["TotalRemovedJobs"] = _jobs(counts, (REMOVED,))
    ad["TotalJobAds"] = sum(count.jobs for count in counts)
    ad["TotalFlockedJobs"] = sum(flocked.values())
    ad["ShadowsRunning"] = states["RunningJobs"]
    ad["NumOwners"] = ad["NumUsers"] = len({count.owner for count in counts})
    ad.update({"RecentJobsStarted": recent.started, "RecentJobsCompleted": recent.completed})
    return ad


def _own_share(submitter: str, running: int, idle: int) -> Share:
    return Share(running, idle, 0)


def submitter_ads(
    pool: PoolInstant, counts: list[Count], share_of: Callable[[str, int, int], Share | None] = _own_share
) -> list[ClassAd]:
    """Return an ad for each submitter that has jobs in the queue, sorted by name.

    :param share_of: returns the submitter's share in this pool, from the numbers of its running and idle jobs in all
        pools, or None if there is no ad
    """
    ads = []
    for name in sorted({count.submitter for count in counts}):
        submitter_counts = [count for count in counts if count.submitter == name]
        ad = daemon_ad("Submitter", name, pool.name, pool)
        states = _by_state(submitter_counts)
        share = share_of(name, states["RunningJobs"], states["IdleJobs"])
        if share is not None:
            ad["ScheddName"] = pool.name
            ad.update({**states, **_count_separately(submitter_counts)})
            ad["RunningJobs"], ad["IdleJobs"], ad["FlockedJobs"], ad["SubmitterTag"] = share
            ads.append(ad)
    return ads


def collector_ad(pool: PoolInstant, counts: list[Count], slots: list[ClassAd]) -> ClassAd:
    ad = daemon_ad("Collector", pool.name, pool.name, pool)
    states = [text(slot, "State") for slot in slots]
    ad.update({name: jobs for name, jobs in _by_state(counts).items() if name != "HeldJobs"})
    ad.update({f"Hosts{state}": states.count(state) for state in ("Claimed", "Owner", "Unclaimed")})
    ad["HostsTotal"] = ad["MachineAds"] = len(slots)
    ad["SubmitterAds"] = len({count.submitter for count in counts})
    return ad


_DETECTED = ("DetectedCpus", "DetectedMemory")
_OF_A_STARTD = ("Arch", "OpSys", "OpSysAndVer", "CondorVersion", "CondorPlatform", *_DETECTED, "DetectedGPUs",
                "TotalCpus", "TotalMemory", "TotalGPUs")  # fmt: skip
_IN_USE = ("Cpus", "Memory", "GPUs")


def master_ad(pool: PoolInstant, machine: str, machine_ad: Mapping[str, str]) -> ClassAd:
    """Return a machine's master ad. ``own``: the texts of the machine's ad."""
    return _with_machine_attributes(daemon_ad("DaemonMaster", machine, machine, pool), machine_ad, _DETECTED)


def startd_ad(pool: PoolInstant, machine: str, machine_ad: Mapping[str, str], slots: Iterable[ClassAd]) -> ClassAd:
    """Return a machine's startd ad: its resources, and those in use. ``own``: the texts of the machine's ad."""
    ad = _with_machine_attributes(daemon_ad("StartD", machine, machine, pool), machine_ad, _OF_A_STARTD)
    machine_slots = [slot for slot in slots if text(slot, "Machine") == machine]
    ad["TotalSlots"] = len(machine_slots)
    used = [slot for slot in machine_slots if "PublicClaimId" in slot]
    for name in _IN_USE:
        ad[f"TotalInUse{name}"] = sum(number(slot, name) or 0 for slot in used)
    return ad


def _with_machine_attributes(ad: ClassAd, machine_ad: Mapping[str, str], names: Iterable[str]) -> ClassAd:
    from ...domain.state.caches import ad_from_attributes

    added = ad_from_attributes({name: machine_ad[name] for name in names if name in machine_ad})
    for name in added:
        ad[name] = added[name]
    return ad


SHOWN = 3
"""HTCondor's NEGOTIATION_CYCLE_STATS_LENGTH."""
_PREFIX = "LastNegotiationCycle"
_NO_TIME: dict[str, float] = {
    "CpuTime": 0.0,
    **{f"Phase{number}{what}": zero for number in range(1, 5) for what, zero in (("CpuTime", 0.0), ("Duration", 0))},
    "PrefetchCpuTime": 0.0,
    "PrefetchDuration": 0,
}
_NOBODY = ("ScheddsOutOfTime", "SubmittersFailed", "SubmittersOutOfTime")
_COUNTED = ("SubmittersShareLimit", "SubmittersMatchLimit")
"""Counted in the log. HTCondor's ad contains the names of the first kind, and nothing about the second."""


_NO_LIMITS: Mapping[str, float] = {}


class CycleStatistics(Protocol):
    """The fields of ``projections.views.CycleRow`` that this module needs."""

    @property
    def statistics(self) -> dict[str, float]: ...


def negotiator_ad(
    pool: PoolInstant, cycles: Sequence[CycleStatistics], limits: Mapping[str, float] = _NO_LIMITS, name: str = ""
) -> ClassAd:
    """Return the ad of a pool's negotiator, or of one of several (``name``).

    :param cycles: the last cycles, the most recent first, with one more than is shown, to determine the end of that
    cycle
    :param limits: the use of each concurrency limit, which HTCondor's negotiator reports with the priorities
        (Accountant::ReportLimits)
    """
    ad = daemon_ad("Negotiator", name or pool.name, pool.name, pool)
    ends = [int(cycle.statistics.get("End", 0)) for cycle in cycles]
    for back, cycle in enumerate(cycles[:SHOWN]):
        period = ends[back] - ends[back + 1] if back + 1 < len(ends) else 0
        for attribute, value in _of_cycle(cycle.statistics, period).items():
            ad[f"{_PREFIX}{attribute}{back}"] = value
    for name, units in limits.items():
        ad[f"ConcurrencyLimit_{name.replace('.', '_')}"] = units
    return ad


def _of_cycle(statistics: dict[str, float], period: int) -> dict[str, float | str]:
    values: dict[str, float | str] = {**_NO_TIME, **dict.fromkeys(_NOBODY, "")}
    for name, value in statistics.items():
        if name not in _COUNTED:
            values[name] = int(value) if value == int(value) else value
    matches, duration = statistics.get("Matches", 0), statistics.get("Duration", 0)
    values["MatchRate"] = matches / duration if duration > 0 else 0.0
    values["MatchRateSustained"] = matches / period if period > 0 else 0.0
    values["Period"] = period
    if statistics.get(_COUNTED[0], 0) == 0:
        values[_COUNTED[0]] = ""
    return values


# The Defrag ad: the state's totals of all polls, under the names that condor_defrag publishes.
#
# Source: ``DefragStats`` and ``Defrag::publish``. The manual's page of these attributes calls two of them otherwise:
# AvgDrainingUnclaimedTime is AvgDrainingUnclaimed, MeanDrainedArrived is MeanDrainedArrival (a rate, machines a
# second).


def statistics(defrag: Defrag, policy: DefragPolicy, now: int) -> dict[str, Any]:
    """Return the attributes at an instant in microseconds, with their values. Times are seconds."""
    present = deepcopy(defrag)
    present.advance(now, policy.interval)
    lifetime = (now - defrag.since) // SECOND
    return {
        "DaemonStartTime": defrag.since // SECOND,
        "DaemonLastReconfigTime": defrag.configured // SECOND,
        "UpdateSequenceNumber": 1 + (lifetime // policy.update_interval if policy.update_interval > 0 else 0),
        "StatsLifetime": lifetime,
        "RecentStatsLifetime": present.span.seconds,
        "DrainSuccesses": present.successes.total,
        "RecentDrainSuccesses": present.successes.recent,
        "DrainFailures": present.failures.total,
        "RecentDrainFailures": present.failures.recent,
        "MachinesDraining": len(defrag.draining),
        "MachinesDrainingPeak": defrag.most_draining,
        "WholeMachines": len(defrag.whole),
        "WholeMachinesPeak": defrag.most_whole,
        BADPUT: defrag.costs.get(BADPUT, 0.0),
        UNCLAIMED: defrag.costs.get(UNCLAIMED, 0.0),
        "MeanDrainedArrival": defrag.arrivals.mean,
        "MeanDrainedArrivalSD": defrag.arrivals.deviation,
        "DrainedMachines": defrag.arrivals.machines,
        "RecentDrainsList": _latest(("when", "who", "what"), defrag.drains),
        "RecentCancelsList": _latest(("when", "who"), defrag.cancels),
    }


def _latest(names: Sequence[str], records: Sequence[tuple[Any, ...]]) -> list[ClassAd]:
    return [ClassAd(dict(zip(names, record, strict=True))) for record in reversed(records)]


def defrag_ads(pool: PoolInstant, defrag: Defrag, settings: Mapping[str, str]) -> dict[str, ClassAd]:
    """Return an ad for each daemon that defragments the pool, by the daemon's name.

    :param settings: the pool's current settings
    """
    ads = {}
    for daemon, policy in policies_in_force(settings).items():
        ad = daemon_ad("Defrag", policy.name, policy.name.rpartition("@")[2], pool)
        ad.update(statistics(defrag.of(daemon), policy, pool.now * 1_000_000))
        ads[daemon or DEFRAG] = ad
    return ads


def had_ads(pool: PoolInstant, settings: Mapping[str, str], log: EventStore, at: int | None) -> list[ClassAd]:
    """Return the ad of a manager that is one of several, with the reason for its state."""
    from ...domain.events import HadTransitioned
    from ...domain.state_machines.had import LEADER, PRE
    from ...replay.listing.event_lines import rows_by_subject

    managers = settings.get("HAD_LIST", "").split()
    if settings.get("HAD_NAME") not in managers:
        return []
    steps = [event for position, event in log.read_stream("had") if at is None or position <= at]
    last = steps[-1] if steps else None
    is_current = isinstance(last, HadTransitioned) and pool.since is not None and last.at >= pool.since * SECOND
    index, state = managers.index(settings["HAD_NAME"]), PRE
    ad = daemon_ad("HAD", settings["HAD_NAME"], settings["HAD_NAME"], pool)
    if isinstance(last, HadTransitioned) and is_current:
        ((_, row),) = rows_by_subject(last)
        state, ad["HadReason"], ad["HadStateTime"] = last.target, row.details, last.at // SECOND
    ad.update({"HadState": state, "HadIsActive": state == LEADER, "HadIndex": index})
    ad["HadSelfId"], ad["HadList"] = len(managers) - 1 - index, ", ".join(managers)
    ad["HadControlleeName"] = settings.get("HAD_CONTROLLEE", "NEGOTIATOR")
    return [ad]


class ViewsAndLog(Protocol):
    """A pool's views and its log, which is opened on first use (``queries.Queries``)."""

    @property
    def url(self) -> str: ...

    @property
    def at(self) -> int | None: ...

    @property
    def views(self) -> Views: ...

    @property
    def log(self) -> EventStore: ...


def pool_ads(
    queries: ViewsAndLog, kind: str, now: int, timezone: tzinfo, *, with_absent: bool = False
) -> Iterator[ClassAd]:
    """Yield the ads of a kind (MyType; empty: all), in the order of a collector. It shows absent ads only to queries
    that read Absent."""
    gathered = _Gathered(queries, now, timezone)
    for each, ads in _KINDS.items():
        if kind in (each, ""):
            yield from map(gathered.with_attributes, map(gathered.heard, ads(gathered)))
    if with_absent and kind in ("Machine", ""):
        yield from queries.views.absent_ads(now)


class _Gathered:
    """The sources of ads, each loaded on first use. (Not an attrs class, because importing attrs is slow.)"""

    def __init__(self, queries: ViewsAndLog, now: int, timezone: tzinfo) -> None:
        self.queries, self.views, self.now, self.timezone = queries, queries.views, now, timezone

    @cached_property
    def pool(self) -> PoolInstant:
        from .pool_client import is_served

        # The log does not record when a server stopped: in the past, the last one is taken as running.
        is_running = self.queries.at is not None or is_served(self.queries.url)
        since = _start_instant(self.queries.log) if is_running else None
        return PoolInstant(self.views.pool().name, self.now, since)

    @cached_property
    def elsewhere(self) -> dict[str, tuple[int, int, int]]:
        """The number, entries and last time of each role elsewhere, by its name."""
        return {peer: (nth, entries, last) for peer, nth, entries, last in self.views.peers()}

    @cached_property
    def roles(self) -> tuple[str, ...]:
        """The roles that act in this log; empty: all."""
        from ...domain.events import PoolFounded

        events = (event for _, event in self.queries.log.read_stream("pool"))
        return next((event.roles for event in events if isinstance(event, PoolFounded)), ())

    def access_points(self) -> Iterator[tuple[PoolInstant, list[Count], int]]:
        """Yield the access points of this log, and the ones that report to a manager, with their jobs and number."""
        if not self.roles or ACCESS_POINT in self.roles:
            yield self.pool, [Count(*row) for row in self.views.counts(0)], 0
        for peer, (nth, _, _) in self.elsewhere.items():
            if nth and MANAGER in self.roles:
                name = peer.partition("/")[2]
                yield PoolInstant(name, self.now, None), [Count(*row) for row in self.views.counts(nth)], nth

    def masters(self) -> list[ClassAd]:
        """Return the ads of the machines' masters, and at a manager its own and the access points' masters."""
        machines = self.views.machines()
        names = [at.name for at, _, _ in self.access_points()] if self.roles else []
        own = [self.pool.name] if MANAGER in self.roles else []
        return [master_ad(self.pool, name, machines.get(name, {})) for name in dict.fromkeys([*own, *names, *machines])]

    def heard(self, ad: ClassAd) -> ClassAd:
        """Add to an ad from a role elsewhere how many entries were read from its log, and when the last was. None is
        lost, because each is read after the one before."""
        kinds = {"StartD": EXECUTION_POINT, "Machine": EXECUTION_POINT, "Scheduler": ACCESS_POINT}
        roles = [kinds[text(ad, "MyType") or ""]] if text(ad, "MyType") in kinds else [ACCESS_POINT, EXECUTION_POINT]
        name = text(ad, "ScheddName") or text(ad, "Machine")
        known = [self.elsewhere[peer] for role in roles if (peer := f"{role}/{name}") in self.elsewhere]
        if known and MANAGER in self.roles:
            _, entries, last = max(known, key=lambda each: each[2])
            ad["UpdateSequenceNumber"] = ad["UpdatesTotal"] = entries
            ad["UpdatesSequenced"], ad["UpdatesLost"], ad["LastHeardFrom"] = entries - 1, 0, last // SECOND
        return ad

    def with_attributes(self, ad: ClassAd) -> ClassAd:
        """Add an administrator's attributes (SCHEDD_ATTRS, SCHEDD_CRON, ...) to an ad of a daemon of this log. As in
        HTCondor, they replace the schedd's own attributes, but not other daemons' attributes, or all daemons'."""
        from ...domain.state.caches import ad_from_attributes
        from ...domain.state.pool_settings import DAEMON_ATTRIBUTES

        daemon, *roles = _DAEMONS.get(text(ad, "MyType") or "", ("",))
        if not daemon:
            return ad
        name = text(ad, "ScheddName") or text(ad, "Machine")
        if all(f"{role}/{name}" not in self.elsewhere for role in roles):
            attributes = DAEMON_ATTRIBUTES[daemon].in_settings(self.views.pool().settings)
            if daemon == "SCHEDD":
                attributes |= self.printed_for_schedd
            is_schedd = text(ad, "MyType") == "Scheduler"
            for attribute, expression in ad_from_attributes(attributes).items():
                if attribute not in ad or (is_schedd and attribute not in _OF_ALL_DAEMONS):
                    ad[attribute] = expression
        return ad

    @cached_property
    def printed_for_schedd(self) -> dict[str, str]:
        """The attributes that the programs of SCHEDD_CRON printed last since the pool is served."""
        from ...domain.events import ScheddPublished

        before = None if self.queries.at is None else self.queries.at + 1
        event = next((event for _, event in self.queries.log.read_back("schedd", before)), None)
        if not isinstance(event, ScheddPublished) or event.at < (self.pool.since or 0) * SECOND:
            return {}
        return event.attributes

    @cached_property
    def counts(self) -> list[Count]:
        return [Count(*row) for row in self.views.counts()]

    @cached_property
    def slots(self) -> list[ClassAd]:
        return list(self.views.slot_ads(self.now, self.timezone))

    def schedulers(self) -> list[ClassAd]:
        lately = recent(self.queries.log, (self.now - WINDOW) * SECOND)
        return [
            scheduler_ad(at, counts, lately.get(nth, Recent(0, 0)), self.views.flocked(nth))
            for at, counts, nth in self.access_points()
        ]

    def submitters(self) -> list[ClassAd]:
        shares = FlockingShares(self.views, self.queries.log, self.queries.at)
        ads = []
        for at, counts, nth in self.access_points():
            share_of = partial(shares.at_manager, at.name) if nth else shares.at_access_point
            ads += submitter_ads(at, counts, share_of)
        return ads

    @cached_property
    def parts(self) -> list[str]:
        """The parts of the manager that are not turned off."""
        from ...domain.events import DaemonsSwitched
        from ...domain.fold.had_fold import note_switch
        from ...domain.had.switching import parts_of

        off: dict[str, DaemonsSwitched] = {}
        for position, event in self.queries.log.read_stream("daemons"):
            if isinstance(event, DaemonsSwitched) and (self.queries.at is None or position <= self.queries.at):
                note_switch(off, event)
        return [part for part in parts_of(self.views.pool().settings) if part not in off]

    def defrags(self) -> list[ClassAd]:
        ads = defrag_ads(self.pool, *self.views.defrag())
        return [ad for daemon, ad in ads.items() if daemon in self.parts]

    def hads(self) -> list[ClassAd]:
        if HAD not in self.parts:
            return []
        return had_ads(self.pool, self.views.pool().settings, self.queries.log, self.queries.at)

    def negotiators(self) -> list[ClassAd]:
        from ...domain.state.negotiators import has_several, name_in_events, negotiator_names

        settings = self.views.pool().settings
        names = [name for name in negotiator_names(settings) if name in self.parts]
        limits = self.views.limits_in_use()
        cycles = {name: self.views.cycles(name_in_events(name)) for name in names}
        several = has_several(settings)
        return [negotiator_ad(self.pool, cycles[name], limits, name if several else "") for name in names]

    def accounting(self) -> list[ClassAd]:
        from ...domain.state.negotiators import negotiator_names
        from .accounting_records import current_records, record_ad

        named = negotiator_names(self.views.pool().settings)
        ads = [record_ad(record) for name in named for record in current_records(self.views, self.now, negotiator=name)]
        for ad in ads:
            ad["MyType"] = "Accounting"
        return ads


_DAEMONS = {
    "Collector": ("COLLECTOR",),
    "Negotiator": ("NEGOTIATOR",),
    "Scheduler": ("SCHEDD", ACCESS_POINT),
    "Submitter": ("SCHEDD", ACCESS_POINT),
    "DaemonMaster": ("MASTER", ACCESS_POINT, EXECUTION_POINT),
}
"""By MyType: the daemon with these ads, and its roles, which may be elsewhere."""
_KINDS: dict[str, Callable[[_Gathered], list[ClassAd]]] = {
    "Defrag": _Gathered.defrags,
    "HAD": _Gathered.hads,
    "Collector": lambda own: [collector_ad(own.pool, own.counts, own.slots)],
    "Submitter": _Gathered.submitters,
    "StartD": lambda own: [startd_ad(own.pool, *machine, own.slots) for machine in own.views.machines().items()],
    "Scheduler": _Gathered.schedulers,
    "DaemonMaster": _Gathered.masters,
    "Negotiator": _Gathered.negotiators,
    "Machine": lambda own: own.slots,
    "Accounting": _Gathered.accounting,
}


def _start_instant(log: EventStore) -> int | None:
    from ...domain.events import WriterBegan

    began = [event.at for _, event in log.read_stream("pool") if isinstance(event, WriterBegan)]
    return began[-1] // SECOND if began else None


def recent(log: EventStore, since: int) -> dict[int, Recent]:
    """Count the job starts and completions in the log since a time (microseconds), by the access point's number."""
    from ...domain.events import JobActivated, JobExited

    counts: dict[int, Recent] = {}
    for _, event in log.read(log.position_at(since - 1)):
        if not isinstance(event, JobActivated | JobExited):
            continue
        nth = event.cluster // JOBS_PER_ACCESS_POINT
        started, completed = counts.get(nth, Recent(0, 0))
        started += isinstance(event, JobActivated)
        completed += isinstance(event, JobExited) and event.target == "Completed"
        counts[nth] = Recent(started, completed)
    return counts
