"""Put the arguments of ``use CATEGORY : NAME(argument, ...)`` into a template's lines.

In a template ``$(1)`` is the first argument, ``$(0)`` all of them, ``$(0#)`` their number, ``$(2+)`` all from the
second on, ``$(2?)`` 1 or 0 for whether there is a second; ``$(1:x)`` is x where there is none. Source: the manual's
page "Introduction to Configuration". As in HTCondor, an empty argument is skipped, and a template named without
arguments gets those of the one before it in the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .macro_errors import MacroError

_ARGUMENT = re.compile(r"(?<!\$)\$\(([0-9]+)([?#+]?)([:)])")
_BRACKET = re.compile(r"[()]")
_NAME = re.compile(r"[\s,]*([^\s,(]+)\s*")
MAX_BRACKETS = 25
MAX_LENGTH = 1_000_000
MAX_REPLACED = 1_000


def templates_used(category: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the names in ``use CATEGORY : NAME, NAME(arguments)``, each with its arguments.

    :raises MacroError: where a bracket has no end
    """
    at, arguments = 0, ""
    while (match := _NAME.match(text, at)) is not None:
        at = match.end()
        if text[at : at + 1] == "(":
            end = closing(text, at)
            if end is None:
                raise MacroError(f"use {category} : {text}: the bracket after {match[1]} has no end; write NAME(a, b)")
            arguments = text[at + 1 : end]
            at = end + 1
        yield match[1], arguments


def closing(text: str, at: int, depth: int = MAX_BRACKETS) -> int | None:
    """Return where the bracket that opens at ``at`` closes; brackets within it must close, too."""
    ends = {"(": ")", "[": "]"}
    open_now: list[str] = []
    for place in range(at, len(text)):
        character = text[place]
        if open_now and character == open_now[-1]:
            open_now.pop()
            if not open_now:
                return place
        elif character in ends:
            open_now.append(ends[character])
            if len(open_now) > depth:
                return None
    return None


def expanded(title: str, text: str, arguments: str) -> list[str]:
    """Return the lines of a template with its arguments put in.

    :param title: the template, as an error names it
    :raises MacroError: where the arguments lead to ever more
    """
    given = [argument for argument in (part.strip() for part in arguments.split(",")) if argument]
    at = 0
    for _ in range(MAX_REPLACED):
        if len(text) > MAX_LENGTH:
            break
        match = _ARGUMENT.search(text, at)
        if match is None:
            return text.split("\n")
        end = match.end() - 1 if match[3] == ")" else _default_end(text, match.end())
        at = match.end()
        if end is not None:
            default = text[match.end() : end]
            at = match.start()
            text = text[:at] + _argument(int(match[1]), match[2], default, arguments, given) + text[end + 1 :]
    raise MacroError(f"{title}: its arguments lead to ever more; they cannot hold $(1) and its like")


def _default_end(text: str, at: int) -> int | None:
    """Return where the bracket that ends a default stands; skip one pair of brackets at a time."""
    while (match := _BRACKET.search(text, at)) is not None:
        if match[0] == ")":
            return match.start()
        close = text.find(")", match.end())
        at = match.end() if close < 0 else close + 1
    return None


def _argument(index: int, suffix: str, default: str, arguments: str, given: list[str]) -> str:
    counts = suffix in ("#", "+")
    if index == 0:
        value = str(len(given)) if counts else arguments
    elif counts:
        value = _from(arguments, index) or default
    else:
        value = given[index - 1] if index <= len(given) else default
    return ("1" if value.strip() else "0") if suffix == "?" else value.strip()


def _from(arguments: str, index: int) -> str:
    """Return all arguments from one on, as they are written."""
    rest = arguments
    for _ in range(index - 1):
        rest = rest.lstrip(", \t")
        comma = rest.find(",")
        if comma < 0:
            return ""
        rest = rest[comma:]
    return rest.removeprefix(",")
