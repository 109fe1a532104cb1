"""The result of a cluster at the end of a run: what became of its jobs, and the last run of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from attrs import define, frozen

from ...domain.events import Ad, ClusterSubmitted, Event, JobActivated, JobExecuting, JobExited
from ...domain.state.proc_ads import Variants
from ...replay.outcomes import Outcomes, outcomes_of
from ..runtime.engine import Engine


@define
class LastRun:
    slot: str = ""
    began: int = 0
    ended: int = 0
    code: int | None = None
    signal: int | None = None
    cpu: int = 0
    memory: int = 0

    def seconds(self) -> float | None:
        """Return how long its own process ran; None if it never did, or still does."""
        return max(0, self.ended - self.began) / 1e6 if self.began and self.ended else None


@frozen
class ClusterResult:
    """A cluster at the end: its submission, its events, and what became of its jobs."""

    number: int
    submitted: ClusterSubmitted
    events: Sequence[Event]
    outcomes: Outcomes

    def ad_of(self, proc: int) -> Ad:
        """Return a job's ad as it was submitted."""
        return {**self.submitted.ad, **Variants(self.submitted.columns).of(proc)}

    def repeated_runs(self) -> dict[int, int]:
        """Return how often each job was started that was started more than once, by process number."""
        runs = Counter(event.proc for event in self.events if isinstance(event, JobActivated))
        return {proc: count for proc, count in sorted(runs.items()) if count > 1}

    def rows(self) -> dict[int, LastRun]:
        """Return the last run of each job, by process number."""
        rows = {proc: LastRun() for proc in self.outcomes.status}
        for event in self.events:
            if isinstance(event, JobActivated | JobExecuting | JobExited) and event.proc in rows:
                _fold(rows[event.proc], event)
        return rows


def _fold(row: LastRun, event: JobActivated | JobExecuting | JobExited) -> None:
    if isinstance(event, JobActivated):
        row.slot, row.began, row.ended = event.slot, 0, 0
    elif isinstance(event, JobExecuting):
        row.began = event.began or event.at
    else:
        row.ended, row.cpu, row.memory = event.ended or event.at, event.user_cpu + event.system_cpu, event.resident
        row.code, row.signal = event.code, event.signal


def cluster_results(engine: Engine, clusters: Iterable[int]) -> Iterator[ClusterResult]:
    """Yield the result of each of these clusters, as the log has it."""
    for number in clusters:
        events = [event for _, event in engine.log.read_stream(f"cluster/{number}")]
        submitted = next(event for event in events if isinstance(event, ClusterSubmitted))
        yield ClusterResult(number, submitted, events, outcomes_of(events))
