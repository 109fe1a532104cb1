"""Check events about the pool and its slots, and each changed slot at the end of a stimulus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ...domain import events as e
from ...domain.startd.pslot_preemption import CAUSE as PSLOT_PREEMPTION
from ...domain.startd.slot_resources import STANDARD_RESOURCES, resource_names
from ...domain.state.records import RUNS, Slot, Starter
from ...domain.state.slot_fold import SUSPENDED
from ...domain.state_machines import DIALECTS, MANUAL, job_machine, slot_machine
from . import accounting_checks, match_checks
from .claim_checks import check_lease_over, check_retirement_over
from .evidence_checks import check_slot_evidence
from .judged_pool import NAMES, Amounts, JudgedPool, amount, job_name, job_of, known_slot, rule, rule_of
from .machine_checks import (
    BENCHMARKING,
    check_backfill_destination,
    check_drained_idle,
    may_await_client,
    settle_backfill,
)
from .run_checks import is_waiting_for_slot
from .submission_checks import count_refusal_answer
from .transition_rules import NEEDS

_DRAINED = ("Drained/Idle", "Drained/Retiring")
KINDS = ("static", "partitionable", "dynamic")


@rule(e.PoolFounded)
def check_pool_founded(pool: JudgedPool, event: e.PoolFounded) -> None:
    if pool.founded:
        pool.report("pool", "founded", "the pool was already created")
    pool.founded = True
    accounting_checks.check_settings(pool, event)
    pool.vacate = 1_000_000 * (amount(event.settings.get("MachineMaxVacateTime", "")) or 0)
    if event.dialect not in DIALECTS:
        pool.report("pool", "reference", f"{event.dialect} is not a dialect: {MANUAL.name} is used to check the log")
        return
    pool.dialect = DIALECTS[event.dialect]
    pool.slot_table, pool.job_table = slot_machine(event.dialect), job_machine(event.dialect)


@rule(e.WriterBegan)
def check_writer(pool: JudgedPool, event: e.WriterBegan) -> None:
    if event.epoch != pool.state.epoch + 1:
        pool.report("pool", "epoch", f"epoch {event.epoch} follows {pool.state.epoch}")


@rule(e.RequestAnswered)
def check_answer(pool: JudgedPool, event: e.RequestAnswered) -> None:
    if pool.answered:
        pool.report("requests", "answer", f"{event.stimulus} was already answered")
    pool.answered = True
    count_refusal_answer(pool, event)


@rule(e.RequestsRejected)
def check_rejections(pool: JudgedPool, event: e.RequestsRejected) -> None:
    if event.count < 1 or event.since > event.at:
        pool.report("requests", "rejections", f"{event.count} requests were rejected from {event.since} to {event.at}")


# Slots


@rule(e.SlotCreated)
def check_slot_created(pool: JudgedPool, event: e.SlotCreated) -> None:
    name = event.slot
    if name in pool.state.slots:
        pool.report_slot(name, "reference", f"slot {name} already exists")
        pool.folds = None
        return
    machine = pool.state.machines.get(event.machine)
    if machine is None:
        pool.report_slot(name, "reference", f"its machine {event.machine} is not in the pool")
    elif machine.drain is not None:
        pool.drained_machines[event.machine] = None
    pool.begin_story(name)
    pool.touched_slots[name] = None
    if event.kind not in KINDS:
        pool.report_slot(name, "value", f"{event.kind} is not a kind of slot")
    amounts = pool.amounts[name] = Amounts()
    _set_amounts(pool, name, resource_names(event.ad), event.ad)
    amounts.whole = dict(amounts.have)
    amounts.weight = None if "SlotWeight" in event.ad else _cpus_weight(event.ad.get("Cpus", ""))
    parent = pool.state.slots.get(event.parent)
    if event.kind != "dynamic":
        if event.parent:
            pool.report_slot(name, "reference", f"it is {event.kind}, but carved from {event.parent}")
    elif parent is None or parent.kind != "partitionable" or parent.machine != event.machine:
        pool.report_slot(name, "reference", f"{event.parent or 'nothing'} is not a partitionable slot of its machine")
    else:
        _carve(pool, event.parent, amounts.have, 1)


def _cpus_weight(cpus_text: str) -> int | None:
    return 1000 * int(cpus_text) if cpus_text.isascii() and cpus_text.isdigit() and len(cpus_text) < 20 else None


def _set_amounts(pool: JudgedPool, name: str, names: Mapping[str, object] | tuple[str, ...], ad: e.Ad) -> None:
    for resource in names:
        if resource in ad:
            value = amount(ad[resource])
            if value is None or value < 0:
                pool.report_slot(name, "value", f"{resource} = {ad[resource]} is not an amount")
            else:
                pool.amounts[name].have[resource] = value


def _carve(pool: JudgedPool, parent: str, amounts: dict[str, int], sign: int) -> None:
    carved = pool.amounts[parent].carved
    for resource, size in amounts.items():
        carved[resource] = carved.get(resource, 0) + sign * size
    pool.touched_slots[parent] = None


@rule_of(e.SlotTransitioned, known_slot)
def check_slot_transition(pool: JudgedPool, slot: Slot, event: e.SlotTransitioned) -> None:
    name = slot.name
    if slot.state_activity != event.source:
        pool.report_slot(
            name, "source", f"transition {event.row} begins in {event.source}, but it is {slot.state_activity}"
        )
    if not pool.slot_table.allows(event.source, event.row, event.target):
        pool.report_slot(name, "row", _missing_row_text(pool, event.row, event.source, event.target))
    if event.reason:
        pool.report_slot(name, "value", "it has a reason, as an imported record; this pool's events have a cause")
    check_slot_evidence(pool, slot, event)
    check_backfill_destination(pool, slot, event)
    if event.cause in _AT_ENDS:
        _AT_ENDS[event.cause](pool, slot, event)
    if event.cause == "benchmarks_done" and name in pool.benchmarking:
        pool.report_slot(name, "order", "its benchmarks are recorded as done before their result")
    if event.target == BENCHMARKING:
        pool.benchmarking.add(name)
    machine = pool.state.machines.get(slot.machine)
    if event.target == "Drained/Idle":
        check_drained_idle(pool, event, machine)
    drain = None if machine is None else machine.drain
    stays = _DRAINED if drain is None or not drain.start else (*_DRAINED, "Claimed/Idle")  # START may accept a job
    if drain is not None and slot.state_activity in _DRAINED and event.target not in stays:
        pool.report_slot(name, "drain", f"it leaves {slot.state_activity}, but drain {drain.number} is not over")
    pool.notified.discard(name)
    if event.target == "Matched/Idle" and name not in pool.state.matches and not pool.cycle:
        pool.notified.add(name)
    if machine is not None and "Drained" in event.target + slot.state_activity:
        pool.drained_machines[machine.name] = None
    pool.moves[event.row, event.source, event.target] += 1


_AT_ENDS: Final[dict[str, Callable[[JudgedPool, Slot, e.SlotTransitioned], None]]] = {
    "lease_over": check_lease_over,
    "retirement_over": check_retirement_over,
    PSLOT_PREEMPTION: match_checks.note_preempted_slot,
}
"""An additional check of a slot transition, by the transition's cause."""


