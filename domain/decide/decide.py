"""Decide a stimulus with the rule for its kind."""

from __future__ import annotations

from datetime import UTC, tzinfo
from functools import cache
from typing import Any, Final

from ..decision.draft import Draft, Refusal, Tables
from ..events import BackfillExited, Event, JobSignalled, RequestsRejected, SlotEvent, StarterSignalled
from ..ports import stimuli as s
from ..ports.fabric import Fabric
from ..ports.run_reports import RUN_REPORTS, RunReport
from ..ports.sensor_readings import Sense, no_readings
from ..state.caches import Caches
from ..state.peers import ACCESS_POINT, MANAGER
from ..state.state import AccessPoint, ExecutionPoint, LogState, State, acts_as
from .delivery import SLOT_MESSAGES, InOneLog
from .rules import Rules

_RULES: Final = Rules(
    {
        s.FoundPool: "decide.founding.found_pool",
        s.AddMachine: "startd.machines.add_machine",
        s.RemoveMachine: "startd.machines.remove_machine",
        s.Reconfigure: "startd.machines.reconfigure",
        s.ConfigurePool: "decide.pool_configuration.configure_pool",
        s.Drain: "startd.draining.drain_machine",
        s.CancelDrain: "startd.draining.cancel_drain",
        s.ShutDown: "startd.shutdown.shut_down",
        s.Submit: "schedd.job_submission.submit",
        **dict.fromkeys(s.JOB_COMMANDS.values(), "schedd.job_commands.act_on_jobs"),
        s.RunNow: "schedd.run_now.run_now",
        s.Edit: "schedd.job_edits.edit_jobs",
        s.SetSubmitter: "negotiator.submitter_commands.set_submitter",
        s.ResetUsage: "negotiator.submitter_commands.reset_usage",
        s.DeleteSubmitter: "negotiator.submitter_commands.delete_submitter",
        s.SwitchDaemons: "had.switching.switch_daemons",
        s.VacateSlot: "startd.vacating.vacate_slot",
        s.SuspendClaim: "startd.vacating.suspend_slot",
        s.ContinueClaim: "startd.vacating.continue_slot",
        **SLOT_MESSAGES,
        s.EvaluatePolicies: "startd.periodic_evaluation.evaluate_policies",
        s.BackfillRunning: "startd.backfill.record_client_start",
        s.BackfillEnded: "startd.backfill.record_client_end",
        s.DevicesFailed: "startd.failed_devices.take_devices_offline",
        s.SensorsReported: "startd.updates.publish_report",
        s.ScheddReported: "schedd.schedd_ad.publish_report",
        s.BenchmarksDone: "startd.periodic_evaluation.end_benchmarks",
        s.Negotiate: "decide.decide.negotiate",
        s.Defragment: "decide.decide.defragment",
        s.ClaimMatches: "schedd.claims.start_idle_jobs",
        s.FireTimers: "decide.timers.fire_timers",
        s.Transferred: "schedd.job_processes.log_transfer",
        s.ActivationDue: "schedd.deferred_starts.log_deferral",
        s.ActivationStarted: "schedd.job_processes.log_start",
        s.ActivationMeasured: "schedd.job_processes.log_measurement",
        s.ActivationChirped: "schedd.job_processes.log_chirp",
        s.ActivationEnded: "schedd.job_processes.end_run",
        s.MailHandled: "schedd.notification.mail_handled",
        s.CheckpointsCleaned: "schedd.job_processes.log_cleanup",
        s.LeaveQueue: "schedd.leave_queue.move_to_history",
        s.ScheduleJobs: "schedd.job_deferral.schedule_jobs",
        s.RejectRequests: "decide.decide.record_rejections",
        s.Follow: "peers.following.follow",
        s.ExecutionPointSilent: "peers.at_access_point.disconnect",
        s.ExecutionPointHeard: "peers.at_access_point.reconnect",
        s.RequestsUnanswered: "peers.at_access_point.withdraw_requests",
        s.ExecutionPointExpired: "peers.at_manager.expire_machine",
        s.HadStep: "had.transitions.take_step",
        s.ManagerSilence: "had.transitions.note_silence",
        s.LeaseOver: "peers.at_access_point.give_up",
        s.EvaluateJobPolicies: "schedd.periodic_policy.evaluate_job_policies",
    }
)
_REMOTE_RULES: Final = Rules(dict.fromkeys(RUN_REPORTS.values(), "startd.remote_runs.record_report"))
"""The rules for reports about processes that run here for an external access point."""
_WITHOUT_STIMULUS = {s.ClaimMatches, s.FireTimers}
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
    fabric: Fabric[Draft[Any]] | None = None,
) -> list[Event]:
    """Return the events that result from ``stimulus`` at the time ``now`` (in microseconds).

    The events are already folded into ``state``. If they cannot be appended to the log, discard ``state`` and
    ``caches``. ``sense`` returns a machine's current sensor readings, and ``zone`` is the time zone of local times
    (ClockMin). ``caches`` contains values computed earlier from ``state``. ``fabric`` carries messages to roles that
    are not in ``state``; by default, the events of a role with its own log go to its outboxes.

    A command that was already answered is not decided again; its answer is in ``state.answers``.

    :raises Refusal: if the stimulus is rejected, with the reason
    :raises NotAllowed: if the tables do not allow a transition; ``state`` may have been changed
    """
    if isinstance(stimulus, s.Command) and stimulus.id in state.answers:
        return []
    # The user who sent a command is charged for all evaluations that it causes, even for other users' jobs.
    user = stimulus.user if isinstance(stimulus, s.Command) else ""
    if fabric is None:
        fabric = _IN_ONE_LOG if len(state.roles) != 1 else _separate()
    draft: Draft[Any] = Draft(state, stimulus.id, now, tables, sense, zone, caches, user, fabric)
    rule = (_REMOTE_RULES if _is_remote_report(state, stimulus) else _RULES)[type(stimulus)]
    if isinstance(stimulus, s.Command):
        _check_role(state, stimulus)
    rule(draft, *(() if type(stimulus) in _WITHOUT_STIMULUS else (stimulus,)))
    complete_decision(draft)
    fabric.conclude(draft)
    if state.agendas.are_used():
        from . import agenda

        agenda.update_after_decision(draft, stimulus)
    return draft.events


