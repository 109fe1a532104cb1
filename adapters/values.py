"""Python values as the texts of ClassAd expressions."""

from __future__ import annotations

from math import isfinite

from ..domain.job_ad import quoted


class Expr(str):
    """A text that is a ClassAd expression, and no string."""

    __slots__ = ()


def text_of(value: object) -> str:
    """A Python value as a ClassAd expression's text."""
    if isinstance(value, Expr):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) or (isinstance(value, float) and isfinite(value)):
        return repr(value)
    if value is None:
        return "undefined"
    if isinstance(value, str):
        return quoted(value)
    raise ValueError(f"{value!r} is no value of an attribute: give a number, a text, True, False, None or an Expr")


def seconds_of(value: object, name: str) -> float:
    """A length of time in seconds, as a call's argument of this name has it.

    :raises ValueError: it is no number, or less than 0
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < 0:
        raise ValueError(f"{name} = {value!r} is no length of time: give a number of seconds, at least 0")
    return float(value)
