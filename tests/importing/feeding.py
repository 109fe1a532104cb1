"""Feeds recorded files to the readers of HTCondor files, whole or in pieces."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from datetime import UTC
from pathlib import Path

from poolbook.adapters.condor_files.source_reader import SourceFile, SourceReader
from poolbook.domain.events import Event
from poolbook.domain.package_data import get_data
from poolbook.replay.narration.sentence_tables import tables

DATA = Path(__file__).resolve().parent.parent / "data"
REPORTS = tables(get_data("poolbook.domain.imported", "reports.txt"))
"""The kinds of report that records may contain, by subject."""
NOW = 1_795_305_600_000_000
"""The instant of every import in these tests: a day after the records."""


def source(kind: str) -> SourceFile:
    return SourceFile(1, kind, kind, "localhost", UTC, NOW / 1e6, NOW)


def content(path: Path) -> bytes:
    """Return a file's content, unpacked if it is gzipped."""
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def trace_files(name: str) -> list[Path]:
    """Return this file of every trace that has it."""
    return sorted(path for path in (DATA / "traces").glob(f"*/{name}*") if path.name in (name, f"{name}.gz"))


def read(reader: type[SourceReader], kind: str, data: bytes) -> tuple[list[Event], int]:
    """Return the events of `data`, and how many of its bytes were left."""
    events, bytes_read = reader(source(kind), None, 0).read(data)
    return events, len(data) - bytes_read


def read_in_pieces(reader: type[SourceReader], kind: str, data: bytes, cuts: Sequence[int]) -> tuple[list[Event], int]:
    """Return the same, with a new reader for each piece, which gets what the last one left."""
    events: list[Event] = []
    state, line, pending = None, 0, b""
    for piece in _pieces(data, cuts):
        pending += piece
        piece_reader = reader(source(kind), state, line)
        piece_events, bytes_read = piece_reader.read(pending)
        events += piece_events
        pending = pending[bytes_read:]
        state, line = json.loads(json.dumps(piece_reader.state())), piece_reader.line
    return events, len(pending)


def _pieces(data: bytes, cuts: Sequence[int]) -> Iterator[bytes]:
    ends = sorted(position % (len(data) + 1) for position in cuts)
    for begin, end in zip([0, *ends], [*ends, len(data)], strict=True):
        yield data[begin:end]
