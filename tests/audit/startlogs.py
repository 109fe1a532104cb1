"""StartLogs, imported as the driver imports them, and the verdict on them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from datetime import UTC
from itertools import pairwise
from pathlib import Path

from poolbook.adapters.condor_files.source_reader import SourceFile
from poolbook.adapters.condor_files.startlog import StartLogReader
from poolbook.domain.events import Event, SourceFound
from poolbook.domain.state_machines import HTCONDOR_25
from poolbook.replay.audit_result import Audit
from poolbook.replay.forensics.audit.startd_log_rules import StartdLogAuditor
from poolbook.replay.forensics.imported_log import Sources

TRACES = Path(__file__).resolve().parent.parent / "data" / "traces"
NOON = 1_795_176_000


def start_logs() -> dict[str, bytes]:
    """Return the StartLogs of the traces by their run's short name."""
    logs = sorted(TRACES.glob("*/StartLog.gz"))
    return {path.parent.name.partition("-")[0]: gzip.decompress(path.read_bytes()) for path in logs}


def rotated(name: str) -> list[bytes]:
    """Return the parts of a rotated log, oldest first."""
    content = gzip.decompress((TRACES.parent / "startlogs" / f"{name}.gz").read_bytes())
    lines = content.splitlines(keepends=True)
    begins = [0, *(number for number, line in enumerate(lines) if b"Now in new log file" in line), len(lines)]
    return [b"".join(lines[begin:end]) for begin, end in pairwise(begins)]


def imported(*parts: bytes, follow: bool = True) -> list[Event]:
    """Return the events of a StartLog and its rotated successors; without `follow`, of separate logs."""
    events: list[Event] = []
    state = None
    for number, data in enumerate(parts, start=1):
        source = SourceFile(number, f"StartLog.{number}", "startlog", "node7", UTC, 2e9, 2 * 10**15)
        follows = number - 1 if follow else 0
        events.append(
            SourceFound(0, "read", f"{number}:0", number, source.path, "startlog", "node7", "UTC", follows=follows)
        )
        reader = StartLogReader(source, json.loads(json.dumps(state)) if follow else None, 0)
        events += reader.read(data)[0]
        state = reader.state()
    return events


def read_in_turns(turns: Sequence[tuple[int, bytes]]) -> list[Event]:
    """Return the events of the parts of one rotated log as they grow; `turns` names each piece's part, from 1."""
    events: list[Event] = []
    readers: dict[int, StartLogReader] = {}
    for number, data in turns:
        if number not in readers:
            source = SourceFile(number, f"StartLog.{number}", "startlog", "node7", UTC, 2e9, 2 * 10**15)
            before = readers.get(number - 1)
            state = None if before is None else json.loads(json.dumps(before.state()))
            readers[number] = StartLogReader(source, state, 0)
            source_found = SourceFound(
                0, "read", f"{number}:0", number, source.path, "startlog", "node7", "UTC", number - 1
            )
            events.append(source_found)
        events += readers[number].read(data)[0]
    return events


def audit_slots(events: list[Event]) -> Audit:
    """Return the audit of slots."""
    audit, sources = Audit(dialect=HTCONDOR_25.name, imported=True), Sources()
    judge = StartdLogAuditor(sources, audit)
    for position, event in enumerate(events, start=1):
        sources.fold_event(event)
        judge.process_event(position, event)
    judge.finish()
    return audit


def audit_logs(*parts: bytes, follow: bool = True) -> Audit:
    return audit_slots(imported(*parts, follow=follow))


def log_of(*messages: str) -> bytes:
    """Return a log of these messages, one a second after noon; "" lets a second pass."""
    lines = (
        f"11/20/26 {12 + second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d} {message}\n"
        for second, message in enumerate(messages)
        if message
    )
    return "".join(lines).encode()
