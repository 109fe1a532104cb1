"""Find when the value of an expression may next differ from now's.

The expression is evaluated over time (``time_evaluation``) for as long as its value is known, and again from there
while it is still the same; so a comparison that turns where it does not matter is skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any

from .ad import ClassAd
from .context import Context
from .time_evaluation import TimeEvaluation, Unknown, sees_the_clock, time_evaluator_of
from .time_functions import END, TIME_FUNCTIONS, Moving, is_identical, next_step, value_at
from .tree import Expression
from .values import EvaluationFailed

# How often an unchanged value is evaluated further on, before the answer is "it may change here".
_MAX_STEPS = 16


class Poll(Enum):
    """The answer for a value whose changes cannot be foreseen."""

    POLL = "poll"


POLL = Poll.POLL
NEVER = None

_NOTHING: Mapping[str, Moving] = MappingProxyType({})


def next_change(
    expression: Expression,
    my: ClassAd | None,
    target: ClassAd | None,
    context: Context,
    moving: Mapping[str, Moving] = _NOTHING,
) -> int | Poll | None:
    """Return the first whole second after ``context.now`` at which the value may differ, the ads staying the same.

    It is never later than the first actual change, of type or value. ``NEVER`` (None): time alone does not change it,
    up to the year 9999. ``POLL``: it cannot be foreseen, as with random(), an embedder's function, or a failing
    evaluation.

    :param moving: lower-case names of attributes of ``my`` that move by the clock; they replace those in ``my``
    :raises ContextError: where the context has no ``now``
    :raises ValueError: where a name in ``moving`` is not in lower case: it would never be found
    """
    for name in moving:
        if name != name.lower():
            raise ValueError(f"the moving attribute {name} is looked up in lower case: name it {name.lower()}")
    now = context.time("next_change()")
    if now >= END:
        return POLL
    evaluation = TimeEvaluation(my, target, context, now, moving)
    try:
        f = _over_time(expression, evaluation)
        if type(f) not in TIME_FUNCTIONS:
            return NEVER
        value = value_at(f, now)
    except (Unknown, EvaluationFailed, RecursionError):
        return POLL if sees_the_clock(evaluation, moving, expression, set()) else NEVER
    change = next_step(f, now)
    for _ in range(_MAX_STEPS):
        if change >= END:
            return NEVER
        evaluation = TimeEvaluation(my, target, context, change, moving)
        try:
            f = _over_time(expression, evaluation)
        except (Unknown, EvaluationFailed, RecursionError):
            return change
        if not is_identical(value_at(f, change), value):
            return change
        change = next_step(f, change)
    return change if change < END else NEVER


def _over_time(expression: Expression, evaluation: TimeEvaluation) -> Any:
    try:
        return time_evaluator_of(expression)(evaluation, evaluation.mine)
    finally:
        evaluation.charge()
