"""Find out how long jobs waited for their first start, and when each user wanted slots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from attrs import define, field

from ...domain import events as e
from ...domain.events.handlers import handlers_of
from ...domain.imported.packed_ads import index_of_event
from ...domain.state.job_ad import unquoted
from ..runs.job_run import COMPLETED, ENDED, JobRun

Job = tuple[int, int]
LEFT: Final = "Left"  #: the status of a job that has left the queue
_SUBMITTED, _ENDED, _REMOVED, _SUSPENDED, _CONTINUED, _HELD, _RELEASED = 0, 5, 9, 10, 11, 12, 13
"""Entries of job event logs."""
_STATUSES: Final = {
    _SUBMITTED: "Idle", _ENDED: LEFT, _REMOVED: LEFT, _SUSPENDED: "Suspended", _CONTINUED: "Running", _HELD: "Held",
    _RELEASED: "Idle",
}  # fmt: skip
_ACTIVE: Final = frozenset({"Idle", "Running", "Suspended"})  #: the statuses of jobs that want or have a slot


class FirstStart(NamedTuple):
    """A job's first start: its run, and how long the job had waited since it was submitted (microseconds)."""

    run: JobRun
    waited: int


class DemandChange(NamedTuple):
    """A job of a user and accounting group began or ceased to want a slot."""

    at: int
    user: str
    group: str
    jobs: int  #: 1 or -1


@define
class Demand:
    """Collects when jobs were submitted, held, released and left the queue."""

    submitted: dict[Job, int] = field(factory=dict)
    users: dict[int, tuple[str, str]] = field(factory=dict)  #: each cluster's user and accounting group
    _changes: dict[Job, list[tuple[int, str]]] = field(factory=dict)  #: when each job got each status

    def watch(self, events: Iterable[e.LoggedEvent]) -> Iterator[e.LoggedEvent]:
        """Yield a log's events, and collect the changes that they contain."""
        for position, event in events:
            take = _TAKE.get(type(event))
            if take is not None:
                take(self, event)
            yield position, event

    def _change(self, cluster: int, procs: Iterable[int], at: int, status: str) -> None:
        for proc in procs:
            self._changes.setdefault((cluster, proc), []).append((at, status))

    def _submit(self, cluster: int, procs: range, at: int, status: str) -> None:
        self.submitted.update(dict.fromkeys(((cluster, proc) for proc in procs), at))
        self._change(cluster, procs, at, status)

    def on_submitted(self, event: e.ClusterSubmitted) -> None:
        group = unquoted(event.ad.get("AcctGroup", ""))
        self.users[event.cluster] = unquoted(event.ad.get("User", "")) or event.submitter, group
        if not event.factory:
            self._submit(event.cluster, range(event.count), event.at, event.status)

    def on_materialized(self, event: e.JobsMaterialized) -> None:
        for begin, end in event.procs:
            self._submit(event.cluster, range(begin, end + 1), event.at, event.status)

    def on_moved(self, event: e.JobsTransitioned) -> None:
        for begin, end in event.procs:
            self._change(event.cluster, range(begin, end + 1), event.at, event.target)

    def on_exited(self, event: e.JobExited) -> None:
        if event.target:
            self._change(event.cluster, (event.proc,), event.at, event.target)

    def on_entries(self, event: e.JobsLogged) -> None:
        for at, _, proc, _, number, _ in event.entries:
            if number in _STATUSES and event.cluster > 0:
                self._change(event.cluster, (proc,), at, _STATUSES[number])
                if number == _SUBMITTED:
                    self.submitted.setdefault((event.cluster, proc), at)

    def on_ads(self, event: e.AdsKept) -> None:
        if event.kind not in ("history", "epochs"):
            return
        index = index_of_event(event)
        columns = zip(
            index.integers("cluster"), index.integers("proc"), index.microseconds("qdate"), index.microseconds("left"),
            index.texts("user"), index.texts("group"), strict=True,
        )  # fmt: skip
        for cluster, proc, queued, left, user, group in columns:
            if user:
                self.users.setdefault(cluster, (user, group))
            if queued and (cluster, proc) not in self.submitted:
                self.submitted[cluster, proc] = queued
                self._change(cluster, (proc,), queued, "Idle")
            if left and event.kind == "history":
                self._change(cluster, (proc,), left, LEFT)

    def first_starts(self, runs: Iterable[JobRun]) -> Iterator[FirstStart]:
        """Yield the first start of each job whose submission is known."""
        started: set[str] = set()
        for run in sorted(runs, key=lambda run: run.began):
            cluster, _, proc = run.job.partition(".")
            at = self.submitted.get((int(cluster), int(proc)))
            if run.job not in started and at is not None:
                yield FirstStart(run, max(0, run.began - at))
            started.add(run.job)

    def finish(self, runs: Iterable[JobRun]) -> None:
        """Complete the statuses with a log's runs: they show the users of clusters whose submission no record shows,
        and a job whose last run did not have to be repeated has left, even if no record shows it."""
        last_runs = {run.job: run for run in sorted(runs, key=lambda run: run.began)}
        for run in last_runs.values():
            job = int(run.cluster), int(run.job.partition(".")[2])
            if run.user:
                self.users[job[0]] = run.user, run.group
            changes = self._changes.get(job, [])
            if run.outcome in (COMPLETED, ENDED) and all(at < run.ended for at, _ in changes):
                changes.append((run.ended, LEFT))

    def statuses(self, job: Job) -> list[tuple[int, str]]:
        """Return when a job got each of its statuses, sorted by time; nothing if no record shows its submission."""
        return sorted(self._changes.get(job, ()), key=lambda change: change[0])

    def changes(self) -> list[DemandChange]:
        """Return the changes of the users' demand, sorted by time."""
        changes: list[DemandChange] = []
        for job in self._changes:
            user, group = self.users.get(job[0], ("", ""))
            wanted = False
            for at, status in self.statuses(job):
                wants = status in _ACTIVE
                if wants != wanted:
                    changes.append(DemandChange(at, user, group, 1 if wants else -1))
                wanted = wants
        return sorted(changes)


_TAKE: Final = handlers_of(Demand)
