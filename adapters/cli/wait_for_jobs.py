"""``poolbook wait JOB ...``: wait until jobs of a pool have ended, by following the events of their clusters."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final

from ...domain import events as e
from ...domain.events.handlers import bound_handlers
from ...domain.state_machines import LEFT
from ..condor_tools.options import Arguments, ToolError, UsageError, last_number
from ..condor_tools.terminal import ProgressLine
from .common import default_log

if TYPE_CHECKING:
    from ..condor_tools.options import ToolSyntax

_JOB: Final = re.compile(r"(\d+)(?:\.(\d+))?", re.ASCII)
_PAUSE: Final = 0.2  #: seconds between two reads of the log's head
_ENDED, _UNMATERIALIZED = "ended", "unmaterialized"
_SQLITE: Final = b"SQLite format 3\0"


def names_jobs(arguments: Arguments) -> bool:
    """Return True if the arguments name jobs of a pool, and not a job event log and its jobs."""
    if not arguments.words or not all(map(_JOB.fullmatch, arguments.words)):
        return False
    log = arguments.value("log")
    return _is_pool(log) if log else not os.path.exists(arguments.words[0])


def _is_pool(log: str) -> bool:
    """Return True if -log names a pool's log, and not a job event log."""
    try:
        with open(log, "rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return "://" in log


def wait_for_jobs(command: ToolSyntax, arguments: Arguments) -> int:
    """Wait for the jobs that the arguments name. Return 0 when all have ended, or 1 after the timeout."""
    from ..runtime.queries import Queries

    option = arguments.last("debug", "status", "echo", "event-id", "allevents", "num")
    if option is not None:
        raise UsageError(f"poolbook wait: {option.spelling} is for a job event log; omit it, or name the log")
    seconds = last_number(command, arguments, "wait", least=0)
    deadline = None if seconds is None else time.monotonic() + seconds
    progress = ProgressLine(0)
    with closing(Queries(arguments.value("log", default_log())).log) as log:
        clusters = _clusters(arguments.words)
        position = 0
        while True:
            for number, cluster in clusters.items():
                cluster.fold(event for _, event in log.read_stream(f"cluster/{number}", position))
            if not position:
                _check_known(clusters)
            position = log.head.position
            counts = sum((cluster.counts() for cluster in clusters.values()), Counter[str]())
            if progress.live:
                progress.show_text(_progress_text(counts))
            if counts.total() == counts[_ENDED]:
                progress.end()
                print("All jobs done.")
                return 0
            while log.refresh().position == position:
                if deadline is not None and time.monotonic() >= deadline:
                    progress.end()
                    print(f"Time expired: {_progress_text(counts)}.")
                    return 1
                time.sleep(_PAUSE)


def _clusters(words: Sequence[str]) -> dict[int, AwaitedCluster]:
    clusters: dict[int, AwaitedCluster] = {}
    for cluster, proc in (match.groups() for match in map(_JOB.fullmatch, words) if match):
        awaited = clusters.setdefault(int(cluster), AwaitedCluster())
        awaited.add_proc(None if proc is None else int(proc))
    return clusters


def _check_known(clusters: dict[int, AwaitedCluster]) -> None:
    for number, cluster in clusters.items():
        unknown = cluster.unknown_procs()
        if unknown or not cluster.statuses:
            name = f"job {number}.{unknown[0]}" if unknown else f"cluster {number}"
            raise ToolError(
                f"poolbook wait: the pool has no {name}; `poolbook q -all` and `poolbook history` list jobs"
            )


def _progress_text(counts: Counter[str]) -> str:
    others = [f"{counts[status]:,} {status}" for status in sorted(counts) if status != _ENDED and counts[status]]
    return ", ".join([f"{counts[_ENDED]:,} of {counts.total():,} ended", *others])


class AwaitedCluster:
    """The statuses of a cluster's jobs, of which all or some are awaited."""

    def __init__(self) -> None:
        self.statuses: dict[int, str] = {}
        self._procs: set[int] | None = set()
        self._handlers = bound_handlers(self)

    def add_proc(self, proc: int | None) -> None:
        """Also wait for this job; None: for all jobs of the cluster."""
        self._procs = None if proc is None or self._procs is None else self._procs | {proc}

    def unknown_procs(self) -> list[int]:
        return [] if not self.statuses else sorted((self._procs or set()) - self.statuses.keys())

    def counts(self) -> Counter[str]:
        procs = self.statuses if self._procs is None else self._procs
        return Counter(self.statuses[proc] for proc in procs)

    def fold(self, events: Iterable[e.Event]) -> None:
        for event in events:
            if handler := self._handlers.get(type(event)):
                handler(event)

    def _set(self, procs: Iterable[int], status: str) -> None:
        self.statuses.update(dict.fromkeys(procs, _ENDED if status in (LEFT, "Completed") else status.lower()))

    def on_submitted(self, event: e.ClusterSubmitted) -> None:
        self._set(range(event.count), _UNMATERIALIZED if event.factory else event.status)

    def on_materialized(self, event: e.JobsMaterialized) -> None:
        self._set_ranges(event.procs, event.status)

    def on_moved(self, event: e.JobsTransitioned) -> None:
        self._set_ranges(event.procs, LEFT if event.left else event.target)

    def _set_ranges(self, ranges: e.Procs, status: str) -> None:
        for first, last in ranges:
            self._set(range(first, last + 1), status)

    def on_activated(self, event: e.JobActivated) -> None:
        self._set((event.proc,), "Running")

    def on_exited(self, event: e.JobExited) -> None:
        if event.target:
            self._set((event.proc,), event.target)

    def on_factory_moved(self, event: e.FactoryTransitioned) -> None:
        if event.target == "Removed":
            self._set([proc for proc, status in self.statuses.items() if status == _UNMATERIALIZED], LEFT)
