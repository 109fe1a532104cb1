"""Leaving the queue: the last transition of a job, which then goes into the history.

A job that is Completed or Removed leaves as soon as nothing of it runs, unless its LeaveJobInQueue is true. That is
asked when it has come to its end, whenever it is edited or removed since, and again when the time may have changed it.
Of all jobs of a cluster that leave together, one event tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import tzinfo

from ..classad import Context
from ..classad.horizon import POLL, next_change
from ..cluster import Cluster
from ..events import Event, JobExited, JobsEdited, JobsMoved, Procs
from ..job_ad import TERMINAL, job_procs
from ..state import State
from ..texts import ad_of, expression
from .draft import Draft, ranges
from .job_policy import Answer, constant, stays
from .stimuli import LeaveQueue

MICROSECONDS = 1_000_000
ASKED_EVERY = 60 * MICROSECONDS
"""How far apart two askings of one job are, if nothing happens to it: the default of PERIODIC_EXPR_INTERVAL."""

Jobs = tuple[tuple[int, Procs], ...]


def to_be_asked(state: State, events: Iterable[Event]) -> Jobs:
    """The jobs that may leave the queue since these events: those that came to their end, or are others since."""
    found: dict[int, set[int]] = {}
    for event in events:
        ends = isinstance(event, JobsMoved) and event.target in TERMINAL
        if not (ends or isinstance(event, JobExited | JobsEdited)):
            continue
        number, procs = job_procs(event) or (0, ())
        cluster = state.clusters.get(number)
        if cluster is not None and cluster.over:
            found.setdefault(number, set()).update(_over(state, cluster, procs))
    return tuple((number, ranges(sorted(procs))) for number, procs in found.items() if procs)


def staying(state: State) -> Jobs:
    """All jobs that have come to their end and are still in the queue."""
    everything = ((cluster, ((0, cluster.count - 1),)) for cluster in state.clusters.values() if cluster.over)
    found = ((cluster.id, ranges(list(_over(state, cluster, procs)))) for cluster, procs in everything)
    return tuple((number, procs) for number, procs in found if procs)


def _over(state: State, cluster: Cluster, procs: Procs) -> Iterator[int]:
    """Those of the jobs of which nothing runs, at their end and still in the queue."""
    running = state.by_job
    for first, last in procs:
        for proc in range(first, min(last, cluster.count - 1) + 1):
            if proc in cluster and cluster.status_of(proc) in TERMINAL and (cluster.id, proc) not in running:
                yield proc


def leave(draft: Draft, stimulus: LeaveQueue) -> None:
    """Let those of the jobs leave that no LeaveJobInQueue keeps."""
    for number, procs in stimulus.jobs:
        cluster = draft.state.clusters.get(number)
        groups: dict[tuple[str, int], list[int]] = {}
        known: dict[str, Answer | None] = {}
        for proc in () if cluster is None else _over(draft.state, cluster, procs):
            answer = stays(draft, cluster, proc, known)
            if answer.truth is not True:
                groups.setdefault((cluster.status_of(proc), answer.evidence), []).append(proc)
        for (status, evidence), group in groups.items():
            draft.move_jobs(cluster, ranges(group), "leave", "left_queue", status, {}, evidence)


def asked_again(cluster: Cluster, proc: int, now: int, zone: tzinfo) -> int | None:
    """When a job that stays in the queue is asked again if nothing happens to it; None: never, since no time changes
    its answer."""
    text = cluster.wish(proc, "LeaveJobInQueue")
    asked = expression(text)
    if asked is None or constant(text) is not None:
        return None
    second = now // MICROSECONDS
    change = next_change(asked, ad_of(cluster.attributes(proc)), None, Context(now=second, seed=second, timezone=zone))
    if change is None:
        return None
    return now + ASKED_EVERY if change is POLL else max(now + ASKED_EVERY, change * MICROSECONDS)
