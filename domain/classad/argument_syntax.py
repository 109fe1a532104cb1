"""Split and join arguments in HTCondor's new syntax: blanks separate, single quotes group, a doubled quote is one.

Source: the manual's page "Submit Description File Commands", arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_PIECES = re.compile(r"[^' \t\n\r]+|'(?:[^']|'')*+'|[ \t\n\r]+")


class QuotingError(ValueError):
    """Quotes do not match; the message names the fix."""


def split(text: str) -> list[str]:
    """Return the arguments of a text, without its quotes; raise QuotingError where a single quote does not end."""
    found: list[str] = []
    current: list[str] = []
    at = 0
    for piece in _PIECES.finditer(text):
        if piece.start() != at:
            break
        at = piece.end()
        word = piece[0]
        if word[0] == "'":
            current.append(word[1:-1].replace("''", "'"))
        elif word[0] in " \t\n\r":
            if current:
                found.append("".join(current))
            current = []
        else:
            current.append(word)
    if at != len(text):
        raise QuotingError(f"the single quote that starts here has no end: {text[at : at + 40]}")
    return [*found, "".join(current)] if current else found


def old_entries(text: str, delimiter: str) -> list[str]:
    """Return the entries of an environment in the old syntax: each ends at the delimiter or a line feed."""
    entries = (entry.lstrip(" \t\r") for entry in re.split(f"[\n{re.escape(delimiter)}]", text))
    return [entry for entry in entries if entry]


def join(arguments: Iterable[str]) -> str:
    """Write arguments as an ad holds them. Like HTCondor, quote each special character on its own."""
    return " ".join(_quoted(argument) for argument in arguments)


def _quoted(argument: str) -> str:
    if not argument:
        return "''"
    return re.sub(r"[' \t\n\r]+", lambda run: "'" + run[0].replace("'", "''") + "'", argument)
