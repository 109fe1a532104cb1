"""Count what a schedd has done since it was started, under HTCondor's names.

An attribute that Poolbook does not count, such as JobsCoredumped, has no value: a 0 would say that it was counted.

Source: ``ScheddStatistics`` (schedd_stats.h), ``Scheduler::jobExitCode``, ``mark_serial_job_running``.
"""

from __future__ import annotations

from collections import Counter

from attrs import define, field

from ...domain import events as e
from ...domain.state_machines import LEFT
from ...domain.units import SECOND

_COUNTS = (
    "JobsSubmitted", "JobsStarted", "JobsExited", "JobsExitedNormally", "JobsCompleted", "JobsKilled", "JobsShouldHold",
    "JobsShouldRequeue", "ShadowsStarted",
)  # fmt: skip
_TIMES = (
    "JobsAccumTimeToStart", "JobsAccumRunningTime", "JobsAccumBadputTime", "JobsAccumExecuteTime",
    "JobsAccumPreExecuteTime", "JobsAccumPostExecuteTime",
)  # fmt: skip
_SIZES = {"input": "FileTransferUploadBytes", "output": "FileTransferDownloadBytes"}


@define
class _Run:
    began: int
    executing: int = 0


@define
class ScheddStatistics:
    """The statistics; `fold` adds an event. A new writer of the log starts them again, as a new schedd would.

    ``ends`` counts the ends of runs by outcome, for Poolbook's own metrics.
    """

    counts: Counter[str] = field(factory=Counter)
    times: Counter[str] = field(factory=Counter)
    sizes: Counter[str] = field(factory=Counter)
    ends: Counter[str] = field(factory=Counter)
    transitions: Counter[str] = field(factory=Counter)
    matches: int = 0
    _submitted: dict[int, tuple[int, int]] = field(factory=dict)  #: when, and the jobs that have not left the queue
    _runs: dict[tuple[int, int], _Run] = field(factory=dict)

    def attributes(self) -> dict[str, float]:
        """Return the values of the attributes. Times are seconds, sizes are bytes."""
        return {
            **{name: self.counts[name] for name in _COUNTS},
            **{name: self.times[name] // SECOND for name in _TIMES},
            **{name: float(self.sizes[name]) for name in _SIZES.values()},
        }

    def fold(self, event: e.Event) -> None:
        match event:
            case e.WriterBegan():
                for counter in (self.counts, self.times, self.sizes, self.ends, self.transitions):
                    counter.clear()
                self.matches = 0
            case e.ClusterSubmitted():
                self._submitted[event.cluster] = event.at, event.count
                self.counts["JobsSubmitted"] += 0 if event.factory else event.count
            case e.JobsMaterialized():
                self.counts["JobsSubmitted"] += sum(last - first + 1 for first, last in event.procs)
            case e.JobsTransitioned() if event.target == LEFT:
                self._leave(event)
            case e.JobActivated():
                self._runs[event.cluster, event.proc] = _Run(event.at)
                self.counts["ShadowsStarted"] += 1
            case e.JobExecuting():
                self._begin(event)
            case e.JobTransferEnded() if event.way in _SIZES:
                self.sizes[_SIZES[event.way]] += event.size
            case e.JobExited():
                self._end(event)
            case e.SlotTransitioned():
                self.transitions[event.row] += 1
            case e.CycleHeld():
                self.matches += len(event.matches)

    def _begin(self, event: e.JobExecuting) -> None:
        run = self._runs.get((event.cluster, event.proc))
        if run is not None:
            run.executing = event.began or event.at
            self.counts["JobsStarted"] += 1
            submitted, _ = self._submitted.get(event.cluster, (event.at, 0))
            self.times["JobsAccumTimeToStart"] += event.at - submitted

    def _leave(self, event: e.JobsTransitioned) -> None:
        submitted, jobs = self._submitted.pop(event.cluster, (0, 0))
        jobs -= sum(last - first + 1 for first, last in event.procs)
        if jobs > 0:
            self._submitted[event.cluster] = submitted, jobs

    def _end(self, event: e.JobExited) -> None:
        run = self._runs.pop((event.cluster, event.proc), None)
        self.ends[event.outcome] += 1
        self.counts["JobsExited"] += 1
        if event.target == "Completed":
            self.counts["JobsExitedNormally"] += 1
            self.counts["JobsCompleted"] += 1
        elif event.target == "Removed" or (event.target == "Held" and not event.evidence):
            self.counts["JobsKilled"] += 1
        elif event.target == "Held":
            self.counts["JobsShouldHold"] += 1
        else:
            self.counts["JobsShouldRequeue"] += 1
        if run is None:
            return
        ended = event.ended or event.at
        if run.executing:
            self.times["JobsAccumPreExecuteTime"] += run.executing - run.began
            self.times["JobsAccumExecuteTime"] += ended - run.executing
            self.times["JobsAccumPostExecuteTime"] += event.at - ended
        is_badput = event.target in ("Removed", "Held")
        self.times["JobsAccumBadputTime" if is_badput else "JobsAccumRunningTime"] += event.at - run.began
