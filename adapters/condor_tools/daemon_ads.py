"""The ads of a pool's daemons and users, which condor_status shows beside the slots.

A pool is one process here, which does the work of all of HTCondor's daemons. Their ads have what the log and its views
record, under HTCondor's names, and no attribute that nobody counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from .cells import HELD, IDLE, REMOVED, RUNNING, SUSPENDED, TRANSFERRING_OUTPUT, number, text

if TYPE_CHECKING:
    from ...domain.classad import ClassAd

WINDOW = 1200
"""Seconds of HTCondor's Recent... attributes: STATISTICS_WINDOW_SECONDS."""
_STATES = {
    "RunningJobs": (RUNNING, TRANSFERRING_OUTPUT, SUSPENDED),
    "IdleJobs": (IDLE,),
    "HeldJobs": (HELD,),
}


_APART = {"local": "Local", "scheduler": "Scheduler"}
"""Universes whose jobs are counted apart, with what their counts' names have in them."""


class Pool(NamedTuple):
    """A pool at an instant: its name, the time, and since when it is served (None: it is not); in seconds."""

    name: str
    now: int
    since: int | None


class Count(NamedTuple):
    """A submitter's number of jobs in a JobStatus. ``universe``: local or scheduler, whose jobs count apart; empty
    for all others."""

    submitter: str
    owner: str
    universe: str
    status: int
    jobs: int


class Recent(NamedTuple):
    """Job starts and completions of the last ``WINDOW`` seconds."""

    started: int
    completed: int


def daemon_ad(kind: str, name: str, machine: str, pool: Pool) -> ClassAd:
    from ...domain.classad import ClassAd
    from ..machine.host import CONDOR_VERSION, condor_platform

    ad = ClassAd({"MyType": kind, "Name": name, "Machine": machine})
    ad["CondorVersion"], ad["CondorPlatform"] = CONDOR_VERSION, condor_platform()
    ad["MyCurrentTime"] = pool.now
    if pool.since is not None:
        ad["DaemonStartTime"] = pool.since
    return ad


def _jobs(counts: Iterable[Count], statuses: tuple[int, ...], universe: str = "") -> int:
    return sum(count.jobs for count in counts if count.status in statuses and count.universe == universe)


def _by_state(counts: list[Count]) -> dict[str, int]:
    """Return the numbers of running, idle and held jobs. Held ones are not told apart by their universes."""
    found = {name: _jobs(counts, statuses) for name, statuses in _STATES.items()}
    found["HeldJobs"] += sum(_jobs(counts, (HELD,), universe) for universe in _APART)
    return found


def _apart(counts: list[Count], prefix: str = "") -> dict[str, int]:
    """Return the numbers of running and idle jobs of the access point's own universes."""
    found = {}
    for universe, name in _APART.items():
        found[f"{prefix}{name}JobsRunning"] = _jobs(counts, _STATES["RunningJobs"], universe)
        found[f"{prefix}{name}JobsIdle"] = _jobs(counts, (IDLE,), universe)
    return found


def scheduler_ad(pool: Pool, counts: list[Count], recent: Recent) -> ClassAd:
    ad = daemon_ad("Scheduler", pool.name, pool.name, pool)
    states = _by_state(counts)
    ad.update({f"Total{name}": jobs for name, jobs in states.items()})
    ad.update(_apart(counts, "Total"))
    ad["TotalRemovedJobs"] = _jobs(counts, (REMOVED,))
    ad["TotalJobAds"] = sum(count.jobs for count in counts)
    ad["TotalFlockedJobs"] = 0  # there is no flocking
    ad["ShadowsRunning"] = states["RunningJobs"]
    ad["NumOwners"] = ad["NumUsers"] = len({count.owner for count in counts})
    ad.update({"RecentJobsStarted": recent.started, "RecentJobsCompleted": recent.completed})
    return ad


def submitter_ads(pool: Pool, counts: list[Count]) -> list[ClassAd]:
    """Return an ad for each submitter that has jobs in the queue, by name."""
    found = []
    for name in sorted({count.submitter for count in counts}):
        own = [count for count in counts if count.submitter == name]
        ad = daemon_ad("Submitter", name, pool.name, pool)
        ad["ScheddName"] = pool.name
        ad.update({**_by_state(own), **_apart(own), "FlockedJobs": 0})
        found.append(ad)
    return found


def collector_ad(pool: Pool, counts: list[Count], slots: list[ClassAd]) -> ClassAd:
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


def master_ad(pool: Pool, machine: str, own: Mapping[str, str]) -> ClassAd:
    """Return a machine's master ad. ``own``: the texts of the machine's ad."""
    return _with(daemon_ad("DaemonMaster", machine, machine, pool), own, _DETECTED)


def startd_ad(pool: Pool, machine: str, own: Mapping[str, str], slots: Iterable[ClassAd]) -> ClassAd:
    """Return a machine's startd ad: its resources, and those in use. ``own``: the texts of the machine's ad."""
    ad = _with(daemon_ad("StartD", machine, machine, pool), own, _OF_A_STARTD)
    here = [slot for slot in slots if text(slot, "Machine") == machine]
    ad["TotalSlots"] = len(here)
    used = [slot for slot in here if "PublicClaimId" in slot]
    for name in _IN_USE:
        ad[f"TotalInUse{name}"] = sum(number(slot, name) or 0 for slot in used)
    return ad


def _with(ad: ClassAd, own: Mapping[str, str], names: Iterable[str]) -> ClassAd:
    from ...domain.state.caches import ad_of

    said = ad_of({name: own[name] for name in names if name in own})
    for name in said:
        ad[name] = said[name]
    return ad
