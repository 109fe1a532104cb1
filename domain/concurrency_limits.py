"""Parse concurrency limits: the units of each limit that a job requests, and the configured maximum of each limit.

A job's ConcurrencyLimits lists names of limits, each with an optional number of units: ``xsw:2 database``. A name is
that of a limit (XSW), or of a set and one of its members (LARGE.SWLICENSE), and is case-insensitive. Sources: the
manual, "Concurrency Limits"; for details, HTCondor's ParseConcurrencyLimit and Accountant::GetLimitMax.

Amounts are integers: each unit has ``PARTS`` parts, so that sums of fractions are exact and never cross a limit.
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
PARTS: Final = 10**_DIGITS
"""The number of parts in a unit. Smaller fractions are rounded so that no limit is exceeded."""

LIMITS: Final = "ConcurrencyLimits"
"""The job attribute that lists the requested limits."""
SUFFIX: Final = "_LIMIT"
"""``<NAME>_LIMIT`` is the setting with the maximum of a limit."""
DEFAULT: Final = "CONCURRENCY_LIMIT_DEFAULT"
"""The setting with the maximum of limits without a ``<NAME>_LIMIT``."""
OF_SET: Final = "CONCURRENCY_LIMIT_DEFAULT_"
"""This prefix and the name of a set: the maximum of each of its members without a ``<NAME>_LIMIT``."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)?", re.ASCII)
_NUMBER: Final = re.compile(r"\s*([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?\d{1,9}))?", re.ASCII)
_INFINITE: Final = re.compile(r"\s*\+?inf", re.ASCII | re.IGNORECASE)
_LARGEST: Final = 300
"""Numbers of 10 to this power or more count as infinite."""


class Ask(NamedTuple):
    """The amount that a job requests of one limit."""

    name: str  #: the limit, in lower case
    units: Amount


def words(text: str) -> list[str]:
    """Split a list of limits, separated by blanks or commas, without changing their spelling."""
    return text.replace(",", " ").split()


def is_valid(word: str) -> bool:
    """Check whether a word of such a list is a valid limit, with or without a number of units."""
    return _NAME.fullmatch(word.partition(":")[0]) is not None


@lru_cache(maxsize=20_000)
def requested_amounts(text: str) -> tuple[Ask, ...]:
    """Return the units that this ConcurrencyLimits requests, summed by limit. Like HTCondor, ignore invalid names."""
    amounts: dict[str, Amount] = {}
    for word in words(text.lower()):
        name, _, number = word.partition(":")
        if _NAME.fullmatch(name):
            amounts[name] = amounts.get(name, 0) + _units(number)
    return tuple([Ask(*each) for each in amounts.items()])


def _units(text: str) -> Amount:
    """Parse the number of units after a name's colon; return 1 unit unless the number is greater than 0."""
    units = amount(text, up=True)
    return units if units > 0 else PARTS


def amount(text: str, up: bool = False) -> Amount:
    """Return the number at the beginning of a text, in parts of a unit; 0 if there is no number.

    :param up: round fractions of a part up instead of down
    """
    if _INFINITE.match(text):
        return inf
    sign, integer, fraction, exponent = _NUMBER.match(text).groups("")  # type: ignore[union-attr]
    digits, power = int(f"0{integer}{fraction}"), int(exponent or 0) - len(fraction) + _DIGITS
    if digits and power + len(integer + fraction) > _LARGEST:
        units: Amount = inf
    elif power >= 0:
        units = digits * 10**power
    else:
        over = 10 ** min(-power, 10 * _LARGEST)
        units = -(-digits // over) if up != (sign == "-") else digits // over
    return -units if sign == "-" else units


def most(settings: Mapping[str, str], name: str) -> Amount:
    """Return the maximum of a limit, given by its lower-case name: the setting of the limit, else that of its set, else
    the default setting, else infinity."""
    upper = name.upper()
    of_set, dot, _ = upper.rpartition(".")
    for setting in (f"{upper}{SUFFIX}", f"{OF_SET}{of_set}" if dot else "", DEFAULT):
        text = settings.get(setting, "").strip()
        if text:
            return amount(text)
    return inf


def named_by(setting: str) -> bool:
    """Check whether a setting, in upper case, sets the size of limits."""
    if setting == DEFAULT:
        return True
    of_set = setting.removeprefix(OF_SET)
    if of_set != setting:
        return _NAME.fullmatch(of_set) is not None and "." not in of_set
    return setting.endswith(SUFFIX) and _NAME.fullmatch(setting.removesuffix(SUFFIX)) is not None


def in_units(parts: Amount) -> float:
    """Convert an amount from parts to units."""
    return parts / PARTS


def amount_text(parts: Amount) -> str:
    """Format an amount in units for messages, for example 3 or 1.5."""
    return f"{in_units(parts):.12g}"
