"""Explain the state of a job, cluster or slot, given its name."""

from __future__ import annotations

from datetime import UTC, tzinfo

from ...domain.ports.log import EventStore
from ..forensics.imported_log import is_imported
from ..listing.members import StreamFilter, parse_filter
from ..narration.formatting import counted
from ..narration.sentences import Explanation
from .cluster import why_any_job, why_cluster
from .select_events import UNKNOWN, SlotPositions, slot_events
from .slot import why_imported_slot, why_slot
from .unknown_thing import slots_called


def why(
    log: EventStore, name: str, at: int | None = None, zone: tzinfo = UTC, known: SlotPositions = UNKNOWN
) -> Explanation:
    """Explain the state of a job (12.3) or slot (slot1@host), or summarize the jobs of a cluster (12). A slot with a
    unique name needs no machine (slot1). `at` is the instant in question, in microseconds (default: the log's end).

    :param known: where the events with which a slot's history begins are, as of `at`
    :raises ValueError: the name is not a job, cluster or slot
    :raises UnknownThingError: the log has no such job, cluster or slot
    """
    stream_filter = _stream_of_name(log, name)
    kind, _, stream_name = stream_filter.stream.partition("/")
    if kind == "cluster" and stream_filter.proc is not None:
        return why_any_job(log, int(stream_name), stream_filter.proc, at, zone)
    if kind == "cluster":
        return why_cluster(log, int(stream_name), at, zone)
    if kind == "slot":
        if is_imported(log):
            return why_imported_slot(log, stream_name, at, zone)
        return why_slot(slot_events(log, stream_name, at, known), stream_name, at, zone)
    raise ValueError(f"{name} is not a job, cluster or slot: `poolbook log {name}` prints its events; {_ASKED}")


_ASKED = "why accepts a job (12.3), a cluster (12) or a slot (slot1@host)"


def _stream_of_name(log: EventStore, name: str) -> StreamFilter:
    """Return the stream of a job, cluster or slot. A slot's machine may be omitted if only one slot has the name."""
    try:
        return parse_filter(name)
    except ValueError:
        slots = slots_called(log, name)
    if len(slots) == 1:
        return parse_filter(slots[0])
    near_text = f"; the log has {counted(len(slots), 'slot')} of that name, as {slots[0]}" if slots else ""
    raise ValueError(f"{name!r} is none of these: {_ASKED}{near_text}")
