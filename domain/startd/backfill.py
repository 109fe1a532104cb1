"""What the backfill client's process does: it runs, and it ends; then its slots go on."""

from __future__ import annotations

from ..decision.draft import Draft
from ..events import BackfillExecuting, BackfillExited
from ..ports.stimuli import BackfillEnded, BackfillRunning
from ..state.records import Machine, Slot
from ..state.state import ExecutionPoint
from ..state_machines.slot_rows import BACKFILL_BUSY, BACKFILL_KILLING
from . import backfill_client
from .claiming import claim_for_waiting, waits_without_claim
from .transitions import client_gone, trigger


def _machine(draft: Draft[ExecutionPoint], key: str) -> Machine | None:
    """Return the machine of a client that is not known to be gone."""
    found = (draft.state.machines[name] for name, known in draft.state.clients.items() if known == key)
    return next(found, None)


def client_running(draft: Draft[ExecutionPoint], stimulus: BackfillRunning) -> None:
    machine = _machine(draft, stimulus.key)
    if machine is not None and machine.backfill is not None and not machine.backfill.pid:
        began = stimulus.at if stimulus.at < draft.now else 0
        draft.emit(BackfillExecuting(*draft.why("client_started"), machine.name, stimulus.key, stimulus.pid, began))


def client_ended(draft: Draft[ExecutionPoint], stimulus: BackfillEnded) -> None:
    """The last process of a client is gone: slots that waited for that go where they are headed, others to Idle."""
    machine = _machine(draft, stimulus.key)
    client = None if machine is None else machine.backfill
    if machine is None or client is None:
        return
    outcome = _outcome(stimulus, bool(client.told))
    failures, retry = backfill_client.after_end(draft.state, machine, outcome, draft.now)
    draft.emit(
        BackfillExited(
            *draft.why("client_gone" if client.told else "client_ended"), machine.name, client.key, outcome,
            stimulus.code, stimulus.signal, stimulus.failure, failures, retry, stimulus.user_cpu, stimulus.system_cpu,
            stimulus.at if stimulus.at < draft.now else 0,
        )
    )  # fmt: skip
    for slot in list(machine.slots.values()):
        _goes_on(draft, slot)
    for slot in list(machine.slots.values()):
        if waits_without_claim(slot):
            claim_for_waiting(draft, slot)


def _outcome(stimulus: BackfillEnded, told: bool) -> str:
    if stimulus.failure:
        return "failed"
    if stimulus.lost:
        return "lost"
    if stimulus.unattended:
        return "unattended"
    return "killed" if told else "exited"


def _goes_on(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    if slot.state_activity == BACKFILL_BUSY:
        trigger(draft, slot, "client ended", "client_ended")
    elif slot.state_activity == BACKFILL_KILLING and not client_gone(draft, slot):
        claim_for_waiting(draft, slot)
