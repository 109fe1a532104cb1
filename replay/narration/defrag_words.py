"""The words for what the defragmentation did at a poll, and why it drained nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ...domain import events as e
from .evidence import full_evidence, values
from .formatting import counted, interval
from .sentence_tables import REJECTIONS

STOPPED: Final = REJECTIONS["stopped"]
"""Why a poll looked for no machines (``DefragPolled.stopped``)."""


def poll_sentence(event: e.DefragPolled) -> str:
    """Tell what a poll saw of the pool, and how many machines it might drain."""
    pool = f"{event.draining} draining and {counted(event.whole, 'whole machine')}"
    if event.stopped:
        return f"{pool}; none is drained: {STOPPED.get(event.stopped, event.stopped)}"
    return f"{pool}; {event.candidates} could be drained, {event.wanted} at most"


def poll_result(event: e.DefragPolled) -> str:
    """Tell what a poll did; empty: nothing."""
    drains = [f"{drain.machine} (rank {drain.rank:.12g}{_refused(drain.refused)})" for drain in event.drains]
    cancels = [f"{drain.machine}{_refused(drain.refused)}" for drain in event.cancels]
    sentences = [f"canceled: {', '.join(cancels)}"] * bool(cancels) + [f"drained: {', '.join(drains)}"] * bool(drains)
    return "; ".join(sentences)


def choice_facts(
    poll: e.DefragPolled, began: e.DrainBegan, evaluations: Mapping[int, e.EvaluationRecorded]
) -> dict[str, str] | None:
    """Give the facts of the choice that a drain follows from; None: it follows from none of this poll.

    :param noted: the evidence of the log, by position
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
    """Give the facts of the decision by which a drain was canceled; None: it was not by this poll."""
    for cancel in poll.cancels:
        if poll.stimulus == moved.stimulus and cancel.machine == moved.machine and moved.row == "cancel":
            return _evidence(cancel.evidence, evaluations)
    return None


def _evidence(positions: Sequence[int], evaluations: Mapping[int, e.EvaluationRecorded]) -> dict[str, str]:
    notes = [evaluations[position] for position in positions if position in evaluations]
    return {"values": values(notes[0]) if notes else "", "evidence": "; ".join(map(full_evidence, notes))}


def _refused(reason: str) -> str:
    return f", rejected: {reason}" if reason else ""
