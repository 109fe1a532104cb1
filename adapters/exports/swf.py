"""The Standard Workload Format 2.2 (https://www.cs.huji.ac.il/labs/parallel/workload/swf.html): write and play it.

A file has a line of 18 numbers per job; -1 means unknown. Poolbook writes a job's last run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final, NamedTuple

from ...domain.ports.log import EventStore
from ...domain.units import SECOND
from ...replay.accounts.demand import Demand
from ...replay.accounts.intervals import SlotInterval, slot_times
from ...replay.narration.formatting import instant
from ...replay.runs.job_run import COMPLETED, EVICTED, JobRun

_FIELDS: Final = 18
_UNKNOWN: Final = -1
_FAILED, _COMPLETED, _CANCELLED = 0, 1, 5  #: the statuses of jobs


class SwfJob(NamedTuple):
    """A job of a workload. Times are in seconds; -1: unknown."""

    number: int
    submitted: int  #: since the beginning of the workload
    run: int
    processors: int
    memory: int  #: per processor, in KiB
    user: int


def write_swf(log: EventStore, file: BinaryIO, since: int, until: int) -> int:
    """Write the jobs that were submitted between two instants (microseconds), sorted by submission, and return their
    number. Jobs whose submission no record shows are left out."""
    demand = Demand()
    history = slot_times(log, demand.watch)
    demand.finish(history.runs)
    parts = list(history.intervals())
    last_runs = {run.job: run for run in sorted(history.runs, key=lambda run: run.began)}
    cores = {(part.slot, part.job): part.cores for part in parts if part.job}
    jobs = sorted((at, job) for job, at in demand.submitted.items() if since <= at < until)
    begin = jobs[0][0] if jobs else 0
    users: dict[str, int] = {}
    groups: dict[str, int] = {}
    lines = []
    for number, (at, (cluster, proc)) in enumerate(jobs, 1):
        user, group = demand.users.get(cluster, ("", ""))
        run = last_runs.get(f"{cluster}.{proc}")
        numbers = [_UNKNOWN] * _FIELDS
        numbers[0], numbers[1] = number, (at - begin) // SECOND
        numbers[10] = _status(run, demand.statuses((cluster, proc)))
        if run is not None:
            numbers[2] = max(0, run.began - at) // SECOND
            numbers[3] = round(run.duration / SECOND)
            numbers[4] = numbers[7] = max(1, round(cores.get((run.slot, run.job), 1)))
        numbers[11] = users.setdefault(user, len(users) + 1)
        numbers[12] = groups.setdefault(group, len(groups) + 1)
        lines.append(" ".join(map(str, numbers)))
    header = _header(parts, begin, len(lines), users, groups)
    file.write("\n".join([*header, *lines, ""]).encode())
    return len(lines)


def _status(run: JobRun | None, statuses: list[tuple[int, str]]) -> int:
    if run is None:
        return _CANCELLED if statuses and statuses[-1][1] == "Left" else _UNKNOWN
    return _COMPLETED if run.outcome == COMPLETED else _FAILED if run.outcome == EVICTED else _UNKNOWN


def _header(
    parts: list[SlotInterval], begin: int, count: int, users: dict[str, int], groups: dict[str, int]
) -> Iterator[str]:
    machines = {part.machine for part in parts}
    fields = {
        "Version": "2.2", "Computer": "HTCondor pool", "Conversion": "Poolbook", "MaxJobs": count, "MaxRecords": count,
        "UnixStartTime": begin // SECOND, "TimeZone": 0, "TimeZoneString": "UTC", "StartTime": f"{instant(begin)} UTC",
        "MaxNodes": len(machines), "MaxProcs": round(_most_cores(parts)),
        "Note": "The run of a job is its last one. Wait time is the time before it.",
    }  # fmt: skip
    yield from (f"; {name}: {value}" for name, value in fields.items())
    yield from (f"; User {number}: {name or 'unknown'}" for name, number in users.items())
    yield from (f"; Group {number}: {name or 'none'}" for name, number in groups.items())


def _most_cores(parts: Iterable[SlotInterval]) -> float:
    changes: dict[int, float] = {}
    for part in parts:
        changes[part.begin] = changes.get(part.begin, 0.0) + part.cores
        changes[part.end] = changes.get(part.end, 0.0) - part.cores
    most = cores = 0.0
    for _, change in sorted(changes.items()):
        cores += change
        most = max(most, cores)
    return most


# -- Reading ----------------------------------------------------------------------------------------------------------


class InvalidWorkload(ValueError):
    """A line is not a job in the Standard Workload Format; the message names the line and the rule."""


def read_swf(text: str) -> list[SwfJob]:
    """Return the jobs of a workload. Raise `InvalidWorkload` for an invalid line."""
    jobs = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith(";"):
            continue
        try:
            values = [int(float(word)) for word in line.split()]
        except (ValueError, OverflowError):
            values = []
        if len(values) != _FIELDS:
            raise InvalidWorkload(
                f"line {number} is not a job in the Standard Workload Format, which has {_FIELDS} numbers per line and "
                "comments that begin with `;`"
            )
        processors = values[7] if values[7] > 0 else max(1, values[4])
        jobs.append(SwfJob(values[0], max(0, values[1]), values[3], processors, values[9], values[11]))
    return jobs


class Workload(NamedTuple):
    """A scenario in which a workload's jobs are submitted, and the number of jobs left out: they have no run time."""

    scenario: str
    left_out: int


def scenario_of(text: str, slots: int) -> Workload:
    """Return the scenario in which a workload's jobs are submitted to a machine with this number of cores. Raise
    `InvalidWorkload` for an invalid line, or a job that needs more processors."""
    every_job = read_swf(text)
    jobs = [job for job in every_job if job.run > 0]
    memory = max([1, *(job.memory * job.processors // 1024 for job in jobs if job.memory > 0)])
    for job in jobs:
        if job.processors > slots:
            raise InvalidWorkload(
                f"job {job.number} needs {job.processors} processors; use -slots {job.processors} or more"
            )
    work = sum(job.run * job.processors for job in jobs)
    last = max((job.submitted for job in jobs), default=0) + max((job.run for job in jobs), default=0)
    lines = [
        f"machine swf cores={slots} memory={slots * max(1024, memory)}",
        f"until {last + 2 * work // slots + 3600}s",
    ]
    for job in sorted(jobs, key=lambda job: job.submitted):
        size = f" memory={max(1, job.memory * job.processors // 1024)}" if job.memory > 0 else " memory=1"
        user = f"user{job.user}" if job.user > 0 else "user"
        lines.append(f"at {job.submitted}s submit {user} run={job.run} cpus={job.processors}{size}")
    return Workload("\n".join(lines) + "\n", len(every_job) - len(jobs))
