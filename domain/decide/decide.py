"""Which rule decides what: one row for each kind of stimulus."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, tzinfo
from functools import cache
from importlib import import_module

from ..decision.draft import Draft, Tables
from ..events import BackfillExited, Event, JobSignalled, SlotEvent
from ..ports import stimuli as s
from ..ports.sensor_readings import Sense, nothing
from ..state.caches import Caches
from ..state.state import State

_RULES: dict[type[s.Stimulus], tuple[str, str]] = {
    s.FoundPool: ("decide.founding", "found"),
    s.AddMachine: ("startd.machines", "add_machine"),
    s.RemoveMachine: ("startd.machines", "remove_machine"),
    s.Reconfigure: ("startd.machines", "reconfigure"),
    s.ConfigurePool: ("negotiator.pool_configuration", "configure_pool"),
    s.Drain: ("startd.draining", "drain"),
    s.CancelDrain: ("startd.draining", "cancel_drain"),
    s.ShutDown: ("startd.shutdown", "shut_down"),
    s.Submit: ("schedd.submissions", "submit"),
    **dict.fromkeys(s.JOB_COMMANDS.values(), ("schedd.job_commands", "act_on_jobs")),
    s.RunNow: ("schedd.run_now", "run_now"),
    s.Edit: ("schedd.job_edits", "edit_jobs"),
    s.SetSubmitter: ("negotiator.submitter_commands", "set_submitter"),
    s.ResetUsage: ("negotiator.submitter_commands", "reset_usage"),
    s.DeleteSubmitter: ("negotiator.submitter_commands", "delete_submitter"),
    s.VacateSlot: ("schedd.slot_commands", "vacate_slot"),
    s.SuspendClaim: ("schedd.slot_commands", "suspend_slot"),
    s.ContinueClaim: ("schedd.slot_commands", "continue_slot"),
    s.NotifyMatch: ("startd.claiming", "notify_match"),
    s.RequestClaim: ("startd.claiming", "request_claim"),
    s.FailClaim: ("startd.claiming", "fail_claim"),
    s.WithdrawClaim: ("startd.claiming", "withdraw_claim"),
    s.ActivateClaim: ("startd.claiming", "activate_claim"),
    s.DeactivateClaim: ("startd.claiming", "deactivate_claim"),
    s.ReleaseClaim: ("startd.claiming", "release_claim"),
    s.StarterReported: ("startd.claiming", "starter_reported"),
    s.StarterGone: ("startd.claiming", "starter_gone"),
    s.HolderSilent: ("startd.claiming", "holder_silent"),
    s.HolderHeard: ("startd.claiming", "holder_heard"),
    s.EvaluatePolicies: ("startd.policy_rounds", "evaluate_policies"),
    s.BackfillRunning: ("startd.backfill", "client_running"),
    s.BackfillEnded: ("startd.backfill", "client_ended"),
    s.BenchmarksDone: ("startd.policy_rounds", "benchmarks_done"),
    s.Negotiate: ("negotiator.matches", "negotiate"),
    s.Defragment: ("defrag.poll", "defragment"),
    s.ClaimMatches: ("schedd.claims", "claim_all"),
    s.FireTimers: ("decide.timers", "fire_timers"),
    s.Transferred: ("schedd.job_processes", "transferred"),
    s.Started: ("schedd.job_processes", "started"),
    s.Measured: ("schedd.job_processes", "measured"),
    s.Chirped: ("schedd.job_processes", "chirped"),
    s.Ended: ("schedd.job_processes", "ended"),
    s.MailHandled: ("schedd.notification", "mail_handled"),
    s.LeaveQueue: ("schedd.leave_queue", "leave"),
    s.ScheduleJobs: ("schedd.deferral", "schedule_jobs"),
    s.EvaluateJobPolicies: ("schedd.periodic_policy", "evaluate_job_policies"),
}
"""The module and the function of each rule. A module is loaded when one of its rules is needed first: a command that
writes the log for a moment needs one of them."""
_WITHOUT_STIMULUS = {s.Defragment, s.ClaimMatches, s.FireTimers}
"""The stimuli that say nothing but that it is time."""


@cache
def _loaded(module: str, name: str) -> Callable[..., None]:
    found: Callable[..., None] = getattr(import_module(f"..{module}", __package__), name)
    return found


def load_rules() -> None:
    """Load all rules but the negotiator's, which needs numpy, and the defragmentation's, which few pools have: a pool
    at work is not to wait for one."""
    for kind, place in _RULES.items():
        if kind not in (s.Negotiate, s.Defragment):
            _loaded(*place)


def decide(
    state: State,
    stimulus: s.Stimulus,
    now: int,
    tables: Tables,
    sense: Sense = nothing,
    zone: tzinfo = UTC,
    caches: Caches | None = None,
) -> list[Event]:
    """Decide what follows from `stimulus` at the instant `now`, in microseconds, and change `state` in place.

    Return the events, which are folded onto `state` already: throw it away, with its `caches`, if they cannot be
    appended. `sense` gives the readings of a machine at this instant, `zone` is that of its local times (ClockMin).
    `caches` has what was computed of `state` before; without it, nothing is.

    A command whose id was answered before is not decided again: the answer stands in ``state.answers``.

    :raises Refusal: nothing follows, and why
    :raises NotAllowed: a change that no row of the tables allows; the state may have been changed
    """
    if isinstance(stimulus, s.Command) and stimulus.id in state.answers:
        return []
    # A command's user pays for what it makes the pool evaluate, of jobs of others, too.
    user = stimulus.user if isinstance(stimulus, s.Command) else ""
    draft = Draft(state, stimulus.id, now, tables, sense, zone, caches, user)
    rule = _loaded(*_RULES[type(stimulus)])
    rule(draft, *(() if type(stimulus) in _WITHOUT_STIMULUS else (stimulus,)))
    if state.deferred and any(isinstance(event, JobSignalled) for event in draft.events):
        _loaded("schedd.deferred_starts", "end_told")(draft)
    if state.earmarks:
        _loaded("schedd.run_now", "settle")(draft)
    if state.notifying:
        _loaded("schedd.notification", "notify")(draft)
    if state.factories:
        _loaded("schedd.factories", "materialize")(draft)
    # Else nothing was freed, and nothing is to be told.
    if any(isinstance(event, SlotEvent | BackfillExited) for event in draft.events):
        _loaded("startd.shutdown", "finish")(draft)
        _loaded("startd.policy_rounds", "publish")(draft)
    return draft.events
