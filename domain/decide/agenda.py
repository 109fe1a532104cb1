"""The stimuli that a pool generates itself, and their deadlines.

This module combines the agendas of all roles: timers (``timers``), the policy evaluations of machines
(``startd.evaluation_schedule``) and of jobs (``schedd.policy_times``), the completed jobs that stay in the queue
(``schedd.leave_queue``), the jobs that cannot be matched yet (``schedd.sleeping_jobs``), the negotiation cycles
(``negotiator.schedule``) and defragmentation polls (``defrag.poll``). These stimuli have no id yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from ..decision.draft import Draft
from ..decision.moment import Moment
from ..defrag.poll import next_polls
from ..events import CycleHeld
from ..had.transitions import is_active
from ..negotiator.schedule import CycleSchedules, are_starts_paused
from ..ports import stimuli as s
from ..ports.effects import BENCHMARKING
from ..schedd.leave_queue import EndedJobsAgenda
from ..schedd.local_jobs import next_evaluation
from ..schedd.policy_times import PolicyPasses
from ..schedd.sleeping_jobs import SleepingJobs
from ..startd.evaluation_schedule import EvaluationSchedule
from ..state.state import AccessPoint, ExecutionPoint, LogState, Manager, Queue, State, acts_as
from .timers import next_timer


class _LocalJobs(Struct):
    """The log position and the time at which local universe jobs were last considered."""

    considered: tuple[int, int] = -1, 0


def plan_agendas(moment: Moment[AccessPoint]) -> None:
    """Plan the agendas for a state that was read from a log."""
    agendas = moment.state.agendas
    agendas.get(EndedJobsAgenda).plan_all(moment.state, moment.zone)
    agendas.get(PolicyPasses).plan_all(moment.state, moment.now)


def update_after_decision(draft: Draft[Any], stimulus: s.Stimulus) -> None:
    """Update the agendas after a decision."""
    state, now, agendas = draft.state, draft.now, draft.state.agendas
    if isinstance(stimulus, s.LeaveQueue):
        agendas.get(EndedJobsAgenda).plan_next(draft, stimulus.jobs)
    elif isinstance(stimulus, s.EvaluateJobPolicies):
        agendas.get(PolicyPasses).plan_next(draft, stimulus)
    elif isinstance(stimulus, s.EvaluatePolicies):
        agendas.get(EvaluationSchedule).record_evaluations(stimulus.machines, now)
    elif isinstance(stimulus, s.Negotiate):
        cycle = next((event for event in draft.events if isinstance(event, CycleHeld)), None)
        agendas.get(CycleSchedules).record_cycle(state, stimulus.negotiator, now, cycle)
    if acts_as(state, AccessPoint):
        agendas.get(PolicyPasses).update_agenda(state, draft.events, now)
    if acts_as(state, ExecutionPoint):
        agendas.get(EvaluationSchedule).record_events(state, draft.events)


def update_after_append(moment: Moment[Manager], began: int) -> None:
    """Update the agendas after the decision that started at the time ``began`` was appended to the log."""
    moment.state.agendas.get(CycleSchedules).record_duration(moment.state, began, moment.now)


def next_deadline(moment: Moment[Any]) -> int | None:
    """Return when a role of the state next generates a stimulus, or None if that requires a stimulus from the world."""
    state, now, agendas = moment.state, moment.now, moment.state.agendas
    deadlines = [next_timer(state)]
    if acts_as(state, AccessPoint):
        deadlines += [agendas.get(EndedJobsAgenda).next_due(), agendas.get(PolicyPasses).next_due()]
        deadlines += [next_evaluation(state, now)] if moment.matching else []
    if acts_as(state, AccessPoint) or acts_as(state, Manager):
        deadlines.append(_update_sleeping_jobs(moment).next_due())
    if acts_as(state, ExecutionPoint):
        deadlines.append(agendas.get(EvaluationSchedule).next_evaluation(moment))
    if acts_as(state, Manager) and moment.matching and is_active(state):
        deadlines += [agendas.get(CycleSchedules).next_due(state, now), *next_polls(state).values()]
    return min((deadline for deadline in deadlines if deadline is not None), default=None)


def due_stimuli(moment: Moment[Any], received: Sequence[s.Stimulus]) -> Iterator[s.Stimulus]:
    """Yield the stimuli that are due now, after the pool waited until now and the world returned the stimuli
    ``received``. The caller must decide all of these before those from ``following_stimuli``."""
    state, evaluations = moment.state, moment.state.agendas.get(EvaluationSchedule)
    stimuli: list[s.Stimulus] = [*timer_stimuli(moment)]
    machines = evaluations.due_machines(moment) if acts_as(state, ExecutionPoint) else ()
    if machines:
        stimuli.append(s.EvaluatePolicies("", machines))
    if acts_as(state, AccessPoint):
        stimuli += _due_for_jobs(moment)
    evaluations.end_wait(moment, woken=bool(received or stimuli))
    yield from stimuli


def _due_for_jobs(moment: Moment[AccessPoint]) -> Iterator[s.Stimulus]:
    agendas, now = moment.state.agendas, moment.now
    staying = agendas.get(EndedJobsAgenda).due_jobs(now)
    if staying:
        yield s.LeaveQueue("", staying)
    policies = agendas.get(PolicyPasses).due_evaluation(now)
    if policies.clusters or policies.running:
        yield policies
    expired = _update_sleeping_jobs(moment).expired_jobs()
    if expired:
        yield s.ScheduleJobs("", expired)


def timer_stimuli(moment: Moment[LogState]) -> Iterator[s.Stimulus]:
    """Yield a stimulus for the timers that are due now, if there are any."""
    deadline = next_timer(moment.state)
    if deadline is not None and deadline <= moment.now:
        yield s.FireTimers("")


def following_stimuli(moment: Moment[Any], stimuli: Iterable[s.Stimulus]) -> Iterator[s.Stimulus]:
    """Yield the stimuli that immediately follow ``stimuli``: policy evaluations that are due only because of those, a
    poll, cycles, and the claiming of matches. The caller must decide each before requesting the next."""
    state, now = moment.state, moment.now
    holds_jobs = acts_as(state, AccessPoint)
    if holds_jobs and any(isinstance(stimulus, s.ConfigurePool) for stimulus in stimuli):
        yield from reread_schedules(moment)
    machines = (
        state.agendas.get(EvaluationSchedule).due_after_stimulus(moment) if acts_as(state, ExecutionPoint) else ()
    )
    if machines:
        yield s.EvaluatePolicies("", machines)
    if not moment.matching or not state.name:
        return
    if holds_jobs or acts_as(state, Manager):
        _update_sleeping_jobs(moment)
    if acts_as(state, Manager) and is_active(state):
        for daemon, due in next_polls(state).items():
            if due <= now:
                yield s.Defragment("", daemon)
        for negotiator in state.agendas.get(CycleSchedules).due_negotiators(state, now):
            yield s.Negotiate("", negotiator)
    has_claimable = (state.matches or state.ready_claims) and now >= state.next_start if holds_jobs else False
    if holds_jobs and (has_claimable or _jobs_are_due(state, now)):
        yield s.ClaimMatches("")
        state.agendas.get(_LocalJobs).considered = state.position, now


def reread_schedules(moment: Moment[AccessPoint]) -> Iterator[s.Stimulus]:
    """Yield the stimulus that recomputes the start times of all scheduled jobs (crontab). HTCondor's schedd recomputes
    them when it starts and when it is reconfigured."""
    jobs = _update_sleeping_jobs(moment).scheduled_clusters(moment.state)
    if jobs:
        yield s.ScheduleJobs("", jobs, reschedule_all=True)


def has_following_stimulus(moment: Moment[State]) -> bool:
    """Return True if a stimulus follows without input from the world: a poll, a cycle, or the start of a local job."""
    state, now = moment.state, moment.now
    if not moment.matching:
        return False
    _update_sleeping_jobs(moment)
    cycles = state.agendas.get(CycleSchedules).due_negotiators(state, now)
    return any(due <= now for due in next_polls(state).values()) or bool(cycles) or _jobs_are_due(state, now)


def waits_for_cycle(moment: Moment[State]) -> bool:
    """Return True if a cycle that may match jobs is still to come."""
    _update_sleeping_jobs(moment)
    return moment.state.agendas.get(CycleSchedules).wait_for_cycle(moment.state)


def is_busy(moment: Moment[State]) -> bool:
    """Return True if jobs run, cool down or are about to run, mails are being sent, slots run benchmarks, or a cycle
    that may match jobs is still to come."""
    state = moment.state
    if state.activations or state.remote_runs or state.assigned_slots or state.mails or state.cool_downs:
        return True
    if any(slot.state_activity == BENCHMARKING for slot in state.slots.values()):
        return True
    return moment.matching and (waits_for_cycle(moment) or state.agendas.get(SleepingJobs).next_due() is not None)


def _update_sleeping_jobs(moment: Moment[Queue]) -> SleepingJobs:
    """Update and return the jobs that cannot be matched yet, and report them to the negotiators in the same state."""
    state = moment.state
    sleeping, cycles = state.agendas.get(SleepingJobs), state.agendas.get(CycleSchedules)
    woke = sleeping.update(moment)
    if acts_as(state, Manager):
        if woke:
            cycles.record_matchable_jobs(state)
        cycles.asleep = sleeping.asleep
    return sleeping


def _jobs_are_due(state: AccessPoint, now: int) -> bool:
    """Return True if jobs that need no cycle may be able to start: local universe jobs or, if claims are kept idle,
    others. Some are idle, and they have not been considered yet in this state at this time."""
    sleeping = state.agendas.get(SleepingJobs)
    waits = state.idle_local > sleeping.asleep_local or (state.kept_claims and state.idle > sleeping.asleep)
    return (
        bool(waits)
        and state.agendas.get(_LocalJobs).considered != (state.position, now)
        and not are_starts_paused(state, now)
    )
