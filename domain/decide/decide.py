"""Decide a stimulus with the rule for its kind."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, tzinfo
from typing import Any

from ..decision.draft import Draft, Tables
from ..events import BackfillExited, Event, JobSignalled, SlotEvent
from ..negotiator import submitter_commands
from ..ports import stimuli as s
from ..ports.fabric import Fabric
from ..ports.sensor_readings import Sense, no_readings
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
from ..startd import backfill, draining, machines, periodic_evaluation, shutdown, vacating
from ..startd.public_ad import PublishedSlots
from ..state.caches import Caches
from ..state.state import AccessPoint, ExecutionPoint, LogState, State
from . import agenda, founding, timers
from .delivery import SLOT_MESSAGES, InOneLog

# These rules take a long time to import, and many commands do not need them.


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
    s.Drain: draining.drain_machine,
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
    s.EvaluatePolicies: periodic_evaluation.evaluate_policies,
    s.BackfillRunning: backfill.record_client_start,
    s.BackfillEnded: backfill.record_client_end,
    s.BenchmarksDone: periodic_evaluation.end_benchmarks,
    s.Negotiate: _negotiate,
    s.Defragment: _defragment,
    s.ClaimMatches: claims.start_idle_jobs,
    s.FireTimers: timers.fire_timers,
    s.Transferred: job_processes.log_transfer,
    s.ActivationStarted: job_processes.log_start,
    s.ActivationMeasured: job_processes.log_measurement,
    s.ActivationChirped: job_processes.log_chirp,
    s.ActivationEnded: job_processes.end_run,
    s.MailHandled: notification.mail_handled,
    s.LeaveQueue: leave_queue.leave,
    s.ScheduleJobs: job_deferral.schedule_jobs,
    s.EvaluateJobPolicies: periodic_policy.evaluate_job_policies,
}
_WITHOUT_STIMULUS = {s.Defragment, s.ClaimMatches, s.FireTimers}
"""The stimuli without fields, whose rules take no stimulus argument."""
_IN_ONE_LOG = InOneLog()


def decide(
    state: LogState,
    stimulus: s.Stimulus,
    now: int,
    tables: Tables,
    sense: Sense = no_readings,
    zone: tzinfo = UTC,
    caches: Caches | None = None,
    fabric: Fabric[Draft[Any]] = _IN_ONE_LOG,
) -> list[Event]:
    """Return the events that result from ``stimulus`` at the time ``now`` (in microseconds).

    The events are already folded into ``state``. If they cannot be appended to the log, discard ``state`` and
    ``caches``. ``sense`` returns a machine's current sensor readings, and ``zone`` is the time zone of local times
    (ClockMin). ``caches`` contains values computed earlier from ``state``. ``fabric`` carries messages to roles that
    are not in ``state``.

    A command that was already answered is not decided again; its answer is in ``state.answers``.

    :raises Refusal: if the stimulus is rejected, with the reason
    :raises NotAllowed: if the tables do not allow a transition; ``state`` may have been changed
    """
    if isinstance(stimulus, s.Command) and stimulus.id in state.answers:
        return []
    # The user who sent a command is charged for all evaluations that it causes, even those of other users' jobs.
    user = stimulus.user if isinstance(stimulus, s.Command) else ""
    draft: Draft[Any] = Draft(state, stimulus.id, now, tables, sense, zone, caches, user, fabric)
    rule = _RULES[type(stimulus)]
    rule(draft, *(() if type(stimulus) in _WITHOUT_STIMULUS else (stimulus,)))
    complete_decision(draft)
    fabric.conclude(draft)
    if state.agendas.are_used():
        agenda.update_after_decision(draft, stimulus)
    return draft.events


def complete_decision(draft: Draft[Any]) -> None:
    """Complete a decision with the steps that each role in the draft's state takes after every decision."""
    state = draft.state
    if isinstance(state, AccessPoint):
        if state.deferred and any(isinstance(event, JobSignalled) for event in draft.events):
            deferred_starts.end_signalled_jobs(draft)
        if state.reservations:
            run_now.update_reservations(draft)
        if state.notifying:
            notification.notify(draft)
        if state.factories:
            factories.materialize(draft)
    slot_kinds = SlotEvent | BackfillExited
    if isinstance(state, ExecutionPoint) and any(isinstance(event, slot_kinds) for event in draft.events):
        shutdown.finish_drains_and_shutdowns(draft)
        periodic_evaluation.publish_changed_slots(draft)
