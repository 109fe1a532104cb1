"""Evaluate function macros such as ``$INT(...)`` (the manual's page "Submitting a Job").

An argument that names a macro is replaced by the macro's value; any other argument is literal text.
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
from .macros import OPEN_MARK, Function, Macros, TemplateImpossible

_DIGITS = r"\s*([+-]?)0*([0-9]+)\s*"
_MAX_INTEGER = (1 << 63) - 1
_INTEGER_FORMAT = r"[^%]*%([-+ 0#]*)([0-9]{0,3})(?:\.([0-9]{1,3}))?(?:l|ll)?[dixXou][^%]*"
_REAL_FORMAT = r"[^%]*%([-+ 0#]*)([0-9]{0,3})(?:\.([0-9]{1,3}))?[aAeEfFgG][^%]*"
_STRING_FORMAT = r"[^%]*%(-?)([0-9]{0,3})(?:\.([0-9]{1,3}))?s[^%]*"


def _arguments(body: str) -> list[str]:
    return [argument.strip() for argument in body.split(",")]


def _resolve(macros: Macros, argument: str) -> str:
    value = macros.value(argument)
    text = macros.expand(argument) if value is None else value
    if OPEN_MARK in text:
        raise TemplateImpossible
    return text


def evaluate_text(text: str, macros: Macros | None = None) -> object:
    """Evaluate a text as an expression, in the ad of the macros if they have one; return None on failure."""
    try:
        expression = parse_old_value(text, strict=True)
        return expression.evaluate(None if macros is None else macros.ad, context=Context())
    except (ClassAdSyntaxError, EvaluationError):
        return None


def evaluate_integer(text: str, macros: Macros | None = None) -> int | None:
    """Return the integer that a text evaluates to. Reals are truncated, booleans become 0 and 1, and integers that
    exceed 64 bits become the nearest 64-bit integer."""
    if (digits := re.fullmatch(_DIGITS, text)) is not None:
        size = min(int(digits[2][:20]), _MAX_INTEGER)
        return -size if digits[1] == "-" else size
    value = evaluate_text(text, macros)
    return int(value) if isinstance(value, (bool, int, float)) and value == value and abs(value) < 1 << 63 else None


def _error(function: str, body: str, reason: str) -> MacroError:
    return MacroError(f"${function}({body if len(body) <= 60 else body[:57] + '...'}): {reason}")


def _int(macros: Macros, function: str, body: str) -> str:
    argument, comma, pattern = body.partition(",")
    number = evaluate_integer(_resolve(macros, argument), macros)
    if number is None:
        raise _error(function, body, "the first argument must be an integer or an integer expression")
    if comma and not re.fullmatch(_INTEGER_FORMAT, pattern):
        raise _error(function, body, "the format must be one for integers, such as %03d")
    return re.sub("l+(?=[dixXou])", "", pattern) % number if pattern else str(number)


def _real(macros: Macros, function: str, body: str) -> str:
    argument, comma, pattern = body.partition(",")
    value = evaluate_text(_resolve(macros, argument), macros)
    if not isinstance(value, (bool, int, float)):
        raise _error(function, body, "the first argument must be a number or a numeric expression")
    if comma and not re.fullmatch(_REAL_FORMAT, pattern):
        raise _error(function, body, "the format must be one for reals, such as %.2f")
    if not pattern:
        return f"{float(value):.16G}"
    text = (pattern.replace("a", "g").replace("A", "G") if pattern[-1] in "aA" else pattern) % float(value)
    return text if "." in text else text + ".0"


def _string(macros: Macros, function: str, body: str) -> str:
    argument, comma, pattern = body.partition(",")
    text = _resolve(macros, argument)
    value = evaluate_text(text, macros)
    if comma and not re.fullmatch(_STRING_FORMAT, pattern):
        raise _error(function, body, "the format must be one for strings, such as %-10s")
    text = value if isinstance(value, str) else text
    return pattern % text if pattern else text


def _eval(macros: Macros, function: str, body: str) -> str:
    macro_value = macros.lookup(body)
    text = _resolve(macros, body)
    value = evaluate_text(text, macros)
    if value is None:  # as in HTCondor, an invalid expression is returned only if the text contains macros
        return text if "$" in (body if macro_value is None else macro_value) else ""
    return value if isinstance(value, str) else unparse(value)


def _choice(macros: Macros, function: str, body: str) -> str:
    index_text, *items = _arguments(body)
    if not items:
        raise _error(function, body, "write $CHOICE(index, list) or $CHOICE(index, item, item, ...)")
    index = evaluate_integer(_resolve(macros, index_text), macros)
    if index is None or index < 0:
        raise _error(function, body, "the index must be an integer, 0 or more")
    if len(items) == 1:
        if macros.lookup(items[0]) is None:
            raise _error(function, body, f"there is no list named {items[0]}")
        items = _arguments(_resolve(macros, items[0]))
    if index >= len(items):
        raise _error(function, body, f"index {index} is out of range; the list has {len(items)} items")
    return items[index]


def _substr(macros: Macros, function: str, body: str) -> str:
    name, *numbers = body.split(",", 2)
    values = [evaluate_integer(_resolve(macros, number), macros) for number in numbers]
    if not values or None in values:
        rule = "start and length must be integers: $SUBSTR(name, start) or $SUBSTR(name, start, length)"
        raise _error(function, body, rule)
    if macros.lookup(name) is None:  # unlike the other functions, this one does not accept a literal text
        return ""
    text = _resolve(macros, name)
    start, length = values[0] or 0, values[1] if len(values) == 2 else len(text)
    assert length is not None
    tail = text[max(start + len(text), 0) if start < 0 else start :]
    return tail[: max(length + len(tail), 0) if length < 0 else length]


_FILE_PARTS = MappingProxyType({"BASENAME": "nx", "DIRNAME": "p"})


def _file(macros: Macros, function: str, body: str) -> str:
    name, suffix = body, ""
    if function == "BASENAME" and "," in body:
        name, _, suffix = body.rpartition(",")
    part = _select_path_parts(_resolve(macros, name), function, macros)
    suffix = suffix.lstrip()
    return part[: -len(suffix)] if suffix and part.lower().endswith(suffix.lower()) else part


def _select_path_parts(path: str, function: str, macros: Macros) -> str:
    letters = _FILE_PARTS.get(function, function[1:].lower())
    quote = ("'" if "a" in letters else '"') if "q" in letters else ""
    if len(path) > 1 and path[0] == path[-1] and path[0] in "\"'":
        path = path[1:-1]
    first_character = path[:1]
    if first_character and first_character in ('"', quote):
        path = path[1:].removesuffix(first_character)
    if "f" in letters and not path.startswith("/"):
        directory = macros.lookup("FACTORY.Iwd") or macros.environment.get("PWD", "")
        path = f"{directory}/{path}"
    if "w" in letters or "u" in letters:
        path = path.replace("\\", "/") if letters.rfind("u") > letters.rfind("w") else path.replace("/", "\\")
    return f"{quote}{_path_parts(path, letters)}{quote}"


def _path_parts(path: str, letters: str) -> str:
    name_start = path.rfind("/") + 1
    dot = path.rfind(".", name_start + 1)
    stem_end = len(path) if dot < 0 else dot
    depth = letters.count("d")
    whole_path, name, extension, trim = (letter in letters for letter in "pnxb")
    if not name_start and (name or extension):
        depth, whole_path = 0, False
    if not (depth or whole_path or name or extension):
        return path
    if depth:
        folder_ends = [match.end() for match in re.finditer(r"[/\\]", path)] if name_start else [0]
        start = folder_ends[-1 - depth] if len(folder_ends) > depth else 0
    elif whole_path or name:
        start = 0 if whole_path else name_start
    else:
        start = stem_end + (trim and dot >= 0)
    end = len(path) if extension else stem_end if name else max(name_start - trim, 0)
    return path[start:end]


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
# These functions are deterministic: a ``Draw`` chooses the number. Source: the manual's page "Introduction to
# Configuration", and HTCondor's ``config.cpp`` for ``RANDOM_CHOICE`` with one word, which is the name of a list if a
# macro of that name exists.

Draw = Callable[[str, int], int]
"""A function of the macro's text and a limit that returns a number from 0 up to, but not including, the limit."""


