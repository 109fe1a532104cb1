"""Format output for a terminal: wrap lines at words, colour outcomes, escape control characters.

``guard_streams`` protects a terminal from control characters in ads, logs and files: only Poolbook's own colours and
rewritten lines (``print_colored``, ``rewrite_line``) control the terminal. Output to a file or a pipe is not changed.
NO_COLOR and TERM=dumb disable colours, CLICOLOR_FORCE and FORCE_COLOR enable them everywhere. TERM=dumb also disables
rewritten lines.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from io import TextIOWrapper
from itertools import groupby
from typing import IO

NARROWEST = 40
"""Lines are not wrapped on a terminal with fewer columns."""


def width_of(stream: IO[str] | None = None) -> int | None:
    """Return the width of a stream's terminal (default: standard output), or None if it is not a terminal.
    POOLBOOK_WIDTH is the width of a terminal on another machine."""
    stream = stream or sys.stdout
    try:
        if stream.isatty():
            return os.get_terminal_size(stream.fileno()).columns or None
        return int(os.environ.get("POOLBOOK_WIDTH", "")) or None
    except (OSError, ValueError):
        return None


def is_live(stream: IO[str]) -> bool:
    """Return True if a stream is a terminal on which a line can be rewritten."""
    return os.environ.get("TERM") != "dumb" and stream.isatty()


def rewrite_line(line: str, stream: IO[str]) -> None:
    """Replace the current line on a terminal with this one, truncated to the terminal's width."""
    width, shown_line = width_of(stream), as_one_line(line)
    _write_control(f"\r{shown_line if width is None else shown_line[: width - 1]}\x1b[K", stream)
    stream.flush()


class ProgressLine:
    """A progress line on standard error that is updated periodically. On a terminal it is rewritten; elsewhere it is
    printed as a new line, or not at all."""

    def __init__(self, live_interval: float, elsewhere: float = float("inf")) -> None:
        self.live = is_live(sys.stderr)
        self._every = live_interval if self.live else elsewhere
        self._last = time.monotonic()
        self._told = False

    def is_due(self) -> bool:
        return time.monotonic() - self._last >= self._every

    def show_text(self, text: str) -> None:
        self._last, self._told = time.monotonic(), True
        if self.live:
            rewrite_line(text, sys.stderr)
        else:
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.live and self._told:
            rewrite_line("", sys.stderr)


def wrap_text(text: str, width: int | None, indent: int = 0) -> str:
    """Wrap each line of a text between words; indent continuation lines by `indent` more than their line."""
    if width is None or width < NARROWEST:
        return text
    return "\n".join("\n".join(_wrap_line(line, width, indent)) for line in text.split("\n"))


