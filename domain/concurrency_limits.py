"""Concurrency limits: how many units of each limit a job uses, and how many units there are.

A job's ConcurrencyLimits lists names, each with a number of units: ``xsw:2 database``. A name is a limit (XSW), or a
set and one of its members (LARGE.SWLICENSE), in any case. Sources: the manual, "Concurrency Limits"; for what it leaves
open, HTCondor's ParseConcurrencyLimit and Accountant::GetLimitMax.

Amounts are whole numbers of ``PARTS`` of a unit, because sums of rounded fractions could exceed a limit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from math import inf
from typing import Final, NamedTuple

Amount = int | float
"""Parts of a unit: whole, or ``math.inf``."""
_DIGITS: Final = 12
PARTS: Final = 10**_DIGITS
"""The parts of a unit. Smaller amounts are rounded, so that sums stay exact."""

LIMITS: Final = "ConcurrencyLimits"
"""The job attribute with the limits that the job uses."""
SUFFIX: Final = "_LIMIT"
"""``<NAME>_LIMIT`` sets the units of a limit."""
DEFAULT: Final = "CONCURRENCY_LIMIT_DEFAULT"
"""The setting for limits without a ``<NAME>_LIMIT``."""
OF_SET: Final = "CONCURRENCY_LIMIT_DEFAULT_"
"""With the name of a set appended: the setting for each of its members without a ``<NAME>_LIMIT``."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)?", re.ASCII)
_NUMBER: Final = re.compile(r"\s*([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?\d{1,9}))?", re.ASCII)
_INFINITE: Final = re.compile(r"\s*\+?inf", re.ASCII | re.IGNORECASE)
_LARGEST: Final = 300
"""The exponent of 10 from which on a number is infinite."""


class Ask(NamedTuple):
    """The units of one limit that a job requests."""

    name: str  #: the limit, in lower case
    units: Amount


def words(text: str) -> list[str]:
    """Split a list of limits, separated by blanks and commas."""
    return text.replace(",", " ").split()


def is_valid(word: str) -> bool:
    """Check whether a word of such a list names a limit."""
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
    """Parse the units after a name's colon: 1 if there is no positive number."""
    units = amount(text, up=True)
    return units if units > 0 else PARTS


def amount(text: str, up: bool = False) -> Amount:
    """Return the number at the start of a text, in parts of a unit; 0 if there is none.

    :param up: whether to round up to whole parts
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
    """Return the size of a limit, by its name in lower case: from its setting, its set's, or the default; else
    unlimited."""
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
    """Return an amount in units."""
    return parts / PARTS


def amount_text(parts: Amount) -> str:
    """Format an amount in units: 3, 1.5."""
    return f"{in_units(parts):.12g}"
