"""Evaluate ``$RANDOM_INTEGER(...)`` and ``$RANDOM_CHOICE(...)``.

Nothing here is random: a ``Draw`` says which of so many it is. Source: the manual's page "Introduction to
Configuration", which submit descriptions follow; HTCondor's ``config.cpp`` for ``RANDOM_CHOICE`` of one word, which is
the name of a list if there is a macro of that name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from hashlib import blake2b

from .macro_errors import MacroError
from .macros import OPEN, Function, Macros, Open

Draw = Callable[[str, int], int]
"""Returns a number from 0 and less than the second argument, for the macro's text."""


def drawing(draw: Draw) -> dict[str, Function]:
    """Return the functions that draw, by their names."""
    return {"RANDOM_CHOICE": partial(_random_choice, draw), "RANDOM_INTEGER": partial(_random_integer, draw)}


def by_text(seed: int) -> Draw:
    """Return what draws the same for the same text: a configuration is a value."""
    return lambda text, among: _drawn(f"{seed}:{text}", among)


def in_turn(seed: int) -> Draw:
    """Return what draws anew each time that it is asked, by the seed alone."""
    turn = 0

    def draw(text: str, among: int) -> int:
        nonlocal turn
        turn += 1
        return _drawn(f"{seed}:{turn}", among)

    return draw


def _drawn(text: str, among: int) -> int:
    return int.from_bytes(blake2b(text.encode(errors="surrogateescape"), digest_size=8).digest()) % among


def _random_integer(draw: Draw, macros: Macros, function: str, body: str) -> str:
    macros.draws()
    numbers = [int(found[0]) if (found := re.match(r"[+-]?[0-9]{1,18}", part)) else None for part in _items(body, ",")]
    least, most, step = [*numbers, 1][:3] if len(numbers) >= 2 else (None, None, None)
    if least is None or most is None or step is None or step < 1 or least > most:
        rule = "write $RANDOM_INTEGER(least, most) or $RANDOM_INTEGER(least, most, step) with whole numbers"
        raise MacroError(f"${function}({body}): {rule}, least no greater than most, step above 0")
    return str(least + draw(body, (most - least + step) // step) * step)


def _random_choice(draw: Draw, macros: Macros, function: str, body: str) -> str:
    macros.draws()
    items = _items(body, ",")
    value = macros.value(items[0]) if len(items) == 1 else None
    if value is not None:
        if OPEN in value:
            raise Open
        items = _items(value, r"[,\s]")
    if not items:
        raise MacroError(f"${function}({body}): there is nothing to choose from; name a list, or write it here")
    return items[draw(body, len(items))]


def _items(text: str, separator: str) -> list[str]:
    return [item for item in (part.strip() for part in re.split(separator, text)) if item]
