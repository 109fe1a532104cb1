"""Split a line of a scenario at blanks, but not within quotes or brackets; ``#`` begins a comment."""

from __future__ import annotations

import re

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
ASSIGNED = re.compile(r"((?:\+|[Mm][Yy]\.)?[A-Za-z_][A-Za-z0-9_-]*)=(?!=)(.*)", re.DOTALL)
_ASSIGNABLE = re.compile(r"(?:\+|[Mm][Yy]\.)?[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OPEN = {"(": ")", "[": "]", "{": "}"}


def split(line: str) -> list[str]:
    """Return the words of a line. ``NAME = VALUE`` is one word, as ``NAME=VALUE`` is; so is ``X=(a || b)``. Raise
    ValueError if a quote or bracket is not closed."""
    words: list[str] = []
    word, closing, quoted = "", "", False
    previous = ""
    for char in line:
        if quoted:
            quoted = char != '"' or previous == "\\"
        elif char == '"':
            quoted = True
        elif char in _OPEN:
            closing = _OPEN[char] + closing
        elif closing and char == closing[0]:
            closing = closing[1:]
        elif not closing and (char.isspace() or (char == "#" and not word)):
            if word:
                words.append(word)
            word = ""
            if char == "#":
                return _joined(words)
            previous = ""
            continue
        word += char
        previous = char if not (char == "\\" and previous == "\\") else ""
    if quoted or closing:
        raise ValueError(f"{line.strip()!r} ends where {closing[0] if not quoted else 'a quote'} is still to come")
    if word:
        words.append(word)
    return _joined(words)


def _joined(words: list[str]) -> list[str]:
    """Join ``KeyboardIdle = 0`` to the one word that it means."""
    joined: list[str] = []
    for word in words:
        lacks = joined and joined[-1].endswith("=") and _ASSIGNABLE.fullmatch(joined[-1].removesuffix("="))
        begins = joined and word.startswith("=") and not word.startswith("==") and _ASSIGNABLE.fullmatch(joined[-1])
        if lacks or begins:
            joined[-1] += word
        else:
            joined.append(word)
    return joined