def _missing_row_text(pool: JudgedPool, row: str, source: str, target: str) -> str:
    table = pool.slot_table
    matching_rows = [number for number, targets in table.targets_by_row(source).items() if target in targets]
    hint = f"that is row {matching_rows[0]}" if matching_rows else "no row does"
    return f"row {row} of {table.name} does not lead from {source} to {target}: {hint}"


@rule_of(e.SlotAdChanged, known_slot)
def check_slot_changed(pool: JudgedPool, slot: Slot, event: e.SlotAdChanged) -> None:
    amounts = pool.amounts[slot.name]
    if "SlotWeight" in event.changes or "Cpus" in event.changes:
        amounts.weight = None  # from now on, an expression computes it
    before = dict(amounts.have)
    _set_amounts(pool, slot.name, tuple(dict.fromkeys((*STANDARD_RESOURCES, *amounts.have))), event.changes)
    if event.cause == PSLOT_PREEMPTION and slot.kind == "dynamic":
        match_checks.check_resources_returned(
            pool, slot, {name: size - amounts.have[name] for name, size in before.items()}
        )
    if event.cause in ("carved", "merged", PSLOT_PREEMPTION):
        return
    for resource, size in amounts.have.items():
        amounts.whole[resource] = amounts.whole.get(resource, 0) + size - before.get(resource, 0)


@rule_of(e.SlotDestroyed, known_slot)
def check_slot_destroyed(pool: JudgedPool, slot: Slot, event: e.SlotDestroyed) -> None:
    amounts = pool.amounts.pop(slot.name)
    for noun, rule_name, is_present in (
        ("a claim", "claim", slot.claim is not None),
        ("a job", "activation", slot.activation is not None),
        ("a match", "match", slot.name in pool.state.matches),
        ("dynamic slots", "resources", any(amounts.carved.values())),
    ):
        if is_present:
            pool.report(slot, rule_name, f"it is destroyed while it has {noun}")
    if slot.kind == "dynamic" and slot.parent in pool.amounts:
        _carve(pool, slot.parent, amounts.have, -1)
    pool.notified.discard(slot.name)
    pool.benchmarking.discard(slot.name)
    pool.expected.pop(slot.name, None)
    pool.forget(slot.name)


