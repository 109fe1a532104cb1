"""Hold a log's polls of the defragmentation again: does the log before each still decide what it says of the poll?

A poll's input is its instant, its UTC offset, and the state folded from the events before it. Its event is compared in
every field, and the evidence that stands before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta, timezone

from ..domain import events as e
from ..domain.classad import Context
from ..domain.defrag.defrag_settings import policy_in_force
from ..domain.defrag.poll import PollDecision, decide_poll
from ..domain.state.caches import Caches
from ..domain.state.state import State

Told = tuple[int, e.Event]
Difference = tuple[str, str, str]
"""What differs, what the log has of it, and what comes out now."""


def poll_of(group: Sequence[Told]) -> tuple[int, e.DefragPolled] | None:
    """Return the poll among the events of one stimulus, with its position; None: there is none."""
    return next(((position, event) for position, event in group if isinstance(event, e.DefragPolled)), None)


def held_again(state: State, group: Sequence[Told], logged: e.DefragPolled) -> Difference | None:
    """Hold a poll again on the state before it; return the first difference.

    :param group: the events of its stimulus
    """
    try:
        again = _held(state, logged)
    except Exception as error:  # an edited log can say anything
        return "the poll", "was held", f"cannot be held ({type(error).__name__}: {error})"
    if again is None:
        return "the poll", "was held", "the pool does not defragment"
    notes = tuple(event for _, event in group if isinstance(event, e.EvaluationRecorded))[: len(again.notes)]
    for name in logged.__struct_fields__:
        mine, theirs = getattr(logged, name), getattr(again.event, name)
        if mine != theirs:
            return f"the poll {name}", _words(mine), _words(theirs)
    return None if notes == again.notes else ("the evidence", _words(notes), _words(again.notes))


def _held(state: State, logged: e.DefragPolled) -> PollDecision | None:
    policy = policy_in_force(state.settings)
    if policy is None:
        return None
    second = logged.at // 1_000_000
    context = Context(now=second, seed=second, timezone=timezone(timedelta(seconds=logged.offset)))
    return decide_poll(
        state, Caches(), lambda cause: (logged.at, cause, logged.stimulus), context, logged.offset, policy
    )


def _words(value: object) -> str:
    if isinstance(value, tuple | list):
        return ", ".join(map(_words, value)) or "nothing"
    if isinstance(value, e.DefragDrain | e.DefragCancel):
        rank = f" of rank {value.rank:.12g}" if isinstance(value, e.DefragDrain) else ""
        return f"{value.machine} by {value.slot}{rank}{f', refused: {value.refused}' if value.refused else ''}"
    if isinstance(value, e.EvaluationRecorded):
        return f"{value.name} = {value.value}"
    return "nothing" if value in ("", None) else str(value)
