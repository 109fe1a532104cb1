"""Ask the policy of each slot of a machine at regular intervals.

In a round, the rules of each slot's state and activity are asked in order, and the first that holds is taken
(``state_machines/slot_rules.py``). Rounds lie on a grid that begins when the machine joined: POLLING_INTERVAL apart
while one of its slots is claimed or in Backfill, else UPDATE_INTERVAL. A round in which no rule holds leaves no event.
"""

from __future__ import annotations

from ..decision.draft import Draft, Refusal
from ..events import BenchmarksRan, CpuBusyChanged, SlotAdChanged, SlotTransitioned
from ..ports import stimuli as s
from ..state.records import Machine, Slot
from ..state.state import ExecutionPoint
from . import draining, updates
from .claiming import HELD
from .moment_attributes import asks_busy
from .slot_ad import compiled_ad
from .slot_policy_evaluation import policy_of
from .startd_settings import duration
from .transitions import apply_policy, trigger


def interval(state: ExecutionPoint, machine: Machine) -> int:
    """Return the microseconds between two rounds of a machine."""
    held = any(
        slot.state == "Backfill" or (slot.state in HELD and slot.kind != "partitionable")
        for slot in machine.slots.values()
    )
    return max(1, duration(state, machine, "POLLING_INTERVAL" if held else "UPDATE_INTERVAL"))


def next_round(machine: Machine, apart: int, after: int) -> int:
    """Return the first instant of the machine's grid after ``after``."""
    return machine.joined + (max(0, after - machine.joined) // apart + 1) * apart


def drain_can_advance(machine: Machine) -> bool:
    """Tell whether the machine's next round advances its drain, whatever its slots' policy says."""
    return draining.can_advance(machine)


def evaluate_policies(draft: Draft[ExecutionPoint], stimulus: s.EvaluatePolicies) -> None:
    state = draft.state
    for name in stimulus.machines:
        for slot in draining.slots_of(draft, state.machines[name]) if name in state.machines else ():
            if state.slots.get(slot.name) is slot:
                _turn(draft, slot)
        if name in state.machines:
            draining.advance(draft, state.machines[name])


def _turn(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    _note_busy(draft, slot)
    apply_policy(draft, slot)
    if draft.state.slots.get(slot.name) is slot:
        _publish(draft, slot)


def _publish(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    """Publish the sensors' readings, if they have changed and are due."""
    changes = updates.due_readings(policy_of(draft, slot))
    if changes:
        draft.emit(SlotAdChanged(*draft.why("published"), slot.name, changes))


def publish(draft: Draft[ExecutionPoint]) -> None:
    """Publish the readings of slots whose state or activity has changed, at once like the real startd's updates."""
    for name in dict.fromkeys(event.slot for event in draft.events if isinstance(event, SlotTransitioned)):
        slot = draft.state.slots.get(name)
        changes = {} if slot is None else updates.changed_readings(policy_of(draft, slot))
        if changes:
            draft.emit(SlotAdChanged(*draft.why("published"), name, changes))


def _note_busy(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    """Record when CpuBusy becomes true and when it ends, if the slot's expressions read CpuBusyTime."""
    if not asks_busy(compiled_ad(draft.state, slot, draft.caches).names):
        return
    busy = policy_of(draft, slot).true("CpuBusy")
    if busy != bool(slot.busy_since):
        draft.emit(CpuBusyChanged(*draft.why("evaluated"), slot.name, busy))


def benchmarks_done(draft: Draft[ExecutionPoint], stimulus: s.BenchmarksDone) -> None:
    """End the slot's benchmarks (4), and record the machine's results."""
    slot = draft.state.slots.get(stimulus.slot)
    if slot is None or slot.activity != "Benchmarking":
        raise Refusal(f"no slot {stimulus.slot} runs benchmarks: their results are of no use")
    machine = draft.state.machines.get(slot.machine)
    if machine is not None:
        results = stimulus.mips, stimulus.kflops
        published = averaged(machine.benchmarks, results)
        draft.emit(BenchmarksRan(*draft.why("benchmarks_done"), machine.name, slot.name, *results, published))
    trigger(draft, slot, "benchmarks done", "benchmarks_done")


def averaged(before: tuple[int, int], now: tuple[int, int]) -> tuple[int, int]:
    """Return the published figures after a further run: the weighted average of the published ones, which count three
    times, and the run's; after the first run, its own."""
    return now if before == (0, 0) else ((before[0] * 3 + now[0]) // 4, (before[1] * 3 + now[1]) // 4)
