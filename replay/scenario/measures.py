"""Measure the waiting times of jobs, and the shares and the waste of users, in a pool's past."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from attrs import define, field

from ...domain import events as e
from ...domain.state.job_ad import unquoted
from ...domain.state.job_procs import job_procs
from ...domain.state_machines import LEFT
from ..accounts.intervals import BADPUT, slot_intervals
from .expectations import ALL
from .watching import PoolHistory


def matches_user(name: str, user: str, group: str, job: str = "") -> bool:
    """Return True if a name selects a user (with or without domain), an accounting group or one above it, a cluster or
    a job, or all."""
    if name in (ALL, user, user.partition("@")[0], job, job.partition(".")[0]):
        return True
    return bool(group) and f"{group}.".lower().startswith(f"{name}.".lower())


@define
class JobTimes:
    """The life of a job, in microseconds since the epoch; ``started`` and ``ended`` are 0 if it did not. ``waited`` is
    how long it was idle before it first ran, and ``used`` how long it had slots."""

    job: str
    user: str
    group: str
    submitted: int
    status: str
    started: int = 0
    ended: int = 0
    runs: int = 0
    used: int = 0
    waited: int = 0
    code: int | None = None
    since: int = 0  #: when it got its status
    began: int = 0  #: when its current run began, or 0

    def wait(self, until: int) -> int:
        """Return how long it was idle before it first ran, up to an instant."""
        waits = self.status == "Idle" and not self.started and not self.ended
        return self.waited + max(0, until - self.since) * waits

    def move(self, status: str, at: int) -> None:
        self.waited = self.wait(at)
        if status == LEFT:
            self.ended = self.ended or at
        else:
            self.status, self.since = status, at


def job_times(history: PoolHistory) -> list[JobTimes]:
    """Return the lives of all jobs, in the order of their submission."""
    jobs: dict[tuple[int, int], JobTimes] = {}
    users: dict[int, tuple[str, str]] = {}
    for _, event in history.log.read():
        match event:
            case e.ClusterSubmitted():
                group = unquoted(event.ad.get("AcctGroup", ""))
                users[event.cluster] = unquoted(event.ad.get("User", "")) or event.submitter, group
            case e.JobActivated():
                job = jobs[event.cluster, event.proc]
                job.move("Running", event.at)
                job.started, job.began = job.started or event.at, event.at
                job.runs += 1
            case e.JobExited():
                job = jobs[event.cluster, event.proc]
                job.used, job.began = job.used + event.at - job.began, 0
                job.code = event.code
                job.move(event.target or job.status, event.at)
            case e.JobsTransitioned():
                for proc in _procs(event):
                    jobs[event.cluster, proc].move(event.target, event.at)
        if isinstance(event, e.ClusterSubmitted | e.JobsMaterialized):
            for proc in _procs(event):
                name = f"{event.cluster}.{proc}"
                jobs[event.cluster, proc] = JobTimes(
                    name, *users[event.cluster], event.at, event.status, since=event.at
                )
    for job in jobs.values():
        job.used += history.end - job.began if job.began else 0
    return list(jobs.values())


def _procs(event: e.Event) -> Iterator[int]:
    jobs = job_procs(event)
    return (proc for first, last in (jobs[1] if jobs else ()) for proc in range(first, last + 1))


@define
class UserShares:
    """The slot time in a period, in microseconds times cores: in total, and that of claims, by user and group."""

    total: float = 0.0
    claimed: dict[tuple[str, str], float] = field(factory=lambda: defaultdict(float))
    wasted: dict[tuple[str, str, str], float] = field(factory=lambda: defaultdict(float))  #: by user, group and job

    @property
    def used(self) -> float:
        """Return the slot time of all claims."""
        return sum(self.claimed.values())

    def used_by(self, name: str) -> float:
        """Return the slot time of the claims of a user or group."""
        return sum(amount for (user, group), amount in self.claimed.items() if matches_user(name, user, group))

    def wasted_by(self, name: str) -> float:
        """Return the slot time of the lost runs of a user or group."""
        return sum(amount for key, amount in self.wasted.items() if matches_user(name, *key))

    def worst_run(self, name: str) -> str:
        """Return the job of a user or group that lost most, or an empty string."""
        lost = {key[2]: amount for key, amount in self.wasted.items() if matches_user(name, *key)}
        return max(lost, key=lambda job: lost[job], default="")


def user_shares(history: PoolHistory, since: int, until: int) -> UserShares:
    """Return the shares of a period."""
    shares = UserShares()
    for interval in slot_intervals(history.log, since, min(until, history.end), known_until=history.end):
        amount = (interval.end - interval.begin) * interval.cores
        shares.total += amount
        if interval.user:
            shares.claimed[interval.user, interval.group] += amount
        if interval.kind == BADPUT:
            shares.wasted[interval.user, interval.group, interval.job] += amount
    return shares
