"""How much a submitter may receive in a spin of the pie, and the limit that stopped it."""

from __future__ import annotations

from math import inf

from msgspec import Struct

from .candidates import RANK

EASING = 1e-9
"""The rounding error that is allowed in sums of weights, in cores."""
SHARE, CEILING, MATCHES, RUNNING, QUOTA = "share", "ceiling", "matches", "running", "quota"
"""The limits that can stop a submitter."""


class SpinLimits(Struct):
    """How many cores a submitter may receive in a spin, and how many it has received."""

    limit: float
    unclaimed: float  #: the part of ``limit`` that may come from unclaimed slots
    room: float  #: the cores left until its ceiling is reached
    quota: float = inf  #: the cores left until its group's quota, which no match may exceed, is used up
    capped: str = SHARE  #: the limit that bounds ``unclaimed``
    got: float = 0.0  #: the cores received in this spin
    got_free: float = 0.0  #: the part of ``got`` from unclaimed slots
    stopped: str = ""  #: the limit that stopped the last job: share, ceiling, quota, or empty

    def permits(self, cores: float, reason: str, within_group: bool = False) -> bool:
        """Check whether the limits allow a slot. A submitter without a slot in this spin may exceed its share once. A
        slot that prefers the job is not limited by shares.

        :param within_group: whether a submitter of the same group currently has the slot
        """
        if self.got + cores > self.room + EASING:
            self.stopped = self.stopped or CEILING
            return False
        if not within_group and cores > self.quota + EASING:
            self.stopped = self.stopped or QUOTA
            return False
        if reason == RANK:
            return True
        used, limit = (self.got, self.limit) if reason else (self.got_free, self.unclaimed)
        if used + cores <= limit + EASING or (used <= 0 < limit):
            return True
        self.stopped = SHARE if reason else self.capped
        return False

    def remaining(self) -> SpinLimits:
        """Return the limits for the submitter's jobs at another access point in the same spin."""
        limit, unclaimed = max(0.0, self.limit - self.got), max(0.0, self.unclaimed - self.got_free)
        return SpinLimits(limit, unclaimed, self.room - self.got, self.quota, self.capped)

    def count_match(self, cores: float, reason: str, within_group: bool = False) -> None:
        self.got += cores
        if not within_group:
            self.quota -= cores
        if not reason:
            self.got_free += cores
