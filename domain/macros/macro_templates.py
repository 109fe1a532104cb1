"""Insert the arguments of ``use CATEGORY : NAME(argument, ...)`` into the lines of a template.

In a template, ``$(1)`` is the first argument, ``$(0)`` is all arguments, ``$(0#)`` their number, ``$(2+)`` the second
and all later arguments, ``$(2?)`` is 1 if a second argument exists, else 0, and ``$(1:x)`` is the first argument, else
x. As in HTCondor, empty arguments are skipped, and a template without arguments uses the previous template's in
the line. Source: the manual's page "Introduction to Configuration".
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

    :raises MacroError: if a bracket is not closed
    """
    position, arguments = 0, ""
    while (match := _NAME.match(text, position)) is not None:
        position = match.end()
        if text[position : position + 1] == "(":
            end = find_closing(text, position)
            if end is None:
                raise MacroError(f"use {category} : {text}: close the bracket after {match[1]}, as in NAME(a, b)")
            arguments = text[position + 1 : end]
            position = end + 1
        yield match[1], arguments


def find_closing(text: str, position: int, depth: int = MAX_BRACKETS) -> int | None:
    """Return the position of the bracket that closes the one at ``position``; None if the brackets are not balanced."""
    closers = {"(": ")", "[": "]"}
    open_brackets: list[str] = []
    for index in range(position, len(text)):
        character = text[index]
        if open_brackets and character == open_brackets[-1]:
            open_brackets.pop()
            if not open_brackets:
                return index
        elif character in closers:
            open_brackets.append(closers[character])
            if len(open_brackets) > depth:
                return None
    return None


def insert_arguments(title: str, text: str, arguments: str) -> list[str]:
    """Return the lines of a template with its arguments inserted.

    :param title: the name of the template, for error messages
    :raises MacroError: if the insertion does not end, because an argument refers to arguments
    """
    parts = [argument for argument in (part.strip() for part in arguments.split(",")) if argument]
    position = 0
    for _ in range(MAX_REPLACED):
        if len(text) > MAX_LENGTH:
            break
        match = _ARGUMENT.search(text, position)
        if match is None:
            return text.split("\n")
        end = match.end() - 1 if match[3] == ")" else _default_end(text, match.end())
        position = match.end()
        if end is not None:
            default = text[match.end() : end]
            position = match.start()
            text = text[:position] + _argument(int(match[1]), match[2], default, arguments, parts) + text[end + 1 :]
    raise MacroError(f"{title}: inserting its arguments does not end; they must not contain $(1), $(2) ...")


def _default_end(text: str, position: int) -> int | None:
    while (match := _BRACKET.search(text, position)) is not None:
        if match[0] == ")":
            return match.start()
        closing_bracket = text.find(")", match.end())
        position = match.end() if closing_bracket < 0 else closing_bracket + 1
    return None


def _argument(index: int, suffix: str, default: str, arguments: str, parts: list[str]) -> str:
    is_count = suffix in ("#", "+")
    if index == 0:
        value = str(len(parts)) if is_count else arguments
    elif is_count:
        value = _arguments_from(arguments, index) or default
    else:
        value = parts[index - 1] if index <= len(parts) else default
    return ("1" if value.strip() else "0") if suffix == "?" else value.strip()


def _arguments_from(arguments: str, index: int) -> str:
    remaining = arguments
    for _ in range(index - 1):
        remaining = remaining.lstrip(", \t")
        comma = remaining.find(",")
        if comma < 0:
            return ""
        remaining = remaining[comma:]
    return remaining.removeprefix(",")