_COMMANDED: Final = {
    "schedd": (ACCESS_POINT, "jobs", "an access point"),
    "negotiator": (MANAGER, "priorities", "the manager"),
    "had": (MANAGER, "negotiators", "the manager"),
}
"""By package: the role that decides its commands, what they are about, and the role's name in messages. Commands about
machines and slots are decided everywhere, and sent to their execution points."""


def _check_role(state: LogState, command: s.Command) -> None:
    """Check that a command belongs to a role of the log.

    :raises Refusal: if another role has to decide it
    """
    role, subject, name = _COMMANDED.get(_RULES.names[type(command)].partition(".")[0], ("", "", ""))
    if role and role not in state.roles:
        (own,) = state.roles
        raise Refusal(f"the log of the role {own} has no {subject}: use the log of {name}")


def _is_remote_report(state: LogState, stimulus: s.Stimulus) -> bool:
    """Return True if a stimulus reports about processes that run here for an external access point."""
    return isinstance(stimulus, RunReport) and isinstance(state, ExecutionPoint) and stimulus.key in state.remote_runs


@cache
def _separate() -> Fabric[Draft[Any]]:
    from ..peers.elsewhere import Separate

    return Separate()


def complete_decision(draft: Draft[Any]) -> None:
    """Complete a decision with the steps that each role in the draft's state takes after every decision."""
    state = draft.state
    if acts_as(state, AccessPoint):
        if state.deferred and any(isinstance(event, JobSignalled) for event in draft.events):
            from ..schedd import deferred_starts

            deferred_starts.end_signalled_jobs(draft)
        if state.reservations:
            from ..schedd import run_now

            run_now.update_reservations(draft)
        if state.noop:
            from ..schedd import noop_jobs

            noop_jobs.complete_noop_jobs(draft)
        if state.notifying:
            from ..schedd import notification

            notification.notify(draft)
        if state.factories:
            from ..schedd import factories

            factories.materialize(draft)
    slot_kinds = SlotEvent | BackfillExited
    if acts_as(state, ExecutionPoint) and any(isinstance(event, slot_kinds) for event in draft.events):
        from ..startd import periodic_evaluation, shutdown

        if any(isinstance(event, StarterSignalled) for event in draft.events):
            from ..startd import remote_runs

            remote_runs.end_signalled_runs(draft)
        shutdown.finish_drains_and_shutdowns(draft)
        periodic_evaluation.publish_changed_slots(draft)


def negotiate(draft: Draft[State], stimulus: s.Negotiate) -> None:
    """Hold a negotiation cycle with the ads that the startds publish."""
    from ..negotiator import matches
    from ..startd.public_ad import PublishedSlots

    matches.negotiate(draft, stimulus, PublishedSlots)


def record_rejections(draft: Draft[LogState], stimulus: s.RejectRequests) -> None:
    """Record requests that the HTTPS service has rejected."""
    for each in stimulus.rejections:
        since = min(each.since, draft.now)
        draft.emit(
            RequestsRejected(
                *draft.header("denied"), each.address, each.sender, each.reason, each.text, each.count, since
            )
        )


def defragment(draft: Draft[State], stimulus: s.Defragment) -> None:
    """Poll the machines for defragmentation, with the ads that the startds publish."""
    from ..defrag import poll
    from ..startd.public_ad import PublishedSlots

    poll.defragment(draft, PublishedSlots, stimulus.daemon)