def random_functions(draw: Draw) -> dict[str, Function]:
    """Return the functions that draw random numbers, by name."""
    return {"RANDOM_CHOICE": partial(_random_choice, draw), "RANDOM_INTEGER": partial(_random_integer, draw)}


def draw_by_text(seed: int) -> Draw:
    """Return a function that draws the same number for the same text, so that a configuration is reproducible."""
    return lambda text, limit: _hash_draw(f"{seed}:{text}", limit)


def draw_in_sequence(seed: int) -> Draw:
    """Return a function that draws a new number at each call. The seed determines the sequence."""
    draw_count = 0

    def draw(text: str, limit: int) -> int:
        nonlocal draw_count
        draw_count += 1
        return _hash_draw(f"{seed}:{draw_count}", limit)

    return draw


def _hash_draw(text: str, limit: int) -> int:
    return int.from_bytes(blake2b(text.encode(errors="surrogateescape"), digest_size=8).digest()) % limit


def _random_integer(draw: Draw, macros: Macros, function: str, body: str) -> str:
    macros.record_draw()
    numbers = [int(match[0]) if (match := re.match(r"[+-]?[0-9]{1,18}", part)) else None for part in _split(body, ",")]
    lowest, highest, step = [*numbers, 1][:3] if len(numbers) >= 2 else (None, None, None)
    if lowest is None or highest is None or step is None or step < 1 or lowest > highest:
        rule = "write $RANDOM_INTEGER(least, most) or $RANDOM_INTEGER(least, most, step) with integers,"
        raise MacroError(f"${function}({body}): {rule} where least <= most and step > 0")
    return str(lowest + draw(body, (highest - lowest + step) // step) * step)


def _random_choice(draw: Draw, macros: Macros, function: str, body: str) -> str:
    macros.record_draw()
    items = _split(body, ",")
    value = macros.value(items[0]) if len(items) == 1 else None
    if value is not None:
        if OPEN_MARK in value:
            raise TemplateImpossible
        items = _split(value, r"[,\s]")
    if not items:
        raise MacroError(f"${function}({body}): there is nothing to choose from; give the name of a list, or its items")
    return items[draw(body, len(items))]


def _split(text: str, separator: str) -> list[str]:
    return [item for item in (part.strip() for part in re.split(separator, text)) if item]
