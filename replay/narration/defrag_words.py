"""Describe what the defragmentation did at a poll, and why it drained nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ...domain import events as e
from .evaluation_texts import full_evidence, values
from .formatting import counted, interval
from .sentence_tables import REJECTIONS

STOPPED: Final = REJECTIONS["stopped"]  #: a reason why a poll chose no machines (``DefragPolled.stopped``) -> its text


def poll_sentence(event: e.DefragPolled) -> str:
    """Describe the pool at a poll, and how many machines the poll might drain."""
    of_daemon = f"{event.daemon}: " if event.daemon else ""
    pool = f"{of_daemon}{event.draining} draining and {counted(event.whole, 'whole machine')}"
    if event.stopped:
        return f"{pool}; none is drained: {STOPPED.get(event.stopped, event.stopped)}"
    return f"{pool}; {event.candidates} could be drained, {event.wanted} at most"


def poll_result(event: e.DefragPolled) -> str:
    """Describe the drains and cancellations of a poll; empty if there were none."""
    drains = [f"{drain.machine} (rank {drain.rank:.12g}{_refused(drain.refused)})" for drain in event.drains]
    cancels = [f"{drain.machine}{_refused(drain.refused)}" for drain in event.cancels]
    sentences = [f"canceled: {', '.join(cancels)}"] * bool(cancels) + [f"drained: {', '.join(drains)}"] * bool(drains)
    return "; ".join(sentences)


def choice_facts(
    poll: e.DefragPolled, began: e.DrainBegan, evaluations: Mapping[int, e.EvaluationRecorded]
) -> dict[str, str] | None:
    """Return the facts of the poll's choice that began a drain, or None if this poll did not choose it.

    :param evaluations: the log's evaluations of expressions, by position
    """
    for place, drain in enumerate(poll.drains, 1):
        if poll.stimulus == began.stimulus and drain.machine == began.machine:
            cost = f"{interval(drain.seconds * 1_000_000)} and {drain.badput:,} core-seconds"
            evidence = _evidence(drain.evidence, evaluations)
            facts = {"seen": poll_sentence(poll), "place": str(place), "candidates": str(poll.candidates), "cost": cost}
            return {**facts, "rank": f"{drain.rank:.12g}", **evidence}
    return None


def cancel_facts(
    poll: e.DefragPolled, moved: e.DrainTransitioned, evaluations: Mapping[int, e.EvaluationRecorded]
) -> dict[str, str] | None:
    """Return the facts of the poll's decision to cancel a drain, or None if this poll did not cancel it."""
    for cancel in poll.cancels:
        if poll.stimulus == moved.stimulus and cancel.machine == moved.machine and moved.row == "cancel":
            return _evidence(cancel.evidence, evaluations)
    return None


def _evidence(positions: Sequence[int], evaluations: Mapping[int, e.EvaluationRecorded]) -> dict[str, str]:
    notes = [evaluations[position] for position in positions if position in evaluations]
    return {"values": values(notes[0]) if notes else "", "evidence": "; ".join(map(full_evidence, notes))}


def _refused(reason: str) -> str:
    return f", rejected: {reason}" if reason else ""
