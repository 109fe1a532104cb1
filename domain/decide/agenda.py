"""What a pool does by itself, and when: ``next_deadline`` says when to look, ``due`` and ``following`` what to decide.

Here the agendas of all roles come together, each planned by a module of its own subject: the timers (``timers``), the
rounds of the machines' policies (``startd.round_schedule``), the passes over jobs' policies (``schedd.policy_times``),
the jobs that stay behind their end (``schedd.leave_queue``) or cannot be matched yet (``schedd.sleeping_jobs``), the
negotiation cycles (``negotiator.schedule``) and the polls of the defragmentation (``defrag.schedule``). What is yielded
has no id yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import define

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
from ..state.state import State
from .timers import next_timer


@define
class _LocalJobs:
    """At which position of the log, and when, jobs of the local universe were let in last."""

    asked: tuple[int, int] = -1, 0


def begin(moment: Moment) -> None:
    """Plan everything for a state that was folded."""
    agendas = moment.state.agendas
    agendas.of(StayingJobs).begin(moment.state, moment.zone)
    agendas.of(PolicyPasses).begin(moment.state, moment.now)


def note(draft: Draft[State], stimulus: s.Stimulus) -> None:
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
    agendas.of(PolicyPasses).note(state, draft.events, now)
    agendas.of(RoundSchedule).note(state, draft.events)


def note_appended(moment: Moment, began: int) -> None:
    """Take in that what was decided at the instant ``began`` is in the log now."""
    moment.state.agendas.of(CycleSchedules).rest(moment.state, began, moment.now)


def next_deadline(moment: Moment) -> int | None:
    """Return the instant at which something is due by itself; None: nothing ever is, unless something comes in."""
    state, now = moment.state, moment.now
    sleeping, cycles = _follow(moment)
    found = [next_timer(state), state.agendas.of(RoundSchedule).next(moment)]
    found += [state.agendas.of(StayingJobs).next(), state.agendas.of(PolicyPasses).next(), sleeping.next()]
    if moment.matching:
        found += [cycles.next(state, now), next_poll(state), next_look(state, now)]
    return min((at for at in found if at is not None), default=None)


def due(moment: Moment, came: Sequence[s.Stimulus]) -> Iterator[s.Stimulus]:
    """Yield what is due by now, as the pool has waited until now and ``came`` has come in from the world; what
    ``following`` yields comes behind it."""
    agendas, now = moment.state.agendas, moment.now
    found: list[s.Stimulus] = [*timers_due(moment)]
    rounds = agendas.of(RoundSchedule)
    machines = rounds.due(moment)
    if machines:
        found.append(s.EvaluatePolicies("", machines))
    staying = agendas.of(StayingJobs).due(now)
    if staying:
        found.append(s.LeaveQueue("", staying))
    policies = agendas.of(PolicyPasses).due(now)
    if policies.clusters or policies.running:
        found.append(policies)
    expired = _follow(moment)[0].expired()
    if expired:
        found.append(s.ScheduleJobs("", expired))
    rounds.wait_is_over(moment, woken=bool(came or found))
    yield from found


def timers_due(moment: Moment) -> Iterator[s.Stimulus]:
    """Yield the same of timers alone."""
    first = next_timer(moment.state)
    if first is not None and first <= moment.now:
        yield s.FireTimers("")


def following(moment: Moment, stimuli: Iterable[s.Stimulus]) -> Iterator[s.Stimulus]:
    """Yield what follows at once behind these: rounds that are due only because of them, a poll, cycles, and what the
    access point does with matches. Whoever asks for the next has decided the last."""
    state, now = moment.state, moment.now
    if any(isinstance(stimulus, s.ConfigurePool) for stimulus in stimuli):
        yield from schedules_again(moment)
    machines = state.agendas.of(RoundSchedule).due_at_once(moment)
    if machines:
        yield s.EvaluatePolicies("", machines)
    if not moment.matching or not state.name:
        return
    _, cycles = _follow(moment)
    if _poll_is_due(state, now):
        yield s.Defragment("")
    for negotiator in cycles.due(state, now):
        yield s.Negotiate("", negotiator)
    if state.matches or state.claim_ready or _local_jobs_are_due(state, now):
        yield s.ClaimMatches("")
        state.agendas.of(_LocalJobs).asked = state.position, now


def schedules_again(moment: Moment) -> Iterator[s.Stimulus]:
    """Yield the reading of the schedules of all jobs that wait by one: HTCondor's schedd does so when it starts, and
    when it reads its configuration again."""
    jobs = _follow(moment)[0].scheduled(moment.state)
    if jobs:
        yield s.ScheduleJobs("", jobs, again=True)


def follows_by_itself(moment: Moment) -> bool:
    """Return True if something follows now though nothing came in: a poll, a cycle, or jobs of the local universe."""
    state, now = moment.state, moment.now
    if not moment.matching:
        return False
    return _poll_is_due(state, now) or bool(_follow(moment)[1].due(state, now)) or _local_jobs_are_due(state, now)


def waits_for_cycle(moment: Moment) -> bool:
    """Return True if a cycle that may help is still to come."""
    return _follow(moment)[1].wait_for_cycle(moment.state)


def is_busy(moment: Moment) -> bool:
    """Return True if jobs run, cool down or are about to run, mails are on their way, or slots measure how fast they
    are, as jobs that wait may get them next; or if a cycle that may help is still to come."""
    state = moment.state
    if state.activations or state.reserved or state.mails or state.cooling:
        return True
    if any(one.state_activity == BENCHMARKING for one in state.slots.values()):
        return True
    return moment.matching and (waits_for_cycle(moment) or state.agendas.of(SleepingJobs).next() is not None)


def _follow(moment: Moment) -> tuple[SleepingJobs, CycleSchedules]:
    """See which jobs cannot be matched yet, and tell the negotiators."""
    sleeping, cycles = moment.state.agendas.of(SleepingJobs), moment.state.agendas.of(CycleSchedules)
    if sleeping.follow(moment):
        cycles.woke(moment.state)
    cycles.asleep = sleeping.asleep
    return sleeping, cycles


def _poll_is_due(state: State, now: int) -> bool:
    """Return whether the defragmentation is to look at the pool."""
    first = next_poll(state)
    return first is not None and first <= now


def _local_jobs_are_due(state: State, now: int) -> bool:
    """Return whether jobs of the local universe, which need no cycle, may be to be started: whether any waits, and
    was not found kept already as of this instant."""
    waits = state.idle_local > state.agendas.of(SleepingJobs).asleep_local
    return waits and state.agendas.of(_LocalJobs).asked != (state.position, now) and not paused(state, now)
