"""Periodically evaluate the policy of a machine's slots.

An evaluation checks the rules for each slot's state and activity in order, and applies the first rule that holds
(``state_machines/slot_rules.py``). The first interval starts when the machine joins the pool. An interval lasts
POLLING_INTERVAL while any slot is claimed or in Backfill, and UPDATE_INTERVAL otherwise. An evaluation in which no rule
holds writes no event.
"""

from __future__ import annotations

from ..decision.draft import Draft, Refusal
from ..events import BenchmarksRan, CpuBusyChanged, SlotTransitioned
from ..ports import stimuli as s
from ..ports.sensor_readings import NOTHING_READ
from ..state.records import Machine, Slot
from ..state.state import ExecutionPoint
from . import draining, updates
from .claiming import CLAIMED_STATES
from .dynamic_attributes import reads_cpu_busy_time
from .slot_ad import compiled_ad
from .slot_policy_evaluation import policy_of
from .startd_settings import duration
from .transitions import apply_policy, fire_trigger


def evaluation_interval(state: ExecutionPoint, machine: Machine) -> int:
    """Return the interval between evaluations of a machine's policy, in microseconds."""
    in_use = any(
        slot.state == "Backfill" or (slot.state in CLAIMED_STATES and slot.kind != "partitionable")
        for slot in machine.slots.values()
    )
    return max(1, duration(state, machine, "POLLING_INTERVAL" if in_use else "UPDATE_INTERVAL"))


def next_evaluation(machine: Machine, interval: int, after: int) -> int:
    """Return the machine's first evaluation after the time ``after``."""
    return machine.joined + (max(0, after - machine.joined) // interval + 1) * interval


def evaluate_policies(draft: Draft[ExecutionPoint], stimulus: s.EvaluatePolicies) -> None:
    state = draft.state
    for name in stimulus.machines:
        if name in state.machines:
            for slot in draining.remaining_slots(draft, state.machines[name]):
                _evaluate_slot(draft, slot)
            draining.advance_drain(draft, state.machines[name])


def _evaluate_slot(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    _record_cpu_busy(draft, slot)
    apply_policy(draft, slot)
    if draft.state.slots.get(slot.name) is slot:
        updates.publish(draft, slot, updates.due_readings(policy_of(draft, slot)))


def publish_changed_slots(draft: Draft[ExecutionPoint]) -> None:
    """Immediately publish the readings of slots whose state or activity changed, as HTCondor does."""
    for name in dict.fromkeys(event.slot for event in draft.events if isinstance(event, SlotTransitioned)):
        slot = draft.state.slots.get(name)
        if slot is not None and draft.sense(slot.machine) is not NOTHING_READ:
            updates.publish(draft, slot, updates.changed_readings(policy_of(draft, slot)))


def _record_cpu_busy(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    if not reads_cpu_busy_time(compiled_ad(draft.state, slot, draft.caches).form.names):
        return
    busy = policy_of(draft, slot).is_true("CpuBusy")
    if busy != bool(slot.busy_since):
        draft.emit(CpuBusyChanged(*draft.header("evaluated"), slot.name, busy))


def end_benchmarks(draft: Draft[ExecutionPoint], stimulus: s.BenchmarksDone) -> None:
    """Record the machine's benchmark results, and move the slot out of Benchmarking (transition 4)."""
    slot = draft.state.slots.get(stimulus.slot)
    if slot is None or slot.activity != "Benchmarking":
        raise Refusal(f"slot {stimulus.slot} runs no benchmarks, so these results are ignored")
    machine = draft.state.machines.get(slot.machine)
    if machine is not None:
        results = stimulus.mips, stimulus.kflops
        published = average_benchmarks(machine.benchmarks, results)
        draft.emit(BenchmarksRan(*draft.header("benchmarks_done"), machine.name, slot.name, *results, published))
    fire_trigger(draft, slot, "benchmarks done", "benchmarks_done")


def average_benchmarks(old: tuple[int, int], new: tuple[int, int]) -> tuple[int, int]:
    """Return the results to publish: the first run's, and later the weighted average (3:1) of old and new."""
    return new if old == (0, 0) else ((old[0] * 3 + new[0]) // 4, (old[1] * 3 + new[1]) // 4)
