"""What changed in a pool between two times: jobs, machines, slots and users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ...domain.state.job_ad import STATUS_NAMES

_MOVES = {
    "": "submitted", "Running": "started", "Held": "held", "Suspended": "suspended", "Completed": "completed",
    "Removed": "removed", "Idle": "stopped",
}  # fmt: skip
"""What happened to a job, by its later status; empty: it was not in the queue before."""


class Change(NamedTuple):
    """A difference between a pool at two times.

    >>> for change in log.diff(1_800_000_000, 1_800_000_030):
    ...     print(change.kind, change.thing, change.what, change.after)
    job 1.0 submitted Running on slot1_1@node1
    ...
    """

    kind: str  #: job, machine, slot or user
    thing: str  #: the job or range of equal jobs (1.0, 1.0-9), the machine, the slot or the submitter
    what: str  #: what happened, such as submitted, started, held, completed; joined, left; created, destroyed, changed
    before: str  #: its state at the first time; empty: it did not exist
    after: str  #: its state at the second time; empty: it no longer exists
    user: str = ""  #: a job's submitter


class JobRange(NamedTuple):
    """Jobs of a cluster with the same status. ``slot`` is the slot of a running job."""

    cluster: int
    first: int
    last: int
    status: int
    slot: str
    user: str

    @property
    def text(self) -> str:
        name = STATUS_NAMES[self.status]
        return f"{name} on {self.slot}" if self.slot else name


class PoolAt(NamedTuple):
    """A pool at a time. Machines, slots and users are descriptions by name; ``ended`` are the jobs that have left the
    queue since the first of two times."""

    jobs: Iterable[JobRange]
    ended: Iterable[JobRange]
    machines: Mapping[str, str]
    slots: Mapping[str, str]
    users: Mapping[str, str]


def changes(before: PoolAt, after: PoolAt) -> list[Change]:
    """Return the differences between a pool at two times, jobs first."""
    return [
        *_job_changes(before.jobs, [*after.jobs, *after.ended]),
        *_by_name("machine", before.machines, after.machines, "joined", "left"),
        *_by_name("slot", before.slots, after.slots, "created", "destroyed"),
        *_by_name("user", before.users, after.users, "joined", "left"),
    ]


def _by_name(
    kind: str, before: Mapping[str, str], after: Mapping[str, str], created: str, destroyed: str
) -> Iterable[Change]:
    for name in {**before, **after}:
        old, new = before.get(name, ""), after.get(name, "")
        if old != new:
            what = destroyed if name not in after else "changed" if name in before else created
            yield Change(kind, name, what, old, new)


def _job_changes(before: Iterable[JobRange], after: Iterable[JobRange]) -> Iterable[Change]:
    old_by_cluster, new_by_cluster = _by_cluster(before), _by_cluster(after)
    for cluster in sorted({*old_by_cluster, *new_by_cluster}):
        old, new = old_by_cluster.get(cluster, []), new_by_cluster.get(cluster, [])
        edges = sorted({edge for each in (*old, *new) for edge in (each.first, each.last + 1)})
        spans: list[tuple[int, int, JobRange | None, JobRange | None]] = []
        for first, last, was, now in zip(edges, edges[1:], _at(old, edges), _at(new, edges), strict=False):
            if _same(was, now):
                continue
            if spans and spans[-1][1] == first and _same(spans[-1][2], was) and _same(spans[-1][3], now):
                spans[-1] = spans[-1][0], last, was, now
            else:
                spans.append((first, last, was, now))
        for first, end, was, now in spans:
            thing = f"{cluster}.{first}" if end == first + 1 else f"{cluster}.{first}-{end - 1}"
            user = (now or was or JobRange(0, 0, 0, 0, "", "")).user
            yield Change("job", thing, _move(was, now), was.text if was else "", now.text if now else "", user)


def _by_cluster(ranges: Iterable[JobRange]) -> dict[int, list[JobRange]]:
    clusters: dict[int, list[JobRange]] = {}
    for job_range in sorted(ranges):
        clusters.setdefault(job_range.cluster, []).append(job_range)
    return clusters


def _at(ranges: list[JobRange], edges: list[int]) -> Iterable[JobRange | None]:
    """Yield the range that contains each process, of sorted ranges and processes."""
    index = 0
    for proc in edges:
        while index < len(ranges) and ranges[index].last < proc:
            index += 1
        yield ranges[index] if index < len(ranges) and ranges[index].first <= proc else None


def _same(first: JobRange | None, second: JobRange | None) -> bool:
    return (first and first.text) == (second and second.text)


def _move(was: JobRange | None, now: JobRange | None) -> str:
    if now is None:
        return "left"
    before, after = ("" if was is None else STATUS_NAMES[was.status]), STATUS_NAMES[now.status]
    if not before:
        return _MOVES[before]
    if before == after:
        return "moved"
    return "released" if before == "Held" and after == "Idle" else _MOVES.get(after, "changed")
