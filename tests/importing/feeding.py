"""Readers of HTCondor's files, fed for a test: files of the data, whole or in pieces."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from datetime import UTC
from pathlib import Path
from pkgutil import get_data

from poolbook.adapters.condor_files.source_reader import SourceFile, SourceReader
from poolbook.domain.events import Event
from poolbook.replay.narration.sentence_tables import tables

DATA = Path(__file__).resolve().parent.parent / "data"
REPORTS = tables(get_data("poolbook.domain.imported", "reports.txt"))
"""The words that records may report, by what they are about."""
NOW = 1_795_305_600_000_000
"""The instant of every import here: a day behind the records."""


def source(kind: str) -> SourceFile:
    return SourceFile(1, kind, kind, "localhost", UTC, NOW / 1e6, NOW)


def content(path: Path) -> bytes:
    """What a file holds, gzipped or not."""
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def traced(name: str) -> list[Path]:
    """This file of every trace that has it."""
    return sorted(path for path in (DATA / "traces").glob(f"*/{name}*") if path.name in (name, f"{name}.gz"))


def read(reader: type[SourceReader], kind: str, data: bytes) -> tuple[list[Event], int]:
    """The events of `data`, and how many bytes of it are left."""
    events, consumed = reader(source(kind), None, 0).read(data)
    return events, len(data) - consumed


def read_in_pieces(reader: type[SourceReader], kind: str, data: bytes, cuts: Sequence[int]) -> tuple[list[Event], int]:
    """The same, by a new reader for each piece, which is given what the last one left."""
    events: list[Event] = []
    state, line, rest = None, 0, b""
    for piece in _pieces(data, cuts):
        rest += piece
        one = reader(source(kind), state, line)
        found, consumed = one.read(rest)
        events += found
        rest = rest[consumed:]
        state, line = json.loads(json.dumps(one.state())), one.line
    return events, len(rest)


def _pieces(data: bytes, cuts: Sequence[int]) -> Iterator[bytes]:
    ends = sorted(cut % (len(data) + 1) for cut in cuts)
    for begin, end in zip([0, *ends], [*ends, len(data)], strict=True):
        yield data[begin:end]
