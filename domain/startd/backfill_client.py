"""Start and end a machine's backfill client.

A machine has at most one client: the first slot to enter Backfill/Busy starts it, and the last slot to leave ends it.
If a client exits soon after its start, the next start is delayed exponentially, as HTCondor's master delays its daemons
(MASTER_BACKOFF_CONSTANT, MASTER_BACKOFF_FACTOR and MASTER_BACKOFF_CEILING, with their defaults).
"""

from __future__ import annotations

from typing import Final

from ..decision.draft import Draft
from ..events import Ad, BackfillSignalled, BackfillStarted
from ..state.records import Machine, Slot
from ..state.state import ExecutionPoint
from ..state_machines.slot_rows import BACKFILL_BUSY, BACKFILL_KILLING
from ..units import SECOND
from .startd_settings import BACKFILL_SYSTEMS, duration, setting

STEADY_AFTER: Final = 300 * SECOND
"""A client that ran for at least this long is restarted without delay (MASTER_RECOVER_FACTOR)."""
_BACKOFF_CONSTANT, _BACKOFF_FACTOR, _BACKOFF_CEILING = 9, 2, 3600


def backfill_system(state: ExecutionPoint, machine: Machine | None) -> str:
    """Return a machine's backfill system, or an empty string if it has none."""
    if machine is None or setting(state, machine, "ENABLE_BACKFILL") != "true":
        return ""
    system = setting(state, machine, "BACKFILL_SYSTEM").upper()
    return system if system in BACKFILL_SYSTEMS else ""


def client_settings(state: ExecutionPoint, machine: Machine, system: str) -> Ad:
    """Return the settings of a backfill system, keyed by name without the system's prefix."""
    values = {name: setting(state, machine, name) for name in BACKFILL_SYSTEMS.get(system, ())}
    return {name.partition("_")[2]: text for name, text in values.items() if text}


def client_is_running(machine: Machine | None) -> bool:
    """Return True if the machine's client is running and has not been signalled."""
    return machine is not None and machine.backfill is not None and not machine.backfill.last_signalled


def client_may_start(machine: Machine | None, now: int) -> bool:
    """Return True if the machine has no client and its restart delay is over."""
    return machine is not None and machine.backfill is None and machine.backfill_retry <= now


def start_client(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    """Start the client of the slot's machine, unless it has one."""
    machine = draft.state.machines[slot.machine]
    if machine.backfill is None:
        system = backfill_system(draft.state, machine)
        settings = client_settings(draft.state, machine, system)
        draft.emit(BackfillStarted(*draft.header("client_started"), machine.name, slot.name, system, settings))


def slot_awaits_client(state: ExecutionPoint, slot: Slot) -> bool:
    """Return True if a slot leaving Backfill must wait until the client has ended, because no other slot uses it."""
    machine = state.machines.get(slot.machine)
    if machine is None or machine.backfill is None or slot.state_activity != BACKFILL_KILLING:
        return False
    return not any(other.state_activity == BACKFILL_BUSY for other in machine.slots.values())


def client_occupies_slot(state: ExecutionPoint, slot: Slot) -> bool:
    """Return True if a client that is being ended still uses the cores of the slot or of its parent."""
    parent = state.slots.get(slot.parent)
    return slot_awaits_client(state, slot) or (parent is not None and slot_awaits_client(state, parent))


def end_client(draft: Draft[ExecutionPoint], machine: Machine, cause: str) -> None:
    """Kill the client and all its descendants; kill them again after KILLING_TIMEOUT."""
    client = machine.backfill
    if client is not None:
        deadline = draft.now + duration(draft.state, machine, "KILLING_TIMEOUT")
        draft.emit(BackfillSignalled(*draft.header(cause), machine.name, client.key, deadline))


def backoff_after_end(state: ExecutionPoint, machine: Machine, outcome: str, now: int) -> tuple[int, int]:
    """Return how often in a row the client exited soon after its start, and when it may be restarted."""
    client = machine.backfill
    exited_unasked = outcome in ("exited", "failed", "lost")
    was_steady = client is None or now - client.began >= STEADY_AFTER
    failures = 0 if was_steady else machine.backfill_failures + exited_unasked
    if not exited_unasked or not failures or not state.dialect.backs_off_backfill:
        return failures, 0
    seconds = min(_BACKOFF_CONSTANT + _BACKOFF_FACTOR ** min(failures, 32), _BACKOFF_CEILING)
    return failures, now + seconds * SECOND
