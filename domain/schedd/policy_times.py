"""Schedule the evaluations of periodic policies: every PERIODIC_EXPR_INTERVAL, if a policy's value may have changed.

Jobs without processes are evaluated at multiples of the interval since the epoch, and a running job at multiples since
the start of its process, so that the times do not depend on when the pool was started. A job is skipped if its ad has
not changed since its last evaluation and time alone cannot change the values. A job that was measured, suspended or
continued is evaluated immediately, because its shadow does so after such an update. ``PolicyPasses`` is the agenda.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct, field

from .. import events as e
from ..classad import Context, Expression
from ..classad.allowance import PREDICTION_STEPS, Allowance
from ..classad.next_change import POLL, next_change
from ..classad.time_functions import Moving
from ..decision.draft import Draft, context_at
from ..ports.stimuli import EvaluateJobPolicies
from ..state.agenda import Agenda
from ..state.caches import ad_from_attributes, parse_cached
from ..state.cluster import Cluster
from ..state.job_ad import STATUS_NUMBERS, parse_int
from ..state.job_procs import job_procs
from ..state.pool_settings import schedd_number
from ..state.records import RUNS, Activation
from ..state.state import AccessPoint
from ..units import SECOND
from .periodic_policy import EVICT, PolicyExpression, has_policies, policy_expressions
from .policy_kinds import attributes_read, group_alike

MAX_GROUPS: Final = 64
"""The maximum number of distinct jobs of a cluster for which the next change is predicted. If there are more, all are
evaluated each time, because evaluating them together by columns costs less."""
Job = tuple[int, int]
_RUN_EVENTS = e.JobActivated | e.JobDue | e.JobExecuting | e.JobMeasured | e.JobSignalled
"""The events that only happen to running jobs."""
_STATUS_INSTANTS: Final = ("JobCurrentStartDate", "EnteredCurrentStatus")
_SMOOTHING: Final = 0.4
"""The weight of the last pass's duration in the moving average (Timeslice::processEvent)."""


def evaluation_interval(state: AccessPoint) -> int:
    """Return the interval between evaluations in microseconds, or 0 if there are none."""
    return round(schedd_number(state.settings, "PERIODIC_EXPR_INTERVAL")) * SECOND


