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
    """How much a submitter may receive in a spin: ``limit`` cores, at most ``unclaimed`` of them from unclaimed slots,
    ``room`` until its ceiling, and ``quota`` until its group's quota, which no match may exceed, is used up. ``got`` is
    what it has received in this spin; ``fresh``, the part from unclaimed slots. ``stopped`` is the limit that stopped
    the last job: share, ceiling, quota, or empty."""

    limit: float
    unclaimed: float
    room: float
    quota: float = inf
    capped: str = SHARE  #: the limit that bounds ``unclaimed``
    got: float = 0.0
    fresh: float = 0.0
    stopped: str = ""

    def permits(self, cores: float, reason: str, swapped: bool = False) -> bool:
        """Check whether the limits allow a slot. A submitter without a slot in this spin may exceed its share once. A
        slot that prefers the job is not limited by shares.

        :param swapped: whether a submitter of the same group currently has the slot
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
