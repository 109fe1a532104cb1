"""Format output for a terminal: lines folded at words to its width, outcomes in colour, foreign texts spelled out.

``guard_streams`` puts the boundary between what is printed and a terminal: whatever an ad, a log or a file holds, only
Poolbook's own colours and rewritten lines (``print_painted``, ``rewrite``) control it. Output to a file or a pipe is
unchanged, byte by byte. NO_COLOR and TERM=dumb turn colours off, CLICOLOR_FORCE and FORCE_COLOR turn
them on everywhere. TERM=dumb also turns off rewritten lines.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from io import TextIOWrapper
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


def rewrite(line: str, stream: IO[str]) -> None:
    """Replace the present line on a terminal by this one, cut so that it stays one line."""
    width, shown = width_of(stream), visible(line)
    _control(f"\r{shown if width is None else shown[: width - 1]}\x1b[K", stream)
    stream.flush()


class ProgressLine:
    """A line about progress on standard error, told anew every so many seconds: rewritten on a terminal; elsewhere a
    further line, or none."""

    def __init__(self, live: float, elsewhere: float = float("inf")) -> None:
        self.live = is_live(sys.stderr)
        self._every = live if self.live else elsewhere
        self._last = time.monotonic()
        self._told = False

    def due(self) -> bool:
        return time.monotonic() - self._last >= self._every

    def tell(self, text: str) -> None:
        self._last, self._told = time.monotonic(), True
        if self.live:
            rewrite(text, sys.stderr)
        else:
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Clear the line of a terminal."""
        if self.live and self._told:
            rewrite("", sys.stderr)


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


def print_painted(text: str, roles: Roles = OUTCOMES, stream: IO[str] | None = None, end: str = "\n") -> None:
    """Print a text with states and outcomes in colour, if the stream (standard output unless given) is to have any."""
    stream = stream or sys.stdout
    if not roles or not has_colour(stream):
        stream.write(text + end)
        return
    _control(painted(spelled_out(text) if stream.isatty() else text, roles) + end, stream)


def painted(text: str, roles: Roles = OUTCOMES) -> str:
    """Return a text with states and outcomes in colour."""
    words = "|".join(sorted(roles, key=len, reverse=True))
    coloured = rf"(?<![\w./@-])(?:{words})(?![\w./@-])"
    return re.sub(coloured, lambda found: f"\x1b[{_COLOURS[roles[found[0]]]}m{found[0]}\x1b[0m", text)


# What a terminal may be sent

_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Characters that control a terminal or hide or reorder what it shows: Unicode's Cc (but for newline and tab), the Cf
that are not part of a script, Zl, Zp and Cs."""


def spelled_out(text: str) -> str:
    """Spell out what would control a terminal; newlines and tabs stay."""
    return _CONTROLS.sub(lambda found: _spelled(found[0]), text)


def visible(text: str) -> str:
    """Spell out what would control a terminal, or end the line, so that a foreign text stays in its place."""
    return spelled_out(text).replace("\n", "\\n").replace("\t", "    ")


def _spelled(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no UTF-8
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class TerminalStream(TextIOWrapper):
    """A text stream to a terminal that no text controls."""

    def write(self, text: str) -> int:
        super().write(spelled_out(text))
        return len(text)

    def control(self, text: str) -> None:
        """Write a text of Poolbook's own, with its control characters."""
        super().write(text)


def _control(text: str, stream: IO[str]) -> None:
    if isinstance(stream, TerminalStream):
        stream.control(text)
    else:
        stream.write(text)


_AS_IT_WAS = "poolbook.as_it_was"


def _as_it_was(error: UnicodeError) -> tuple[bytes, int]:
    """Encode what came from bytes that were no UTF-8 as these bytes; spell out what else the encoding does not have."""
    assert isinstance(error, UnicodeEncodeError)
    char = error.object[error.start]
    own = 0xDC80 <= ord(char) <= 0xDCFF
    return (bytes([ord(char) - 0xDC00]) if own else _spelled(char).encode("ascii")), error.start + 1


def guard_streams() -> None:
    """Put standard output and standard error behind the boundary: to a terminal nothing goes raw; to a pipe or a file
    everything goes as it was, also what is no text."""
    codecs.register_error(_AS_IT_WAS, _as_it_was)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, TextIOWrapper):
            continue
        stream.reconfigure(errors=_AS_IT_WAS)
        if stream.isatty():
            kept = {each: getattr(stream, each) for each in ("encoding", "errors", "line_buffering", "write_through")}
            guarded = TerminalStream(stream.detach(), **kept)
            for place in (name, f"__{name}__"):  # the old one writes no more
                setattr(sys, place, guarded)