def _wrap_line(line: str, width: int, indent: int) -> list[str]:
    if len(line) <= width:
        return [line]
    margin = " " * min(len(line) - len(line.lstrip()) + indent, width // 2)
    lines, remaining = [], line
    while len(remaining) > width:
        begin = len(remaining) - len(remaining.lstrip())
        at = remaining.rfind(" ", begin, width + 1)
        at = remaining.find(" ", width) if at < begin else at
        if at < 0:
            break
        lines.append(remaining[:at].rstrip())
        remaining = margin + remaining[at:].lstrip()
    return [*lines, remaining] if remaining.strip() else lines


def columns(rows: Sequence[tuple[str, str]], width: int | None) -> list[str]:
    """Format rows with two columns; wrap the second column next to the first."""
    width_of_first = max((len(first) for first, _ in rows), default=0)
    if width is not None and width_of_first + 4 > width // 2:  # put the second column below the first
        return [wrap_text(f"  {first}\n      {text}".rstrip(), width) for first, text in rows]
    return [
        wrap_text(f"  {first:{width_of_first}}  {text}".rstrip(), width, width_of_first + 2) for first, text in rows
    ]


_COLOURS = {"good": "32", "bad": "31", "waits": "33"}
Roles = Mapping[str, str]
OUTCOMES: Roles = {
    "completed": "good", "running": "good", "sound": "good",
    "failed": "bad", "held": "bad", "removed": "bad", "NOT SOUND": "bad", "violation": "bad", "violations": "bad",
    "idle": "waits", "suspended": "waits",
}  # fmt: skip
"""The words for outcomes of jobs and logs in Poolbook's own counts and tables, with their colours."""
STATES: Roles = {
    "Completed": "good", "Running": "good", "Claimed": "good",
    "Held": "bad", "Removed": "bad", "Preempting": "bad",
    "Suspended": "waits", "Owner": "waits", "Drained": "waits",
}  # fmt: skip
"""HTCondor's words for the states of jobs and slots, with their colours."""


def has_colour(stream: IO[str] | None = None) -> bool:
    """Return True if a stream (default: standard output) uses colours."""
    if os.environ.get("NO_COLOR"):
        return False
    if any(os.environ.get(name, "0") != "0" for name in ("CLICOLOR_FORCE", "FORCE_COLOR")):
        return True
    return is_live(stream or sys.stdout)


def print_colored(text: str, roles: Roles = OUTCOMES, stream: IO[str] | None = None, end: str = "\n") -> None:
    """Print a text, with states and outcomes in colour if the stream (default: standard output) uses colours."""
    stream = stream or sys.stdout
    if not roles or not has_colour(stream):
        stream.write(text + end)
        return
    _write_control(add_colors(escape_controls(text) if stream.isatty() else text, roles) + end, stream)


def add_colors(text: str, roles: Roles = OUTCOMES) -> str:
    pattern = "|".join(sorted(roles, key=len, reverse=True))
    coloured_pattern = rf"(?<![\w./@-])(?:{pattern})(?![\w./@-])"
    return re.sub(coloured_pattern, lambda found: f"\x1b[{_COLOURS[roles[found[0]]]}m{found[0]}\x1b[0m", text)


def print_chart_row(name: str, cells: str, roles: Roles) -> None:
    """Print a row of a chart to standard output, with each character in the colour of its role."""
    if not has_colour():
        print(name + cells)
        return
    runs = ("".join(same) for _, same in groupby(cells))
    colours = ((run, _COLOURS.get(roles.get(run[0], ""))) for run in runs)
    painted = "".join(f"\x1b[{colour}m{run}\x1b[0m" if colour else run for run, colour in colours)
    _write_control(escape_controls(name) + painted + "\n", sys.stdout)


_CONTROLS = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Characters that control a terminal, or hide or reorder text: Unicode's categories Cc (except newline and tab), Cf
(except characters of a script), Zl, Zp and Cs."""


def escape_controls(text: str) -> str:
    """Escape control characters, except newlines and tabs."""
    return re.sub(_CONTROLS, lambda found: _escape_sequence(found[0]), text)


def as_one_line(text: str) -> str:
    """Escape control characters and line ends, so that the text stays on its line."""
    return escape_controls(text).replace("\n", "\\n").replace("\t", "    ")


def _escape_sequence(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # an undecodable byte
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class TerminalStream(TextIOWrapper):
    """A text stream to a terminal that escapes control characters."""

    def write(self, text: str) -> int:
        super().write(escape_controls(text))
        return len(text)

    def control(self, text: str) -> None:
        """Write Poolbook's own text, including its control characters."""
        super().write(text)


def _write_control(text: str, stream: IO[str]) -> None:
    if isinstance(stream, TerminalStream):
        stream.control(text)
    else:
        stream.write(text)


_ORIGINAL_BYTES = "poolbook.original_bytes"


def _original_bytes(error: UnicodeError) -> tuple[bytes, int]:
    """Restore undecodable bytes; escape other characters that the encoding cannot represent."""
    assert isinstance(error, UnicodeEncodeError)
    char = error.object[error.start]
    byte_count = 0xDC80 <= ord(char) <= 0xDCFF
    return (bytes([ord(char) - 0xDC00]) if byte_count else _escape_sequence(char).encode("ascii")), error.start + 1


def guard_streams() -> None:
    """Escape control characters on standard output and standard error if they are terminals. Output to a pipe or a file
    is not changed, including undecodable bytes."""
    codecs.register_error(_ORIGINAL_BYTES, _original_bytes)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, TextIOWrapper):
            continue
        stream.reconfigure(errors=_ORIGINAL_BYTES)
        if stream.isatty():
            setting_names = ("encoding", "errors", "line_buffering", "write_through")
            settings = {setting: getattr(stream, setting) for setting in setting_names}
            guarded_stream = TerminalStream(stream.detach(), **settings)
            for place in (name, f"__{name}__"):  # the old stream is detached
                setattr(sys, place, guarded_stream)
