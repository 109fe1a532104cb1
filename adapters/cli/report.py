"""What `run` and `resume` print at the end: the jobs, where the log is, and what is worth typing next."""

from __future__ import annotations

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
    exit: str = ""
    cpu: int = 0
    memory: int = 0


def report(engine: Engine, url: str, clusters: Sequence[int], seconds: float) -> None:
    """Print how the jobs of these clusters fared."""
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


def _called() -> str:
    """The command as its user may type it again."""
    own = sys.argv[0]
    found = shutil.which("poolbook")
    if found is not None and os.path.realpath(found) == os.path.realpath(own):
        return "poolbook"
    return os.path.relpath(own) if os.path.basename(own) == "poolbook" else "poolbook"


def _table(engine: Engine, number: int, events: Sequence[Event]) -> None:
    rows: dict[int, _Row] = {}
    command = ""
    variants = Variants(())
    for event in events:
        if isinstance(event, ClusterSubmitted):
            rows = {proc: _Row() for proc in range(min(event.count, MOST))}
            command, variants = unquoted(event.ad.get("Cmd", "")), Variants(event.columns)
            arguments = event.ad.get("Arguments") or event.ad.get("Args") or ""
            total = event.count
        elif isinstance(event, JobActivated | JobExecuting | JobExited) and event.proc in rows:
            _fold(rows[event.proc], event)
    cluster = engine.state.clusters.get(number)
    print(f"\n{'ID':<8} {'SLOT':<18} {'STATE':<11} {'EXIT':>6} {'RUN TIME':>9} {'CPU':>8} {'MEMORY':>9}  COMMAND")
    for proc, row in rows.items():
        if cluster is not None and proc in cluster:
            row.state = cluster.status_of(proc).lower()
        own = variants.of(proc)
        words = unquoted(own.get("Arguments") or own.get("Args") or arguments)
        line = f"{command.rpartition('/')[2]} {words}".strip()
        run = f"{max(0, row.ended - row.began) / 1e6:.2f} s" if row.ended and row.began else ""
        cpu = f"{row.cpu / 1e6:.2f} s" if row.ended else ""
        memory = f"{row.memory / 1024:.1f} MiB" if row.memory else ""
        print(
            f"{f'{number}.{proc}':<8} {row.slot.partition('@')[0]:<18} {row.state:<11} {row.exit:>6} {run:>9} {cpu:>8} "
            f"{memory:>9}  {line[:48]}"
        )
    if total > len(rows):
        print(f"... and {total - len(rows)} more: poolbook history {number}")


def _fold(row: _Row, event: JobActivated | JobExecuting | JobExited) -> None:
    if isinstance(event, JobActivated):
        row.slot, row.began, row.ended = event.slot, 0, 0
    elif isinstance(event, JobExecuting):
        row.began = event.began or event.at
    else:
        row.ended, row.cpu, row.memory = event.ended or event.at, event.user_cpu + event.system_cpu, event.resident
        row.state = event.target.lower() or "removed"
        row.exit = (
            f"sig {event.signal}" if event.signal is not None else ("" if event.code is None else str(event.code))
        )
