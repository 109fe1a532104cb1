"""Deliver messages between a pool's roles within a decision. Only this module knows which role receives a message.

The receiver's rule takes the message as its argument and returns the answer. If the roles share a log, the receiver's
events follow the sender's in the same append and imply the message, so no event needs to record the message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..decision.draft import Draft
from ..negotiator.accounting import first_factor
from ..ports import messages as m
from ..ports import stimuli as s
from ..requests.autoclusters import autoclusters_of
from ..schedd import claims
from ..startd import activating, claiming, draining, leases, machines, updates, vacating
from ..startd import slot_policy_evaluation as slot_policy
from ..state.state import AccessPoint, ExecutionPoint, LogState, Manager

SLOT_MESSAGES: Final[dict[type[s.Stimulus], Callable[..., Any]]] = {
    s.NotifyMatch: claiming.notify_match,
    s.RequestClaim: claiming.request_claim,
    s.FailClaim: claiming.fail_claim,
    s.WithdrawClaim: claiming.withdraw_claim,
    s.ActivateClaim: activating.activate_claim,
    s.DeactivateClaim: activating.deactivate_claim,
    s.ReleaseClaim: activating.release_claim,
    s.StarterReported: activating.handle_starter_report,
    s.StarterGone: activating.handle_starter_end,
    s.HolderSilent: leases.record_holder_silence,
    s.HolderHeard: leases.record_holder_message,
}
"""The rules for messages about a slot's claim, from the pool's own roles or from outside the pool."""


RECEIVERS: Final[dict[type[LogState], dict[type[Any], Callable[..., Any]]]] = {
    AccessPoint: {m.JobPaused: claims.job_paused, m.HoldJob: claims.hold_job},
    ExecutionPoint: {
        **SLOT_MESSAGES,
        s.RequestClaim: claiming.answer_claim_request,
        m.ShowSlot: claiming.show_slot,
        m.ShowAd: slot_policy.show_ad,
        m.DropMatch: claiming.drop_match,
        m.VacateClaim: vacating.vacate_claim,
        m.PauseJob: vacating.pause_job,
        m.EndJob: activating.record_job_end,
        m.ShowHost: machines.show_host,
        m.CheckSensors: updates.has_sensor_readings,
        m.PublishReadings: updates.publish_for_cycle,
        m.BeginDrain: draining.drain_to_defragment,
        m.EndDrain: draining.cancel_to_defragment,
    },
    Manager: {
        m.ShowAutoclusters: lambda draft, message: autoclusters_of(draft.state, draft.caches),
        m.OpenAccount: lambda draft, message: first_factor(draft.state, message.submitter, message.negotiator),
    },
}
"""Each role's rules, by message class."""
_RECEIVED: Final = {kind: (role, rule) for role, rules in RECEIVERS.items() for kind, rule in rules.items()}


def receiver_of(message: m.Message[Any] | s.SlotMessage) -> type[LogState]:
    """Return the role that receives a message."""
    return _RECEIVED[type(message)][0]


def receive(draft: Draft[Any], message: m.Message[Any] | s.SlotMessage) -> Any:
    """Decide a message in a draft of its receiver, and return the answer."""
    return _RECEIVED[type(message)][1](draft, message)


class InOneLog:
    """The fabric between roles that share a state and a log: receivers decide in the sender's draft."""

    def deliver(self, sender: Draft[Any], message: m.Message[Any] | s.SlotMessage) -> Any:
        return receive(sender, message)

    def conclude(self, sender: Draft[Any]) -> None:
        """Do nothing: all roles have folded all events already."""
