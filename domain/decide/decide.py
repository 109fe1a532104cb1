"""Which rule decides what: one row for each kind of stimulus."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, tzinfo
from typing import Any

from ..decision.draft import Draft, Tables
from ..events import BackfillExited, Event, JobSignalled, SlotEvent
from ..negotiator import submitter_commands
from ..ports import stimuli as s
from ..ports.fabric import Fabric
from ..ports.sensor_readings import Sense, nothing
from ..schedd import (
    claims,
    deferred_starts,
    factories,
    job_commands,
    job_deferral,
    job_edits,
    job_processes,
    leave_queue,
    notification,
    periodic_policy,
    run_now,
)
from ..startd import backfill, draining, machines, policy_rounds, shutdown, vacating
from ..startd.public_ad import PublishedSlots
from ..state.caches import Caches
from ..state.state import AccessPoint, ExecutionPoint, LogState, State
from . import agenda, founding, timers
from .delivery import SLOT_MESSAGES, InOneLog

# Rules that take long to load, and that not every command or pool needs.


def _configure_pool(draft: Draft[State], stimulus: s.ConfigurePool) -> None:
    from .pool_configuration import configure_pool

    configure_pool(draft, stimulus)


def _submit(draft: Draft[State], stimulus: s.Submit) -> None:
    from ..schedd.job_submission import submit

    submit(draft, stimulus)


def _negotiate(draft: Draft[State], stimulus: s.Negotiate) -> None:
    from ..negotiator.matches import negotiate

    negotiate(draft, stimulus, PublishedSlots)


def _defragment(draft: Draft[State]) -> None:
    from ..defrag.poll import defragment

    defragment(draft, PublishedSlots)


_RULES: dict[type[s.Stimulus], Callable[..., Any]] = {
    s.FoundPool: founding.found_pool,
    s.AddMachine: machines.add_machine,
    s.RemoveMachine: machines.remove_machine,
    s.Reconfigure: machines.reconfigure,
    s.ConfigurePool: _configure_pool,
    s.Drain: draining.drain,
    s.CancelDrain: draining.cancel_drain,
    s.ShutDown: shutdown.shut_down,
    s.Submit: _submit,
    **dict.fromkeys(s.JOB_COMMANDS.values(), job_commands.act_on_jobs),
    s.RunNow: run_now.run_now,
    s.Edit: job_edits.edit_jobs,
    s.SetSubmitter: submitter_commands.set_submitter,
    s.ResetUsage: submitter_commands.reset_usage,
    s.DeleteSubmitter: submitter_commands.delete_submitter,
    s.VacateSlot: vacating.vacate_slot,
    s.SuspendClaim: vacating.suspend_slot,
    s.ContinueClaim: vacating.continue_slot,
    **SLOT_MESSAGES,
    s.EvaluatePolicies: policy_rounds.evaluate_policies,
    s.BackfillRunning: backfill.client_running,
    s.BackfillEnded: backfill.client_ended,
    s.BenchmarksDone: policy_rounds.benchmarks_done,
    s.Negotiate: _negotiate,
    s.Defragment: _defragment,
    s.ClaimMatches: claims.claim_all,
    s.FireTimers: timers.fire_timers,
    s.Transferred: job_processes.transferred,
    s.ActivationStarted: job_processes.started,
    s.ActivationMeasured: job_processes.measured,
    s.ActivationChirped: job_processes.chirped,
    s.ActivationEnded: job_processes.ended,
    s.MailHandled: notification.mail_handled,
    s.LeaveQueue: leave_queue.leave,
    s.ScheduleJobs: job_deferral.schedule_jobs,
    s.EvaluateJobPolicies: periodic_policy.evaluate_job_policies,
}
_WITHOUT_STIMULUS = {s.Defragment, s.ClaimMatches, s.FireTimers}
"""The stimuli that say nothing but that it is time."""
_IN_ONE_LOG = InOneLog()


def decide(
    state: LogState,
    stimulus: s.Stimulus,
    now: int,
    tables: Tables,
    sense: Sense = nothing,
    zone: tzinfo = UTC,
    caches: Caches | None = None,
    fabric: Fabric[Draft[Any]] = _IN_ONE_LOG,
) -> list[Event]:
    """Decide what follows from `stimulus` at the instant `now`, in microseconds, and change `state` in place.

    Return the events, which are folded onto `state` already: throw it away, with its `caches`, if they cannot be
    appended. `sense` gives the readings of a machine at this instant, `zone` is that of its local times (ClockMin).
    `caches` has what was computed of `state` before; without it, nothing is. `fabric` carries messages to roles that
    are not in `state`.

    A command whose id was answered before is not decided again: the answer stands in ``state.answers``.

    :raises Refusal: nothing follows, and why
    :raises NotAllowed: a change that no row of the tables allows; the state may have been changed
    """
    if isinstance(stimulus, s.Command) and stimulus.id in state.answers:
        return []
    # A command's user pays for what it makes the pool evaluate, of jobs of others, too.
    user = stimulus.user if isinstance(stimulus, s.Command) else ""
    draft: Draft[Any] = Draft(state, stimulus.id, now, tables, sense, zone, caches, user, fabric)
    rule = _RULES[type(stimulus)]
    rule(draft, *(() if type(stimulus) in _WITHOUT_STIMULUS else (stimulus,)))
    settle(draft)
    fabric.conclude(draft)
    if state.agendas.are_used():
        agenda.note(draft, stimulus)
    return draft.events


def settle(draft: Draft[Any]) -> None:
    """Do what follows from a decision for each role that is in the draft's state, whatever was decided."""
    state = draft.state
    if isinstance(state, AccessPoint):
        if state.deferred and any(isinstance(event, JobSignalled) for event in draft.events):
            deferred_starts.end_told(draft)
        if state.earmarks:
            run_now.settle(draft)
        if state.notifying:
            notification.notify(draft)
        if state.factories:
            factories.materialize(draft)
    # Else nothing was freed, and nothing is to be told.
    freed = isinstance(state, ExecutionPoint) and any(isinstance(e, SlotEvent | BackfillExited) for e in draft.events)
    if freed:
        shutdown.finish(draft)
        policy_rounds.publish(draft)
