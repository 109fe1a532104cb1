"""Evaluate the conditions of the policy rules for a slot (``state_machines.slot_rules``)."""

from __future__ import annotations

from typing import cast

from ..classad import ClassAd, unparse
from ..classad.tree import Literal
from ..classad.value_evidence import literal_truth
from ..decision.draft import Draft
from ..ports.messages import ShowAd
from ..state.records import Machine, Slot
from ..state.state import ExecutionPoint
from . import backfill_client, time_limits
from .backfill_client import backfill_system
from .evaluation import PolicyEvaluation
from .slot_ad import names_read_by_match, snapshot_ad


class SlotPolicyEvaluation(PolicyEvaluation):
    """The policy of one slot at one time, with the facts that its rules read. It is invalid after a transition."""

    def is_set_to_false(self, name: str) -> bool:
        expression = self.expression(name)
        return isinstance(expression, Literal) and literal_truth(expression) is False

    @property
    def state_activity(self) -> str:
        return self.slot.state_activity

    @property
    def is_dynamic(self) -> bool:
        return self.slot.kind == "dynamic"

    # The claim and its job

    @property
    def is_claimed(self) -> bool:
        return self.slot.claim is not None

    def has_flag(self, flag: str) -> bool:
        return self.slot.claim is not None and flag in self.slot.claim.flags

    @property
    def better_match_waits(self) -> bool:
        return self.slot.queued_claim is not None

    @property
    def job_is_ending(self) -> bool:
        return self.slot.activation is not None and bool(self.slot.activation.stop_signal)

    @property
    def in_retirement(self) -> bool:
        return time_limits.in_retirement(self)

    @property
    def retirement_over(self) -> bool:
        return time_limits.retirement_over(self)

    @property
    def worklife_over(self) -> bool:
        return time_limits.worklife_over(self)

    @property
    def waits_for_activation(self) -> bool:
        return time_limits.waits_for_activation(self)

    # The machine

    @property
    def machine_drains(self) -> bool:
        return time_limits.machine_is_draining(self)

    @property
    def machine_is_drained(self) -> bool:
        return all(slot.state == "Drained" for slot in self.state.machine_slots(self.slot))

    @property
    def machine_benchmarks(self) -> bool:
        return any(slot.activity == "Benchmarking" for slot in self.state.machine_slots(self.slot))

    @property
    def benchmarks_never_ran(self) -> bool:
        return self._machine is not None and not self._machine.benchmarked

    # The machine's backfill

    @property
    def _machine(self) -> Machine | None:
        return self.state.machines.get(self.slot.machine)

    @property
    def may_backfill(self) -> bool:
        machine = self._machine
        is_running = machine is not None and not machine.shutdown
        return is_running and self.slot.cores > 0 and not self.is_dynamic and self.has_backfill

    @property
    def has_backfill(self) -> bool:
        return bool(backfill_system(self.state, self._machine))

    @property
    def backfill_system_unchanged(self) -> bool:
        machine = self._machine
        system = backfill_system(self.state, machine)
        client = None if machine is None else machine.backfill
        return bool(system) and (client is None or client.system == system)

    @property
    def client_runs(self) -> bool:
        return backfill_client.client_is_running(self._machine) and self.backfill_system_unchanged

    @property
    def client_may_start(self) -> bool:
        return backfill_client.client_may_start(self._machine, self.now)


def policy_of(draft: Draft[ExecutionPoint], slot: Slot) -> SlotPolicyEvaluation:
    """Return the slot's policy at the draft's time. It is cached until the draft's next event."""
    entry = draft.policies.get(slot.name)
    if entry is None or entry[0] != len(draft.events):
        policy = SlotPolicyEvaluation(draft.state, slot, draft.sense, draft.now, draft.context, draft.caches)
        draft.policies[slot.name] = (len(draft.events), policy)
        return policy
    return cast(SlotPolicyEvaluation, entry[1])


def show_ad(draft: Draft[ExecutionPoint], message: ShowAd) -> ClassAd:
    """Return a slot's ad as matching sees it: with the dynamic attributes that Requirements and Start read, and those
    in ``additional_names``. While the machine drains, START is the drain's expression."""
    policy = policy_of(draft, draft.state.slots[message.slot])
    ad = policy.match_ads.get(message.additional_names)
    if ad is None:
        names = names_read_by_match(policy.compiled.form, message.additional_names | _ALWAYS_READ)
        ad = policy.match_ads[message.additional_names] = snapshot_ad(policy.snapshot(), only=names)
    return ad


_ALWAYS_READ = frozenset({"state", "activity"})


def record_evidence(draft: Draft[ExecutionPoint], policy: PolicyEvaluation) -> int:
    """Record the last evaluated expression and the values it read; return the log position of this evidence, or 0 if
    the expression read nothing.

    The same evidence is recorded only once per decision.
    """
    evaluated = policy.last_evaluation
    if evaluated is None:
        return 0
    return draft.record_evaluation(
        evaluated.name, unparse(evaluated.expression), evaluated.value_text, policy.last_values_read()
    )
