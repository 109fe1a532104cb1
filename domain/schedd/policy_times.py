"""When periodic policies are evaluated: PERIODIC_EXPR_INTERVAL apart, and only if a value may have changed.
``PolicyPasses`` is the agenda: for each cluster with a policy it has the next evaluation of its jobs without processes,
and of each of its running jobs. An event of a job brings its next evaluation closer. A job that was measured, stopped
or continued is evaluated at once, as its shadow does after such an update.

The access point evaluates jobs without processes at multiples of the interval since the epoch, and a running job at
multiples since its process began. So the instants do not depend on when the pool was started. Only jobs whose ads have
changed since, or whose values the time alone may change, are evaluated.
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
from ..state.caches import ad_of, parse_cached
from ..state.cluster import Cluster
from ..state.job_ad import STATUS_NUMBERS, parse_int
from ..state.job_procs import job_procs
from ..state.pool_settings import schedd_number
from ..state.records import RUNS, Activation
from ..state.state import AccessPoint
from ..units import SECOND
from .periodic_policy import EVICT, Question, concerns, questions
from .policy_kinds import attributes_read, kinds

KINDS_MOST: Final = 64
"""The maximum number of different jobs of a cluster for which the next change by time is computed one by one. With
more, all are evaluated each time: by columns that costs less."""
Job = tuple[int, int]
_OF_RUNS = e.JobActivated | e.JobDue | e.JobExecuting | e.JobMeasured | e.JobSignalled
"""The events that only happen to running jobs."""
_SINCE: Final = ("JobCurrentStartDate", "EnteredCurrentStatus")
_SMOOTHING: Final = 0.4
"""The part of the last pass's length in the mean that counts (Timeslice::processEvent)."""


def interval(state: AccessPoint) -> int:
    """Return the time between two evaluations, in microseconds; 0: there are none."""
    return round(schedd_number(state.settings, "PERIODIC_EXPR_INTERVAL")) * SECOND


