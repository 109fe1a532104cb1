"""When the periodic policies of which jobs are asked next (``domain/schedd/policy_times``).

An agenda: of each cluster with a policy, when those of its jobs are asked that do not run, and of each job of it that
runs, when that is asked. What happens to a job brings its next pass closer; a job that was measured, or whose processes
were stopped or go on, is asked at once, as a shadow asks when it hears of that.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable
from datetime import tzinfo

from attrs import define, field

from ...domain import events as e
from ...domain.classad.allowance import AHEAD, Allowance
from ...domain.decision.draft import context_at
from ...domain.ports.stimuli import EvaluateJobPolicies
from ...domain.schedd.periodic_policy import concerns
from ...domain.schedd.policy_times import began, next_pass, running_change, waiting_change
from ...domain.state.job_procs import job_procs
from ...domain.state.settings import number_of
from ...domain.state.state import RUNS, State

SECOND = 1_000_000
WAITING = -1
"""What stands for the process number of those jobs of a cluster that do not run."""
Key = tuple[int, int]
_OF_RUNS = e.JobActivated | e.JobDue | e.JobExecuting | e.JobMeasured | e.JobSignalled
"""What happens to a job while it runs, and to no job that does not."""
_SMOOTHING = 0.4
"""The part of the last pass's length in the mean that counts (Timeslice::processEvent)."""


@define
class PolicyPasses:
    _concerned: set[int] = field(factory=set)  #: the clusters with a policy
    _due: dict[Key, int] = field(factory=dict)
    _agenda: list[tuple[int, Key]] = field(factory=list)
    _length: float | None = None  #: how long a pass takes, in microseconds (None: there was none)
    _rests_until: int = 0  #: the instant before which no pass over jobs that do not run begins

    def reset(self, state: State) -> None:
        """Whatever was known is to be found out again, of this state."""
        self._concerned.clear()
        self._due.clear()
        self._agenda.clear()
        for number in state.clusters:
            self._look(state, number, state.at)
        for (number, proc), activation in state.by_job.items():
            if activation.executing:
                self._plan_run(state, (number, proc), state.at)

    def note(self, state: State, events: Iterable[e.Event], now: int) -> None:
        """These events have been folded."""
        for event in events:
            if isinstance(event, e.PoolConfigured):
                self.reset(state)
            elif isinstance(event, e.ClusterSubmitted | e.JobsEdited):
                self._look(state, event.cluster, now)
            found = job_procs(event) if self._concerned else None
            if found is None or found[0] not in self._concerned:
                continue
            number, procs = found
            if number not in state.clusters:
                self._forget(number)
                continue
            if not isinstance(event, _OF_RUNS):
                self._plan((number, WAITING), next_pass(state, now))
            for proc in _few(state, number, procs):
                at_once = isinstance(event, e.JobMeasured) or getattr(event, "row", "") in ("suspend", "continue")
                self._plan_run(state, (number, proc), now, at_once)

    def asked(self, state: State, stimulus: EvaluateJobPolicies, now: int, zone: tzinfo) -> None:
        """These jobs have been asked at this instant: plan when they are asked again, if nothing happens to them."""
        context = context_at(state, now, zone, Allowance(most=AHEAD))
        for number in stimulus.clusters:
            self._due.pop((number, WAITING), None)
            cluster = state.clusters.get(number)
            change = None if cluster is None else waiting_change(state, cluster, now, context)
            if change is not None:
                self._plan((number, WAITING), next_pass(state, max(now, change - 1)))
        for number, proc in stimulus.running:
            self._due.pop((number, proc), None)
            cluster, activation = state.clusters.get(number), state.by_job.get((number, proc))
            if cluster is None or activation is None or cluster.status_of(proc) not in RUNS:
                continue
            change = running_change(state, cluster, proc, now, context)
            if change is not None:
                self._plan((number, proc), next_pass(state, max(now, change - 1), began(cluster, proc)))

    def took(self, state: State, stimulus: EvaluateJobPolicies, now: int, microseconds: int) -> None:
        """A pass over jobs that do not run has taken so long: the next waits until passes take no more of the time than
        PERIODIC_EXPR_TIMESLICE, MAX_PERIODIC_EXPR_INTERVAL at most."""
        if not stimulus.clusters:
            return
        before = microseconds if self._length is None else self._length
        self._length = _SMOOTHING * microseconds + (1 - _SMOOTHING) * before
        part, most = (
            number_of(state.settings, "PERIODIC_EXPR_TIMESLICE"),
            number_of(state.settings, "MAX_PERIODIC_EXPR_INTERVAL") * SECOND,
        )
        rest = self._length / part if part else 0.0
        self._rests_until = now + round(min(rest, most) if most else rest)

    def next(self) -> int | None:
        """The first instant at which a job is to be asked."""
        agenda = self._agenda
        while agenda and self._due.get(agenda[0][1]) != agenda[0][0]:
            heapq.heappop(agenda)  # it has left, or was planned anew
        return agenda[0][0] if agenda else None

    def due(self, now: int) -> EvaluateJobPolicies:
        """What is to be asked by now; its id is empty."""
        keys = sorted(key for key, due in self._due.items() if due <= now)
        waiting = tuple(number for number, proc in keys if proc == WAITING)
        return EvaluateJobPolicies("", waiting, tuple(key for key in keys if key[1] != WAITING))

    def _look(self, state: State, number: int, now: int) -> None:
        cluster = state.clusters.get(number)
        if cluster is None or not concerns(state, cluster):
            self._forget(number)
            return
        self._concerned.add(number)
        self._plan((number, WAITING), next_pass(state, now))

    def _forget(self, number: int) -> None:
        if number in self._concerned:
            self._concerned.discard(number)
            for key in [key for key in self._due if key[0] == number]:
                del self._due[key]

    def _plan_run(self, state: State, key: Key, now: int, at_once: bool = False) -> None:
        number, proc = key
        cluster, activation = state.clusters[number], state.by_job.get(key)
        runs = activation is not None and activation.executing and cluster.status_of(proc) in RUNS
        if not runs or cluster.local or number not in self._concerned:
            self._due.pop(key, None)
            return
        self._plan(key, now if at_once else next_pass(state, now, began(cluster, proc)))

    def _plan(self, key: Key, due: int | None) -> None:
        """Ask by then, or earlier if that is planned already."""
        if due is not None and key[1] == WAITING:
            due = max(due, self._rests_until)
        if due is not None and due < self._due.get(key, due + 1):
            self._due[key] = due
            heapq.heappush(self._agenda, (due, key))


def _few(state: State, number: int, procs: e.Procs) -> list[int]:
    """Those of the processes that run, or whose run has just ended where it is one alone. Of the processes and all runs
    those are looked through that are fewer."""
    if len(procs) == 1 and procs[0][0] == procs[0][1]:
        return [procs[0][0]]
    if sum(last - first + 1 for first, last in procs) <= len(state.by_job):
        several = (proc for first, last in procs for proc in range(first, last + 1))
        return [proc for proc in several if (number, proc) in state.by_job]
    begins = [first for first, _ in procs]
    running = (proc for one, proc in state.by_job if one == number)
    return [proc for proc in running if (at := bisect_right(begins, proc)) and proc <= procs[at - 1][1]]
