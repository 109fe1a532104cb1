"""Compute when the value of an expression may next change.

The expression is evaluated over time (``time_evaluation``) up to the next instant at which its value may change. If the
value is the same there, the evaluation continues from that instant. So changes of comparisons that do not affect the
value are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any

from .ad import ClassAd
from .analysis import value_or_error
from .context import Context
from .time_evaluation import TimeEvaluation, UnknownFuture, may_depend_on_time, time_evaluator_of
from .time_functions import END, TIME_FUNCTIONS, Moving, is_identical, next_step, value_at
from .tree import Expression, Value
from .values import EvaluationFailed

# The maximum number of evaluations that find the value unchanged, before the result is "the value may change here".
_MAX_EVALUATIONS = 16


class Poll(Enum):
    """The result of ``next_change`` for a value whose changes cannot be predicted."""

    POLL = "poll"


POLL = Poll.POLL
NEVER = None

_NONE_MOVING: Mapping[str, Moving] = MappingProxyType({})


def next_change(
    expression: Expression,
    my: ClassAd | None,
    target: ClassAd | None,
    context: Context,
    moving: Mapping[str, Moving] = _NONE_MOVING,
) -> int | Poll | None:
    """Return the first whole second after ``context.now`` at which the value may differ if the ads stay the same.

    The result is never later than the first actual change of type or value. ``NEVER`` (None): time alone does not
    change the value up to the year 9999. ``POLL``: the change cannot be predicted (random(), functions of the context,
    failing evaluations).

    :param moving: attributes of ``my`` that change with the clock, by lower-case name; they replace those in ``my``
    :raises ContextError: if the context has no ``now``
    :raises ValueError: if a name in ``moving`` is not in lower case
    """
    for name in moving:
        if name != name.lower():
            raise ValueError(f"the name of the moving attribute {name} must be in lower case: {name.lower()}")
    return value_and_change(expression, my, target, context, moving)[1]


def value_and_change(
    expression: Expression,
    my: ClassAd | None,
    target: ClassAd | None,
    context: Context,
    moving: Mapping[str, Moving] = _NONE_MOVING,
) -> tuple[Value, int | Poll | None]:
    """Return an expression's value, or ERROR if the evaluation fails, and the result of ``next_change``."""
    now = context.time("next_change()")
    if now >= END:
        return value_or_error(expression, my, target, context), POLL
    evaluation = TimeEvaluation(my, target, context, now, moving)
    try:
        value_over_time = _evaluate_over_time(expression, evaluation)
        if type(value_over_time) not in TIME_FUNCTIONS:
            return value_over_time, NEVER
        value = value_at(value_over_time, now)
    except (UnknownFuture, EvaluationFailed, RecursionError):
        unpredictable = may_depend_on_time(evaluation, moving, expression, set())
        return value_or_error(expression, my, target, context), POLL if unpredictable else NEVER
    change = next_step(value_over_time, now)
    for _ in range(_MAX_EVALUATIONS):
        if change >= END:
            return value, NEVER
        evaluation = TimeEvaluation(my, target, context, change, moving)
        try:
            value_over_time = _evaluate_over_time(expression, evaluation)
        except (UnknownFuture, EvaluationFailed, RecursionError):
            return value, change
        if not is_identical(value_at(value_over_time, change), value):
            return value, change
        change = next_step(value_over_time, change)
    return value, change if change < END else NEVER


def _evaluate_over_time(expression: Expression, evaluation: TimeEvaluation) -> Any:
    try:
        return time_evaluator_of(expression)(evaluation, evaluation.my)
    finally:
        evaluation.charge()
