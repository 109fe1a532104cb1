"""Feeds daemons' logs to their readers, in one piece or in several."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import UTC, tzinfo
from functools import cache
from pathlib import Path

from poolbook.adapters.condor_files.daemon_log_lines import LogLines, Record
from poolbook.adapters.condor_files.source_reader import SourceFile
from poolbook.adapters.condor_files.startlog import StartLogReader
from poolbook.domain.events import Event

NOON = 1_795_176_000
"""2026-11-20 12:00:00 UTC, in seconds."""

_TRACES = Path(__file__).resolve().parent.parent / "data" / "traces"
_DAY = 86_400


def source(
    zone: tzinfo = UTC, time_format: str = "", modified: float = NOON + _DAY, number: int = 1, machine: str = "node7"
) -> SourceFile:
    """Return a StartLog that was modified, and is read, a day later."""
    return SourceFile(number, "StartLog", "startlog", machine, zone, modified, (NOON + _DAY) * 1_000_000, time_format)


@cache
def start_logs() -> dict[str, bytes]:
    """Return the StartLog of each trace, by the short name of its run."""
    paths = sorted(_TRACES.glob("*/StartLog.gz"))
    return {path.parent.name.partition("-")[0]: gzip.decompress(path.read_bytes()) for path in paths}


def _pieces(data: bytes, cuts: tuple[int, ...]) -> Iterator[bytes]:
    ends = sorted(cuts)
    for begin, end in zip([0, *ends], [*ends, len(data)], strict=True):
        yield data[begin:end]


def records(
    data: bytes, source_file: SourceFile | None = None, cuts: tuple[int, ...] = ()
) -> tuple[list[Record], list[Event]]:
    """Return the records of a log, and the events of its gaps and unreadable parts. New readers continue after each
    cut."""
    source_file = source_file or source()
    found_records: list[Record] = []
    events: list[Event] = []
    state, line, pending = None, 0, b""
    for piece in _pieces(data, cuts):
        pending += piece
        lines = LogLines(source_file, state, line)
        found_records += lines.split(pending, events)
        pending = pending[lines.consumed :]
        state, line = json.loads(json.dumps(lines.state())), lines.line
    return found_records, events


def slot_events(data: bytes, source_file: SourceFile | None = None, cuts: tuple[int, ...] = ()) -> list[Event]:
    """Return the events of a StartLog; a new reader continues after each cut."""
    source_file = source_file or source()
    events: list[Event] = []
    state, line, pending = None, 0, b""
    for piece in _pieces(data, cuts):
        pending += piece
        reader = StartLogReader(source_file, state, line)
        piece_events, bytes_read = reader.read(pending)
        events += piece_events
        pending = pending[bytes_read:]
        state, line = json.loads(json.dumps(reader.state())), reader.line
    return events
