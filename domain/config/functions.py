"""Evaluate function macros of configurations, where they differ from those of submit descriptions.

An argument that is no macro's name stands for itself; ``$BASENAME`` takes a suffix to leave out; ``$RANDOM_INTEGER``
and ``$RANDOM_CHOICE`` draw by the seed and the macro's text alone, so that a configuration is a value. Source: the
manual's page "Introduction to Configuration"; HTCondor's behaviour where it is silent.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import blake2b

from ..macros import functions as shared
from ..macros.errors import MacroError
from ..macros.macros import Function, Macros


def _file(macros: Macros, function: str, body: str) -> str:
    name, suffix = body, ""
    if function == "BASENAME" and "," in body:
        name, _, suffix = body.rpartition(",")
    value = macros.value(name)
    path = macros.expand_but_dollars(name) if value is None else value
    part = shared.part_of_path(path, function, macros.environment.get("PWD", ""))
    suffix = suffix.lstrip()
    return part[: -len(suffix)] if suffix and part.lower().endswith(suffix.lower()) else part


def _eval(macros: Macros, function: str, body: str) -> str:
    value = macros.lookup(body)
    text = body if value is None else value
    nothing = "$" not in text and shared.evaluated(text) is None
    return "" if nothing else shared.FUNCTIONS["EVAL"](macros, function, body)


def _substr(macros: Macros, function: str, body: str) -> str:
    name = body.partition(",")[0]
    return "" if macros.lookup(name) is None else shared.FUNCTIONS["SUBSTR"](macros, function, body)


FUNCTIONS: dict[str, Function] = {
    **shared.FUNCTIONS,
    "BASENAME": _file,
    "DIRNAME": _file,
    "EVAL": _eval,
    "F": _file,
    "SUBSTR": _substr,
}


def _drawn(seed: int, text: str, among: int) -> int:
    digest = blake2b(f"{seed}:{text}".encode(errors="surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest) % among


def _random_integer(seed: int, macros: Macros, function: str, body: str) -> str:
    numbers = [int(part) if re.fullmatch(r"[+-]?[0-9]{1,18}", part) else None for part in _items(body, ",")]
    least, most, step = [*numbers, 1][:3] if len(numbers) >= 2 else (None, None, None)
    if least is None or most is None or step is None or step < 1 or least > most:
        rule = "write $RANDOM_INTEGER(least, most) or $RANDOM_INTEGER(least, most, step) with whole numbers"
        raise MacroError(f"${function}({body}): {rule}, least no greater than most, step above 0")
    return str(least + _drawn(seed, body, (most - least + step) // step) * step)


def _random_choice(seed: int, macros: Macros, function: str, body: str) -> str:
    items = _items(body, ",")
    value = macros.value(items[0]) if len(items) == 1 else None
    if value is not None:
        items = _items(value, r"[,\s]")
    if not items:
        raise MacroError(f"${function}({body}): there is nothing to choose from; name a list, or write it here")
    return items[_drawn(seed, body, len(items))]


def _items(text: str, separator: str) -> list[str]:
    return [item for item in (part.strip() for part in re.split(separator, text)) if item]


DRAWING: dict[str, Callable[[int, Macros, str, str], str]] = {
    "RANDOM_CHOICE": _random_choice,
    "RANDOM_INTEGER": _random_integer,
}
"""The functions that draw random values; their first argument is the seed."""
