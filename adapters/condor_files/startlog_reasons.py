"""Recognize lines of a StartLog that give the reason of a transition, or tell of a slot without changing it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from .reader import without_secrets

_SOURCE_FILE = re.compile(r"\s*:?\s*\S+\.(?:cpp|cc|C|h)\(\d+\)")


@lru_cache(1_000)
def reason_of(text: str) -> str:
    """Return the reason that a line gives. The cache helps as most lines give one of a few."""
    return without_secrets(_SOURCE_FILE.sub(":", text.removeprefix("State change:").strip()))


REMARKS = (
    "Evicting job ",
    "max vacate time expired",
    "starter (pid ",
    "Machine Requirements check ",
    "activate_claim refused",
    "Claim lease expired",
)


OF_THE_MACHINE = (
    "shutdown fast",
    "shutdown graceful",
    "Initiating graceful draining",
    "Initiating quick draining",
    "Initiating fast draining",
    "State change: received VACATE_ALL",
)


LEAVING: Final = ("Claimed/Retiring", "Preempting/", "Owner/")
