"""What `run` and `resume` print at the end: the jobs, where the log is, and what is worth typing next."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence

from attrs import define

from ...domain.events import ClusterSubmitted, Event, JobActivated, JobExecuting, JobExited
from ...domain.job_ad import unquoted
from ...domain.variants import Variants
from ..engine import Engine
from ..stores.location import locate
from .common import DEFAULT_LOG, shown

MOST = 40
"""Jobs that the table lists."""


@define
class _Row:
    slot: str = ""
    began: int = 0
    ended: int = 0
    state: str = "waits"
    code: int | None = None
    signal: int | None = None
    cpu: int = 0
    memory: int = 0

    def seconds(self) -> float | None:
        """How long its own process ran; None if it never did, or still does."""
        return max(0, self.ended - self.began) / 1e6 if self.began and self.ended else None


def report(engine: Engine, url: str, clusters: Sequence[int], seconds: float, as_json: bool) -> None:
    """Print how the jobs of these clusters fared: a table and what to type next, or all of them as JSON."""
    if as_json:
        _print_json(engine, clusters)
        return
    for number in clusters:
        events = [event for _, event in engine.log.read_stream(f"cluster/{number}")]
        _table(engine, number, events)
    where = locate(url)
    print(f"\n{seconds:.1f} s; every transition stands in the log {shown(where.place)}")
    ending = "" if url == DEFAULT_LOG else f" -log {shown(url)}"
    worth_typing = (
        (f"why {clusters[0]}.0", "how this job came to its end, in sentences"),
        ("history", "the jobs that have left the queue"),
        ("verify", "the log's seal, and that every transition was legal"),
    )
    calls = [(f"{_called()} {words}{ending}", purpose) for words, purpose in worth_typing]
    width = max(len(call) for call, _ in calls)
    print()
    for call, purpose in calls:
        print(f"  {call:<{width}}   {purpose}")


def _print_json(engine: Engine, clusters: Sequence[int]) -> None:
    """The jobs as a list of objects, under HTCondor's attribute names where it has them."""
    found = []
    for number in clusters:
        events = [event for _, event in engine.log.read_stream(f"cluster/{number}")]
        for proc, row in _rows(engine, number, events, sys.maxsize)[0].items():
            found.append(
                {
                    "ClusterId": number,
                    "ProcId": proc,
                    "Slot": row.slot,
                    "State": row.state,
                    "ExitCode": row.code,
                    "ExitSignal": row.signal,
                    "RunTime": row.seconds(),
                    "RemoteCpu": row.cpu / 1e6,
                    "ResidentSetSize": row.memory,
                }
            )
    print(json.dumps(found, indent=2))


def _called() -> str:
    """The command as its user may type it again."""
    own = sys.argv[0]
    found = shutil.which("poolbook")
    if found is not None and os.path.realpath(found) == os.path.realpath(own):
        return "poolbook"
    return os.path.relpath(own) if os.path.basename(own) == "poolbook" else "poolbook"


def _rows(engine: Engine, number: int, events: Sequence[Event], most: int) -> tuple[dict[int, _Row], int]:
    """The first jobs of a cluster, as its events leave them, and how many it has."""
    rows: dict[int, _Row] = {}
    total = 0
    for event in events:
        if isinstance(event, ClusterSubmitted):
            total = event.count
            rows = {proc: _Row() for proc in range(min(total, most))}
        elif isinstance(event, JobActivated | JobExecuting | JobExited) and event.proc in rows:
            _fold(rows[event.proc], event)
    cluster = engine.state.clusters.get(number)
    for proc, row in rows.items():
        if cluster is not None and proc in cluster:
            row.state = cluster.status_of(proc).lower()
    return rows, total


def _fold(row: _Row, event: JobActivated | JobExecuting | JobExited) -> None:
    if isinstance(event, JobActivated):
        row.slot, row.began, row.ended = event.slot, 0, 0
    elif isinstance(event, JobExecuting):
        row.began = event.began or event.at
    else:
        row.ended, row.cpu, row.memory = event.ended or event.at, event.user_cpu + event.system_cpu, event.resident
        row.state = event.target.lower() or "removed"
        row.code, row.signal = event.code, event.signal


def _table(engine: Engine, number: int, events: Sequence[Event]) -> None:
    rows, total = _rows(engine, number, events, MOST)
    submitted = next(event for event in events if isinstance(event, ClusterSubmitted))
    command = unquoted(submitted.ad.get("Cmd", "")).rpartition("/")[2]
    variants = Variants(submitted.columns)
    print(f"\n{'ID':<8} {'SLOT':<18} {'STATE':<11} {'EXIT':>6} {'RUN TIME':>9} {'CPU':>8} {'MEMORY':>9}  COMMAND")
    for proc, row in rows.items():
        own = {**submitted.ad, **variants.of(proc)}
        line = f"{command} {unquoted(own.get('Arguments') or own.get('Args') or '')}".strip()
        ran = row.seconds()
        code = "" if row.code is None else str(row.code)
        ending = code if row.signal is None else f"sig {row.signal}"
        run, cpu = ("", "") if ran is None else (f"{ran:.2f} s", f"{row.cpu / 1e6:.2f} s")
        memory = f"{row.memory / 1024:.1f} MiB" if row.memory else ""
        print(
            f"{f'{number}.{proc}':<8} {row.slot.partition('@')[0]:<18} {row.state:<11} {ending:>6} {run:>9} {cpu:>8} "
            f"{memory:>9}  {line[:48]}"
        )
    if total > len(rows):
        print(f"... and {total - len(rows)} more: poolbook history {number}")
