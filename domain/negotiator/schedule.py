"""When a negotiation cycle is held.

Cycles are NEGOTIATOR_INTERVAL apart at most, as long as jobs wait or somebody's priority changes. A cycle is held
earlier on request: of an administrator; where no pace is configured (NEGOTIATOR_CYCLE_DELAY), of whatever may make it
come to something else than the last one; where one is, of the access point, for new and for released jobs. Requests
wait for a while behind a cycle in which somebody had to go, and as long as the last one took.

All instants are microseconds of the log's time. The schedule is no part of the state: it begins anew with each process.
"""

from __future__ import annotations

from typing import Final

from attrs import define

from ..events import (
    ClusterSubmitted,
    CycleHeld,
    Event,
    JobExited,
    JobsEdited,
    JobsTransitioned,
    PoolConfigured,
    SlotAdChanged,
    SlotCreated,
    SlotTransitioned,
    SubmitterEvent,
    SubmittersReset,
)
from ..state.slot_fold import PUBLISHED
from ..state.state import State
from .idle_jobs import waits

SECOND: Final = 1_000_000
AFTER_PREEMPTION: Final = 5 * SECOND
"""How far the next cycle on request is from one in which somebody had to go (the default of NEGOTIATOR_MIN_INTERVAL):
who had to go waits again, and may make the other go in turn."""
_ALWAYS_HELPS = SlotCreated | ClusterSubmitted | JobsEdited | PoolConfigured | SubmitterEvent | SubmittersReset


def may_help(event: Event) -> bool:
    """Return whether a cycle may come to something else since this event: jobs wait that did not, a slot may have
    become better, or somebody may have more than before."""
    match event:
        case SlotTransitioned():
            return event.target == "Unclaimed/Idle"
        case SlotAdChanged():
            return event.cause != PUBLISHED  # what the sensors tell is looked at in the next cycle that is due
        case JobsTransitioned():
            return event.target == "Idle"
        case JobExited():
            return event.target != "Completed"
    return isinstance(event, _ALWAYS_HELPS)


def is_request(event: Event) -> bool:
    """Return whether an access point asks the negotiator for a cycle when this has happened."""
    return isinstance(event, ClusterSubmitted) or (isinstance(event, JobsTransitioned) and event.row == "release")


@define
class CycleSchedule:
    """The last cycle, and what has happened since."""

    may_help: bool = True  #: whether a cycle may come to something else than the last one, as long as jobs wait
    rescheduled: bool = False  #: whether somebody has asked for a cycle
    requested: bool = False  #: whether the access point has asked for one
    last_cycle: int = 0  #: when the last one was held
    settles_at: int = 0  #: until when no cycle is held because something may help: in the last one somebody had to go
    rests_until: int = 0  #: until when no cycle is held on request, so that cycles do not take all the time

    # What happens

    def on_event(self, event: Event) -> None:
        """Take in an event of the log."""
        self.may_help = self.may_help or may_help(event)
        self.requested = self.requested or is_request(event)

    def reschedule(self) -> None:
        """Let a cycle be held as soon as that may be, whether it may help or not."""
        self.rescheduled = True

    def restart(self) -> None:
        """Take any number of unknown events in."""
        self.may_help = True

    def held(self, now: int, cycle: CycleHeld | None) -> None:
        """Take in that a cycle was held; None: it left no event. Its own events are no news to it."""
        self.last_cycle = now
        self.rescheduled = self.requested = False
        # It may where somebody had as many matches as one cycle gives.
        self.may_help = cycle is not None and cycle.statistics.get("SubmittersMatchLimit", 0) > 0
        if cycle is not None and any(match.reason for match in cycle.matches):
            self.settles_at = now + AFTER_PREEMPTION

    def rest(self, state: State, began: int, ended: int) -> None:
        """Rest from the last cycle: for as long as it took with its append, but no longer than the interval, and for as
        long as the configured pace says. In virtual time a cycle takes none."""
        took = min(max(0, ended - began), _interval(state))
        self.rests_until = max(ended + took, _earliest(state, began, ended))

    # What is asked

    def due(self, state: State, now: int) -> bool:
        """Return whether a cycle is to be held now."""
        if self._heard(state, now):
            return now >= self.rests_until
        due = self._by_itself(state)
        return due is not None and now >= due and not (_paced(state) and now < self.rests_until)

    def next(self, state: State, now: int) -> int | None:
        """Return when a cycle may be due next; None: nothing is known that would make one due."""
        found = []
        due = self._by_itself(state)
        if due is not None:
            found.append(max(due, self.rests_until) if _paced(state) or self._heard(state, now) else due)
        if self._on_request(state):
            found += [each for each in (self.settles_at, self.rests_until) if each > now]
        return min(found, default=None)

    def waits_for_cycle(self, state: State) -> bool:
        """Return whether a cycle that may help is still to come: by the configured pace, behind the rest from the last
        one, or when things have settled."""
        return self.may_help and waits(state)

    def _heard(self, state: State, now: int) -> bool:
        """Return whether there is a request that does not wait until things have settled."""
        return self._on_request(state) and (self.rescheduled or now >= self.settles_at)

    def _on_request(self, state: State) -> bool:
        """Return whether a cycle is to be held before it is due by itself."""
        return self.rescheduled or (waits(state) and (self.requested if _paced(state) else self.may_help))

    def _by_itself(self, state: State) -> int | None:
        """Return when a cycle is due by itself: while jobs wait for slots, or priorities change since somebody uses
        some. None: it is not."""
        if waits(state):
            return self.last_cycle + _interval(state)
        if any(one.slots for one in state.submitters.values()):
            return max(self.last_cycle, state.priorities_updated_at) + _interval(state)
        return None


def _interval(state: State) -> int:
    """Return how far cycles are apart at most."""
    return state.setting("NEGOTIATOR_INTERVAL") or SECOND


def _paced(state: State) -> bool:
    """Return whether somebody has said how far cycles are apart: if not, one is held whenever it may help."""
    return "NEGOTIATOR_CYCLE_DELAY" in state.settings


def _earliest(state: State, began: int, ended: int) -> int:
    """Return when the next cycle may begin at the earliest after one that began and ended then."""
    if not _paced(state):
        return ended
    delay, least = (state.setting(name) for name in ("NEGOTIATOR_CYCLE_DELAY", "NEGOTIATOR_MIN_INTERVAL"))
    return max(ended + delay, began + least)
