"""Parse concurrency limits: the units of each limit that a job requests, and the configured maximum of each limit.

A job's ConcurrencyLimits lists names of limits, each with an optional number of units: ``xsw:2 database``. A name is
case-insensitive; it names one limit (XSW), or a set and one of its members (LARGE.SWLICENSE). Sources: the manual,
"Concurrency Limits"; for details, HTCondor's ParseConcurrencyLimit and Accountant::GetLimitMax.

Amounts are counted in parts of a unit, as integers, so that sums of fractions are exact and never exceed a limit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from math import inf
from typing import Final, NamedTuple

Amount = int | float
"""A whole number of parts of a unit, or ``math.inf``."""
_DIGITS: Final = 12
PARTS_PER_UNIT: Final = 10**_DIGITS
"""The number of parts in a unit. Smaller fractions are rounded so that no limit is exceeded."""

LIMITS: Final = "ConcurrencyLimits"
"""The job attribute that lists the requested limits."""
SUFFIX: Final = "_LIMIT"
"""``<NAME>_LIMIT`` is the setting with the maximum of a limit."""
DEFAULT: Final = "CONCURRENCY_LIMIT_DEFAULT"
"""The setting with the maximum of limits without a ``<NAME>_LIMIT``."""
OF_SET: Final = "CONCURRENCY_LIMIT_DEFAULT_"
"""This prefix and the name of a set: the maximum of each of its members without a ``<NAME>_LIMIT``."""

_NAME: Final = r"(?a)[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)?"
_NUMBER: Final = r"(?a)\s*([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?\d{1,9}))?"
_INFINITE: Final = r"(?ai)\s*\+?inf"
_LARGEST: Final = 300
"""Numbers of 10 to this power or more count as infinite."""


class RequestedAmount(NamedTuple):
    """The amount that a job requests of one limit."""

    name: str  #: the limit, in lower case
    units: Amount


def split_limits(text: str) -> list[str]:
    """Split a list of limits, which blanks or commas separate, into items such as xsw:2."""
    return text.replace(",", " ").split()


def is_valid(limit: str) -> bool:
    """Return True if an item of such a list is valid: a name, which a number of units may follow (xsw:2)."""
    return re.fullmatch(_NAME, limit.partition(":")[0]) is not None


@lru_cache(maxsize=20_000)
def requested_amounts(text: str) -> tuple[RequestedAmount, ...]:
    """Return the amounts that a ConcurrencyLimits requests, one per limit. As in HTCondor, a limit without a number, or
    with a number that is not positive, requests one unit, and invalid names are ignored."""
    amounts: dict[str, Amount] = {}
    for limit in split_limits(text.lower()):
        name, units = _requested_amount(limit)
        if units:
            amounts[name] = amounts.get(name, 0) + units
    return tuple([RequestedAmount(*item) for item in amounts.items()])


@lru_cache(maxsize=20_000)
def _requested_amount(limit: str) -> RequestedAmount:
    """Parse an item of a list of limits; 0 units if its name is invalid. Many lists contain the same items."""
    name, _, number = limit.partition(":")
    amount = parse_amount(number, up=True)
    return RequestedAmount(name, (amount if amount > 0 else PARTS_PER_UNIT) if is_valid(name) else 0)


def parse_amount(text: str, up: bool = False) -> Amount:
    """Parse the number of units at the beginning of a text, and return it in parts, or 0 if there is no number.

    :param up: round fractions of a part up instead of down
    """
    if re.match(_INFINITE, text):
        return inf
    sign, integer, fraction, exponent = re.match(_NUMBER, text).groups("")  # type: ignore[union-attr]
    digits, power = int(f"0{integer}{fraction}"), int(exponent or 0) - len(fraction) + _DIGITS
    if digits and power + len(integer + fraction) > _LARGEST:
        units: Amount = inf
    elif power >= 0:
        units = digits * 10**power
    else:
        over = 10 ** min(-power, 10 * _LARGEST)
        units = -(-digits // over) if up != (sign == "-") else digits // over
    return -units if sign == "-" else units


def maximum_amount(settings: Mapping[str, str], limit: str) -> Amount:
    """Return the configured maximum of a limit, whose name is in any case: the limit's own setting, or else its set's
    setting, or else CONCURRENCY_LIMIT_DEFAULT. A limit without a setting is infinite."""
    upper = limit.upper()
    of_set, dot, _ = upper.rpartition(".")
    for setting in (f"{upper}{SUFFIX}", f"{OF_SET}{of_set}" if dot else "", DEFAULT):
        text = settings.get(setting, "").strip()
        if text:
            return parse_amount(text)
    return inf


def is_limit_setting(setting: str) -> bool:
    """Return True if a setting, in upper case, sets the maximum of a limit."""
    if setting == DEFAULT:
        return True
    of_set = setting.removeprefix(OF_SET)
    if of_set != setting:
        return re.fullmatch(_NAME, of_set) is not None and "." not in of_set
    return setting.endswith(SUFFIX) and re.fullmatch(_NAME, setting.removesuffix(SUFFIX)) is not None


def to_units(parts: Amount) -> float:
    """Convert an amount from parts to units."""
    return parts / PARTS_PER_UNIT


def format_amount(parts: Amount) -> str:
    """Format an amount in units for messages, for example 3 or 1.5."""
    return f"{to_units(parts):.12g}"
