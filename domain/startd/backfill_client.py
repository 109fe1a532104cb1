"""The backfill client of a machine: whether there is to be one, its start, its end.

One client runs on a machine, whatever its slots: the first slot that is Busy in Backfill starts it, and the last that
leaves ends it. A client that ends by itself soon after its start is started again later and later, by the law of
HTCondor's master for its daemons (the manual's MASTER_BACKOFF_CONSTANT and those beside it, with their defaults).
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

STEADY: Final = 300 * SECOND
"""A client that has run for so long is started again at once (MASTER_RECOVER_FACTOR)."""
_CONSTANT, _FACTOR, _CEILING = 9, 2, 3600  # seconds, its growth, seconds


def system_of(state: ExecutionPoint, machine: Machine | None) -> str:
    """Return the backfill system of a machine; empty: it has none."""
    if machine is None or setting(state, machine, "ENABLE_BACKFILL") != "true":
        return ""
    named = setting(state, machine, "BACKFILL_SYSTEM").upper()
    return named if named in BACKFILL_SYSTEMS else ""


def settings_of(state: ExecutionPoint, machine: Machine, system: str) -> Ad:
    """Return how the client is run, by the settings of its system without its name."""
    found = {name: setting(state, machine, name) for name in BACKFILL_SYSTEMS.get(system, ())}
    return {name.partition("_")[2]: text for name, text in found.items() if text}


def runs(machine: Machine | None) -> bool:
    """Tell whether the machine's client runs and is not to end."""
    return machine is not None and machine.backfill is not None and not machine.backfill.told


def may_start(machine: Machine | None, now: int) -> bool:
    """Tell whether the machine's client is gone, and may be started by now."""
    return machine is not None and machine.backfill is None and machine.backfill_retry <= now


def start(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    """Start the client of the slot's machine, unless it runs."""
    machine = draft.state.machines[slot.machine]
    if machine.backfill is None:
        system = system_of(draft.state, machine)
        client = settings_of(draft.state, machine, system)
        draft.emit(BackfillStarted(*draft.why("client_started"), machine.name, slot.name, system, client))


def is_awaited(state: ExecutionPoint, slot: Slot) -> bool:
    """Tell whether a slot that leaves Backfill has to wait until the client is gone: none other keeps it."""
    machine = state.machines.get(slot.machine)
    if machine is None or machine.backfill is None or slot.state_activity != BACKFILL_KILLING:
        return False
    return not any(other.state_activity == BACKFILL_BUSY for other in machine.slots.values())


def is_in_the_way(state: ExecutionPoint, slot: Slot) -> bool:
    """Tell whether a client is still to go from the cores of a slot that somebody wants: its own, or those that it was
    carved from."""
    parent = state.slots.get(slot.parent)
    return is_awaited(state, slot) or (parent is not None and is_awaited(state, parent))


def end(draft: Draft[ExecutionPoint], machine: Machine, cause: str) -> None:
    """Tell the client and all its descendants to end at once; again when KILLING_TIMEOUT has passed."""
    client = machine.backfill
    if client is not None:
        until = draft.now + duration(draft.state, machine, "KILLING_TIMEOUT")
        draft.emit(BackfillSignalled(*draft.why(cause), machine.name, client.key, until))


def after_end(state: ExecutionPoint, machine: Machine, outcome: str, now: int) -> tuple[int, int]:
    """Return how often in a row the client has ended soon after its start, and when it may be started again."""
    client = machine.backfill
    by_itself = outcome in ("exited", "failed", "lost")
    steady = client is None or now - client.began >= STEADY
    failures = 0 if steady else machine.backfill_failures + by_itself
    if not by_itself or not failures or not state.dialect.backs_off_backfill:
        return failures, 0
    seconds = min(_CONSTANT + _FACTOR ** min(failures, 32), _CEILING)
    return failures, now + seconds * SECOND
