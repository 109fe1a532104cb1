"""The published slot ads on which the defragmentation policy is evaluated.

A pool may have ten thousand machines. So an ad contains only attributes that the policy can read, directly or
indirectly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any, Final

from msgspec import Struct

from ..classad import ClassAd, Context, EvaluationError, Expression, unparse
from ..classad.tree import Literal
from ..classad.value_evidence import DYNAMIC_REFERENCES, truth_of, value_text, values_read
from ..events import Ad
from ..ports.slot_ads import SlotAds
from ..state.caches import parse_cached
from ..state.records import Slot
from ..state.state import Manager
from .defrag_settings import DefragPolicy

_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_PARTITIONABLE: Final = "PartitionableSlot && Offline=!=True"
ESTIMATES: Final = {
    True: ("ExpectedMachineGracefulDrainingBadput", "ExpectedMachineGracefulDrainingCompletion"),
    False: ("ExpectedMachineQuickDrainingBadput", "ExpectedMachineQuickDrainingCompletion"),
}
"""The attributes with the expected cost and end of a drain, for graceful drains (True) and for quick and fast
drains."""


class CandidateSlot(Struct, frozen=True):
    """A slot's ad and its machine."""

    slot: str
    machine: str
    ad: ClassAd


class SlotCondition(Struct, frozen=True):
    """A condition on slots, and the name of its setting. ``text`` includes the conditions that HTCondor adds."""

    name: str
    text: str

    @property
    def expression(self) -> Expression | None:
        return parse_cached(self.text)

    def true_of(self, slots: Iterable[CandidateSlot], context: Context) -> list[CandidateSlot]:
        """Return the slots for which the condition is true."""
        condition = self.expression
        if condition is None:
            return []
        return [slot for slot in slots if truth_of(condition, slot.ad, None, context) is True]

    def evaluation_record(self, slot: CandidateSlot, value: str, context: Context) -> tuple[str, str, str, Ad]:
        """Return the fields of an ``EvaluationRecorded`` event about this condition and a slot."""
        condition = self.expression
        assert condition is not None
        return self.name, unparse(condition), value, values_read(condition, slot.ad, None, context)


class PolicyConditions(Struct, frozen=True):
    """The conditions of a policy. HTCondor queries the collector with them."""

    draining: SlotCondition
    whole: SlotCondition
    cancel: SlotCondition | None  #: None: no drain is canceled
    drain: SlotCondition
    rank: Expression | None  #: None: all machines have the same rank

    @property
    def slot_ad_expressions(self) -> list[Expression]:
        """Return all expressions of the policy that read slot ads."""
        conditions = (self.draining, self.whole, self.cancel, self.drain)
        expressions = [condition.expression for condition in conditions if condition is not None]
        return [expression for expression in (*expressions, self.rank) if expression is not None]


def policy_conditions(policy: DefragPolicy, joins_texts: bool) -> PolicyConditions:
    """Return the conditions of a policy.

    :param joins_texts: whether DEFRAG_WHOLE_MACHINE_EXPR is joined to the other conditions without parentheses
        (``Dialect``)
    """
    ours = f'(DrainReason is undefined || DrainReason == "{policy.reason}")'
    draining = f"{_PARTITIONABLE} && Draining && {ours}"
    whole = policy.whole if joins_texts else f"({policy.whole})"
    free = f"{_PARTITIONABLE} && Draining =!= true"
    cancel, requirements = policy.cancel, policy.requirements
    return PolicyConditions(
        SlotCondition("Draining", draining),
        SlotCondition("DEFRAG_WHOLE_MACHINE_EXPR", f"{whole} && {_PARTITIONABLE} && {ours}"),
        SlotCondition("DEFRAG_CANCEL_REQUIREMENTS", f"{draining} && ({cancel})") if cancel else None,
        SlotCondition("DEFRAG_REQUIREMENTS", f"{free} && ({requirements})" if requirements else free),
        parse_cached(policy.rank) if policy.rank else None,
    )


def sort_by_rank(
    slots: Sequence[CandidateSlot], rank: Expression | None, context: Context
) -> list[tuple[float, CandidateSlot]]:
    """Return the slots sorted by rank, highest first; slots with the same rank keep their order."""
    with_ranks = [(rank_of(slot, rank, context), slot) for slot in slots]
    return sorted(with_ranks, key=lambda each: -each[0])


def rank_of(slot: CandidateSlot, rank: Expression | None, context: Context) -> float:
    """Return the value of DEFRAG_RANK for a slot, or 0 if it is not a number."""
    value = _rank_value(slot, rank, context)
    return float(value) if isinstance(value, bool | int | float) and isfinite(value) else 0.0


def rank_evidence(slot: CandidateSlot, rank: Expression, context: Context) -> tuple[str, str, str, Ad]:
    """Return the fields of an ``EvaluationRecorded`` event about a slot's rank. The slot's ad is TARGET."""
    value = value_text(_rank_value(slot, rank, context))
    return "DEFRAG_RANK", unparse(rank), value, values_read(rank, ClassAd(), slot.ad, context)


def _rank_value(slot: CandidateSlot, rank: Expression | None, context: Context) -> Any:
    if rank is None:
        return 0.0
    try:
        return rank.evaluate(ClassAd(), slot.ad, context)
    except EvaluationError:
        return 0.0


def integer_attribute(slot: CandidateSlot, name: str, context: Context) -> int:
    """Return an integer attribute of a slot's ad, or 0 if the ad lacks it."""
    try:
        value = slot.ad.eval(name, None, context)
    except EvaluationError:
        return 0
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    return int(value) if is_number else 0


def candidate_slots(state: Manager, slots: SlotAds, conditions: PolicyConditions, every: bool) -> list[CandidateSlot]:
    """Return the ads of the pool's partitionable slots, or of all slots if ``every``.

    Their order breaks ties in rank: first the slots of machines that were never drained, then slots by the start of
    their machine's last drain, then by creation. (HTCondor breaks ties at random.)
    """
    names = _words(conditions.slot_ad_expressions) | {name.lower() for pair in ESTIMATES.values() for name in pair}
    reads_all = bool(names & DYNAMIC_REFERENCES)
    candidates = []
    for slot in state.slots.values():
        if slot.kind == "partitionable" or every:
            ad = slots.ad(slot) if reads_all else _partial_ad(slots, slot, names)
            candidates.append(CandidateSlot(slot.name, slot.machine, ad))
    drained = {name: machine.drain_began for name, machine in state.machines.items()}
    return sorted(candidates, key=lambda one: drained.get(one.machine, 0))


def _partial_ad(slots: SlotAds, slot: Slot, names: set[str]) -> ClassAd:
    snapshot = slots.snapshot(slot)
    ad, pending, seen = ClassAd(), list(names), set(names)
    while pending:
        key = pending.pop()
        value = slots.attribute(snapshot, key)
        if value is None:
            continue
        ad[key] = value
        if not isinstance(value, Literal):
            new_names = _words([value])
            if new_names & DYNAMIC_REFERENCES:
                return slots.ad(slot)
            pending += new_names - seen
            seen |= new_names
    return ad


def _words(read: Iterable[Expression]) -> set[str]:
    return {word.lower() for expression in read for word in _WORD.findall(unparse(expression))}
