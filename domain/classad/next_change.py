"""When may the value of an expression differ from now's?

``next_change`` evaluates an expression over time (``time_evaluation``): how the value goes on, and for how long that is
known. The first instant of which nothing is known is where the value may change; there the expression is evaluated
again, and if its value is still the same, further on. So a comparison that turns where it does not matter is passed
over. What cannot be evaluated over time and may see the clock has the answer ``POLL``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from .ad import ClassAd
from .context import Context
from .time_dependence import sees_the_clock
from .time_evaluation import TimeEvaluation, Unknown, time_evaluator_of
from .time_functions import END, TIME_FUNCTIONS, Moving, next_step, same, value_at
from .tree import Expression
from .values import EvaluationFailed

# How often a value that has stayed the same is looked at further on, before the answer is "here it may change".
_MOST_STEPS = 16


class Poll(Enum):
    """The answer that there is no telling."""

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
    """The first whole second after ``context.now`` at which the value may differ from now's, the ads staying the same.

    It is never later than the first at which the value does differ, by type or by value. ``NEVER`` (None): it cannot
    differ by time passing alone, up to the year 9999. ``POLL``: it cannot be told, as of random(), of an embedder's
    function, or of an expression whose evaluation fails.

    :param moving: names in lower case, of attributes of ``my`` that move by the clock; they stand for what ``my`` has
        under the same names
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
        f = time_evaluator_of(expression)(evaluation, my)
        if type(f) not in TIME_FUNCTIONS:
            return NEVER
        value = value_at(f, now)
    except (Unknown, EvaluationFailed, RecursionError):
        return POLL if sees_the_clock(evaluation, moving, expression) else NEVER
    change = next_step(f, now)
    for _ in range(_MOST_STEPS):
        if change >= END:
            return NEVER
        evaluation = TimeEvaluation(my, target, context, change, moving)
        try:
            f = time_evaluator_of(expression)(evaluation, my)
        except (Unknown, EvaluationFailed, RecursionError):
            return change
        if not same(value_at(f, change), value):
            return change
        change = next_step(f, change)
    return change if change < END else NEVER
