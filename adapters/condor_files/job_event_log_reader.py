"""Read job event logs, a user's own or the pool-wide EventLog, including torn entries.

An entry has one of three formats, which can be mixed in a file: the classic format (a header line, a body, a line with
three dots), an XML ad, or a JSON object (``job_event_log_ads`` converts both to the classic text). If a time has no
year, or is in the hour that is repeated when daylight saving time ends, it is resolved with the preceding time
(``log_times.LogClock``), and the first time in a log with the EventLog's header or the file's modification time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from ...domain.events import Entry as Taken
from ...domain.events import Event, JobsLogged
from .job_event_log_ads import Unreadable, entry_of_json, entry_of_xml
from .log_times import LogClock, compile_format
from .source_reader import SourceFile, State, without_secrets

LONGEST: Final = 1 << 22  #: reject this many bytes without the end of an entry; actual entries are below 100 kB
_MAX_CACHED_TIMES: Final = 10_000  #: maximum number of times in the cache
_MAX_ENTRIES: Final = 1_000  #: maximum number of entries in an event, because a log reads many events at once

_HEADER: Final = re.compile(
    r"(\d{3}) \((-?\d{1,9})\.(-?\d{1,9})\.(-?\d{1,9})\) "
    r"((?:\d{4}-\d\d-\d\d[ T]|\d\d/\d\d )\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:?\d\d)?)(?: |(?=\n)|$)",
    re.ASCII,
)
_HEADER_PART: Final = ".000) "  #: part of every header that can start an entry within another
_TIME: Final = re.compile(
    r"(?:\d\d(?P<old>/)\d\d|\d{4}-\d\d-\d\d)(?P<t>[ T])[\d:]{8}(?:\.(?P<fraction>\d{1,6}))?(?P<offset>Z|[+-][\d:]+)?",
    re.ASCII,
)
_MARKER: Final = re.compile(r"## trimmed here|\.{6} trimmed")
_GLOBAL_HEADER: Final = re.compile(r"Global JobLog:\s+ctime=(\d{1,10}) id=(\S*) sequence=(\d{1,9})")
_BLANK: Final = re.compile(rb"(?:[ \t\r]*\n)+")
_AFTER_AD: Final = re.compile(rb"\n(?=<c>|\{|\d{3} \(-?\d{1,9}\.|## trimmed here|\.{6} trimmed)")
"""The start of anything that can follow an ad."""
_AD_STARTS: Final = ((b"\n<c>", b"<c>"), (b"\n{", b"{"))
"""The starts of entries in XML and JSON, each after a shorter text that is faster to find."""
_PROLOGUE: Final = (b"<?", b"<!", b"<classads>", b"</classads>")

# Daemons write all lines of these types' entries. Other entries also contain a user's text, except in their first line.
_DAEMON_TYPES: Final = frozenset({"001", "005", "006", "010", "011", "015"})
_USER_TEXT_TYPES: Final = frozenset({"002", "008", "033"})
_DAEMON_LINE: Final = re.compile(r"[ \t]+(?:Usr |\d+ +- |   \S|Partitionable )|\.{1,3}\d{3} ")

_MARKER_PART: Final = "trimmed"  #: part of every marker

_Entry = tuple[int, int, int, int, str, str]  #: event number, cluster, proc, subproc, time, text


class _Segment:
    """Consecutive lines that form an entry (``whole`` if its end was found), a marker, or neither."""

    def __init__(self, index: int, kind: str, first_line: str) -> None:
        self.index, self.kind, self.lines, self.whole = index, kind, [first_line], False


def _may_start_xml(data: bytes, at: int) -> bool:
    """Check whether XML starts at `at`, or may start there once more bytes are available."""
    begin = data[at : at + 11]
    return any(begin.startswith(opening) or opening.startswith(begin) for opening in (b"<c>", *_PROLOGUE))


class JobEventLogReader:
    def __init__(self, source: SourceFile, state: State | None, line: int) -> None:
        self.line = line
        self._source = source
        state = state or {}
        self._clock = LogClock(source.zone, source.modified, state.get("last", 0))
        self._header: dict[str, Any] = state.get("header", {})
        self._gap: list[Any] | None = state.get("gap")
        self._known_times: dict[str, int] = {}

    def state(self) -> State:
        return {"last": self._clock.last, "header": self._header, "gap": self._gap}

    def read(self, data: bytes) -> tuple[list[Event], int]:
        events: list[Event] = []
        at, size = 0, len(data)
        while at < size:
            blank_match = _BLANK.match(data, at)
            if blank_match is not None:
                self.line += data.count(b"\n", at, blank_match.end())
                at = blank_match.end()
                continue
            first_byte = data[at : at + 1]
            if first_byte == b"<" and _may_start_xml(data, at):
                taken_length = self._read_prologue(data, at) or self._read_ad(data, at, b"</c>", entry_of_xml, events)
            elif first_byte == b"{":
                taken_length = self._read_ad(data, at, b"}", entry_of_json, events)
            else:
                taken_length = self._read_marker(data, at) or self._read_classic(data, at, events)
            if not taken_length:
                if size - at < LONGEST:
                    break
                taken_length = self._refuse(data, at, at + LONGEST, "an entry without an end", events)
            at += taken_length
        return events, at

    def _refuse(self, data: bytes, begin: int, end: int, reason: str, events: list[Event]) -> int:
        text = data[begin : min(end, begin + 1000)].decode("utf-8", "backslashreplace")
        events.append(self._source.refused(self.line + 1, reason, text, self._clock.last))
        self.line += data.count(b"\n", begin, end)
        return end - begin

    def _read_marker(self, data: bytes, at: int) -> int:
        """Process a marker, or a line of dots without an entry; return its length in bytes, or 0."""
        if data[at : at + 1] not in (b"#", b".") or (end := data.find(b"\n", at, at + 1000)) < 0:
            return 0
        text = data[at:end].decode("utf-8", "backslashreplace").rstrip("\r")
        if _MARKER.match(text):
            self._begin_gap(self.line + 1, text)
        elif text != "...":
            return 0
        self.line += 1
        return end + 1 - at

    def _begin_gap(self, line: int, text: str) -> None:
        if self._gap is None:
            self._gap = [line, text.strip("#. "), self._clock.last]

    def _add_entry(self, entry: _Entry, line: int, events: list[Event]) -> str:
        """Process an entry and the gap before it; return the error, or "" if the entry is valid."""
        number, cluster, proc, subproc, when, text = entry
        header = _GLOBAL_HEADER.match(text) if number == 8 and cluster < 0 else None
        if header is not None:
            self._header = {"ctime": int(header[1]), "id": header[2], "sequence": int(header[3])}
            self._clock.last = self._clock.last or int(header[1]) * 1_000_000
        try:
            at = self._parse_time(when)
        except ValueError:
            return "its time is not valid"
        if self._gap is not None:
            missing, reason, since = self._gap
            events.append(self._source.gap(since or at, missing, reason, since, at))
            self._gap = None
        if header is None:
            taken_entry: Taken = (at, line, proc, subproc, number, without_secrets(text))
            place = self._source.location_of_line(line)
            events.append(JobsLogged(at, "reported", place, cluster, self._source.number, (taken_entry,)))
        return ""

    def _parse_time(self, when: str) -> int:
        """Return an entry's time in microseconds. Raise ``ValueError`` for an invalid time."""
        match = _TIME.fullmatch(when)
        if match is None:
            raise ValueError(f"no time: {when!r}")
        time_stamp = when[:14] if match["old"] else when[:19]
        day = "%m/%d" if match["old"] else "%Y-%m-%d"
        form = f"{day}{match['t']}%H:%M:%S" + ("%z" if match["offset"] else "")
        at = self._clock.instant(compile_format(form), time_stamp + (match["offset"] or ""))
        return at + int((match["fraction"] or "").ljust(6, "0"))

    def _read_classic(self, data: bytes, at: int, events: list[Event]) -> int:
        """Process the entries up to the last complete one, or all if XML or JSON follows. Return their length in
        bytes."""
        window = min(len(data), at + LONGEST)
        starts = (start for start, opening in _AD_STARTS if data.find(opening, at, window) >= 0)
        other_starts = [place for start in starts if (place := data.find(start, at, window)) >= 0]
        limit = min(other_starts) + 1 if other_starts else window
        dots_at, crlf_dots_at = data.rfind(b"\n...\n", at, limit), data.rfind(b"\n...\r\n", at, limit)
        end = max(dots_at + 5 if dots_at >= 0 else 0, crlf_dots_at + 6 if crlf_dots_at >= 0 else 0)
        if not end:
            if other_starts:
                self._read_lines(_decode_lines(data[at : limit - 1]), False, events)
                return limit - at
            return 0
        text = _decode_lines(data[at:end])
        pieces = text.split("\n...\n")
        dots_line = pieces.pop()  # a line of dots directly after another one, whose newline was removed with it
        headers = text.count(_HEADER_PART)
        if not self._clock.last:  # the first time in a log, or its header, must be processed slowly
            headers -= pieces[0].count(_HEADER_PART)
            self._walk_to_dots(pieces.pop(0), events)
        is_plain = headers == len(pieces) and self._gap is None and _MARKER_PART not in text
        if not is_plain or not self._read_regular(pieces, events):
            for entry_text in pieces:
                self._walk_to_dots(entry_text, events)
        self.line += dots_line.count("\n")
        return end - at

    def _read_regular(self, pieces: list[str], events: list[Event]) -> bool:
        """If every piece is exactly one entry, process them all and return True; otherwise, process none and return
        False. The caller has checked that there are as many headers as pieces, so if each piece starts with a header,
        none has a second one."""
        line, time_before, match, known_times = self.line + 1, self._clock.last, _HEADER.match, self._known_times
        at, runs, taken_entries, last_stamp = time_before, list[tuple[str, list[Taken]]](), list[Taken](), ""
        add_entry = taken_entries.append
        for entry_text in pieces:
            header = match(entry_text)
            if header is None:
                break
            number, cluster, proc, subproc, when = header.groups()
            if subproc != "000":
                break
            instant = known_times.get(when)
            if instant is None:
                self._clock.last = at
                try:
                    instant = self._cached_time(when)
                except ValueError:
                    break
            at = instant
            text = entry_text[header.end() :]
            if "#" in text:
                text = without_secrets(text)
            if cluster != last_stamp:
                taken_entries, last_stamp = [], cluster
                runs.append((cluster, taken_entries))
                add_entry = taken_entries.append
            add_entry((at, line, int(proc), 0, int(number), text))
            line += text.count("\n") + 2
        if sum(len(entries) for _, entries in runs) != len(pieces):
            self._clock.last = time_before
            return False
        self._clock.last, self.line = at, line - 1
        source = self._source.number
        events += [
            JobsLogged(part[0][0], "reported", f"{source}:{part[0][1]}", int(name), source, tuple(part))
            for name, entries in runs
            for part in (entries[start : start + _MAX_ENTRIES] for start in range(0, len(entries), _MAX_ENTRIES))
        ]
        return True

    def _cached_time(self, when: str) -> int:
        """Return a time in microseconds. Cache it, unless the same text can also mean another time."""
        at = self._parse_time(when)
        if when[2] != "/" and self._is_unambiguous(at):
            if len(self._known_times) >= _MAX_CACHED_TIMES:
                self._known_times.clear()
            self._known_times[when] = at
        return at

    def _is_unambiguous(self, at: int) -> bool:
        local = datetime.fromtimestamp(at // 1_000_000, self._source.zone)
        return local.replace(fold=0).utcoffset() == local.replace(fold=1).utcoffset()

    def _walk_to_dots(self, entry_text: str, events: list[Event]) -> None:
        self._read_lines(entry_text, True, events)
        self.line += 1

    def _read_lines(self, text: str, ended: bool, events: list[Event]) -> None:
        """Process line by line the lines before a line of dots or, if not `ended`, before an ad in XML or JSON."""
        lines = text.split("\n")
        segments = _split_segments(lines)
        if segments and ended:
            segments[-1].whole = True
        for segment in segments:
            line, text = self.line + segment.index + 1, "\n".join(segment.lines)
            header = _HEADER.match(text)
            reason = "it does not start like an entry"
            if segment.kind == "marker":
                self._begin_gap(line, text)
                continue
            if header is not None:
                reason = "the entry was torn: something else starts before its end"
                if segment.whole:
                    cluster, proc, subproc = map(int, header.group(2, 3, 4))
                    entry = (int(header[1]), cluster, proc, subproc, header[5], text[header.end() :])
                    reason = self._add_entry(entry, line, events)
            if reason:
                events.append(self._source.refused(line, reason, text, self._clock.last))
        self.line += len(lines)

    def _read_prologue(self, data: bytes, at: int) -> int:
        """Process a line around the ads of an XML log; return its length in bytes, or 0."""
        end = data.find(b"\n", at, at + LONGEST)
        if end < 0 or not data.startswith(_PROLOGUE, at):
            return 0
        self.line += 1
        return end + 1 - at

    def _read_ad(
        self, data: bytes, at: int, close: bytes, entry_of: Callable[[str], _Entry], events: list[Event]
    ) -> int:
        """Process an ad that is one line, or ends before a line that starts with `close`. Return its length in bytes,
        or 0 if it is incomplete."""
        window = min(len(data), at + LONGEST)
        end = data.find(b"\n", at, window) + 1
        if end and not data[at:end].rstrip().endswith(close):
            last_close = data.find(b"\n" + close, at, window)
            end = data.find(b"\n", last_close + 1, window) + 1 if last_close >= 0 else 0
        other_begin = _AFTER_AD.search(data, at, window)
        if other_begin is not None and (not end or other_begin.start() + 1 < end):
            reason = "the entry was torn: another entry starts before its end"
            return self._refuse(data, at, other_begin.start() + 1, reason, events)
        if not end:
            return 0
        try:
            reason = self._add_entry(entry_of(data[at:end].decode("utf-8", "backslashreplace")), self.line + 1, events)
        except Unreadable as error:
            reason = str(error)
        if reason:
            return self._refuse(data, at, end, reason, events)
        self.line += data.count(b"\n", at, end)
        return end - at


def _decode_lines(data: bytes) -> str:
    text = data.decode("utf-8", "backslashreplace")
    return text.replace("\r\n", "\n") if "\r" in text else text


def _split_segments(lines: list[str]) -> list[_Segment]:
    """Split the lines before a line of dots into entries, markers and the rest."""
    segments: list[_Segment] = []
    now: _Segment | None = None
    for index, line in enumerate(lines):
        while (header := _header_in(line, now, now is not None and now.index == index)) is not None:
            if now is not None and now.index == index and header.start():  # after another header in the same line
                now.lines[-1] = line[: header.start()]
            elif now is not None and line[: header.start()] == "...":
                now.whole = True
            elif header.start():
                if now is None:
                    now = _Segment(index, "other", "")
                    segments.append(now)
                now.lines.append(line[: header.start()])
            line = line[header.start() :]
            now = _Segment(index, "entry", line)
            segments.append(now)
        if now is not None and now.index == index:
            continue
        if _MARKER.match(line):
            segments.append(_Segment(index, "marker", line))
            now = None
        elif now is not None:
            now.lines.append(line)
        elif line.strip() and line != "...":
            now = _Segment(index, "other", line)
            segments.append(now)
    return segments


def _header_in(line: str, now: _Segment | None, is_first: bool) -> re.Match[str] | None:
    """Return the header of an entry in a line, unless the line may be a user's own text."""
    if now is None and (header := _HEADER.match(line)) is not None:
        return header
    if _HEADER_PART not in line:
        return None
    if now is None or now.kind == "other":
        own = True
    else:
        number = now.lines[0][:3]
        own = number in _DAEMON_TYPES or (is_first and number not in _USER_TEXT_TYPES) or bool(_DAEMON_LINE.match(line))
    headers = _HEADER.finditer(line, 1 if is_first else 0)
    return next((header for header in headers if header[4] == "000" and (own or not header.start())), None)
