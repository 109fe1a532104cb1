"""The ad of a pool's defragmentation (``domain/defrag/daemon_ad``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .daemon_ads import Pool, daemon_ad

if TYPE_CHECKING:
    from ...domain.classad import ClassAd
    from ...domain.state.defrag import Defrag


def defrag_ads(pool: Pool, defrag: Defrag, settings: Mapping[str, str]) -> list[ClassAd]:
    """Return the ad, if the pool defragments.

    :param settings: the pool's settings in force
    """
    from ...domain.defrag.settings import policy_in_force

    policy = policy_in_force(settings)
    if policy is None:
        return []
    from ...domain.defrag.daemon_ad import statistics

    ad = daemon_ad("Defrag", policy.name, policy.name.rpartition("@")[2], pool)
    ad.update(statistics(defrag, policy, pool.now * 1_000_000))
    return [ad]
