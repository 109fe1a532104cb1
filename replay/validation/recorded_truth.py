"""What a recorded expression and its recorded value mean."""

from __future__ import annotations

from ...domain.classad import ERROR, ClassAd, Context, EvaluationError, Expression, Value, unparse
from ...domain.state.caches import expression
from .transition_rules import Truth


def unparsed(text: str) -> str:
    """Return a text as the language writes its meaning; a text that is no expression is unchanged."""
    meaning = expression(text)
    return text if meaning is None else unparse(meaning)


def value_of(of: Expression, my: ClassAd | None, target: ClassAd | None, context: Context | None) -> Value:
    """Evaluate it; what fails is an error."""
    try:
        return of.evaluate(my, target, context)
    except EvaluationError:
        return ERROR


def truth_of(text: str) -> Truth:
    """Return the truth of a value's text."""
    literal = expression(text)
    return None if literal is None else truth(value_of(literal, None, None, None))


def truth(value: Value) -> Truth:
    """Return True, False, or None for neither; a number counts as it does for the reference's daemons."""
    if isinstance(value, bool):
        return value
    return value != 0 if isinstance(value, int | float) else None
