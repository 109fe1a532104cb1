"""Format output for a terminal: lines folded at words to its width, outcomes in colour.

Output to a file or a pipe is unchanged. NO_COLOR and TERM=dumb turn colours off, CLICOLOR_FORCE and FORCE_COLOR turn
them on everywhere. TERM=dumb also turns off rewritten lines.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import IO

NARROWEST = 40
"""Columns below which nothing is folded: there is no room to read in."""


def width_of(stream: IO[str] | None = None) -> int | None:
    """Return the columns of a stream's terminal (standard output unless given); None if it has none."""
    stream = stream or sys.stdout
    try:
        return os.get_terminal_size(stream.fileno()).columns or None if stream.isatty() else None
    except (OSError, ValueError):
        return None


def is_live(stream: IO[str]) -> bool:
    """Tell whether a stream goes to a terminal on which a line can be rewritten."""
    return os.environ.get("TERM") != "dumb" and stream.isatty()


def rewritten(line: str, stream: IO[str]) -> str:
    """Return the text that replaces the present line on a terminal, cut so that it stays one line."""
    width = width_of(stream)
    return f"\r{line if width is None else line[: width - 1]}\x1b[K"


def folded(text: str, width: int | None, indent: int = 0) -> str:
    """Fold each line of a text at words; continuation lines are indented by `indent` more than their line. A word
    longer than a line stays whole."""
    if width is None or width < NARROWEST:
        return text
    return "\n".join("\n".join(_lines(line, width, indent)) for line in text.split("\n"))


def _lines(line: str, width: int, indent: int) -> list[str]:
    if len(line) <= width:
        return [line]
    margin = " " * min(len(line) - len(line.lstrip()) + indent, width // 2)
    lines, rest = [], line
    while len(rest) > width:
        begin = len(rest) - len(rest.lstrip())
        at = rest.rfind(" ", begin, width + 1)
        at = rest.find(" ", width) if at < begin else at
        if at < 0:
            break
        lines.append(rest[:at].rstrip())
        rest = margin + rest[at:].lstrip()
    return [*lines, rest] if rest.strip() else lines


def columns(rows: Sequence[tuple[str, str]], width: int | None) -> list[str]:
    """Return rows of two columns, the second folded beside the first."""
    left = max((len(one) for one, _ in rows), default=0)
    if width is not None and left + 4 > width // 2:  # then it stands below
        return [folded(f"  {one}\n      {other}".rstrip(), width) for one, other in rows]
    return [folded(f"  {one:{left}}  {other}".rstrip(), width, left + 2) for one, other in rows]


_COLOURS = {"good": "32", "bad": "31", "waits": "33"}
Roles = Mapping[str, str]
OUTCOMES: Roles = {
    "completed": "good", "running": "good", "sound": "good",
    "failed": "bad", "held": "bad", "removed": "bad", "NOT SOUND": "bad", "violation": "bad", "violations": "bad",
    "idle": "waits", "suspended": "waits",
}  # fmt: skip
"""The words for outcomes of jobs and logs in Poolbook's own counts and tables."""
STATES: Roles = {
    "Completed": "good", "Running": "good", "Claimed": "good",
    "Held": "bad", "Removed": "bad", "Preempting": "bad",
    "Suspended": "waits", "Owner": "waits", "Drained": "waits",
}  # fmt: skip
"""HTCondor's words for the states of jobs and slots."""


def has_colour(stream: IO[str] | None = None) -> bool:
    """Tell whether a stream (standard output unless given) is to have colours."""
    if os.environ.get("NO_COLOR"):
        return False
    if any(os.environ.get(name, "0") != "0" for name in ("CLICOLOR_FORCE", "FORCE_COLOR")):
        return True
    return is_live(stream or sys.stdout)


def painted(text: str, roles: Roles = OUTCOMES, stream: IO[str] | None = None) -> str:
    """Return a text with states and outcomes in colour, if the stream is to have any."""
    if not has_colour(stream):
        return text
    words = "|".join(sorted(roles, key=len, reverse=True))
    coloured = rf"(?<![\w./@-])(?:{words})(?![\w./@-])"
    return re.sub(coloured, lambda found: f"\x1b[{_COLOURS[roles[found[0]]]}m{found[0]}\x1b[0m", text)


def visible(text: str) -> str:
    """Spell out control characters, so that a foreign text is safe for a terminal."""
    return "".join(char if char.isprintable() else _spelled(char) for char in text)


def _spelled(char: str) -> str:
    return "    " if char == "\t" else char.encode("unicode_escape", "surrogateescape").decode("ascii", "replace")
