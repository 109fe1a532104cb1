"""Find in a slot's records why a run on it was stopped, vacated or killed, and which job ran there next."""

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
from .run_end_causes import best_cause, cause_of_reason, reason_meaning

NEAR: Final = 3 * SECOND  #: the maximum time between two daemons' records of one event
LATER: Final = 2 * SECOND  #: a slot's transition explains a job's records up to this long before it ...
FREE: Final = 10 * SECOND  #: ... and no records written when the slot had been free for this long
TAKEN: Final = 600 * SECOND  #: a job that preempts another one starts within this time after its end


class NextJob(NamedTuple):
    """The job that was given a slot after another job."""

    position: int
    at: int
    job: str
    user: str
    stimulus: str

    @property
    def stimuli(self) -> tuple[str, ...]:
        return (self.stimulus,)

    def clause(self, _: tzinfo = UTC) -> str:
        """Return a phrase with the job and its user."""
        return f"job {self.job}{f' of {self.user}' if self.user else ''}"


class Begun(NamedTuple):
    """A job that was started on a slot, and the job's user, if the slot's log shows it."""

    at: int
    job: str
    user: str
    slot: str
    position: int
    stimulus: str


@define
class SlotRecords:
    """Reads slots' records on demand, in chronological order."""

    log: EventStore
    until: int | None = None
    _streams: dict[str, list[e.LoggedEvent]] = field(factory=dict)
    _times: dict[str, list[int]] = field(factory=dict)

    def records(self, slot: str) -> list[e.LoggedEvent]:
        if slot not in self._streams:
            stream = self.log.read_stream(f"slot/{slot}")
            records = [record for record in stream if self.until is None or record[1].at <= self.until]
            self._streams[slot] = sorted(records, key=lambda record: (record[1].at, record[0]))
            self._times[slot] = [event.at for _, event in self._streams[slot]]
        return self._streams[slot]

    def run(self, slot: str, job: str, began: int) -> list[e.LoggedEvent]:
        """Return the slot's records of a job's run that started at about an instant, until the job has left the
        slot."""
        records = self.records(slot)
        near = range(bisect_left(self._times[slot], began - NEAR), bisect_right(self._times[slot], began + NEAR))
        begin = next((at for at in near if _activates(records[at][1], job)), None)
        if begin is None:
            busy_times = (at for at in near if getattr(records[at][1], "target", "") == "Claimed/Busy")
            begin = next((at for at in busy_times if not _is_other(records[max(0, at - 1)][1], job)), None)
        if begin is None:
            return []
        run_records: list[e.LoggedEvent] = []
        is_busy = False
        for position, event in records[begin:]:
            run_records.append((position, event))
            if isinstance(event, e.SlotDestroyed | e.SlotCreated):
                break
            if isinstance(event, e.SlotTransitioned):
                is_busy = is_busy or event.target == "Claimed/Busy"
                if is_busy and is_free(event):
                    break
        return run_records

    def job_after(self, slot: str, since: int, until: int) -> Begun | None:
        """Return the first job that was started between two instants on a slot or on a dynamic slot created from it, or
        None if their logs show none."""
        jobs = (
            begun
            for name in self._with_dynamic_slots(slot)
            if (begun := self._first_begun(name, since, until)) is not None
        )
        return min(jobs, key=lambda begun: begun.at, default=None)

    def was_used(self, slot: str, at: int) -> bool:
        """Return True if the claim under which a slot ran a job at about an instant had already run another job."""
        records = self.records(slot)
        for _, event in reversed(records[: bisect_right(self._times[slot], at)]):
            if isinstance(event, e.SlotReported) and event.said == "activated" and event.at < at - NEAR:
                return True
            if isinstance(event, e.SlotCreated):
                return False
            if isinstance(event, e.SlotTransitioned) and state(event.target) == "Claimed" != state(event.source):
                return False
        return False

    def first_job(self, slot: str, since: int, until: int) -> Begun | None:
        """Return the first job that was started on exactly this slot between two instants, or None if its log shows
        none."""
        self.records(slot)
        return self._first_begun(slot, since, until)

    def _with_dynamic_slots(self, slot: str) -> Iterator[str]:
        """Yield the slot and the dynamic slots created from it, which a startd gives the lowest free number."""
        yield slot
        name, _, host = slot.partition("@")
        names = (f"{name}_{number}@{host}" for number in count(1))
        yield from takewhile(self.records, names)

    def _first_begun(self, slot: str, since: int, until: int) -> Begun | None:
        records = self.records(slot)
        user = ""
        for at in range(bisect_left(self._times[slot], since), bisect_right(self._times[slot], until)):
            position, event = records[at]
            if isinstance(event, e.SlotReported) and event.said == "owner":
                user = event.facts.get("user", "")
            elif isinstance(event, e.SlotReported) and event.said == "activated" and event.facts.get("job"):
                return Begun(event.at, event.facts["job"], user, slot, position, event.stimulus)
        return None

    def next_job(self, slot: str, job: str, at: int, run: list[e.LoggedEvent]) -> NextJob | None:
        """Return the job that preempted another job at an instant: the slot went to the next claim without becoming
        free. Return None if there is none."""
        last_record = run[-1] if eviction_moves(run, at) else None
        if last_record is None or not isinstance(last_record[1], e.SlotTransitioned):
            return None
        if state(last_record[1].source) != "Preempting" or state(last_record[1].target) != "Claimed":
            return None
        user = ""
        records = self.records(slot)
        evictions = (move for move in reversed(moves(run, "Preempting")) if state(move[1].source) == "Claimed")
        eviction_record = next(evictions, last_record)
        for position, event in records[records.index(eviction_record) :]:
            if event.at > last_record[1].at + TAKEN:
                break
            if isinstance(event, e.SlotReported):
                user = event.facts.get("user", user) if event.said == "owner" else user
                if event.said == "activated" and event.facts.get("job", "") not in ("", job):
                    return NextJob(position, event.at, event.facts["job"], user, event.stimulus)
        return None

    def eviction_facts(self, at: int, run: list[e.LoggedEvent]) -> tuple[dict[str, str], list[str]]:
        """Return why a slot evicted a job at an instant according to the slot's log (``why`` as a plain description,
        ``moved`` with the startd's reasons), and the locations of these records. `run`: the slot's records of the
        run."""
        leaving_moves = [record for record in eviction_moves(run, at) if record[1].at // SECOND <= at // SECOND]
        if not leaving_moves:
            return {}, []
        facts: dict[str, str] = {}
        reasons = [(event, event.reason) for _, event in leaving_moves if event.reason]
        if reasons:
            reason_text = "; then ".join(dict.fromkeys(reason.rstrip(".") for _, reason in reasons))
            plain_reason = next((meaning_text for _, reason in reasons if (meaning_text := reason_meaning(reason))), "")
            target_text = f"the slot went to {leaving_moves[-1][1].target}"
            if plain_reason:
                facts |= {"why": plain_reason, "moved": f"{target_text}: {reason_text}"}
            else:
                facts |= {"why": reason_text, "moved": target_text}
        return facts, [event.stimulus for event, _ in reasons]


def _activates(event: e.Event, job: str) -> bool:
    return isinstance(event, e.SlotReported) and event.said == "activated" and event.facts.get("job") == job


def _is_other(previous: e.Event, job: str) -> bool:
    """Return True if a slot becomes busy with another job, according to the record before that transition."""
    return isinstance(previous, e.SlotReported) and previous.said == "activated" and not _activates(previous, job)


def is_free(event: e.SlotTransitioned) -> bool:
    """Return True if the job has left the slot."""
    return event.target in ("Claimed/Idle", "Claimed/Cleaning") or state(event.target) not in ("Claimed", "Preempting")


def eviction_moves(run: list[e.LoggedEvent], at: int) -> list[tuple[int, e.SlotTransitioned]]:
    """Return the transitions by which a slot evicts a job at an instant: those since it was last Busy, up to that
    instant (or a little later, because two daemons log it). Return none if the slot had been free for a long time."""
    until = [record for record in run if record[1].at <= at + LATER]
    slot_moves = [event for _, event in until if isinstance(event, e.SlotTransitioned)]
    if slot_moves and is_free(slot_moves[-1]) and slot_moves[-1].at < at - FREE:
        return []
    busy_indexes = [
        number for number, (_, event) in enumerate(until) if isinstance(event, e.SlotTransitioned) and _shows_job(event)
    ]
    leaving_moves = moves(until[busy_indexes[-1] + 1 if busy_indexes else 0 :], "Retiring", "Preempting")
    return [record for record in leaving_moves if record is leaving_moves[0] or state(record[1].target) == "Preempting"]


def ended_by_request(run: list[e.LoggedEvent], at: int) -> bool:
    """Return True if the access point's request is the only reason for a run's end in a slot's log."""
    return best_cause(cause_of_reason(event.reason) for _, event in eviction_moves(run, at)).is_weak


def _shows_job(event: e.SlotTransitioned) -> bool:
    """Return True if a slot's job is running, or suspended but not being evicted (a retiring job may be suspended,
    too)."""
    is_stopped = event.target == "Claimed/Suspended" and event.source != "Claimed/Retiring"
    return (event.target == "Claimed/Busy" and state(event.source) == "Claimed") or is_stopped


def moves(run: list[e.LoggedEvent], *targets: str) -> list[tuple[int, e.SlotTransitioned]]:
    """Return the transitions during a run to one of these activities or states."""
    transitions = [(position, event) for position, event in run if isinstance(event, e.SlotTransitioned)]
    return [move for move in transitions if not set(targets).isdisjoint(move[1].target.split("/"))]


def moves_from(run: list[e.LoggedEvent], source: str) -> list[tuple[int, e.SlotTransitioned]]:
    """Return the transitions during a run from this activity."""
    transitions = [(position, event) for position, event in run if isinstance(event, e.SlotTransitioned)]
    return [move for move in transitions if move[1].source.split("/")[-1] == source]
