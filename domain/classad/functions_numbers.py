"""Built-in functions on numbers: conversion, rounding, powers, random numbers."""

from __future__ import annotations

import math
from typing import Any

from .environment import Ad, Environment
from .function_registry import FunctionInputs, eager
from .operators import divide_reals
from .scalar import evaluate_member
from .tree import ListValue
from .unparse import to_string
from .values import (
    ERROR,
    UNDEFINED,
    EvaluationFailed,
    RelTime,
    low32,
    lower,
    to_integer,
    to_real,
    truncate32,
    truncate64,
    wrap64,
)

eager("int", 1)(lambda env, ad, values: to_integer(values[0]))
eager("real", 1)(lambda env, ad, values: to_real(values[0]))
eager("string", 1)(lambda env, ad, values: to_string(values[0]))


@eager("bool", 1)
def _bool(env: Environment, ad: Ad, values: list[Any]) -> Any:
    (value,) = values
    kind = type(value)
    if kind is bool or value is UNDEFINED:
        return value
    if kind is int or kind is float:
        return value != 0
    if kind is str:
        return {"true": True, "false": False}.get(lower(value), UNDEFINED)
    if kind is RelTime:
        return truncate32(value.seconds) != 0
    return ERROR


def _ceiling(number: float) -> float:
    # The ceiling of a number in (-1, 0) is -0.0, as in C.
    return math.copysign(float(math.ceil(number)), number) if math.isfinite(number) else number


def _floor(number: float) -> float:
    return float(math.floor(number)) if math.isfinite(number) else number


def _round_half_even(number: float) -> float:
    # Round half to even, like C's rint.
    return float(round(number)) if math.isfinite(number) else number


def _declare_rounding(names: str, round_number: Any) -> None:
    @eager(names, 1)
    def _round(env: Environment, ad: Ad, values: list[Any]) -> Any:
        (value,) = values
        if type(value) is int:
            return value
        number = to_real(value)
        return truncate64(round_number(number)) if type(number) is float else ERROR


_declare_rounding("floor", _floor)
_declare_rounding("ceil ceiling", _ceiling)
_declare_rounding("round", _round_half_even)


def c_pow(base: float, exponent: float) -> float:
    """Return the result of C's pow: infinity or NaN where Python raises an exception."""
    try:
        return math.pow(base, exponent)
    except OverflowError:
        odd = exponent == math.floor(exponent) and math.fmod(exponent, 2.0) != 0.0
        return -math.inf if base < 0 and odd else math.inf
    except ValueError:
        if base == 0.0:
            odd = exponent == math.floor(exponent) and math.fmod(exponent, 2.0) != 0.0
            return math.copysign(math.inf, base) if odd else math.inf
        return math.nan


@eager("pow", 2)
def _pow(env: Environment, ad: Ad, values: list[Any]) -> Any:
    base, exponent = values
    if type(base) is int and type(exponent) is int and exponent >= 0:
        return truncate64(c_pow(float(base), float(exponent)) + 0.5)
    x, y = to_real(base), to_real(exponent)
    if type(x) is not float or type(y) is not float:
        return ERROR
    return c_pow(x, y)


@eager("quantize", 2, members={2: 1})
def _quantize(env: Environment, ad: Ad, values: list[Any]) -> Any:
    """Round up to a multiple of the second argument, or to the first member of a list that is large enough."""
    value, unit = values
    number = to_real(value)
    if type(number) is not float:
        return ERROR
    if type(unit) is ListValue:
        last: Any = 0.0
        for expression in unit.expressions:
            last = evaluate_member(env, ad, unit, expression)
            step = to_real(last)
            if type(step) is not float:
                return ERROR
            if step >= number:
                return last
        unit = last
    step = to_real(unit)
    if type(step) is not float:
        return ERROR
    if type(unit) is int:
        if unit == 0:
            return value
        if type(value) is int:
            raised = wrap64(value + unit - 1)
            quotient = abs(raised) // abs(unit)
            return wrap64((quotient if (raised < 0) == (unit < 0) else -quotient) * unit)
        return _ceiling(number / unit) * unit
    if -1e-8 <= step <= 1e-8:
        return value
    return _ceiling(divide_reals(number, step)) * step


@eager("random", 0, 1, needs=FunctionInputs.PLACE)
def _random(env: Environment, ad: Ad, values: list[Any]) -> Any:
    limit = values[0] if values else 1.0
    if type(limit) is int:
        bound = low32(limit)
        if bound <= 0:
            raise EvaluationFailed(f"random({limit}): the limit must be greater than 0")
        return env.random_numbers().integer() % bound
    if type(limit) is float:
        if limit <= 0:
            raise EvaluationFailed(f"random({limit}): the limit must be greater than 0")
        return limit * (env.random_numbers().integer() / 0x7FFFFFFF)
    return ERROR
