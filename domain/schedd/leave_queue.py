"""Leaving the queue: the last transition of a job, which then moves to the history.

A Completed or Removed job leaves as soon as it has no processes, unless its LeaveJobInQueue is true. That is evaluated
when the job ends, after each later edit or removal, and again when the time may have changed it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo

from ..classad import Context
from ..classad.allowance import PREDICTION_STEPS, Allowance
from ..classad.next_change import POLL, next_change
from ..decision.draft import Draft, context_at, ranges
from ..events import Event, JobExited, JobsEdited, JobsTransitioned, Procs
from ..ports.stimuli import LeaveQueue
from ..state.agenda import Agenda
from ..state.caches import ad_of, parse_cached
from ..state.cluster import FINISHED, MANY_RANGES, Cluster
from ..state.job_ad import STATUS_NAMES, TERMINAL, parse_int
from ..state.job_procs import job_procs
from ..state.state import AccessPoint
from ..units import SECOND
from .job_policy import LEAVE, constant_wish, stays

ASKED_EVERY = 60 * SECOND
"""The time between two evaluations of one job if nothing happens to it: the default of PERIODIC_EXPR_INTERVAL."""


def staying(state: AccessPoint) -> Jobs:
    """Return all jobs that have ended and are still in the queue."""
    everything = (
        (cluster, ((0, cluster.count - 1),)) for cluster in state.clusters.values() if cluster.has_finished_jobs
    )
    found = ((cluster.id, ranges(_over(state, cluster, procs))) for cluster, procs in everything)
    return tuple((number, procs) for number, procs in found if procs)


def _over(state: AccessPoint, cluster: Cluster, procs: Procs) -> list[int]:
    """Return the ended jobs without processes that are still in the queue."""
    if len(procs) >= MANY_RANGES:
        from ..state import many_jobs

        ended = many_jobs.procs_in_status(cluster.status, procs, FINISHED)
    else:
        status = cluster.status
        everyone = (range(first, min(last, cluster.count - 1) + 1) for first, last in procs)
        ended = [proc for some in everyone for proc in some if status[proc] in FINISHED]
    running = {*state.running_procs(cluster.id, ended)}
    return [proc for proc in ended if proc not in running] if running else ended


def leave(draft: Draft[AccessPoint], stimulus: LeaveQueue) -> None:
    """Let the jobs leave that no LeaveJobInQueue keeps."""
    for number, procs in stimulus.jobs:
        cluster = draft.state.clusters.get(number)
        if cluster is None:
            continue
        for (status, evidence), group in _leaving(draft, cluster, _over(draft.state, cluster, procs)).items():
            draft.move_jobs(cluster, ranges(group), "leave", "left_queue", STATUS_NAMES[status], {}, evidence)


def _leaving(draft: Draft[AccessPoint], cluster: Cluster, procs: list[int]) -> dict[tuple[int, int], list[int]]:
    """Return the jobs that no LeaveJobInQueue keeps, by their status and their evidence in the log."""
    status, groups = cluster.status, dict[tuple[int, int], list[int]]()
    same = constant_wish(cluster, procs[0]) if procs and cluster.is_uniform(LEAVE) else None
    statuses = bytes(map(status.__getitem__, procs))
    if same is not None and statuses.count(statuses[0]) == len(procs):
        return {} if same.truth is True else {(statuses[0], same.evidence): procs}
    for proc in procs:
        answer = same or stays(draft, cluster, proc)
        if answer.truth is not True:
            groups.setdefault((status[proc], answer.evidence), []).append(proc)
    return groups


def asked_again(cluster: Cluster, proc: int, now: int, context: Context) -> int | None:
    """Return when a job that stays in the queue is evaluated again if nothing happens to it; None if time does not
    change its answer. Where the change can be predicted, this follows from the job alone, so that a pool that folds its
    log again plans the same instant: an edit, or an earlier evaluation, does not put it off."""
    meaning = parse_cached(cluster.requested_value(proc, LEAVE))
    if meaning is None or constant_wish(cluster, proc) is not None:
        return None
    change = next_change(meaning, ad_of(cluster.attributes(proc)), None, context)
    if change is None:
        return None
    if change is POLL:
        return now + ASKED_EVERY
    ended = parse_int(cluster.value(proc, "EnteredCurrentStatus")) * SECOND
    return max(ended + ASKED_EVERY, change * SECOND)


class StayingJobs:
    """The agenda of the ended jobs that stay in the queue."""

    def __init__(self) -> None:
        self._agenda: Agenda[tuple[int, int]] = Agenda()

    def begin(self, state: AccessPoint, zone: tzinfo) -> None:
        """Plan for a folded state. The last evaluation of each job is not known: it was not before the job's end."""
        allowance = Allowance(limit=PREDICTION_STEPS)
        for number, procs in staying(state):
            cluster = state.clusters[number]
            for proc in _members(procs):
                since = parse_int(cluster.value(proc, "EnteredCurrentStatus")) * SECOND
                context = context_at(state, since, zone, allowance)
                self._agenda.schedule((number, proc), asked_again(cluster, proc, since, context))

    def asked(self, draft: Draft[AccessPoint], jobs: Jobs) -> None:
        """Plan the next evaluation of the jobs that were just evaluated and are still in the queue."""
        context = context_at(draft.state, draft.now, draft.context.timezone, Allowance(limit=PREDICTION_STEPS))
        for number, procs in jobs:
            cluster = draft.state.clusters.get(number)
            for proc in _members(procs):
                due = None
                if cluster is not None and proc in cluster:
                    due = asked_again(cluster, proc, draft.now, context)
                self._agenda.schedule((number, proc), due)

    def next(self) -> int | None:
        """Return the first instant at which a job is due."""
        return self._agenda.next_due()

    def due(self, now: int) -> Jobs:
        """Return the jobs that are due now."""
        due: dict[int, list[int]] = {}
        for number, proc in self._agenda.due(now):
            due.setdefault(number, []).append(proc)
        return tuple((number, ranges(procs)) for number, procs in due.items())


def _members(procs: Procs) -> Iterable[int]:
    return (proc for first, last in procs for proc in range(first, last + 1))


Jobs = tuple[tuple[int, Procs], ...]
"""Jobs, by their clusters."""


def to_be_asked(state: AccessPoint, events: Iterable[Event]) -> Jobs:
    """Return the jobs that may leave the queue after these events: they ended, or changed after their end."""
    jobs: dict[int, list[Procs]] = {}
    for event in events:
        ends = isinstance(event, JobsTransitioned) and event.target in TERMINAL
        if not (ends or isinstance(event, JobExited | JobsEdited)):
            continue
        number, procs = job_procs(event) or (0, ())
        cluster = state.clusters.get(number)
        if cluster is not None and cluster.has_finished_jobs:
            jobs.setdefault(number, []).append(procs)
    return tuple((number, _union(parts)) for number, parts in jobs.items())


def _union(parts: list[Procs]) -> Procs:
    if len(parts) == 1:
        return parts[0]
    return ranges(sorted({proc for procs in parts for first, last in procs for proc in range(first, last + 1)}))
