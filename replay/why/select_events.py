"""Select the events that an answer needs: a few streams for a job, and the events since a slot's last claim."""

from __future__ import annotations

from ...domain import events as e
from ...domain.names import JobId
from ...domain.ports.log import EventStore

_SHARED = ("pool", "negotiator", "requests", "evidence", "defrag")


def job_events(log: EventStore, cluster: int) -> list[e.LoggedEvent]:
    """Return the events that ``why_job`` needs for any job of a cluster, in order. If a job was ever rejected, return
    the whole log, because the decision of the next cycle depends on all events."""
    events = dict(log.read_stream(f"cluster/{cluster}"))
    for stream in _SHARED:
        events.update(log.read_stream(stream))
    cycles = [event for event in events.values() if isinstance(event, e.CycleHeld)]
    if any(cycle.unmatched for cycle in cycles):
        return list(log.read())
    slots = {event.slot for event in events.values() if isinstance(event, e.JobActivated)}
    slots |= {match.slot for cycle in cycles for match in cycle.matches if JobId.parse(match.job).cluster == cluster}
    for slot in slots:
        events.update(log.read_stream(f"slot/{slot}"))
    return sorted(events.items())


def slot_events(log: EventStore, slot: str) -> list[e.LoggedEvent]:
    """Return the events that ``why_slot`` needs for a slot's current state, in order: the slot's stream, and the whole
    log since the cycle before its last claim."""
    slot_stream = list(log.read_stream(f"slot/{slot}"))
    begin = _before_last_claim(slot_stream)
    events = {position: event for position, event in slot_stream if position <= begin}
    events.update(log.read_stream("negotiator"))
    events.update(log.read(begin))
    return sorted(events.items())


def _before_last_claim(slot_stream: list[e.LoggedEvent]) -> int:
    """Return the position just before the slot was last free ahead of its last claim, or 0 if it was never claimed."""
    last_claim = max((position for position, event in slot_stream if isinstance(event, e.ClaimMade)), default=0)
    for position, event in reversed(slot_stream):
        becomes_free = isinstance(event, e.SlotTransitioned) and event.target == "Unclaimed/Idle"
        if position < last_claim and (becomes_free or isinstance(event, e.SlotCreated)):
            return max(0, position - 1)
    return 0
