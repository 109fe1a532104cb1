"""The attributes by which a cluster's factory goes (``factories``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

LIMIT: Final = "JobMaterializeLimit"
MAX_IDLE: Final = "JobMaterializeMaxIdle"
PAUSED: Final = "JobMaterializePaused"
LIMITS: Final = frozenset({LIMIT.lower(), MAX_IDLE.lower()})
KEPT: Final = frozenset({"jobmaterializenextprocid", "jobmaterializenextrow", "totalsubmitprocs"})
"""What a factory itself writes."""


def makes_factory(ad: Iterable[str]) -> bool:
    """Return whether a submission with these attributes has its jobs made little by little."""
    return any(name.lower() in LIMITS for name in ad)
