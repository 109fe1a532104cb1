"""The schedd's ad for submit requirements and for the start conditions of local and scheduler universe jobs.

Its hardware attributes describe the pool's machine: the machine with the pool's name, or else the first one.
Source: Scheduler::publish and count_jobs (schedd.cpp) of HTCondor.
"""

from __future__ import annotations

from typing import Final

from ..classad import ClassAd
from ..classad.tree import Literal
from ..decision.draft import Draft
from ..events import Ad, ScheddPublished
from ..ports.stimuli import ScheddReported
from ..state.caches import ad_from_attributes
from ..state.cluster import LOCAL_UNIVERSE, SCHEDULER_UNIVERSE, Cluster
from ..state.job_ad import STATUS_NUMBERS
from ..state.pool_settings import DAEMON_ATTRIBUTES, job_limit
from ..state.records import RUNS
from ..state.state import AccessPoint

UNIVERSE_NAMES: Final = {LOCAL_UNIVERSE: "Local", SCHEDULER_UNIVERSE: "Scheduler"}
"""The universes that need no slot, as spelled in attribute names."""
HARDWARE: Final = {
    "Arch": "Arch",
    "OpSys": "OpSys",
    "Cpus": "DetectedCpus",
    "Memory": "DetectedMemory",
    "Disk": "TotalDisk",
}
"""The attributes copied from the machine's ad, each with its name there."""
_MACHINE_ATTRIBUTES: Final = {**HARDWARE, "OpSysVer": "OpSysVer", "OpSysAndVer": "OpSysAndVer"}


def schedd_ad(state: AccessPoint, host: Ad) -> ClassAd:
    """Return a new ad with the current values.

    :param host: the ad of the pool's machine
    """
    attributes: dict[str, object] = {"MyType": "Scheduler", "Name": state.name, "Machine": state.name}
    clusters = state.clusters.values()
    slot_clusters = [cluster for cluster in clusters if not cluster.is_local]
    for name in ("Idle", "Running", "Held", "Removed"):
        attributes[f"Total{name}Jobs"] = _count_jobs(slot_clusters, name)
    attributes["TotalJobAds"] = sum(cluster.live for cluster in clusters)
    attributes["NumUsers"] = len({state.owner(cluster) for cluster in clusters})
    max_running = job_limit(state.settings, "MAX_JOBS_RUNNING", state.dialect.setting_defaults)
    if max_running is not None:
        attributes["MaxJobsRunning"] = max_running
    ad = ClassAd(attributes)
    for universe, name in UNIVERSE_NAMES.items():
        of_universe = [cluster for cluster in clusters if cluster.universe == universe]
        ad[f"Total{name}JobsIdle"] = Literal(_count_jobs(of_universe, "Idle"))
        ad[running_attribute(universe)] = Literal(_count_jobs(of_universe, *RUNS))
    hardware = {name: host[source] for name, source in _MACHINE_ATTRIBUTES.items() if source in host}
    for name, expression in ad_from_attributes(hardware).items():
        ad[name] = expression
    added = DAEMON_ATTRIBUTES["SCHEDD"].in_settings(state.settings) | state.cron_attributes
    for name, expression in ad_from_attributes(added).items():
        ad[name] = expression
    return ad


def publish_report(draft: Draft[AccessPoint], stimulus: ScheddReported) -> None:
    """Record what the programs of SCHEDD_CRON printed, if it differs in more than the time."""
    if _without_times(stimulus.attributes) != _without_times(draft.state.cron_attributes):
        draft.emit(ScheddPublished(*draft.header("schedd_cron"), stimulus.attributes))


def _without_times(attributes: Ad) -> Ad:
    return {name: text for name, text in attributes.items() if not name.endswith("LastUpdate")}


def running_attribute(universe: str) -> str:
    """Return the name of the attribute with the number of a universe's running jobs."""
    return f"Total{UNIVERSE_NAMES[universe]}JobsRunning"


def _count_jobs(clusters: list[Cluster], *names: str) -> int:
    return sum(cluster.status_counts[STATUS_NUMBERS[name]] for cluster in clusters for name in names)