def next_pass(state: AccessPoint, after: int, since: int = 0) -> int | None:
    """Return the first evaluation after an instant, counted from ``since``; None: there are none."""
    apart = interval(state)
    return since + ((after - since) // apart + 1) * apart if apart else None


def process_start(cluster: Cluster, proc: int) -> int:
    """Return when a running job's process began, by its ad."""
    return parse_int(cluster.value(proc, "JobCurrentStartExecutingDate")) * SECOND


def waiting_change(state: AccessPoint, cluster: Cluster, now: int, context: Context) -> int | None:
    """Return the first instant at which the time may change the policies' values for a cluster's jobs without
    processes; now if it cannot be predicted, None if never."""
    instants: list[int] = []
    for status, byte in STATUS_NUMBERS.items():
        if not cluster.status_counts[byte] or status == "Removed" or (status in RUNS and not cluster.is_local):
            continue
        procs = [
            proc for proc in cluster.procs(byte.__eq__) if cluster.is_local or (cluster.id, proc) not in state.by_job
        ]
        change = _change(state, cluster, procs, status, now, context) if procs else None
        if change is not None:
            instants.append(change)
    return min(instants, default=None)


def running_change(state: AccessPoint, cluster: Cluster, proc: int, now: int, context: Context) -> int | None:
    """Return the same for a running job."""
    return _change(state, cluster, [proc], cluster.status_of(proc), now, context)


def _change(
    state: AccessPoint, cluster: Cluster, procs: Sequence[int], status: str, now: int, context: Context
) -> int | None:
    concerned = [question for question in questions(state) if status in question.policy.statuses]
    texts = {text for question in concerned for text in _texts(cluster, question)}
    expressions = [part for part in map(parse_cached, texts) if part is not None]
    if not expressions:
        return None
    together = kinds(cluster, procs, attributes_read(expressions, cluster, procs[0]))
    if len(together) > KINDS_MOST:
        return now
    instants = []
    for part in together:
        for question in concerned:
            if question.policy.row == EVICT and status not in RUNS:
                continue
            change = _change_of(cluster, part[0], question, context)
            if change is not None:
                instants.append(now if change is POLL else int(change) * SECOND)  # type: ignore[call-overload]
    return min(instants, default=None)


def _texts(cluster: Cluster, question: Question) -> Iterable[str]:
    """Return the policy texts of a cluster's jobs."""
    attribute = question.policy.attribute
    if not attribute:
        return (question.text,)
    if cluster.is_uniform(attribute):
        own = cluster.requested_value(0, attribute)
        return (question.text or own,) if own else ()
    return {
        question.text or own for own in (cluster.requested_value(proc, attribute) for proc in cluster.procs()) if own
    }


def _change_of(cluster: Cluster, proc: int, question: Question, context: Context) -> object:
    attribute = question.policy.attribute
    own = cluster.requested_value(proc, attribute) if attribute else ""
    text = question.text if not attribute else own and (question.text or own)
    condition: Expression | None = parse_cached(text) if text else None
    if condition is None:
        return None
    ad = cluster.attributes(proc)
    since = parse_int(ad.get("ShadowBday", ""))
    moving = {}
    if since:  # the current run counts (``periodic_policy.with_run_time``)
        before = ad.get("RemoteWallClockTime", "0")
        moving = {"remotewallclocktime": Moving(since - _seconds(before))}
    return next_change(condition, ad_of(ad), None, context, moving)


def _seconds(text: str) -> int:
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        return 0


class PolicyPasses(Struct):
    """The agenda of evaluations. ``begin`` plans them for a folded state: earlier evaluations are not known then, and
    all jobs with policies are evaluated at the next one."""

    _concerned: set[int] = field(default_factory=set)  #: the clusters with a policy
    _waiting: Agenda[int] = field(default_factory=Agenda)  #: the jobs without processes, by cluster
    _running: Agenda[Job] = field(default_factory=Agenda)
    _length: float | None = None  #: how long a pass takes, in microseconds (None: there was none)
    _rests_until: int = 0  #: the instant before which no pass over jobs that do not run begins

    # What happens

    def begin(self, state: AccessPoint, now: int) -> None:
        """Plan everything again."""
        self._concerned.clear()
        self._waiting.reset()
        self._running.reset()
        for number in state.clusters:
            self._look(state, number, now)
        for job, activation in state.by_job.items():
            if activation.executing:
                heard = _heard(activation, state.clusters[job[0]])
                self._plan_run(state, job, now, at_once=heard == state.at // SECOND)

    def note(self, state: AccessPoint, events: Iterable[e.Event], now: int) -> None:
        """Update to folded events."""
        for event in events:
            if isinstance(event, e.PoolConfigured):
                self.begin(state, now)
            elif isinstance(event, e.ClusterSubmitted | e.JobsEdited):
                self._look(state, event.cluster, now)
            jobs = job_procs(event) if self._concerned else None
            if jobs is None or jobs[0] not in self._concerned:
                continue
            number, procs = jobs
            if number not in state.clusters:
                self._forget(number)
                continue
            if not isinstance(event, _OF_RUNS):
                self._waiting.schedule_earlier(number, next_pass(state, now))
            for proc in running_of(state, number, procs):
                at_once = isinstance(event, e.JobMeasured) or getattr(event, "row", "") in ("suspend", "continue")
                self._plan_run(state, (number, proc), now, at_once)

    def asked(self, draft: Draft[AccessPoint], stimulus: EvaluateJobPolicies) -> None:
        """Plan the next evaluation of the jobs that were just evaluated, if nothing happens to them."""
        state, now = draft.state, draft.now
        context = context_at(state, now, draft.context.timezone, Allowance(limit=PREDICTION_STEPS))
        for number in stimulus.clusters:
            cluster = state.clusters.get(number)
            change = None if cluster is None else waiting_change(state, cluster, now, context)
            self._waiting.schedule(number, None if change is None else next_pass(state, max(now, change - 1)))
        for number, proc in stimulus.running:
            cluster, activation, due = state.clusters.get(number), state.by_job.get((number, proc)), None
            if cluster is not None and activation is not None and cluster.status_of(proc) in RUNS:
                change = running_change(state, cluster, proc, now, context)
                due = None if change is None else next_pass(state, max(now, change - 1), process_start(cluster, proc))
            self._running.schedule((number, proc), due)

    def note_duration(self, state: AccessPoint, stimulus: EvaluateJobPolicies, now: int, microseconds: int) -> None:
        """Note how long an evaluation of jobs without processes took. The next one waits until evaluations take no more
        of the time than PERIODIC_EXPR_TIMESLICE, MAX_PERIODIC_EXPR_INTERVAL at most."""
        if not stimulus.clusters:
            return
        before = microseconds if self._length is None else self._length
        self._length = _SMOOTHING * microseconds + (1 - _SMOOTHING) * before
        part = schedd_number(state.settings, "PERIODIC_EXPR_TIMESLICE")
        most = schedd_number(state.settings, "MAX_PERIODIC_EXPR_INTERVAL") * SECOND
        rest = self._length / part if part else 0.0
        self._rests_until = now + round(min(rest, most) if most else rest)

    # Queries

    def next(self) -> int | None:
        """Return the first instant at which a job is due."""
        waiting, running = self._waiting.next_due(), self._running.next_due()
        if waiting is None:
            return running
        waiting = max(waiting, self._rests_until)
        return waiting if running is None else min(waiting, running)

    def due(self, now: int) -> EvaluateJobPolicies:
        """Return the evaluation that is due now; its id is empty."""
        waiting = self._waiting.due(now) if now >= self._rests_until else ()
        return EvaluateJobPolicies("", tuple(waiting), tuple(self._running.due(now)))

    def _look(self, state: AccessPoint, number: int, now: int) -> None:
        cluster = state.clusters.get(number)
        if cluster is None or not concerns(state, cluster):
            self._forget(number)
            return
        self._concerned.add(number)
        self._waiting.schedule_earlier(number, next_pass(state, now))

    def _forget(self, number: int) -> None:
        if number in self._concerned:
            self._concerned.discard(number)
            self._waiting.schedule(number, None)
            for job in [job for job in self._running if job[0] == number]:
                self._running.schedule(job, None)

    def _plan_run(self, state: AccessPoint, job: Job, now: int, at_once: bool = False) -> None:
        number, proc = job
        cluster, activation = state.clusters[number], state.by_job.get(job)
        runs = activation is not None and activation.executing and cluster.status_of(proc) in RUNS
        if not runs or cluster.is_local or number not in self._concerned:
            self._running.schedule(job, None)
            return
        self._running.schedule_earlier(job, now if at_once else next_pass(state, now, process_start(cluster, proc)))


def _heard(activation: Activation, cluster: Cluster) -> int:
    """Return the second in which a running job was last measured, stopped or continued."""
    starts, entered = (parse_int(cluster.value(activation.proc, name)) for name in _SINCE)
    return max(activation.measured // SECOND, entered if entered > starts else 0)


def running_of(state: AccessPoint, number: int, procs: e.Procs) -> list[int]:
    """Return the running ones of the processes, or a single one whose run has just ended. Goes through the processes or
    through all runs, whichever are fewer."""
    if len(procs) == 1 and procs[0][0] == procs[0][1]:
        return [procs[0][0]]
    if sum(last - first + 1 for first, last in procs) <= len(state.by_job):
        several = (proc for first, last in procs for proc in range(first, last + 1))
        return [proc for proc in several if (number, proc) in state.by_job]
    begins = [first for first, _ in procs]
    running = (proc for one, proc in state.by_job if one == number)
    return [proc for proc in running if (at := bisect_right(begins, proc)) and proc <= procs[at - 1][1]]
