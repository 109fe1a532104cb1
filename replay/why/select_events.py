"""Which events of a log an answer needs: a few streams for a job, and for a slot what happened since its last claim."""

from __future__ import annotations

from collections.abc import Iterable

from ...domain import events as e
from ...domain.ports.log import EventStore
from ..narration.sentences import WANTED
from ..runs.native_runs import of_run

_SHARED = ("pool", "negotiator", "requests", "evidence", "defrag")
_WAITS = (e.ClaimQueued, e.ClaimWithdrawn)
_HOLDS = (e.ClaimMade, e.ClaimEnded)


def job_events(log: EventStore, cluster: int) -> list[e.LoggedEvent]:
    """Return what ``why_job`` needs for any job of a cluster, in order."""
    found = dict(log.read_stream(f"cluster/{cluster}"))
    used = {event.slot for event in found.values() if isinstance(event, e.JobActivated)}
    for slot in used:
        found.update(_decided(log.read_stream(f"slot/{slot}")))
    for stream in _SHARED:
        found.update(log.read_stream(stream))
    cycles = [event for event in found.values() if isinstance(event, e.CycleHeld)]
    if any(cycle.unmatched for cycle in cycles):  # what the next cycle would decide depends on everything
        return list(log.read())
    used |= {match.slot for cycle in cycles for match in cycle.matches if _cluster(match.job) == str(cluster)}
    for slot in used:
        found.update(_of_kind(log.read_stream(f"slot/{slot}"), e.MatchVoided, *_WAITS, *_HOLDS))
    return sorted(found.items())


def _cluster(job: str) -> str:
    return job.partition(".")[0]


def _of_kind(events: Iterable[e.LoggedEvent], *kinds: type[e.Event]) -> dict[int, e.Event]:
    return {position: event for position, event in events if isinstance(event, kinds)}


def _decided(events: Iterable[e.LoggedEvent]) -> dict[int, e.Event]:
    """Return the transitions of a slot that its policy decided, or by which a run began or was to end, and why; and who
    waited for it."""
    return {
        position: event
        for position, event in events
        if isinstance(event, (*_WAITS, e.ClaimFlagged))
        or (isinstance(event, e.SlotTransitioned) and (event.evidence or event.cause in WANTED or of_run(event)))
    }


def slot_events(log: EventStore, slot: str) -> list[e.LoggedEvent]:
    """What ``why_slot`` needs to tell of a slot as it is now, in order: its own stream, and all of the log since the
    cycle before its last claim."""
    own = list(log.read_stream(f"slot/{slot}"))
    begin = _before_the_last_claim(own)
    found = {position: event for position, event in own if position <= begin}
    found.update(log.read_stream("negotiator"))
    found.update(log.read(begin))
    return sorted(found.items())


def _before_the_last_claim(own: list[e.LoggedEvent]) -> int:
    """The position behind which all has to be read: nothing of before the slot could last be matched."""
    claims = [position for position, event in own if isinstance(event, e.ClaimMade)]
    last = claims[-1] if claims else 0
    free = [
        position
        for position, event in own
        if position < last
        and (
            isinstance(event, e.SlotCreated)
            or (isinstance(event, e.SlotTransitioned) and event.target == "Unclaimed/Idle")
        )
    ]
    return max(0, free[-1] - 1) if free else 0
