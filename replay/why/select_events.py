"""Select the events that an answer needs: a few streams for a job, and the events since a slot's last claim."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from itertools import takewhile

from ...domain import events as e
from ...domain.names import JobId
from ...domain.ports.log import EventStore
from ...domain.state_machines import LEFT
from ..narration.formatting import EVER
from .slot import concerns_slot

_OF_ADS = (e.ClusterSubmitted, e.JobsEdited)
_SHARED = ("pool", "negotiator", "requests", "evidence", "defrag", "daemons")


def job_events(log: EventStore, cluster: int, proc: int | None = None) -> list[e.LoggedEvent]:
    """Return the events that ``why_job`` needs for a job, or for any job of a cluster, in order, except those of the
    next cycle, which depends on the whole log."""
    events = dict(log.read_stream(f"cluster/{cluster}"))
    first, last = _life_of(events, proc)
    slots = {
        event.slot for event in events.values() if isinstance(event, e.JobActivated) and proc in (None, event.proc)
    }
    for stream in _SHARED:
        events.update(log.read_stream(stream))
    cycles = [event for event in events.values() if isinstance(event, e.CycleHeld)]
    for other in {JobId.parse(reason.job).cluster for cycle in cycles for reason in cycle.unmatched} - {cluster}:
        # A rejection names the first job of an autocluster, which can be another cluster's.
        others = log.read_stream(f"cluster/{other}")
        events.update((position, event) for position, event in others if isinstance(event, _OF_ADS))
    jobs = [(match.slot, JobId.parse(match.job)) for cycle in cycles for match in cycle.matches]
    slots |= {slot for slot, job in jobs if job.cluster == cluster and proc in (None, job.proc)}
    for slot in slots:
        # A slot can run many other jobs before and after; of these, only the claims matter.
        events.update(
            (position, event)
            for position, event in log.read_stream(f"slot/{slot}")
            if first <= position <= last or not isinstance(event, e.SlotTransitioned)
        )
    return sorted(events.items())


def _life_of(events: Mapping[int, e.Event], proc: int | None) -> tuple[int, int]:
    """Return the positions of the first event of a job and of its leaving the queue, among its cluster's events."""
    if proc is None or not events:
        return 0, EVER
    ends = (
        position
        for position, event in events.items()
        if isinstance(event, e.JobsTransitioned) and event.target == LEFT
        and any(first <= proc <= last for first, last in event.procs)
    )  # fmt: skip
    return min(events), next(ends, EVER)


def slot_events(log: EventStore, slot: str) -> Iterator[e.LoggedEvent]:
    """Yield the events that ``why_slot`` needs for a slot's current state, in order: the slot's stream, and all that
    concern it since the cycle before its last claim."""
    begin = _before_last_claim(log.read_stream(f"slot/{slot}"))
    earlier = merge(log.read_stream(f"slot/{slot}"), log.read_stream("negotiator"))
    yield from takewhile(lambda pair: pair[0] <= begin, earlier)
    yield from (pair for pair in log.read(begin) if concerns_slot(pair[1], slot))


def _before_last_claim(slot_stream: Iterable[e.LoggedEvent]) -> int:
    """Return the position just before the slot was last free ahead of its last claim, or 0 if it was never claimed."""
    free = begin = 0
    for position, event in slot_stream:
        if isinstance(event, e.ClaimMade):
            begin = free
        elif isinstance(event, e.SlotCreated) or (
            isinstance(event, e.SlotTransitioned) and event.target == "Unclaimed/Idle"
        ):
            free = max(0, position - 1)
    return begin
