"""Leaving the queue: the last transition of a job, which moves the job to the history.

A Completed or Removed job leaves as soon as it has no processes, unless its LeaveJobInQueue is true. This expression is
evaluated when the job ends, after each later edit or removal, and whenever time alone may have changed its value.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo
from itertools import compress

from ..classad import Context
from ..classad.allowance import PREDICTION_STEPS, Allowance
from ..classad.next_change import POLL, next_change
from ..decision.draft import Draft, context_at, ranges
from ..events import Event, JobExited, JobsEdited, JobsTransitioned, Procs
from ..ports.stimuli import LeaveQueue
from ..state.agenda import Agenda
from ..state.caches import ad_from_attributes, parse_cached
from ..state.cluster import FINISHED, MANY_RANGES, Cluster
from ..state.job_ad import STATUS_NAMES, TERMINAL, parse_int
from ..state.job_procs import job_procs
from ..state.state import AccessPoint
from ..units import SECOND
from .job_policy import LEAVE_ATTRIBUTE, constant_leave_in_queue, leave_in_queue

_ARE_FINISHED = bytes(number in FINISHED for number in range(256))
"""For each status number, 1 if the job has ended, otherwise 0."""
EVALUATION_INTERVAL = 60 * SECOND
"""The interval between evaluations of an unchanged job: the default of PERIODIC_EXPR_INTERVAL."""


def ended_jobs(state: AccessPoint) -> Jobs:
    """Return all ended jobs that are still in the queue."""
    clusters = (cluster for cluster in state.clusters.values() if cluster.has_finished_jobs)
    ended = ((cluster.id, _ended_without_processes(state, cluster, ((0, cluster.count - 1),))) for cluster in clusters)
    return tuple((number, ranges(procs)) for number, procs in ended if procs)


def _ended_without_processes(state: AccessPoint, cluster: Cluster, procs: Procs) -> list[int]:
    if len(procs) >= MANY_RANGES:
        from ..state import many_jobs

        ended = many_jobs.procs_in_status(cluster.status, procs, FINISHED)
    else:
        ended = [
            proc
            for first, last in procs
            for proc in compress(range(first, last + 1), cluster.status[first : last + 1].translate(_ARE_FINISHED))
        ]
    running = {*state.running_procs(cluster.id, ended)}
    return [proc for proc in ended if proc not in running] if running else ended


def move_to_history(draft: Draft[AccessPoint], stimulus: LeaveQueue) -> None:
    """Move the jobs whose LeaveJobInQueue is not true from the queue to the history."""
    for number, procs in stimulus.jobs:
        cluster = draft.state.clusters.get(number)
        if cluster is None:
            continue
        ended = _ended_without_processes(draft.state, cluster, procs)
        for (status, evidence), group in _group_leaving(draft, cluster, ended).items():
            draft.move_jobs(cluster, ranges(group), "leave", "left_queue", STATUS_NAMES[status], {}, evidence)


def _group_leaving(draft: Draft[AccessPoint], cluster: Cluster, procs: list[int]) -> dict[tuple[int, int], list[int]]:
    """Return the jobs whose LeaveJobInQueue is not true, grouped by status and by the log position of the evidence."""
    status, groups = cluster.status, dict[tuple[int, int], list[int]]()
    constant = constant_leave_in_queue(cluster, procs[0]) if procs and cluster.is_uniform(LEAVE_ATTRIBUTE) else None
    statuses = bytes(map(status.__getitem__, procs))
    if constant is not None and statuses.count(statuses[0]) == len(procs):
        return {} if constant.truth is True else {(statuses[0], constant.evidence): procs}
    for proc in procs:
        value = constant or leave_in_queue(draft, cluster, proc)
        if value.truth is not True:
            groups.setdefault((status[proc], value.evidence), []).append(proc)
    return groups


def next_evaluation(cluster: Cluster, proc: int, now: int, context: Context) -> int | None:
    """Return when to evaluate a job in the queue again, or None if time does not change the value. A predicted change
    depends only on the job, so replaying the log gives the same instant."""
    parsed = parse_cached(cluster.requested_value(proc, LEAVE_ATTRIBUTE))
    if parsed is None or constant_leave_in_queue(cluster, proc) is not None:
        return None
    change_second = next_change(parsed, ad_from_attributes(cluster.attributes(proc)), None, context)
    if change_second is None:
        return None
    if change_second is POLL:
        return now + EVALUATION_INTERVAL
    ended = parse_int(cluster.value(proc, "EnteredCurrentStatus")) * SECOND
    return max(ended + EVALUATION_INTERVAL, change_second * SECOND)


class EndedJobsAgenda:
    """The evaluation times of ended jobs that stay in the queue."""

    def __init__(self) -> None:
        self._agenda: Agenda[tuple[int, int]] = Agenda()

    def plan_all(self, state: AccessPoint, zone: tzinfo) -> None:
        """Plan evaluations after replaying a log, assuming that each job was last evaluated when it ended."""
        allowance = Allowance(limit=PREDICTION_STEPS)
        for number, procs in ended_jobs(state):
            cluster = state.clusters[number]
            for proc in _proc_numbers(procs):
                ended_at = parse_int(cluster.value(proc, "EnteredCurrentStatus")) * SECOND
                context = context_at(state, ended_at, zone, allowance)
                self._agenda.schedule((number, proc), next_evaluation(cluster, proc, ended_at, context))

    def plan_next(self, draft: Draft[AccessPoint], jobs: Jobs) -> None:
        """Plan the next evaluation of jobs that were just evaluated and are still in the queue."""
        context = context_at(draft.state, draft.now, draft.context.timezone, Allowance(limit=PREDICTION_STEPS))
        for number, procs in jobs:
            cluster = draft.state.clusters.get(number)
            for proc in _proc_numbers(procs):
                due = None
                if cluster is not None and proc in cluster:
                    due = next_evaluation(cluster, proc, draft.now, context)
                self._agenda.schedule((number, proc), due)

    def next_due(self) -> int | None:
        """Return the earliest time at which a job is due."""
        return self._agenda.next_due()

    def due_jobs(self, now: int) -> Jobs:
        """Return the jobs that are due now."""
        due: dict[int, list[int]] = {}
        for number, proc in self._agenda.due_keys(now):
            due.setdefault(number, []).append(proc)
        return tuple((number, ranges(procs)) for number, procs in due.items())


def _proc_numbers(procs: Procs) -> Iterable[int]:
    return (proc for first, last in procs for proc in range(first, last + 1))


Jobs = tuple[tuple[int, Procs], ...]
"""Processes by cluster."""


def jobs_to_evaluate(state: AccessPoint, events: Iterable[Event]) -> Jobs:
    """Return the jobs that may leave the queue after these events: jobs that ended, or changed after they ended."""
    jobs: dict[int, list[Procs]] = {}
    for event in events:
        has_ended = isinstance(event, JobsTransitioned) and event.target in TERMINAL
        if not (has_ended or isinstance(event, JobExited | JobsEdited)):
            continue
        number, procs = job_procs(event) or (0, ())
        cluster = state.clusters.get(number)
        if cluster is not None and cluster.has_finished_jobs:
            jobs.setdefault(number, []).append(procs)
    return tuple((number, _union(proc_lists)) for number, proc_lists in jobs.items())


def _union(proc_lists: list[Procs]) -> Procs:
    if len(proc_lists) == 1:
        return proc_lists[0]
    return ranges(sorted({proc for procs in proc_lists for first, last in procs for proc in range(first, last + 1)}))
