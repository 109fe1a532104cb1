"""Split the logs of all daemons into records. A record starts with a line with a time; see docs/import.md.

A gap, where lines were removed or a rotated part is missing, becomes a ``SourceGap``, and the reader receives ``GAP``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

from attrs import astuple, define

from ...domain.events import Event
from .log_times import KNOWN, LogClock, TimeFormat, compile_format
from .source_reader import SourceFile, State

GAP: Final = "\0gap"  #: the text of a record that marks a gap: the state known from the log may be out of date

LONGEST = 1 << 20  #: reject a line with this many bytes, and skip the rest of it
ODD_LINES = 8  #: after this many lines in other formats in a piece, read the rest of the piece line by line
MAX_UNTIMED_LINES = 100  #: after this many lines without a recognized time, treat the file's time format as unknown

MAX_ASIDE: Final = 5_000_000  #: microseconds; report a single line that differs from both neighbours by more than this
CLOSE_US: Final = 5_000_000
"""A single line is considered too late only if its neighbours are this close to each other (microseconds), or within a
sixtieth of its lateness. Otherwise the clock may have been set back after it."""
_MAX_SHOWN: Final = 100  #: characters of a reported line that are stored

Record = tuple[int, int, str]  #: line, time (microseconds), message

_FLAGS = r"(?:\((?:(?:fd|pid|tid|cid|bt):[\w:-]+|D_\w+(?::\d+)?(?:\|D_\w+)?)\) )*"
_MARKER = re.compile(
    r"\s*[#.\-=*~<>\[(…]{2,}\s*(?:\d+ \w+ )?(?:were )?"
    r"(?:trimmed|truncated|snip(?:ped)?|cut|omitted|removed|left out|skipped|elided)\b|\s*\[?(?:\.{3,}|…)\]?\s*$",
    re.IGNORECASE,
)
_BEGINS, _SAVED = "Now in new log file ", "Saving log file to "
_MOMENT = 1_000_000


class _LineFormat(NamedTuple):
    """A time format, and the pattern that splits lines into (time, fraction, message, line without a time)."""

    form: TimeFormat
    lines: re.Pattern[str]


@cache
def _line_format(text: str) -> _LineFormat:
    form = compile_format(text)
    timed = rf"({form.shape})(?:\.(\d{{3}}|\d{{6}}))? {_FLAGS}([^\n]*)"
    return _LineFormat(form, re.compile(rf"(?:{timed}|([^\n]*))\n", re.ASCII))


def _split_line(line_format: _LineFormat, text: str) -> tuple[_LineFormat, str, str, str] | None:
    match = line_format.lines.match(text + "\n")
    return (line_format, match[1], match[2] or "", match[3]) if match and match[1] else None


@define
class _Neighbours:
    """The most recent lines with the same time, and the time before them (0: unknown)."""

    above: int = 0
    at: int = 0
    line: int = 0  #: the first of these lines
    text: str = ""
    alone: bool = False  #: whether there is only one

    def lateness(self, at: int) -> int:
        """Return by how much the last line is too late (negative: too early), in microseconds, given that a line at
        `at` follows, or 0 if its time is plausible."""
        if not self.alone or not self.above:
            return 0
        lateness, gap_above = self.at - at, at - self.above
        if lateness > MAX_ASIDE and 0 <= gap_above <= max(CLOSE_US, lateness // 60):
            return lateness
        earliness = self.above - self.at
        return -earliness if earliness > MAX_ASIDE and gap_above >= 0 else 0


class LogLines:
    """The records of one log, or of a chain of rotated logs. ``split`` yields the records; ``consumed`` is then their
    length in bytes. Gaps and rejected lines are inserted into the list of events; the text of a gap is ``GAP``. Raises
    ``ValueError`` if the source's ``time_format`` is invalid."""

    def __init__(self, source: SourceFile, state: State | None, line: int) -> None:
        state = state or {}
        self.source = source
        self.line = line
        self.consumed = 0
        own_formats = (source.time_format,) if source.time_format else ()
        self._shapes = {name: _line_format(name) for name in (*own_formats, *KNOWN)}
        self._clock = LogClock(source.zone, source.modified, int(state.get("at", 0)))
        self._using = self._shapes.get(str(state.get("format", "")))
        self._gap = bool(state.get("gap", False))
        self._long = bool(state.get("long", False))
        self._untimed = int(state.get("untimed", 0))
        self._last = _SAVED if state.get("saved", False) else ""
        self._near = _Neighbours(*state.get("near", ()))
        self._follows = bool(state.get("follows", line == 0 and self._clock.last > 0))
        """True if the next record is the first of its part, and there is a previous part."""

    def state(self) -> State:
        name = next((name for name, line_format in self._shapes.items() if line_format is self._using), "")
        state: State = {"at": self._clock.last, "format": name, "near": list(astuple(self._near))}
        return state | {key: value for key, value in self._unread_state().items() if value}

    def _unread_state(self) -> State:
        is_saved = self._last.startswith(_SAVED)
        rest_state: State = {"gap": self._gap, "long": self._long, "untimed": self._untimed, "saved": is_saved}
        return rest_state | ({"follows": self._follows} if self.line else {})

    @property
    def at(self) -> int:
        """Return the time of the last record in microseconds, or 0 before the first record."""
        return self._clock.last

    def split(self, data: bytes, events: list[Event]) -> Iterator[Record]:
        """Yield the records in the complete lines of `data`. ``consumed`` and ``state`` are valid after the last
        one."""
        start = 0
        if self._long:
            start = data.find(b"\n") + 1 or len(data)
            self._long = data[start - 1 : start] != b"\n"
        while start < len(data):
            stop = data.rfind(b"\n", start, start + LONGEST) + 1
            if stop:
                yield from self._read_piece(data[start:stop], events)
                start = stop
            elif len(data) - start < LONGEST:
                break
            else:
                self.line += 1
                text = data[start : start + 1000].decode("utf-8", "backslashreplace")
                events.append(self.source.refused(self.line, f"a line of over {LONGEST} bytes", text, self.at))
                start = data.find(b"\n", start) + 1 or len(data)
                self._long = data[start - 1 : start] != b"\n"
        self.consumed = start

    def _compare_times(self, at: int, line: int, text: str, events: list[Event]) -> None:
        """Process a line whose time differs from the line before; report the line before if its time is implausible."""
        neighbours = self._near
        if at == neighbours.at:
            neighbours.alone = False
            return
        time_above = neighbours.at
        if time_doubt := neighbours.lateness(at):
            facts = {"seconds": f"{time_doubt / 1e6:g}", "text": neighbours.text}
            events.append(self.source.inconsistency(neighbours.at, neighbours.line, "aside", facts))
            time_above = neighbours.above
        self._near = _Neighbours(time_above, at, line, text[:_MAX_SHOWN], True)

    def _read_piece(self, data: bytes, events: list[Event]) -> Iterator[Record]:
        text = data.decode("utf-8", "backslashreplace")
        if "\0" in text:  # a hole in the file
            text = text.replace("\0", "")
        if "\r" in text:
            text = text.replace("\r\n", "\n")
        lines, done_count, odd_count = text.split("\n"), 0, 0
        lines.pop()
        while done_count < len(lines):
            if self._using is None or self._gap or self._follows or odd_count > ODD_LINES:
                yield from self._records_of(lines[done_count], events)
                done_count += 1
                continue
            first_line = self.line
            remaining_text = "\n".join(lines[done_count:]) + "\n" if done_count else text
            yield from self._read_regular(remaining_text, self._using, events)
            done_count += self.line - first_line
            if done_count < len(lines):
                yield from self._records_of(lines[done_count], events)
                done_count, odd_count = done_count + 1, odd_count + 1

    def _read_regular(self, text: str, line_format: _LineFormat, events: list[Event]) -> Iterator[Record]:
        """Yield the records of lines in one time format, up to the first line that `_records_of` must handle."""
        instant, form, line, last_text = self._clock.instant, line_format.form, self.line, self._last
        previous_text, at = "", 0
        is_repeated = False
        for time_stamp, fraction, message, unmatched in line_format.lines.findall(text):
            if time_stamp:
                if time_stamp != previous_text:
                    try:
                        at = instant(form, time_stamp)
                    except ValueError:
                        break
                    previous_text, is_repeated = time_stamp, False
                    self._compare_times(at, line + 1, message, events)
                elif not is_repeated:
                    is_repeated, self._near.alone = True, False
                line += 1
                last_text = message
                yield line, (at + int(fraction.ljust(6, "0")) if fraction else at), message
            elif _MARKER.match(unmatched) or self._recognize(unmatched):
                break
            else:
                line += 1
        self.line, self._last = line, last_text

    def _recognize(self, text: str) -> tuple[_LineFormat, str, str, str] | None:
        """Return the format, time, fraction and message of a line, or None. The current format is tried first. Another
        format must be consistent with the previous times."""
        if self._using is not None and (cut := _split_line(self._using, text)):
            return cut
        if not self.source.time_format and not text[:1].isdigit() and text[:1] != "(":
            return None
        cuts = (_split_line(line_format, text) for line_format in self._shapes.values())
        return next((cut for cut in cuts if cut and self._is_consistent(cut[0].form, cut[1])), None)

    def _is_consistent(self, form: TimeFormat, time_stamp: str) -> bool:
        try:
            at = LogClock(self.source.zone, self.source.modified, self.at).instant(form, time_stamp)
        except ValueError:
            return False
        day = 86_400_000_000
        return not self.at or self.at - day <= at <= max(self.source.now, self.at) + day

    def _records_of(self, text: str, events: list[Event]) -> Iterator[Record]:
        """Yield the record of a line in another format."""
        self.line += 1
        split_line = self._recognize(text)
        if split_line is None:
            self._read_line_without_time(text, events)
            return
        self._using, time_stamp, fraction, message = split_line
        since = self.at
        try:
            at = self._clock.instant(self._using.form, time_stamp)
        except ValueError as error:
            events.append(self.source.refused(self.line, str(error), text, since))
            return
        is_part_lost = self._follows and message.startswith(_BEGINS) and not self._follows_directly(at - since)
        self._follows, self._last = False, message
        if self._gap or is_part_lost:
            reason = "lines were taken out of the file" if self._gap else "a part that was rotated away is missing"
            self._gap = False
            self._near = _Neighbours()
            events.append(self.source.gap(since or at, self.line, reason, since, at))
            yield self.line, at, GAP
        self._compare_times(at, self.line, message, events)
        yield self.line, at + int(fraction.ljust(6, "0")), message

    def _follows_directly(self, time_later: int) -> bool:
        """Check whether a part that starts this much later (microseconds) directly follows the last one."""
        return self._last.startswith(_SAVED) and 0 <= time_later <= _MOMENT

    def _read_line_without_time(self, text: str, events: list[Event]) -> None:
        """Process a line without a time: a marker, part of the previous message, or a line to reject."""
        if _MARKER.match(text):
            self._gap = True
        elif self._using is None and text.strip():
            self._untimed += 1
            is_continuation = text[0].isspace() and self._untimed < MAX_UNTIMED_LINES  # the message's start is missing
            if not self._gap and not is_continuation and self._untimed in (1, MAX_UNTIMED_LINES):
                events.append(self.source.refused(self.line, "it does not start with a time in a known format", text))
