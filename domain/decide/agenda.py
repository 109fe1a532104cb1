"""What a pool does by itself, and when: ``next_deadline`` says when to look, ``due`` and ``following`` what to decide.

Here the agendas of all roles come together, each planned by a module of its own subject: the timers (``timers``), the
rounds of the machines' policies (``startd.round_schedule``), the passes over jobs' policies (``schedd.policy_times``),
the jobs that stay behind their end (``schedd.leave_queue``) or cannot be matched yet (``schedd.sleeping_jobs``), the
negotiation cycles (``negotiator.schedule``) and the polls of the defragmentation (``defrag.schedule``). What is yielded
has no id yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from ..decision.draft import Draft
from ..decision.moment import Moment
from ..defrag.poll import next_poll
from ..events import CycleHeld
from ..negotiator.schedule import CycleSchedules, paused
from ..ports import stimuli as s
from ..ports.effects import BENCHMARKING
from ..schedd.leave_queue import StayingJobs
from ..schedd.local_jobs import next_look
from ..schedd.policy_times import PolicyPasses
from ..schedd.sleeping_jobs import SleepingJobs
from ..startd.round_schedule import RoundSchedule
from ..state.state import AccessPoint, ExecutionPoint, LogState, Manager, State
from .timers import next_timer


class _LocalJobs(Struct):
    """At which position of the log, and when, jobs of the local universe were let in last."""

    asked: tuple[int, int] = -1, 0


def begin(moment: Moment[AccessPoint]) -> None:
    """Plan everything for a state that was folded."""
    agendas = moment.state.agendas
    agendas.of(StayingJobs).begin(moment.state, moment.zone)
    agendas.of(PolicyPasses).begin(moment.state, moment.now)


def note(draft: Draft[Any], stimulus: s.Stimulus) -> None:
    """Take in a decision."""
    state, now, agendas = draft.state, draft.now, draft.state.agendas
    if isinstance(stimulus, s.LeaveQueue):
        agendas.of(StayingJobs).asked(draft, stimulus.jobs)
    elif isinstance(stimulus, s.EvaluateJobPolicies):
        agendas.of(PolicyPasses).asked(draft, stimulus)
    elif isinstance(stimulus, s.EvaluatePolicies):
        agendas.of(RoundSchedule).held(stimulus.machines, now)
    elif isinstance(stimulus, s.Negotiate):
        cycle = next((event for event in draft.events if isinstance(event, CycleHeld)), None)
        agendas.of(CycleSchedules).held(state, stimulus.negotiator, now, cycle)
    if isinstance(state, AccessPoint):
        agendas.of(PolicyPasses).note(state, draft.events, now)
    if isinstance(state, ExecutionPoint):
        agendas.of(RoundSchedule).note(state, draft.events)


def note_appended(moment: Moment[Manager], began: int) -> None:
    """Take in that what was decided at the instant ``began`` is in the log now."""
    moment.state.agendas.of(CycleSchedules).rest(moment.state, began, moment.now)


def next_deadline(moment: Moment[Any]) -> int | None:
    """Return the instant at which something is due by itself for a role that is in the state; None: nothing ever is,
    unless something comes in."""
    state, now, agendas = moment.state, moment.now, moment.state.agendas
    found = [next_timer(state)]
    if isinstance(state, AccessPoint):
        found += [agendas.of(StayingJobs).next(), agendas.of(PolicyPasses).next(), _sleeping(moment).next()]
        found += [next_look(state, now)] if moment.matching else []
    if isinstance(state, ExecutionPoint):
        found.append(agendas.of(RoundSchedule).next(moment))
    if isinstance(state, Manager) and moment.matching:
        found += [agendas.of(CycleSchedules).next(state, now), next_poll(state)]
    return min((at for at in found if at is not None), default=None)


def due(moment: Moment[Any], came: Sequence[s.Stimulus]) -> Iterator[s.Stimulus]:
    """Yield what is due by now, as the pool has waited until now and ``came`` has come in from the world; what
    ``following`` yields comes behind it."""
    state, rounds = moment.state, moment.state.agendas.of(RoundSchedule)
    found: list[s.Stimulus] = [*timers_due(moment)]
    machines = rounds.due(moment) if isinstance(state, ExecutionPoint) else ()
    if machines:
        found.append(s.EvaluatePolicies("", machines))
    if isinstance(state, AccessPoint):
        found += _due_of_jobs(moment)
    rounds.wait_is_over(moment, woken=bool(came or found))
    yield from found


def _due_of_jobs(moment: Moment[AccessPoint]) -> Iterator[s.Stimulus]:
    agendas, now = moment.state.agendas, moment.now
    staying = agendas.of(StayingJobs).due(now)
    if staying:
        yield s.LeaveQueue("", staying)
    policies = agendas.of(PolicyPasses).due(now)
    if policies.clusters or policies.running:
        yield policies
    expired = _sleeping(moment).expired()
    if expired:
        yield s.ScheduleJobs("", expired)


def timers_due(moment: Moment[LogState]) -> Iterator[s.Stimulus]:
    """Yield the same of timers alone."""
    first = next_timer(moment.state)
    if first is not None and first <= moment.now:
        yield s.FireTimers("")


def following(moment: Moment[Any], stimuli: Iterable[s.Stimulus]) -> Iterator[s.Stimulus]:
    """Yield what follows at once behind these: rounds that are due only because of them, a poll, cycles, and what the
    access point does with matches. Whoever asks for the next has decided the last."""
    state, now = moment.state, moment.now
    holds_jobs = isinstance(state, AccessPoint)
    if holds_jobs and any(isinstance(stimulus, s.ConfigurePool) for stimulus in stimuli):
        yield from schedules_again(moment)
    machines = state.agendas.of(RoundSchedule).due_at_once(moment) if isinstance(state, ExecutionPoint) else ()
    if machines:
        yield s.EvaluatePolicies("", machines)
    if not moment.matching or not state.name:
        return
    if holds_jobs:
        _sleeping(moment)
    if isinstance(state, Manager):
        if _poll_is_due(state, now):
            yield s.Defragment("")
        for negotiator in state.agendas.of(CycleSchedules).due(state, now):
            yield s.Negotiate("", negotiator)
    if holds_jobs and (state.matches or state.claim_ready or _local_jobs_are_due(state, now)):
        yield s.ClaimMatches("")
        state.agendas.of(_LocalJobs).asked = state.position, now


def schedules_again(moment: Moment[AccessPoint]) -> Iterator[s.Stimulus]:
    """Yield the reading of the schedules of all jobs that wait by one: HTCondor's schedd does so when it starts, and
    when it reads its configuration again."""
    jobs = _sleeping(moment).scheduled(moment.state)
    if jobs:
        yield s.ScheduleJobs("", jobs, again=True)


def follows_by_itself(moment: Moment[State]) -> bool:
    """Return True if something follows now though nothing came in: a poll, a cycle, or jobs of the local universe."""
    state, now = moment.state, moment.now
    if not moment.matching:
        return False
    _sleeping(moment)
    cycles = state.agendas.of(CycleSchedules).due(state, now)
    return _poll_is_due(state, now) or bool(cycles) or _local_jobs_are_due(state, now)


def waits_for_cycle(moment: Moment[State]) -> bool:
    """Return True if a cycle that may help is still to come."""
    _sleeping(moment)
    return moment.state.agendas.of(CycleSchedules).wait_for_cycle(moment.state)


def is_busy(moment: Moment[State]) -> bool:
    """Return True if jobs run, cool down or are about to run, mails are on their way, or slots measure how fast they
    are, as jobs that wait may get them next; or if a cycle that may help is still to come."""
    state = moment.state
    if state.activations or state.reserved or state.mails or state.cooling:
        return True
    if any(one.state_activity == BENCHMARKING for one in state.slots.values()):
        return True
    return moment.matching and (waits_for_cycle(moment) or state.agendas.of(SleepingJobs).next() is not None)


def _sleeping(moment: Moment[AccessPoint]) -> SleepingJobs:
    """See which jobs cannot be matched yet, and tell the negotiators that are in the same state."""
    state = moment.state
    sleeping, cycles = state.agendas.of(SleepingJobs), state.agendas.of(CycleSchedules)
    woke = sleeping.follow(moment)
    if isinstance(state, Manager):
        if woke:
            cycles.woke(state)
        cycles.asleep = sleeping.asleep
    return sleeping


def _poll_is_due(state: Manager, now: int) -> bool:
    """Return whether the defragmentation is to look at the pool."""
    first = next_poll(state)
    return first is not None and first <= now


def _local_jobs_are_due(state: AccessPoint, now: int) -> bool:
    """Return whether jobs of the local universe, which need no cycle, may be to be started: whether any waits, and
    was not found kept already as of this instant."""
    waits = state.idle_local > state.agendas.of(SleepingJobs).asleep_local
    return waits and state.agendas.of(_LocalJobs).asked != (state.position, now) and not paused(state, now)
