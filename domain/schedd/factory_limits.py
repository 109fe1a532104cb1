"""The attributes by which a cluster's factory goes (``factories``)."""

from __future__ import annotations

from typing import Final

LIMIT: Final = "JobMaterializeLimit"
MAX_IDLE: Final = "JobMaterializeMaxIdle"
PAUSED: Final = "JobMaterializePaused"
LIMITS: Final = frozenset({LIMIT.lower(), MAX_IDLE.lower()})
KEPT: Final = frozenset({"jobmaterializenextprocid", "jobmaterializenextrow", "totalsubmitprocs"})
"""What a factory itself writes."""
