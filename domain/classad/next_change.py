"""Find when the value of an expression may next differ from now's.

The expression is evaluated over time (``time_evaluation``) for as long as its value is known, and again from there
while it is still the same; so a comparison that turns where it does not matter is skipped.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any

from .ad import ClassAd
from .context import Context
from .environment import MATCH_NAMES, Environment
from .function_registry import FUNCTIONS
from .time_evaluation import TimeEvaluation, Unknown, time_evaluator_of
from .time_functions import END, TIME_FUNCTIONS, Moving, next_step, same, value_at
from .tree import Attribute, Call, Constant, Expression, children
from .values import EvaluationFailed, RelTime

# How often an unchanged value is evaluated further on, before the answer is "it may change here".
_MOST_STEPS = 16


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
    for _ in range(_MOST_STEPS):
        if change >= END:
            return NEVER
        evaluation = TimeEvaluation(my, target, context, change, moving)
        try:
            f = _over_time(expression, evaluation)
        except (Unknown, EvaluationFailed, RecursionError):
            return change
        if not same(value_at(f, change), value):
            return change
        change = next_step(f, change)
    return change if change < END else NEVER


def _over_time(expression: Expression, evaluation: TimeEvaluation) -> Any:
    try:
        return time_evaluator_of(expression)(evaluation, evaluation.mine)
    finally:
        evaluation.settle()


# Tell whether an expression may see the clock, by its text and the texts of the attributes that it may read.

# Without arguments, these read the clock.
OF_NOW = frozenset({"time", "currenttime", "timezoneoffset", "daytime", "abstime", "formattime"})
# Their value depends on more than their arguments and the context.
UNTOLD = frozenset({"random", "eval"})


def sees_the_clock(env: Environment, moving: Container[str], expression: Expression, known: set[str]) -> bool:
    """Tell whether an expression may depend on the time; every name is looked up in both ads, whatever its scope.

    :param known: names that were looked at before and do not depend on the time; where it returns False, more of them
    """
    pending: list[tuple[Any, bool]] = [(expression, False)]
    while pending:
        node, is_scope = pending.pop()
        kind = type(node)
        if kind is Call and _untold(node):
            return True
        if kind is Constant and type(node.value) is not RelTime:
            return True  # a list or an ad with another scope
        if kind is Attribute:
            if node.base is not None:
                pending.append((node.base, True))
            if node.key in moving or node.key == "currenttime":
                return True
            if node.key in MATCH_NAMES and not is_scope:
                return True
            if node.key not in known:
                known.add(node.key)
                pending.extend((meant, False) for meant in _meanings(env, node.key))
            continue
        pending.extend((part, False) for part in children(node))
    return False


def _untold(node: Call) -> bool:
    if node.key in OF_NOW and not node.arguments:
        return True
    return node.key in UNTOLD or node.key not in FUNCTIONS


def _meanings(env: Environment, key: str) -> list[Expression]:
    """Return the expressions under a name, in either ad or those around it."""
    found = []
    for start in (env.root, env.left, env.right):
        ad = start
        while ad is not None:
            cell = ad._find(key)
            if cell is not None:
                found.append(cell[1])
            ad = ad._outer
    return found
