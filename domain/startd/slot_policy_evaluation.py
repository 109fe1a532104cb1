"""Answer what the rules ask of a slot at one instant (``state_machines.slot_policy``)."""

from __future__ import annotations

from typing import cast

from ..classad import ClassAd, unparse
from ..classad.evidence import constant_truth
from ..classad.tree import Literal
from ..decision.draft import Draft
from ..ports.messages import ShowAd
from ..state.records import Machine, Slot
from ..state.state import ExecutionPoint
from . import backfill_client, time_limits
from .backfill_client import system_of
from .evaluation import PolicyEvaluation
from .slot_ad import ad_at, read_by_match


class SlotPolicyEvaluation(PolicyEvaluation):
    """One slot at one instant. It is void when the slot has moved."""

    def set_to_false(self, name: str) -> bool:
        asked = self.expression(name)
        return isinstance(asked, Literal) and constant_truth(asked) is False

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
        return self.slot.claim is not None and flag in self.slot.claim.marks

    @property
    def better_match_waits(self) -> bool:
        return self.slot.waiting is not None

    @property
    def job_is_ending(self) -> bool:
        return self.slot.activation is not None and bool(self.slot.activation.stop)

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
        return time_limits.draining(self)

    @property
    def machine_is_drained(self) -> bool:
        return all(slot.state == "Drained" for slot in self.state.machine_slots(self.slot))

    @property
    def machine_benchmarks(self) -> bool:
        return any(slot.activity == "Benchmarking" for slot in self.state.machine_slots(self.slot))

    @property
    def benchmarks_never_ran(self) -> bool:
        machine = self.state.machines.get(self.slot.machine)
        return machine is not None and not machine.benchmarked

    # The machine's backfill

    @property
    def _machine(self) -> Machine | None:
        return self.state.machines.get(self.slot.machine)

    @property
    def may_backfill(self) -> bool:
        machine = self._machine
        going = machine is not None and not machine.shutdown
        return going and self.slot.cores > 0 and not self.is_dynamic and self.has_backfill

    @property
    def has_backfill(self) -> bool:
        return bool(system_of(self.state, self._machine))

    @property
    def backfill_stands(self) -> bool:
        machine = self._machine
        system = system_of(self.state, machine)
        client = None if machine is None else machine.backfill
        return bool(system) and (client is None or client.system == system)

    @property
    def client_runs(self) -> bool:
        return backfill_client.runs(self._machine) and self.backfill_stands

    @property
    def client_may_start(self) -> bool:
        return backfill_client.may_start(self._machine, self.now)


def policy_of(draft: Draft[ExecutionPoint], slot: Slot) -> SlotPolicyEvaluation:
    """Return the slot's policy as of now. What was found out of it is kept until the draft's next event."""
    known = draft.policies.get(slot.name)
    if known is None or known[0] != len(draft.events):
        found = SlotPolicyEvaluation(draft.state, slot, draft.sense, draft.now, draft.context, draft.caches)
        draft.policies[slot.name] = (len(draft.events), found)
        return found
    return cast(SlotPolicyEvaluation, known[1])


def show_ad(draft: Draft[ExecutionPoint], message: ShowAd) -> ClassAd:
    """Return the ad of a slot at this moment as a match sees it: with the attributes of the moment that its own
    expressions read, and those of ``also``. While its machine drains, START is what the drain says."""
    policy = policy_of(draft, draft.state.slots[message.slot])
    found = policy.matched.get(message.also)
    if found is None:
        names = read_by_match(policy.compiled, message.also | _ALWAYS_READ)
        found = policy.matched[message.also] = ad_at(policy.snapshot(), only=names)
    return found


_ALWAYS_READ = frozenset({"state", "activity"})


def note_evidence(draft: Draft[ExecutionPoint], policy: PolicyEvaluation) -> int:
    """Record the last asked expression and what it read, and return its position in the log.

    Nothing is recorded twice in one decision. Return 0 if it read nothing: a constant needs no evidence.
    """
    asked = policy.verdict
    if asked is None:
        return 0
    return draft.note(asked.name, unparse(asked.expression), asked.words, policy.read())