@rule_of(e.CpuBusyChanged, known_slot)
def check_cpu_busy(pool: JudgedPool, slot: Slot, event: e.CpuBusyChanged) -> None:
    if bool(slot.busy_since) == event.busy:
        pool.report(slot, "source", f"CpuBusy already is {str(event.busy).lower()}")


# At the end of a stimulus


def settle_slot(pool: JudgedPool, name: str) -> None:
    slot = pool.state.slots.get(name)
    if slot is None:
        pool.state.slot_matches.pop(name, None)
        for matched in pool.state.matches.pop(name, {}):
            pool.state.assigned_slots.pop(matched, None)
            pool.report_slot(name, "match", f"job {_job_text(matched)} is matched with a slot that the pool lacks")
        return
    activation, waiting = slot.activation, slot.queued_claim
    needs = NEEDS.get(slot.state_activity)
    if needs is not None:
        _check_presence(pool, slot, "claim", "a claim", needs.claim, slot.claim is not None)
        if needs.job is not None:
            _check_presence(pool, slot, "activation", "a job", needs.job, activation is not None)
        if needs.match is not None:
            _check_presence(
                pool, slot, "match", "a match", needs.match, name in pool.state.matches or name in pool.notified
            )
    if waiting is not None and slot.claim is None and not may_await_client(pool, slot):
        pool.report_slot(name, "waiting", f"{waiting.id} waits for it, but it is not claimed")
    job = job_of(waiting.job) if waiting is not None and not waiting.holder else None
    if job is not None and not is_waiting_for_slot(pool, *job):
        pool.report_slot(name, "waiting", f"{_job_text(job)} is recorded as waiting for it, but is not idle")
    if activation is not None and not activation.job:
        _settle_job(pool, slot, activation)
    elif activation is not None:
        _check_signalled(pool, slot, activation)
    machine = pool.state.machines.get(slot.machine)
    settle_backfill(pool, slot, machine)
    if machine is not None and machine.drain is None and slot.state_activity in _DRAINED:
        pool.report_slot(name, "drain", f"it is {slot.state_activity}, but its machine does not drain")
    if slot.kind == "partitionable":
        amounts = pool.amounts[name]
        for resource, whole_amount in amounts.whole.items():
            own_amount, carved_amount = amounts.have[resource], amounts.carved.get(resource, 0)
            if own_amount + carved_amount != whole_amount:
                text = f"of {whole_amount} {resource} it has {own_amount}, and its dynamic slots {carved_amount}"
                pool.report_slot(name, "resources", text)
                amounts.whole[resource] = own_amount + carved_amount


def _settle_job(pool: JudgedPool, slot: Slot, starter: Starter) -> None:
    """Check that a job is suspended if, and only if, its slot is, and that a job that must end was signalled."""
    cluster, proc = starter.cluster, starter.proc
    jobs, run = pool.state.clusters.get(cluster), pool.state.by_job.get((cluster, proc))
    if jobs is None or run is None:
        return
    status = NAMES.get(jobs.status[proc], "")
    is_stopped = status == "Suspended"
    if run.deferred:
        pass  # it has no process yet that could be suspended
    elif status in RUNS and (slot.state_activity, is_stopped) in ((SUSPENDED, False), ("Claimed/Busy", True)):
        pool.report((cluster, proc), "activation", f"it is {status}, but its slot {slot.name} is {slot.state_activity}")
    if not run.stop_signal and status not in RUNS:
        pool.report(
            (cluster, proc), "end", f"it is {status} on {slot.name} ({slot.state_activity}), but got no signal to end"
        )
    else:
        _check_signalled(pool, slot, starter)


_SIGNALS = {"Preempting/Vacating": ("soft", "hard"), "Preempting/Killing": ("hard",)}
"""The signals one of which must be the last that a job received, by the state and activity of its slot."""


def _check_signalled(pool: JudgedPool, slot: Slot, run: Starter) -> None:
    if slot.state_activity in _SIGNALS and run.stop_signal not in _SIGNALS[slot.state_activity]:
        expected_signal = "killed" if run.stop_signal else "signalled to end"
        pool.report(slot, "end", f"it is {slot.state_activity}, but its job {job_name(run)} was not {expected_signal}")


def _check_presence(pool: JudgedPool, slot: Slot, rule: str, noun: str, is_needed: bool, is_present: bool) -> None:
    if is_needed != is_present:
        pool.report(slot, rule, f"it is {slot.state_activity} {'without' if is_needed else 'and has'} {noun}")


def _job_text(job: tuple[int, int]) -> str:
    return f"{job[0]}.{job[1]}"
