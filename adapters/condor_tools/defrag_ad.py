"""The ad of a pool's defragmentation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .daemon_ads import Pool, daemon_ad

if TYPE_CHECKING:
    from ...domain.classad import ClassAd
    from ...domain.state.defrag import Defrag
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from ...domain.classad import ClassAd
from ...domain.defrag.choice import BADPUT, UNCLAIMED
from ...domain.defrag.settings import DefragPolicy
from ...domain.state.defrag import Defrag

# The Defrag ad: what the state tells of all polls, under the names that the reference's daemon publishes.
#
# Source: ``DefragStats`` and ``Defrag::publish``. The manual's page of these attributes calls two of them otherwise:
# AvgDrainingUnclaimedTime is AvgDrainingUnclaimed, MeanDrainedArrived is MeanDrainedArrival (a rate, machines a
# second).

SECOND = 1_000_000


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


def defrag_ads(pool: Pool, defrag: Defrag, settings: Mapping[str, str]) -> list[ClassAd]:
    """Return the ad, if the pool defragments.

    :param settings: the pool's settings in force
    """
    from ...domain.defrag.settings import policy_in_force

    policy = policy_in_force(settings)
    if policy is None:
        return []

    ad = daemon_ad("Defrag", policy.name, policy.name.rpartition("@")[2], pool)
    ad.update(statistics(defrag, policy, pool.now * 1_000_000))
    return [ad]
