"""Folders like the ones daemons leave behind, made for a test, and imports of them into logs in memory."""

from __future__ import annotations

import gzip
import os
from functools import cache, lru_cache
from pathlib import Path

from poolbook.adapters.condor_files.importing import folders as sorting
from poolbook.adapters.condor_files.importing.driver import Importer, ImportResult, Options
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.events import Event, SourceFound, SourceRead
from poolbook.domain.ports.log import EventStore

# The same files are imported again and again, and a file's kind depends only on its name and its beginning.
sorting.kind_of = lru_cache(512)(sorting.kind_of)

UTC = Options(zone="UTC")
TRACES = Path(__file__).resolve().parent.parent / "data" / "traces"


def entry(number: int, job: str, second: int, text: str = "Job submitted from host: <h>") -> str:
    """Return an entry of a job event log, so many seconds after noon."""
    cluster, _, proc = job.partition(".")
    when = f"2026-11-20 12:{second // 60:02d}:{second % 60:02d}"
    return f"{number:03d} ({int(cluster):03d}.{int(proc):03d}.000) {when} {text}\n...\n"


def imported(*folders: Path, log: EventStore | None = None, options: Options = UTC) -> tuple[EventStore, ImportResult]:
    """Import the folders into a log (a new one by default); return the log and the import's result."""
    log = open_log("memory:", create=True) if log is None else log
    return log, Importer(log, [str(folder) for folder in folders], options).run()


@cache
def recorded(folder: Path) -> tuple[EventStore, ImportResult]:
    """Return ``imported`` for a recorded folder, shared by tests that only read the log."""
    return imported(folder)


def source_events(log: EventStore) -> list[Event]:
    """Return the events from the sources, without the import's own events."""
    return [event for _, event in log.read(1) if not isinstance(event, SourceFound | SourceRead)]


def write(path: Path, text: str | bytes, later: float = 0.0) -> Path:
    """Write a file (gzipped if its name says so), creating its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    if later:
        os.utime(path, (later, later))
    return path
