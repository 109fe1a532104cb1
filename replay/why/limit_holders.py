"""Which jobs hold what of concurrency limits, told from the log's events, as of the last that was noted."""

from __future__ import annotations

from typing import NamedTuple

from attrs import define, field

from ...domain import events as e
from ...domain.concurrency_limits import PARTS, Amount, amount_text, requested_amounts

_MOST = 10
"""Holders that are named, at most."""


class _Held(NamedTuple):
    limits: str
    holder: str  #: the job, else the slot


@define
class LimitHolders:
    """What matches, claims, and claims that wait hold, by their slots."""

    _matched: dict[str, _Held] = field(factory=dict)
    _waiting: dict[str, _Held] = field(factory=dict)
    _claimed: dict[str, _Held] = field(factory=dict)

    def note(self, event: e.Event) -> bool:
        """Take in an event; tell whether it changes who holds what."""
        match event:
            case e.CycleHeld():
                taken = [self._take(self._matched, one.slot, one.limits, one.job) for one in event.matches]
                return True in taken
            case e.ClaimQueued():
                if not event.holder:
                    self._matched.pop(event.slot, None)
                return self._take(self._waiting, event.slot, event.limits, event.job)
            case e.ClaimMade():
                job = self._matched.pop(event.slot, _Held("", event.job)).holder
                self._waiting.pop(event.slot, None)
                return self._take(self._claimed, event.slot, event.limits, job)
            case e.JobActivated() if event.slot in self._claimed:
                job = f"{event.cluster}.{event.proc}"
                return self._take(self._claimed, event.slot, self._claimed[event.slot].limits, job)
            case e.MatchVoided():
                return self._matched.pop(event.slot, None) is not None
            case e.ClaimWithdrawn():
                return self._waiting.pop(event.slot, None) is not None
            case e.ClaimEnded():
                return self._claimed.pop(event.slot, None) is not None
            case e.SlotDestroyed():
                gone = [one.pop(event.slot, None) for one in (self._matched, self._waiting, self._claimed)]
                return any(gone)
        return False

    def _take(self, where: dict[str, _Held], slot: str, limits: str, job: str) -> bool:
        before = where.pop(slot, None)
        if limits:
            where[slot] = _Held(limits, job or slot)
        return bool(limits or before)

    def of(self, name: str) -> list[tuple[str, Amount]]:
        """Return the holders of a limit, by its name in small letters, each with its units; jobs in their order."""
        found = [
            (held.holder, one.units)
            for where in (self._claimed, self._waiting, self._matched)
            for held in where.values()
            for one in requested_amounts(held.limits)
            if one.name == name
        ]
        return sorted(found, key=lambda one: _order(one[0]))


def _order(holder: str) -> tuple[int, int, int, str]:
    cluster, _, proc = holder.partition(".")
    if cluster.isdecimal() and proc.isdecimal():
        return 0, int(cluster), int(proc), ""
    return 1, 0, 0, holder


def told_limits(reason: e.Unmatched, holders: LimitHolders) -> list[str]:
    """Tell of each limit that was reached how much there is and who holds it: XSW: 3 of 3, held by 1.0, 1.1, 4.2."""
    return [_told(one, holders.of(one.name)) for one in reason.reached]


def _told(limit: e.ReachedLimit, held: list[tuple[str, Amount]]) -> str:
    used = sum((units for _, units in held), start=0)
    names = [holder if units == PARTS else f"{holder} ({amount_text(units)})" for holder, units in held]
    if len(names) > _MOST:
        names = [*names[:_MOST], f"{len(names) - _MOST:,} more"]
    takes = "" if limit.wanted == 1 else f" (it takes {limit.wanted:g})"
    return f"{limit.name.upper()}: {amount_text(used)} of {limit.most:g}{takes}, held by {', '.join(names) or 'nobody'}"
