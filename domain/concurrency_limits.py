"""Concurrency limits: what a job takes of which, and how much of each there is.

A job says in ConcurrencyLimits what it takes: names, each with a number of units, as ``xsw:2 database``. A name is a
limit's own (XSW), or that of a set and one of its members (LARGE.SWLICENSE). Names know no case. Sources: the manual,
"Concurrency Limits"; the reference's ParseConcurrencyLimit and Accountant::GetLimitMax where that leaves anything open.

Amounts are whole numbers of ``PARTS`` of a unit, so that no sum of fractions is rounded over a limit, or away from it.
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
"""The parts of a unit. What is smaller is rounded so that nothing exceeds a limit."""

LIMITS: Final = "ConcurrencyLimits"
"""The attribute of jobs that says what they take."""
SUFFIX: Final = "_LIMIT"
"""``<NAME>_LIMIT`` is how much there is of a limit."""
DEFAULT: Final = "CONCURRENCY_LIMIT_DEFAULT"
"""How much there is of a limit that has no setting of its own."""
OF_SET: Final = "CONCURRENCY_LIMIT_DEFAULT_"
"""With a set behind it: how much there is of each of its members without a setting of its own."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)?", re.ASCII)
_NUMBER: Final = re.compile(r"\s*([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?\d{1,9}))?", re.ASCII)
_INFINITE: Final = re.compile(r"\s*\+?inf", re.ASCII | re.IGNORECASE)
_LARGEST: Final = 300
"""The exponent of 10 from which on a number is infinite."""


class Ask(NamedTuple):
    """What a job takes of one limit."""

    name: str  #: the limit, in small letters
    units: Amount


def words(text: str) -> list[str]:
    """Return the limits of a list that blanks and commas part, each as it is written."""
    return text.replace(",", " ").split()


def is_valid(word: str) -> bool:
    """Tell whether a word of such a list names a limit."""
    return _NAME.fullmatch(word.partition(":")[0]) is not None


@lru_cache(maxsize=20_000)
def requested_amounts(text: str) -> tuple[Ask, ...]:
    """Return what a job takes whose ConcurrencyLimits are this text: of a limit that it names twice, the sum. What is
    no name of a limit is passed over, as the reference does."""
    amounts: dict[str, Amount] = {}
    for word in words(text.lower()):
        name, _, number = word.partition(":")
        if _NAME.fullmatch(name):
            amounts[name] = amounts.get(name, 0) + _units(number)
    return tuple([Ask(*each) for each in amounts.items()])


def _units(text: str) -> Amount:
    """Read the units behind a name's colon: 1 where there is no number above 0."""
    units = amount(text, up=True)
    return units if units > 0 else PARTS


def amount(text: str, up: bool = False) -> Amount:
    """Return the number with which a text begins, in parts of a unit; 0 if it begins with none.

    :param up: whether what is smaller than a part is rounded up
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
    """Return how much there is of a limit, by its name in small letters: what is set for it, for its set, for all that
    have no setting of their own; else it is unlimited."""
    upper = name.upper()
    of_set, dot, _ = upper.rpartition(".")
    for setting in (f"{upper}{SUFFIX}", f"{OF_SET}{of_set}" if dot else "", DEFAULT):
        text = settings.get(setting, "").strip()
        if text:
            return amount(text)
    return inf


def named_by(setting: str) -> bool:
    """Tell whether a setting, in capital letters, says how much there is of a limit, or of those without a setting of
    their own."""
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
    """Return an amount as it is told: 3, 1.5."""
    return f"{in_units(parts):.12g}"
