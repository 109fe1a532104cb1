"""Handle the start and the end of a backfill client's processes."""

from __future__ import annotations

from ..decision.draft import Draft
from ..events import BackfillExecuting, BackfillExited
from ..ports.stimuli import BackfillEnded, BackfillRunning
from ..state.records import Machine, Slot
from ..state.state import ExecutionPoint
from ..state_machines.slot_rows import BACKFILL_BUSY, BACKFILL_KILLING
from . import backfill_client
from .claiming import has_only_waiting_claim, make_waiting_claim
from .transitions import fire_trigger, leave_backfill


def _machine_of_client(draft: Draft[ExecutionPoint], key: str) -> Machine | None:
    clients = draft.state.backfill_clients.items()
    return next((draft.state.machines[name] for name, client_key in clients if client_key == key), None)


def record_client_start(draft: Draft[ExecutionPoint], stimulus: BackfillRunning) -> None:
    machine = _machine_of_client(draft, stimulus.key)
    if machine is not None and machine.backfill is not None and not machine.backfill.pid:
        began = stimulus.at if stimulus.at < draft.now else 0
        draft.emit(BackfillExecuting(*draft.header("client_started"), machine.name, stimulus.key, stimulus.pid, began))


def record_client_end(draft: Draft[ExecutionPoint], stimulus: BackfillEnded) -> None:
    """Record the end of a client. Slots that waited for this move to their destinations, the others to Idle."""
    machine = _machine_of_client(draft, stimulus.key)
    client = None if machine is None else machine.backfill
    if machine is None or client is None:
        return
    outcome = _outcome(stimulus, bool(client.last_signalled))
    failures, retry = backfill_client.backoff_after_end(draft.state, machine, outcome, draft.now)
    draft.emit(
        BackfillExited(
            *draft.header("client_gone" if client.last_signalled else "client_ended"), machine.name, client.key,
            outcome, stimulus.code, stimulus.signal, stimulus.failure, failures, retry, stimulus.user_cpu,
            stimulus.system_cpu, stimulus.at if stimulus.at < draft.now else 0,
        )
    )  # fmt: skip
    for slot in list(machine.slots.values()):
        _move_slot_after_client(draft, slot)
    for slot in list(machine.slots.values()):
        if has_only_waiting_claim(slot):
            make_waiting_claim(draft, slot)


def _outcome(stimulus: BackfillEnded, was_signalled: bool) -> str:
    if stimulus.failure:
        return "failed"
    if stimulus.lost:
        return "lost"
    if stimulus.unattended:
        return "unattended"
    return "killed" if was_signalled else "exited"


def _move_slot_after_client(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    if slot.state_activity == BACKFILL_BUSY:
        fire_trigger(draft, slot, "client ended", "client_ended")
    elif slot.state_activity == BACKFILL_KILLING and not leave_backfill(draft, slot):
        make_waiting_claim(draft, slot)
