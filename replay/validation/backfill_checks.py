"""Check the backfill clients of machines, and the slots in Backfill."""

from __future__ import annotations

from typing import Final

from ...domain import events as e
from ...domain.startd.backfill_client import after_end, is_awaited, is_in_the_way, runs, settings_of, system_of
from ...domain.state.state import BackfillClient, Machine, Slot
from ...domain.state_machines.slot_rows import BACKFILL_BUSY, BACKFILL_KILLING
from .judged_pool import JudgedPool, known_slot, rule_of

_WITH_CLIENT: Final = (BACKFILL_BUSY, BACKFILL_KILLING)
_DESTINATIONS: Final = ("Matched", "Claimed", "Owner")
_AT_ANY_TIME: Final = ("failed", "lost", "unattended")
_OUTCOMES: Final = {True: ("killed", *_AT_ANY_TIME), False: ("exited", *_AT_ANY_TIME)}
"""How a client may end, by whether it was told to."""


def _known(pool: JudgedPool, event: e.MachineEvent) -> Machine | None:
    machine = pool.state.machines.get(event.machine)
    if machine is None:
        pool.folds = None
        pool.report(event.machine, "reference", f"machine {event.machine} is not in the pool")
        return None
    pool.touched.update(dict.fromkeys(machine.slots))
    return machine


def _client(
    pool: JudgedPool, event: e.BackfillExecuting | e.BackfillSignalled | e.BackfillExited
) -> BackfillClient | None:
    """Return the client of an event, if it is the machine's; else fold nothing."""
    machine = _known(pool, event)
    client = None if machine is None else machine.backfill
    if machine is not None and (client is None or client.key != event.key):
        pool.folds = None
        has = "it has none" if client is None else f"its client is {client.key}"
        pool.report(event.machine, "backfill", f"something is said of backfill client {event.key}, but {has}")
        return None
    return client


@rule_of(e.BackfillStarted, _known)
def started(pool: JudgedPool, machine: Machine, event: e.BackfillStarted) -> None:
    if machine.backfill is not None:
        pool.report(machine.name, "backfill", f"a backfill client begins beside client {machine.backfill.key}")
    slot = machine.slots.get(event.slot)
    if slot is None:
        pool.report(machine.name, "reference", f"{event.slot} is no slot of {machine.name}")
    elif slot.state_activity != BACKFILL_BUSY:
        pool.report_slot(slot.name, "backfill", f"a client begins for it, but it is {slot.state_activity}")
    system = system_of(pool.state, machine)
    if event.system != system or event.client != settings_of(pool.state, machine, system):
        pool.report(machine.name, "backfill", f"its client is run otherwise than {system or 'nothing'} is configured")
    if event.at < machine.backfill_retry:
        pool.report(machine.name, "backfill", "its client begins again before the time")


@rule_of(e.BackfillExecuting, _client)
def executing(pool: JudgedPool, client: BackfillClient, event: e.BackfillExecuting) -> None:
    if client.pid:
        pool.report(event.machine, "backfill", f"its client is said to run as process {event.pid}: it is {client.pid}")
    if event.pid < 1 or event.began > event.at:
        pool.report(event.machine, "value", f"a process {event.pid} of {event.began} is none")


@rule_of(e.BackfillSignalled, _client)
def signalled(pool: JudgedPool, client: BackfillClient, event: e.BackfillSignalled) -> None:
    if event.until < event.at or event.at < client.until:
        pool.report(event.machine, "backfill", "its client is told to end before it is to be told so")


@rule_of(e.BackfillExited, _client)
def exited(pool: JudgedPool, client: BackfillClient, event: e.BackfillExited) -> None:
    machine = pool.state.machines[event.machine]
    if event.outcome not in _OUTCOMES[bool(client.told)]:
        told = "told" if client.told else "not told"
        pool.report(event.machine, "backfill", f"its client was {told} to end, and is said to be {event.outcome}")
    law = after_end(pool.state, machine, event.outcome, event.at)
    if (event.failures, event.retry) != law:
        pool.report(event.machine, "backfill", "when its client may begin again is not what follows from how it ended")
    if min(event.user_cpu, event.system_cpu, event.ended) < 0 or event.ended > event.at:
        pool.report(event.machine, "value", "an instant or a time of its client's end is none")


@rule_of(e.BackfillLeaving, known_slot)
def leaving(pool: JudgedPool, slot: Slot, event: e.BackfillLeaving) -> None:
    if event.destination not in _DESTINATIONS:
        pool.report_slot(slot.name, "value", f"{event.destination!r} is no state to which a slot goes from Backfill")
    elif event.destination == (slot.destination or "Owner"):
        pool.report_slot(slot.name, "backfill", f"it is said to turn to {event.destination}, where it goes already")
    if slot.state_activity not in _WITH_CLIENT:
        pool.report_slot(slot.name, "backfill", f"it is said to leave Backfill, but it is {slot.state_activity}")


def left(pool: JudgedPool, slot: Slot, event: e.SlotTransitioned) -> None:
    """Check that a slot whose client is gone goes where it was headed."""
    if slot.state != "Backfill" or event.target.startswith("Backfill/"):
        return
    wanted = slot.destination or ("Owner" if slot.state_activity == BACKFILL_KILLING else "")
    to = event.target.partition("/")[0]
    gave_up = to == "Owner" and wanted == "Claimed" and slot.waiting is None
    if wanted and to != wanted and not gave_up:
        pool.report_slot(slot.name, "backfill", f"it was to go to {wanted}, and goes to {to}")


def settle(pool: JudgedPool, slot: Slot, machine: Machine | None) -> None:
    """Check that a slot has a client in Backfill/Busy and Backfill/Killing alone, and that it ends with the last."""
    if machine is None:
        return
    client = machine.backfill
    if slot.state_activity == BACKFILL_BUSY and not runs(machine):
        words = "no client runs" if client is None else "its client was told to end"
        pool.report_slot(slot.name, "backfill", f"it is {BACKFILL_BUSY}, and {words}")
    if slot.state_activity == BACKFILL_KILLING and (not is_awaited(pool.state, slot) or runs(machine)):
        words = "nothing is to be waited for" if not is_awaited(pool.state, slot) else "its client was not told to end"
        pool.report_slot(slot.name, "backfill", f"it is {BACKFILL_KILLING}, and {words}")
    if client is not None and not any(one.state_activity in _WITH_CLIENT for one in machine.slots.values()):
        pool.report_slot(slot.name, "backfill", f"backfill client {client.key} runs, and no slot of its machine has it")


def may_wait(pool: JudgedPool, slot: Slot) -> bool:
    """Tell whether a claim may wait for a slot that nobody has: its cores have a client that is still to go."""
    return slot.state_activity == BACKFILL_BUSY or is_in_the_way(pool.state, slot)
