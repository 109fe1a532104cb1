"""When a negotiation cycle is held.

Cycles are NEGOTIATOR_INTERVAL apart at most, as long as jobs wait or somebody's priority changes. A cycle is held
earlier on request: of an administrator; where no pace is configured (NEGOTIATOR_CYCLE_DELAY), of whatever may make it
come to something else than the last one; where one is, of the access point, for new and for released jobs. Requests
wait for a while behind a cycle in which somebody had to go, and as long as the last one took. While a machine cannot
start jobs, as with a full disk, there is none, so that what is matched is not tried again and again.

All instants are microseconds of the log's time. The schedule is no part of the state: it begins anew with each process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from attrs import define

from ..events import (
    ClaimEnded,
    ClusterSubmitted,
    CycleHeld,
    Event,
    JobCooledDown,
    JobExecuting,
    JobExited,
    JobsEdited,
    JobsMaterialized,
    JobsTransitioned,
    PoolConfigured,
    SlotAdChanged,
    SlotCreated,
    SlotTransitioned,
    SubmitterEvent,
    SubmittersReset,
)
from ..state.job_ad import EXPIRATION
from ..state.slot_fold import PUBLISHED
from ..state.state import Submitter

SECOND: Final = 1_000_000
SETTLES: Final = 5 * SECOND
"""How far the next cycle on request is from one in which somebody had to go, or whose claim its startd took back (the
default of NEGOTIATOR_MIN_INTERVAL): who had to go waits again, and may make the other go in turn."""
FIRST_PAUSE: Final = SECOND
LAST_PAUSE: Final = 60 * SECOND
"""For how long nothing is started behind a start that failed for the machine's fault: at first, and at most; it doubles
until one succeeds."""
_NEW = ClusterSubmitted | JobsMaterialized
_ALWAYS_HELPS = SlotCreated | _NEW | JobsEdited | JobCooledDown | PoolConfigured | SubmitterEvent | SubmittersReset


class Paced(Protocol):
    """What a schedule reads of a pool (``State``)."""

    @property
    def idle(self) -> int: ...
    @property
    def submitters(self) -> Mapping[str, Submitter]: ...
    @property
    def priorities_updated_at(self) -> int: ...
    @property
    def settings(self) -> Mapping[str, str]: ...
    def setting(self, name: str) -> int: ...


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
    return isinstance(event, _NEW) or (isinstance(event, JobsTransitioned) and event.row == "release")


def _begins_again(event: JobExited) -> bool:
    """Return whether a job whose run has ended may be started again at once."""
    return event.row == "evict" and EXPIRATION not in event.changes


@define
class CycleSchedule:
    """The last cycle, and what has happened since."""

    may_help: bool = True  #: whether a cycle may come to something else than the last one, as long as jobs wait
    rescheduled: bool = False  #: whether somebody has asked for a cycle
    requested: bool = False  #: whether the access point has asked for one
    last_cycle: int = 0  #: when the last one was held
    settles_at: int = 0  #: until when no cycle is held because something may help: in the last one somebody had to go
    rests_until: int = 0  #: until when no cycle is held on request, so that cycles do not take all the time
    paused_until: int = 0  #: until when nothing is started, since the machine could not start a job
    pause: int = 0  #: how long that is (0: the last start succeeded)
    asleep: int = 0  #: how many of the jobs that wait for a slot cannot be matched before some later instant

    # What happens

    def on_event(self, event: Event) -> None:
        """Take in an event of the log."""
        self.may_help = self.may_help or may_help(event)
        self.requested = self.requested or is_request(event)
        if isinstance(event, ClaimEnded) and event.cause == "start_false":
            self.settles_at = event.at + SETTLES  # what is matched again at once is taken back again at once
        if isinstance(event, JobExecuting):
            self.pause = 0
        elif isinstance(event, JobExited) and event.outcome == "failed" and _begins_again(event):
            self._could_not_start(event.at)

    def _could_not_start(self, at: int) -> None:
        if at >= self.paused_until:  # else it was begun together with the one for which there is a pause
            self.pause = min(self.pause * 2 or FIRST_PAUSE, LAST_PAUSE)
            self.paused_until = at + self.pause

    def woke(self) -> None:
        """Take in that jobs may be matched that could not be before this instant."""
        self.may_help = True

    def _awake(self, state: Paced) -> bool:
        """Return whether any job that waits could be matched now."""
        return state.idle > self.asleep

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
            self.settles_at = now + SETTLES

    def rest(self, state: Paced, began: int, ended: int) -> None:
        """Rest from the last cycle: for as long as it took with its append, but no longer than the interval, and for as
        long as the configured pace says. In virtual time a cycle takes none."""
        took = min(max(0, ended - began), _interval(state))
        self.rests_until = max(ended + took, _earliest(state, began, ended))

    # What is asked

    def due(self, state: Paced, now: int) -> bool:
        """Return whether a cycle is to be held now."""
        self._follow_clock(now)
        if self.paused(now) and not self.rescheduled:
            return False
        if self._heard(state, now):
            return now >= self.rests_until
        due = self._by_itself(state)
        return due is not None and now >= due and not (_paced(state) and now < self.rests_until)

    def next(self, state: Paced, now: int) -> int | None:
        """Return when a cycle may be due next; None: nothing is known that would make one due."""
        self._follow_clock(now)
        if self.paused(now) and not self.rescheduled:
            return self.paused_until
        found = []
        due = self._by_itself(state)
        if due is not None:
            found.append(max(due, self.rests_until) if _paced(state) or self._heard(state, now) else due)
        if self._on_request(state):
            found += [each for each in (self.settles_at, self.rests_until) if each > now]
        return min(found, default=None)

    def _follow_clock(self, now: int) -> None:
        """Take in that the clock was set back: the log has nothing of what was decided since it was set forward, a
        cycle that matched nothing or what could not be appended, so its time does not go on from there."""
        if now < self.last_cycle:
            self.last_cycle = self.rests_until = now
        self.settles_at = min(self.settles_at, now + SETTLES)
        self.paused_until = min(self.paused_until, now + LAST_PAUSE)

    def paused(self, now: int) -> bool:
        """Return whether nothing is to be started now, since the machine could not."""
        return now < self.paused_until

    def waits_for_cycle(self, state: Paced) -> bool:
        """Return whether a cycle that may help is still to come: by the configured pace, behind the rest from the last
        one, or when things have settled."""
        return self.may_help and self._awake(state)

    def _heard(self, state: Paced, now: int) -> bool:
        """Return whether there is a request that does not wait until things have settled."""
        return self._on_request(state) and (self.rescheduled or now >= self.settles_at)

    def _on_request(self, state: Paced) -> bool:
        """Return whether a cycle is to be held before it is due by itself."""
        return self.rescheduled or (self._awake(state) and (self.requested if _paced(state) else self.may_help))

    def _by_itself(self, state: Paced) -> int | None:
        """Return when a cycle is due by itself: while jobs wait for slots, or priorities change since somebody uses
        some. None: it is not."""
        if self._awake(state):
            return self.last_cycle + _interval(state)
        if any(one.slots for one in state.submitters.values()):
            return max(self.last_cycle, state.priorities_updated_at) + _interval(state)
        return None


def _interval(state: Paced) -> int:
    """Return how far cycles are apart at most."""
    return state.setting("NEGOTIATOR_INTERVAL") or SECOND


def _paced(state: Paced) -> bool:
    """Return whether somebody has said how far cycles are apart: if not, one is held whenever it may help."""
    return "NEGOTIATOR_CYCLE_DELAY" in state.settings


def _earliest(state: Paced, began: int, ended: int) -> int:
    """Return when the next cycle may begin at the earliest after one that began and ended then."""
    if not _paced(state):
        return ended
    delay, least = (state.setting(name) for name in ("NEGOTIATOR_CYCLE_DELAY", "NEGOTIATOR_MIN_INTERVAL"))
    return max(ended + delay, began + least)