def next_pass(state: AccessPoint, after: int, since: int = 0) -> int | None:
    """Return the first evaluation after the given time, counting intervals from ``since``; None if there are none."""
    spacing = evaluation_interval(state)
    return since + ((after - since) // spacing + 1) * spacing if spacing else None


def process_start(cluster: Cluster, proc: int) -> int:
    """Return when a running job's process started, according to its ad."""
    return parse_int(cluster.value(proc, "JobCurrentStartExecutingDate")) * SECOND


def waiting_change(state: AccessPoint, cluster: Cluster, now: int, context: Context) -> int | None:
    """Return the first instant at which time may change the policy values of a cluster's jobs without processes: now if
    it cannot be predicted, None if it never comes."""
    instants: list[int] = []
    for status, status_number in STATUS_NUMBERS.items():
        if not cluster.status_counts[status_number] or status == "Removed" or (status in RUNS and not cluster.is_local):
            continue
        procs = list(cluster.procs(status_number.__eq__))
        if not cluster.is_local:
            procs = [proc for proc in procs if (cluster.id, proc) not in state.by_job]
        change = _next_change(state, cluster, procs, status, now, context) if procs else None
        if change is not None:
            instants.append(change)
    return min(instants, default=None)


def _next_change(
    state: AccessPoint, cluster: Cluster, procs: Sequence[int], status: str, now: int, context: Context
) -> int | None:
    in_force = [expression for expression in policy_expressions(state) if status in expression.policy.statuses]
    texts = {text for expression in in_force for text in _texts(cluster, expression)}
    expressions = [parsed for parsed in map(parse_cached, texts) if parsed is not None]
    if not expressions:
        return None
    groups = group_alike(cluster, procs, attributes_read(expressions, cluster, procs[0]))
    if len(groups) > MAX_GROUPS:
        return now
    instants = []
    for group in groups:
        for expression in in_force:
            if expression.policy.row == EVICT and status not in RUNS:
                continue
            change = _next_change_of(cluster, group[0], expression, context)
            if change is not None:
                instants.append(now if change is POLL else int(change) * SECOND)  # type: ignore[call-overload]
    return min(instants, default=None)


def _texts(cluster: Cluster, expression: PolicyExpression) -> Iterable[str]:
    attribute = expression.policy.attribute
    procs = (0,) if not attribute or cluster.is_uniform(attribute) else cluster.procs()
    return {text for proc in procs if (text := expression.text_for(cluster, proc))}


def _next_change_of(cluster: Cluster, proc: int, expression: PolicyExpression, context: Context) -> object:
    text = expression.text_for(cluster, proc)
    condition: Expression | None = parse_cached(text) if text else None
    if condition is None:
        return None
    ad = cluster.attributes(proc)
    since = parse_int(ad.get("ShadowBday", ""))
    moving = {}
    if since:  # the current run's time is included (``periodic_policy.with_run_time``)
        previous_runs = ad.get("RemoteWallClockTime", "0")
        moving = {"remotewallclocktime": Moving(since - _seconds(previous_runs))}
    return next_change(condition, ad_from_attributes(ad), None, context, moving)


def _seconds(text: str) -> int:
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        return 0


class PolicyPasses(Struct):
    """The agenda of policy evaluations. After a log is replayed, ``plan_all`` plans them: earlier evaluations are not
    known then, so all jobs with policies are included in the next one."""

    _clusters: set[int] = field(default_factory=set)  #: the clusters that have policies
    _waiting: Agenda[int] = field(default_factory=Agenda)  #: jobs without processes, by cluster
    _running: Agenda[Job] = field(default_factory=Agenda)
    _average_duration: float | None = None  #: average duration of a pass, in microseconds (None: no pass yet)
    _rests_until: int = 0  #: when the next evaluation of jobs without processes may start

    # Updates

    def plan_all(self, state: AccessPoint, now: int) -> None:
        """Plan all evaluations again."""
        self._clusters.clear()
        self._waiting.reset()
        self._running.reset()
        for number in state.clusters:
            self._plan_cluster(state, number, now)
        for job, activation in state.by_job.items():
            if activation.executing:
                updated = _last_update_second(activation, state.clusters[job[0]])
                self._plan_run(state, job, now, at_once=updated == state.at // SECOND)

    def update_agenda(self, state: AccessPoint, events: Iterable[e.Event], now: int) -> None:
        """Update the agenda after these events."""
        for event in events:
            if isinstance(event, e.PoolConfigured):
                self.plan_all(state, now)
            elif isinstance(event, e.ClusterSubmitted | e.JobsEdited):
                self._plan_cluster(state, event.cluster, now)
            jobs = job_procs(event) if self._clusters else None
            if jobs is None or jobs[0] not in self._clusters:
                continue
            number, procs = jobs
            if number not in state.clusters:
                self._forget(number)
                continue
            if not isinstance(event, _RUN_EVENTS):
                self._waiting.schedule_earlier(number, next_pass(state, now))
            for proc in running_procs(state, number, procs):
                at_once = isinstance(event, e.JobMeasured) or getattr(event, "row", "") in ("suspend", "continue")
                self._plan_run(state, (number, proc), now, at_once)

    def plan_next(self, draft: Draft[AccessPoint], stimulus: EvaluateJobPolicies) -> None:
        """Plan the next evaluation of jobs that were just evaluated, in case no event changes them."""
        state, now = draft.state, draft.now
        context = context_at(state, now, draft.context.timezone, Allowance(limit=PREDICTION_STEPS))
        for number in stimulus.clusters:
            cluster = state.clusters.get(number)
            change = None if cluster is None else waiting_change(state, cluster, now, context)
            self._waiting.schedule(number, None if change is None else next_pass(state, max(now, change - 1)))
        for number, proc in stimulus.running:
            cluster, activation, due = state.clusters.get(number), state.by_job.get((number, proc)), None
            if cluster is not None and activation is not None and cluster.status_of(proc) in RUNS:
                change = _next_change(state, cluster, [proc], cluster.status_of(proc), now, context)
                due = None if change is None else next_pass(state, max(now, change - 1), process_start(cluster, proc))
            self._running.schedule((number, proc), due)

    def record_duration(self, state: AccessPoint, stimulus: EvaluateJobPolicies, now: int, microseconds: int) -> None:
        """Record the duration of an evaluation of jobs without processes. The next one is delayed so that evaluations
        take at most PERIODIC_EXPR_TIMESLICE of the time, but by no more than MAX_PERIODIC_EXPR_INTERVAL."""
        if not stimulus.clusters:
            return
        average = microseconds if self._average_duration is None else self._average_duration
        self._average_duration = _SMOOTHING * microseconds + (1 - _SMOOTHING) * average
        timeslice = schedd_number(state.settings, "PERIODIC_EXPR_TIMESLICE")
        maximum = schedd_number(state.settings, "MAX_PERIODIC_EXPR_INTERVAL") * SECOND
        rest = self._average_duration / timeslice if timeslice else 0.0
        self._rests_until = now + round(min(rest, maximum) if maximum else rest)

    # Queries

    def next_due(self) -> int | None:
        """Return the earliest instant at which a job is due."""
        waiting, running = self._waiting.next_due(), self._running.next_due()
        if waiting is None:
            return running
        waiting = max(waiting, self._rests_until)
        return waiting if running is None else min(waiting, running)

    def due_evaluation(self, now: int) -> EvaluateJobPolicies:
        """Return the evaluation that is due now, without an id."""
        waiting = self._waiting.due_keys(now) if now >= self._rests_until else ()
        return EvaluateJobPolicies("", tuple(waiting), tuple(self._running.due_keys(now)))

    def _plan_cluster(self, state: AccessPoint, number: int, now: int) -> None:
        cluster = state.clusters.get(number)
        if cluster is None or not has_policies(state, cluster):
            self._forget(number)
            return
        self._clusters.add(number)
        self._waiting.schedule_earlier(number, next_pass(state, now))

    def _forget(self, number: int) -> None:
        if number in self._clusters:
            self._clusters.discard(number)
            self._waiting.schedule(number, None)
            for job in [job for job in self._running if job[0] == number]:
                self._running.schedule(job, None)

    def _plan_run(self, state: AccessPoint, job: Job, now: int, at_once: bool = False) -> None:
        number, proc = job
        cluster, activation = state.clusters[number], state.by_job.get(job)
        runs = activation is not None and activation.executing and cluster.status_of(proc) in RUNS
        if not runs or cluster.is_local or number not in self._clusters:
            self._running.schedule(job, None)
            return
        self._running.schedule_earlier(job, now if at_once else next_pass(state, now, process_start(cluster, proc)))


def _last_update_second(activation: Activation, cluster: Cluster) -> int:
    starts, entered = (parse_int(cluster.value(activation.proc, name)) for name in _STATUS_INSTANTS)
    return max(activation.measured // SECOND, entered if entered > starts else 0)


def running_procs(state: AccessPoint, number: int, procs: e.Procs) -> list[int]:
    """Return the jobs that are running; a single job is returned even if its run has just ended. Iterate over the jobs
    or over all runs, whichever are fewer."""
    if len(procs) == 1 and procs[0][0] == procs[0][1]:
        return [procs[0][0]]
    if sum(last - first + 1 for first, last in procs) <= len(state.by_job):
        numbers = (proc for first, last in procs for proc in range(first, last + 1))
        return [proc for proc in numbers if (number, proc) in state.by_job]
    first_procs = [first for first, _ in procs]
    running = (proc for cluster, proc in state.by_job if cluster == number)
    return [proc for proc in running if (at := bisect_right(first_procs, proc)) and proc <= procs[at - 1][1]]
