"""Which rule decides what: one row for each kind of stimulus."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, tzinfo
from typing import Any

from ..decision.draft import Draft, Refusal, Tables
from ..events import Event, PoolFounded
from ..negotiator import submitter_commands
from ..negotiator.reconfigure import configure_pool
from ..ports import stimuli as s
from ..ports.sensor_readings import Sense, nothing
from ..schedd.claims import claim_matches, start_local_jobs
from ..schedd.job_commands import act_on_jobs, continue_slot, edit_jobs, submit, suspend_slot, vacate_slot
from ..schedd.job_processes import ended, measured, started
from ..schedd.leave_queue import leave
from ..startd import claiming, draining, policy_rounds, shutdown
from ..startd.machines import add_machine, reconfigure, remove_machine
from ..state.caches import Caches
from ..state.settings import settings
from ..state.state import State
from ..state_machines import DIALECTS
from .timers import fire_timers


def _found(draft: Draft, stimulus: s.FoundPool) -> None:
    if stimulus.dialect not in DIALECTS:
        raise Refusal(f"{stimulus.dialect} is no dialect; there are {', '.join(DIALECTS)}")
    try:
        in_force = settings(stimulus.settings)
    except ValueError as error:
        raise Refusal(str(error)) from None
    draft.emit(
        PoolFounded(
            *draft.why("founded"), stimulus.name, stimulus.dialect, stimulus.uid_domain, stimulus.version, in_force
        )
    )


def _claim(draft: Draft, stimulus: s.ClaimMatches) -> None:
    claim_matches(draft)
    start_local_jobs(draft)


def _negotiate(draft: Draft, stimulus: s.Negotiate) -> None:
    from ..negotiator.matches import (
        negotiate,  # it needs numpy, which a command that only asks for something need not import
    )

    negotiate(draft)


_RULES: dict[type[s.Stimulus], Callable[[Draft, Any], None]] = {
    s.FoundPool: _found,
    s.AddMachine: add_machine,
    s.RemoveMachine: remove_machine,
    s.Reconfigure: reconfigure,
    s.ConfigurePool: configure_pool,
    s.Drain: draining.drain,
    s.CancelDrain: draining.cancel_drain,
    s.ShutDown: shutdown.shut_down,
    s.Submit: submit,
    s.Act: act_on_jobs,
    s.Edit: edit_jobs,
    s.SetSubmitter: submitter_commands.set_submitter,
    s.ResetUsage: submitter_commands.reset_usage,
    s.DeleteSubmitter: submitter_commands.delete_submitter,
    s.VacateSlot: vacate_slot,
    s.SuspendClaim: suspend_slot,
    s.ContinueClaim: continue_slot,
    s.NotifyMatch: claiming.notify_match,
    s.RequestClaim: claiming.request_claim,
    s.FailClaim: claiming.fail_claim,
    s.WithdrawClaim: claiming.withdraw_claim,
    s.ActivateClaim: claiming.activate_claim,
    s.DeactivateClaim: claiming.deactivate_claim,
    s.ReleaseClaim: claiming.release_claim,
    s.StarterReported: claiming.starter_reported,
    s.StarterGone: claiming.starter_gone,
    s.HolderSilent: claiming.holder_silent,
    s.HolderHeard: claiming.holder_heard,
    s.EvaluatePolicies: policy_rounds.evaluate_policies,
    s.BenchmarksDone: policy_rounds.benchmarks_done,
    s.Negotiate: _negotiate,
    s.ClaimMatches: _claim,
    s.FireTimers: lambda draft, _: fire_timers(draft),
    s.Started: started,
    s.Measured: measured,
    s.Ended: ended,
    s.LeaveQueue: leave,
}


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
    draft = Draft(state, stimulus.id, now, tables, sense, zone, caches)
    _RULES[type(stimulus)](draft, stimulus)
    shutdown.finish(draft)
    policy_rounds.publish(draft)
    return draft.events
