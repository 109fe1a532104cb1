"""Deliver messages between a pool's roles within a decision. Only this module knows which role receives a message.

The receiver's rule takes the message as its argument and returns the answer. If the roles share a log, the receiver's
events follow the sender's in the same append and imply the message, so no event needs to record the message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..decision.draft import Draft
from ..ports import messages as m
from ..ports import stimuli as s
from ..state.state import AccessPoint, ExecutionPoint, LogState, Manager
from .rules import Rules

if TYPE_CHECKING:
    from ..requests.autoclusters import Autoclusters

SLOT_MESSAGES: Final[dict[type[s.Stimulus], str]] = {
    s.NotifyMatch: "startd.claiming.notify_match",
    s.RequestClaim: "startd.claiming.request_claim",
    s.FailClaim: "startd.claiming.fail_claim",
    s.WithdrawClaim: "startd.claiming.withdraw_claim",
    s.ActivateClaim: "startd.activating.activate_claim",
    s.DeactivateClaim: "startd.activating.deactivate_claim",
    s.ReleaseClaim: "startd.activating.release_claim",
    s.StarterReported: "startd.activating.handle_starter_report",
    s.StarterGone: "startd.activating.handle_starter_end",
    s.HolderSilent: "startd.leases.record_holder_silence",
    s.HolderHeard: "startd.leases.record_holder_message",
}
"""The rules for messages about a slot's claim, from the pool's own roles or from outside the pool."""


RECEIVERS: Final[dict[type[LogState], dict[type[Any], str]]] = {
    AccessPoint: {m.JobPaused: "schedd.claims.job_paused", m.HoldJob: "schedd.claims.hold_job"},
    ExecutionPoint: {
        **SLOT_MESSAGES,
        s.RequestClaim: "startd.claiming.answer_claim_request",
        m.ShowSlot: "startd.claiming.show_slot",
        m.ShowAd: "startd.slot_policy_evaluation.show_ad",
        m.DropMatch: "startd.claiming.drop_match",
        m.VacateClaim: "startd.vacating.vacate_claim",
        m.PauseJob: "startd.vacating.pause_job",
        m.EndJob: "startd.activating.record_job_end",
        m.ShowHost: "startd.machines.show_host",
        m.CheckSensors: "startd.updates.has_sensor_readings",
        m.PublishReadings: "startd.updates.publish_for_cycle",
        m.BeginDrain: "startd.draining.begin_drain",
        m.EndDrain: "startd.draining.end_drain",
        m.BeginShutdown: "startd.shutdown.begin_shutdown",
    },
    Manager: {
        m.ShowAutoclusters: "decide.delivery.show_autoclusters",
        m.OpenAccount: "decide.delivery.open_account",
    },
}
"""Each role's rules, by message class."""
_ROLES: Final = {kind: role for role, rules in RECEIVERS.items() for kind in rules}
_RULES: Final = Rules({kind: rule for rules in RECEIVERS.values() for kind, rule in rules.items()})


def show_autoclusters(draft: Draft[Manager], message: m.ShowAutoclusters) -> Autoclusters:
    """Return the autoclusters of the queue, which determine the significant attributes."""
    from ..requests.autoclusters import autoclusters_of

    return autoclusters_of(draft.state, draft.caches)


def open_account(draft: Draft[Manager], message: m.OpenAccount) -> float:
    """Return the priority factor of a new account."""
    from ..negotiator.accounting import first_factor

    return first_factor(draft.state, message.submitter, message.negotiator)


def receiver_of(message: m.Message[Any] | s.SlotMessage) -> type[LogState]:
    """Return the role that receives a message."""
    return _ROLES[type(message)]


def receive(draft: Draft[Any], message: m.Message[Any] | s.SlotMessage) -> Any:
    """Decide a message in a draft of its receiver, and return the answer."""
    return _RULES[type(message)](draft, message)


class InOneLog:
    """The fabric between roles that share a state and a log: receivers decide in the sender's draft."""

    def deliver(self, sender: Draft[Any], message: m.Message[Any] | s.SlotMessage) -> Any:
        return receive(sender, message)

    def conclude(self, sender: Draft[Any]) -> None:
        """Do nothing: all roles have folded all events already."""
