"""What a slot's own records say of one job's run on it: why it was stopped, vacated or killed, and who came next."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from datetime import UTC, tzinfo
from itertools import count, takewhile
from typing import Final, NamedTuple

from attrs import define, field

from ...domain import events as e
from ...domain.ports.log import EventStore
from ...domain.state_machines import state
from ...domain.units import SECOND
from .run_end_causes import best_cause, meaning, of_reason

NEAR: Final = 3 * SECOND  #: two daemons of a pool write of the same thing within this time
LATER: Final = 2 * SECOND  #: a slot's move explains what was written of its job at most so long before it ...
FREE: Final = 10 * SECOND  #: ... and not what was written when the slot had been free of the job for so long
TAKEN: Final = 600 * SECOND  #: within this time after its end a job's place is taken by the one that it had to go for


class Next(NamedTuple):
    """The job that a slot was given afterwards."""

    position: int
    at: int
    job: str
    user: str
    stimulus: str

    @property
    def stimuli(self) -> tuple[str, ...]:
        return (self.stimulus,)

    def words(self, _: tzinfo = UTC) -> str:
        """Return which job it was, and whose."""
        return f"job {self.job}{f' of {self.user}' if self.user else ''}"


class Begun(NamedTuple):
    """A job that was started on a slot, and whose it is, if the slot's log tells."""

    at: int
    job: str
    user: str
    slot: str
    position: int
    stimulus: str


