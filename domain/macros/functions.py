"""Evaluate function macros: ``$INT(...)`` and the like (the manual's page "Submitting a Job").

An argument is the name of a macro if there is one of that name, else the text itself. Those that draw stand in
`drawing`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import blake2b
from types import MappingProxyType

from ..classad import ClassAdSyntaxError, Context, EvaluationError, unparse
from ..classad.syntax import parse_old_value
from .macro_errors import MacroError
from .macros import OPEN, Function, Macros, Open

_DIGITS = re.compile(r"\s*([+-]?)0*([0-9]+)\s*")
_GREATEST = (1 << 63) - 1
_INTEGER_FORMAT = re.compile(r"[^%]*%([-+ 0#]*)([0-9]{0,3})(?:\.([0-9]{1,3}))?(?:l|ll)?[dixXou][^%]*")
_REAL_FORMAT = re.compile(r"[^%]*%([-+ 0#]*)([0-9]{0,3})(?:\.([0-9]{1,3}))?[aAeEfFgG][^%]*")
_STRING_FORMAT = re.compile(r"[^%]*%(-?)([0-9]{0,3})(?:\.([0-9]{1,3}))?s[^%]*")


def _arguments(body: str) -> list[str]:
    return [argument.strip() for argument in body.split(",")]


def _resolved(macros: Macros, argument: str) -> str:
    value = macros.value(argument)
    text = macros.expand(argument) if value is None else value
    if OPEN in text:
        raise Open
    return text


def evaluated(text: str, macros: Macros | None = None) -> object:
    """Return the value of a text, in the ad of these macros if they have one; None where it is no expression or has no
    value."""
    try:
        expression = parse_old_value(text, strict=True)
        return expression.evaluate(None if macros is None else macros.ad, context=Context())
    except (ClassAdSyntaxError, EvaluationError):
        return None


def whole_number(text: str, macros: Macros | None = None) -> int | None:
    """Return the integer that a text evaluates to; reals are cut, booleans count as 0 and 1, and digits beyond 64 bits
    as the greatest or least."""
    if (digits := _DIGITS.fullmatch(text)) is not None:
        size = min(int(digits[2][:20]), _GREATEST)
        return -size if digits[1] == "-" else size
    value = evaluated(text, macros)
    return int(value) if isinstance(value, (bool, int, float)) and value == value and abs(value) < 1 << 63 else None


def _wrong(function: str, body: str, why: str) -> MacroError:
    return MacroError(f"${function}({body if len(body) <= 60 else body[:57] + '...'}): {why}")


def _int(macros: Macros, function: str, body: str) -> str:
    argument, comma, form = body.partition(",")
    number = whole_number(_resolved(macros, argument), macros)
    if number is None:
        raise _wrong(function, body, "the first argument must be an integer, or an expression that gives one")
    if comma and not _INTEGER_FORMAT.fullmatch(form):
        raise _wrong(function, body, "the format must be one for integers, such as %03d")
    return re.sub("l+(?=[dixXou])", "", form) % number if form else str(number)


def _real(macros: Macros, function: str, body: str) -> str:
    argument, comma, form = body.partition(",")
    value = evaluated(_resolved(macros, argument), macros)
    if not isinstance(value, (bool, int, float)):
        raise _wrong(function, body, "the first argument must be a number, or an expression that gives one")
    if comma and not _REAL_FORMAT.fullmatch(form):
        raise _wrong(function, body, "the format must be one for reals, such as %.2f")
    if not form:
        return f"{float(value):.16G}"
    text = (form.replace("a", "g").replace("A", "G") if form[-1] in "aA" else form) % float(value)
    return text if "." in text else text + ".0"


def _string(macros: Macros, function: str, body: str) -> str:
    argument, comma, form = body.partition(",")
    text = _resolved(macros, argument)
    value = evaluated(text, macros)
    if comma and not _STRING_FORMAT.fullmatch(form):
        raise _wrong(function, body, "the format must be one for strings, such as %-10s")
    text = value if isinstance(value, str) else text
    return form % text if form else text


def _eval(macros: Macros, function: str, body: str) -> str:
    known = macros.lookup(body)
    text = _resolved(macros, body)
    value = evaluated(text, macros)
    if value is None:  # as in HTCondor, only a text that contained macros is its own value
        return text if "$" in (body if known is None else known) else ""
    return value if isinstance(value, str) else unparse(value)


def _choice(macros: Macros, function: str, body: str) -> str:
    index_text, *items = _arguments(body)
    if not items:
        raise _wrong(function, body, "write $CHOICE(index, list) or $CHOICE(index, item, item, ...)")
    index = whole_number(_resolved(macros, index_text), macros)
    if index is None or index < 0:
        raise _wrong(function, body, "the index must be an integer from 0")
    if len(items) == 1:
        if macros.lookup(items[0]) is None:
            raise _wrong(function, body, f"there is no list named {items[0]}")
        items = _arguments(_resolved(macros, items[0]))
    if index >= len(items):
        raise _wrong(function, body, f"index {index} is beyond the list's {len(items)} items, which count from 0")
    return items[index]


def _substr(macros: Macros, function: str, body: str) -> str:
    name, *numbers = body.split(",", 2)
    values = [whole_number(_resolved(macros, number), macros) for number in numbers]
    if not values or None in values:
        rule = "start and length must be integers: $SUBSTR(name, start) or $SUBSTR(name, start, length)"
        raise _wrong(function, body, rule)
    if macros.lookup(name) is None:  # unlike the other functions, it takes no text for an argument
        return ""
    text = _resolved(macros, name)
    start, length = values[0] or 0, values[1] if len(values) == 2 else len(text)
    assert length is not None
    rest = text[max(start + len(text), 0) if start < 0 else start :]
    return rest[: max(length + len(rest), 0) if length < 0 else length]


_FILE_PARTS = MappingProxyType({"BASENAME": "nx", "DIRNAME": "p"})


def _file(macros: Macros, function: str, body: str) -> str:
    name, suffix = body, ""
    if function == "BASENAME" and "," in body:
        name, _, suffix = body.rpartition(",")
    part = _part_of_path(_resolved(macros, name), function, macros)
    suffix = suffix.lstrip()
    return part[: -len(suffix)] if suffix and part.lower().endswith(suffix.lower()) else part


def _part_of_path(path: str, function: str, macros: Macros) -> str:
    """Return the parts of a path that ``$F[fpduwnxbqa](path)``, ``$BASENAME(path)`` or ``$DIRNAME(path)`` selects."""
    letters = _FILE_PARTS.get(function, function[1:].lower())
    quote = ("'" if "a" in letters else '"') if "q" in letters else ""
    if len(path) > 1 and path[0] == path[-1] and path[0] in "\"'":
        path = path[1:-1]
    opening = path[:1]
    if opening and opening in ('"', quote):
        path = path[1:].removesuffix(opening)
    if "f" in letters and not path.startswith("/"):
        folder = macros.lookup("FACTORY.Iwd") or macros.environment.get("PWD", "")
        path = f"{folder}/{path}"
    if "w" in letters or "u" in letters:
        path = path.replace("\\", "/") if letters.rfind("u") > letters.rfind("w") else path.replace("/", "\\")
    return f"{quote}{_parts(path, letters)}{quote}"


def _parts(path: str, letters: str) -> str:
    name_at = path.rfind("/") + 1
    dot = path.rfind(".", name_at + 1)
    stem_end = len(path) if dot < 0 else dot
    depth, keep_all, name, extension, bare = (letters.count("d"), *(letter in letters for letter in "pnxb"))
    if not name_at and (name or extension):
        depth, keep_all = 0, False
    if not (depth or keep_all or name or extension):
        return path
    if depth:
        folders = [match.end() for match in re.finditer(r"[/\\]", path)] if name_at else [0]
        begin = folders[-1 - depth] if len(folders) > depth else 0
    elif keep_all or name:
        begin = 0 if keep_all else name_at
    else:
        begin = stem_end + (bare and dot >= 0)
    end = len(path) if extension else stem_end if name else max(name_at - bare, 0)
    return path[begin:end]


FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        "BASENAME": _file,
        "CHOICE": _choice,
        "DIRNAME": _file,
        "EVAL": _eval,
        "F": _file,
        "INT": _int,
        "REAL": _real,
        "STRING": _string,
        "SUBSTR": _substr,
    }
)


# Evaluate ``$RANDOM_INTEGER(...)`` and ``$RANDOM_CHOICE(...)``.
#
# Nothing here is random: a ``Draw`` says which of so many it is. Source: the manual's page "Introduction to
# Configuration", which submit descriptions follow; HTCondor's ``config.cpp`` for ``RANDOM_CHOICE`` of one word, which
# is the name of a list if there is a macro of that name.

Draw = Callable[[str, int], int]
"""Returns a number from 0 and less than the second argument, for the macro's text."""


def drawing(draw: Draw) -> dict[str, Function]:
    """Return the functions that draw, by their names."""
    return {"RANDOM_CHOICE": partial(_random_choice, draw), "RANDOM_INTEGER": partial(_random_integer, draw)}


def by_text(seed: int) -> Draw:
    """Return what draws the same for the same text: a configuration is a value."""
    return lambda text, among: _drawn(f"{seed}:{text}", among)


def in_turn(seed: int) -> Draw:
    """Return a function that draws again at each call, by the seed alone."""
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
    numbers = [int(match[0]) if (match := re.match(r"[+-]?[0-9]{1,18}", part)) else None for part in _items(body, ",")]
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
