"""What a submitter may get in a spin of the pie, and what was in the way."""

from __future__ import annotations

from math import inf

from msgspec import Struct

from .candidates import RANK

EASING = 1e-9
"""Cores that sums of weights may be off by."""
SHARE, CEILING, MATCHES, RUNNING, QUOTA = "share", "ceiling", "matches", "running", "quota"
"""The limits that may keep a submitter from a slot."""


class SpinLimits(Struct):
    """What a submitter may get in a spin: ``limit`` cores, ``unclaimed`` of them from slots that nobody has, ``room``
    until its ceiling, and ``quota`` until its group has what it may have, which no match may exceed; of which it has
    ``got`` so much, ``fresh`` from nobody. ``stopped`` says which of them was in the last job's way: share, ceiling,
    quota, or empty for none."""

    limit: float
    unclaimed: float
    room: float
    quota: float = inf
    capped: str = SHARE  #: what ``unclaimed`` is bounded by
    got: float = 0.0
    fresh: float = 0.0
    stopped: str = ""

    def permits(self, cores: float, reason: str, swapped: bool = False) -> bool:
        """Whether a slot may be had. Who has got nothing in this spin may exceed its share once; a slot's preference
        goes before all shares.

        :param swapped: a submitter of the same group has the slot
        """
        if self.got + cores > self.room + EASING:
            self.stopped = self.stopped or CEILING
            return False
        if not swapped and cores > self.quota + EASING:
            self.stopped = self.stopped or QUOTA
            return False
        if reason == RANK:
            return True
        used, limit = (self.got, self.limit) if reason else (self.fresh, self.unclaimed)
        if used + cores <= limit + EASING or (used <= 0 < limit):
            return True
        self.stopped = SHARE if reason else self.capped
        return False

    def take(self, cores: float, reason: str, swapped: bool = False) -> None:
        self.got += cores
        if not swapped:
            self.quota -= cores
        if not reason:
            self.fresh += cores