@define
class SlotRecords:
    """Slots' records, in order of time, read as they are asked for."""

    log: EventStore
    until: int | None = None
    _streams: dict[str, list[e.LoggedEvent]] = field(factory=dict)
    _times: dict[str, list[int]] = field(factory=dict)

    def records(self, slot: str) -> list[e.LoggedEvent]:
        if slot not in self._streams:
            told = [
                told for told in self.log.read_stream(f"slot/{slot}") if self.until is None or told[1].at <= self.until
            ]
            self._streams[slot] = sorted(told, key=lambda told: (told[1].at, told[0]))
            self._times[slot] = [event.at for _, event in self._streams[slot]]
        return self._streams[slot]

    def run(self, slot: str, job: str, began: int) -> list[e.LoggedEvent]:
        """The slot's records of the run of a job that began at about an instant, up to where the slot is free of it."""
        records = self.records(slot)
        near = range(bisect_left(self._times[slot], began - NEAR), bisect_right(self._times[slot], began + NEAR))
        begin = next((at for at in near if _activates(records[at][1], job)), None)
        if begin is None:
            busy_moves = (at for at in near if _gets_busy(records[at][1]))
            begin = next((at for at in busy_moves if not _is_other(records[max(0, at - 1)][1], job)), None)
        if begin is None:
            return []
        found: list[e.LoggedEvent] = []
        busy = False
        for position, event in records[begin:]:
            found.append((position, event))
            if isinstance(event, e.SlotDestroyed | e.SlotCreated):
                break
            if isinstance(event, e.SlotTransitioned):
                busy = busy or event.target == "Claimed/Busy"
                if busy and is_free(event):
                    break
        return found

    def job_after(self, slot: str, since: int, until: int) -> Begun | None:
        """The first job that was started on a slot, or on one that was carved from it, between two instants; None if
        their logs tell of none."""
        found = (begun for name in self._parts(slot) if (begun := self._begun(name, since, until)) is not None)
        return min(found, key=lambda begun: begun.at, default=None)

    def was_used(self, slot: str, at: int) -> bool:
        """Whether the claim by which a slot was given a job at about an instant had run another job before."""
        records = self.records(slot)
        for _, event in reversed(records[: bisect_right(self._times[slot], at)]):
            if isinstance(event, e.SlotReported) and event.said == "activated" and event.at < at - NEAR:
                return True
            if isinstance(event, e.SlotCreated) or (isinstance(event, e.SlotTransitioned) and _begins_claim(event)):
                return False
        return False

    def first_job(self, slot: str, since: int, until: int) -> Begun | None:
        """The first job that was started on this very slot between two instants; None if its log tells of none."""
        self.records(slot)
        return self._begun(slot, since, until)

    def _parts(self, slot: str) -> Iterator[str]:
        """The slot, and those that were carved from it: a startd gives the lowest number that is free."""
        yield slot
        name, _, host = slot.partition("@")
        names = (f"{name}_{number}@{host}" for number in count(1))
        yield from takewhile(self.records, names)

    def _begun(self, slot: str, since: int, until: int) -> Begun | None:
        records = self.records(slot)
        user = ""
        for at in range(bisect_left(self._times[slot], since), bisect_right(self._times[slot], until)):
            position, event = records[at]
            if isinstance(event, e.SlotReported) and event.said == "owner":
                user = event.facts.get("user", "")
            elif isinstance(event, e.SlotReported) and event.said == "activated" and event.facts.get("job"):
                return Begun(event.at, event.facts["job"], user, slot, position, event.stimulus)
        return None

    def next_job(self, slot: str, job: str, at: int, run: list[e.LoggedEvent]) -> Next | None:
        """The job for which one had to go at an instant: the slot went from it to the next claim without becoming
        free."""
        last = run[-1] if left_for(run, at) else None
        if last is None or not isinstance(last[1], e.SlotTransitioned):
            return None
        if state(last[1].source) != "Preempting" or state(last[1].target) != "Claimed":
            return None
        user = ""
        records = self.records(slot)
        evicted = next((told for told in reversed(run) if _preempts(told[1])), last)
        for position, event in records[records.index(evicted) :]:
            if event.at > last[1].at + TAKEN:
                break
            if isinstance(event, e.SlotReported):
                user = event.facts.get("user", user) if event.said == "owner" else user
                if event.said == "activated" and event.facts.get("job", "") not in ("", job):
                    return Next(position, event.at, event.facts["job"], user, event.stimulus)
        return None

    def eviction(self, at: int, run: list[e.LoggedEvent]) -> tuple[dict[str, str], list[str]]:
        """Find why a slot let a job go at an instant, as the slot's log had it then, and the places of that: ``why`` in
        plain words, ``moved`` in the startd's. `run`: what that log has of the run."""
        left = [told for told in left_for(run, at) if told[1].at // SECOND <= at // SECOND]
        if not left:
            return {}, []
        facts: dict[str, str] = {}
        said = [(event, event.reason) for _, event in left if event.reason]
        if said:
            texts = "; then ".join(dict.fromkeys(reason.rstrip(".") for _, reason in said))
            plain = next((words for _, reason in said if (words := meaning(reason))), "")
            went = f"the slot went to {left[-1][1].target}"
            facts |= {"why": plain, "moved": f"{went}: {texts}"} if plain else {"why": texts, "moved": went}
        return facts, [event.stimulus for event, _ in said]


def _activates(event: e.Event, job: str) -> bool:
    return isinstance(event, e.SlotReported) and event.said == "activated" and event.facts.get("job") == job


def _is_other(before: e.Event, job: str) -> bool:
    """Return True if a slot becomes busy with another job, by the record before that move."""
    return isinstance(before, e.SlotReported) and before.said == "activated" and not _activates(before, job)


def _preempts(event: e.Event) -> bool:
    return (
        isinstance(event, e.SlotTransitioned)
        and state(event.source) == "Claimed"
        and state(event.target) == "Preempting"
    )


def _begins_claim(event: e.SlotTransitioned) -> bool:
    return state(event.target) == "Claimed" and state(event.source) != "Claimed"


def _gets_busy(event: e.Event) -> bool:
    return isinstance(event, e.SlotTransitioned) and event.target == "Claimed/Busy"


def is_free(event: e.SlotTransitioned) -> bool:
    """Whether the job is gone from the slot."""
    return event.target in ("Claimed/Idle", "Claimed/Cleaning") or state(event.target) not in ("Claimed", "Preempting")


def left_for(run: list[e.LoggedEvent], at: int) -> list[tuple[int, e.SlotTransitioned]]:
    """The moves by which a slot lets a job go at an instant: those towards its end since it last was Busy, up to that
    instant (a little later, since two daemons write of it), and none if the slot was free of it long before."""
    until = [told for told in run if told[1].at <= at + LATER]
    moved = [event for _, event in until if isinstance(event, e.SlotTransitioned)]
    if moved and is_free(moved[-1]) and moved[-1].at < at - FREE:
        return []
    busy = [
        number for number, (_, event) in enumerate(until) if isinstance(event, e.SlotTransitioned) and _works(event)
    ]
    found = moves(until[busy[-1] + 1 if busy else 0 :], "Retiring", "Preempting")
    return [told for told in found if told is found[0] or state(told[1].target) == "Preempting"]


def ended_by_protocol(run: list[e.LoggedEvent], at: int) -> bool:
    """Whether a slot's log says nothing of the end of a run at an instant but what the access point asked for."""
    return best_cause(of_reason(event.reason) for _, event in left_for(run, at)).weak


def _works(event: e.SlotTransitioned) -> bool:
    """Whether a slot's job works, or is stopped and need not leave: a job that retires may be stopped meanwhile."""
    stopped = event.target == "Claimed/Suspended" and event.source != "Claimed/Retiring"
    return (event.target == "Claimed/Busy" and state(event.source) == "Claimed") or stopped


def moves(run: list[e.LoggedEvent], *targets: str) -> list[tuple[int, e.SlotTransitioned]]:
    """The moves of a run into one of these activities or states."""
    return [
        (position, event)
        for position, event in run
        if isinstance(event, e.SlotTransitioned) and any(target in event.target.split("/") for target in targets)
    ]


def moves_from(run: list[e.LoggedEvent], source: str) -> list[tuple[int, e.SlotTransitioned]]:
    """The moves of a run out of this activity."""
    return [
        (position, event)
        for position, event in run
        if isinstance(event, e.SlotTransitioned) and event.source.split("/")[-1] == source
    ]
