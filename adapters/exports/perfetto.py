"""Write the slots' time as a trace that https://ui.perfetto.dev shows: a process per machine, a thread per slot.

The format is the JSON of Chrome's trace events, which Perfetto reads. Times are in microseconds since 1970.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Final

from ...replay.accounts.intervals import SlotInterval

_DETAILS: Final = ("state", "activity", "user", "group", "cause", "cores")  #: the fields that a slice shows


def write_trace(parts: Iterable[SlotInterval], file: BinaryIO, log: str) -> int:
    """Write a trace with a slice for each interval, and return their number. `log` is the log's id."""
    head = json.dumps({"displayTimeUnit": "ms", "otherData": {"log": log}})
    file.write(f'{head[:-1]}, "traceEvents": [\n'.encode())
    count = 0
    for number, event in enumerate(_trace_events(parts)):
        file.write((b",\n" if number else b"") + json.dumps(event).encode())
        count += event["ph"] == "X"
    file.write(b"\n]}\n")
    return count


def _trace_events(parts: Iterable[SlotInterval]) -> Iterator[dict[str, Any]]:
    machines: dict[str, int] = {}
    slots: dict[str, int] = {}
    for part in parts:
        if part.machine not in machines:
            machines[part.machine] = len(machines) + 1
            yield _name("process_name", machines[part.machine], 0, part.machine)
        pid = machines[part.machine]
        if part.slot not in slots:
            slots[part.slot] = len(slots) + 1
            yield _name("thread_name", pid, slots[part.slot], part.slot)
        details = {name: value for name in _DETAILS if (value := getattr(part, name)) != ""}
        yield {
            "ph": "X", "pid": pid, "tid": slots[part.slot], "ts": part.begin, "dur": part.end - part.begin,
            "name": f"{part.job} ({part.kind})" if part.job else part.kind, "cat": part.kind, "args": details,
        }  # fmt: skip


def _name(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}
