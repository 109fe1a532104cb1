"""Check machines: their configuration, drains, shutdown, and backfill clients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Final

from ...domain import events as e
from ...domain.coverage.settings import DEFRAG
from ...domain.defrag.choice import allowed_drains
from ...domain.defrag.defrag_settings import DefragPolicy, policy_in_force
from ...domain.defrag.poll import COMPLETION, dialect_rules, earlier_polls
from ...domain.startd.backfill_client import (
    backfill_system,
    backoff_after_end,
    client_is_running,
    client_occupies_slot,
    client_settings,
    slot_awaits_client,
)
from ...domain.startd.shutdown import may_change_shutdown
from ...domain.startd.startd_settings import SETTINGS
from ...domain.state.peers import MANAGER
from ...domain.state.records import BackfillClient, Machine, MachineDrain, Slot
from ...domain.state_machines import drain_machine
from ...domain.state_machines.drain import COMPLETIONS, INITIAL_DRAIN_STATE
from ...domain.state_machines.slot_rows import BACKFILL_BUSY, BACKFILL_KILLING
from ...domain.units import SECOND
from ..narration.defrag_words import STOPPED
from .judged_pool import JudgedPool, known_slot, rule, rule_of
from .transition_rules import ENDS, SHUTDOWNS

PER_RESOURCE = "MODIFY_REQUEST_EXPR_"  #: the prefix of settings that exist for each resource
BENCHMARKING = "Unclaimed/Benchmarking"


def _known_machine(pool: JudgedPool, event: e.MachineEvent) -> Machine | None:
    machine = pool.state.machines.get(event.machine)
    if machine is None:
        pool.report(event.machine, "reference", f"machine {event.machine} is not in the pool")
    return machine


@rule(e.MachineJoined)
def check_machine_joined(pool: JudgedPool, event: e.MachineJoined) -> None:
    if event.machine in pool.state.machines:
        pool.report(event.machine, "reference", f"machine {event.machine} is already in the pool")
        pool.folds = None
        return
    _check_settings(pool, event)


@rule_of(e.MachineLeft, _known_machine)
def check_machine_left(pool: JudgedPool, machine: Machine, event: e.MachineLeft) -> None:
    if event.cause == "shutdown" and not machine.shutdown:
        pool.report(event.machine, "shutdown", "it leaves because of a shutdown that was not requested")
    if machine.backfill is not None:
        pool.report(event.machine, "backfill", f"it leaves, but its backfill client {machine.backfill.key} still runs")
    if machine.slots:
        pool.report(event.machine, "reference", f"machine {event.machine} has {len(machine.slots)} slots left")


@rule_of(e.MachineConfigured, _known_machine)
def check_machine_configured(pool: JudgedPool, machine: Machine, event: e.MachineConfigured) -> None:
    _check_settings(pool, event)
    for name, text in event.settings.items():
        if machine.settings.get(name, "") == text:
            value_text = f"it is {text}" if text else "it has its default"
            pool.report(event.machine, "value", f"{name} is recorded as changed, but {value_text} already")


def _check_settings(pool: JudgedPool, event: e.MachineJoined | e.MachineConfigured) -> None:
    for name in event.settings:
        if name not in SETTINGS and not name.startswith(PER_RESOURCE):
            pool.report(event.machine, "value", f"{name} is not a setting of an execution point")


@rule(e.BenchmarksRan)
def check_benchmarks(pool: JudgedPool, event: e.BenchmarksRan) -> None:
    machine = _known_machine(pool, event)
    slot = pool.state.slots.get(event.slot)
    if slot is None or slot.machine != event.machine:
        pool.report(event.machine, "reference", f"{event.slot} is not a slot of {event.machine}")
    elif machine is not None and event.slot not in pool.benchmarking:
        pool.report(slot, "source", f"benchmarks run in {BENCHMARKING}, but it has not started any")
    pool.benchmarking.discard(event.slot)
    for name in ("mips", "kflops"):
        if getattr(event, name) < 0:
            pool.report(event.machine, "value", f"{name} is {getattr(event, name)}, below 0")


# Drains


@rule_of(e.DrainBegan, _known_machine)
def check_drain_began(pool: JudgedPool, machine: Machine, event: e.DrainBegan) -> None:
    if machine.drain is not None:
        pool.report(event.machine, "drain", f"it already drains: drain {machine.drain.number} is not over")
    if event.drain != machine.drains + 1:
        pool.report(event.machine, "drain", f"drain {event.drain} follows {machine.drains}")
    if not drain_machine().allows(INITIAL_DRAIN_STATE, "start", event.schedule):
        pool.report(event.machine, "value", f"{event.schedule!r} is not a schedule of a drain")
    if event.completion not in COMPLETIONS:
        text = f"{event.completion!r} is not an action on completion of a drain: {', '.join(filter(None, COMPLETIONS))}"
        pool.report(event.machine, "value", text)
    check_drain_by_poll(pool, event)
    claims = ((slot.name, slot.claim) for slot in machine.slots.values())
    pool.drained_claims[machine.name] = {
        name: claim.id for name, claim in claims if claim is not None and "late" not in claim.flags
    }
    pool.drained_machines[machine.name] = None


def _matching_drain(pool: JudgedPool, machine: Machine, number: int) -> MachineDrain | None:
    """Return the machine's drain if it has this number. Otherwise report the event and do not fold it."""
    drain = machine.drain
    if drain is None or drain.number != number:
        pool.folds = None
        drain_text = "it does not drain" if drain is None else f"its drain is {drain.number}"
        pool.report(machine.name, "drain", f"the event is about drain {number}, but {drain_text}")
        return None
    pool.drained_machines[machine.name] = None
    return drain


@rule_of(e.DrainTransitioned, _known_machine)
def check_drain_transition(pool: JudgedPool, machine: Machine, event: e.DrainTransitioned) -> None:
    drain = _matching_drain(pool, machine, event.drain)
    if drain is None:
        return
    if event.source != drain.state:
        pool.report(machine.name, "source", f"{event.row} begins in {event.source}, but its drain is {drain.state}")
    if not drain_machine().allows(event.source, event.row, event.target):
        text = f"row {event.row} of a drain does not lead from {event.source} to {event.target}"
        pool.report(machine.name, "row", text)
    if drain.completion not in ENDS.get(event.row, COMPLETIONS):
        completion = f"{drain.completion} was requested" if drain.completion else "no completion action was requested"
        pool.report(machine.name, "drain", f"its drain ends by {event.row}, but {completion}")
    check_cancel_by_poll(pool, event)
    for slot in machine.slots.values() if event.row == "complete" else ():
        if slot.state != "Drained":
            pool.report(slot, "drain", f"the drain of {machine.name} is complete, but it is {slot.state_activity}")
    if event.target == INITIAL_DRAIN_STATE:
        pool.touched_slots.update(dict.fromkeys(machine.slots))


@rule_of(e.DrainFinal, _known_machine)
def check_drain_final(pool: JudgedPool, machine: Machine, event: e.DrainFinal) -> None:
    drain = _matching_drain(pool, machine, event.drain)
    if drain is None:
        return
    if drain.final:
        pool.report(machine.name, "drain", "DrainFinal was already recorded for this drain")
    for name, claim in pool.drained_claims.get(machine.name, {}).items():
        slot = pool.state.slots.get(name)
        if slot is not None and slot.claim is not None and slot.claim.id == claim:
            text = f"the jobs from before the drain are recorded as gone, but {slot.claim.submitter} has its claim"
            pool.report_slot(name, "drain", text)


@rule_of(e.DrainBadputAdded, _known_machine)
def check_drain_badput(pool: JudgedPool, machine: Machine, event: e.DrainBadputAdded) -> None:
    slot = pool.state.slots.get(event.slot)
    if slot is None or slot.machine != machine.name:
        pool.report(machine.name, "reference", f"{event.slot} is not a slot of {machine.name}")
        return
    activation = slot.activation
    if activation is None or slot.claim is None or "drained" not in slot.claim.flags:
        pool.report(slot, "drain", "a drain is charged for a job that it did not end")
    elif activation.key in pool.charged:
        pool.report(slot, "drain", "a drain is charged for its job a second time")
    else:
        pool.charged.add(activation.key)
        run_time = activation.run_time(event.at)
        # Older logs also charge the time to end.
        end_time = event.at - activation.preempting_since if activation.preempting_since else 0
        badput, older_badput = (round(time // 1_000_000 * slot.cores) for time in (run_time, run_time + end_time))
        if event.badput not in (badput, older_badput):
            text = f"its job ran for {badput} core-seconds, but the drain is charged {event.badput}"
            pool.report(slot, "drain", text)


def check_drained_idle(pool: JudgedPool, event: e.SlotTransitioned, machine: Machine | None) -> None:
    """Check that all slots of a machine are in Drained when one of them becomes Drained/Idle (row 33)."""
    for slot in () if machine is None else machine.slots.values():
        if slot.name != event.slot and slot.state != "Drained":
            pool.report_slot(event.slot, "drain", f"it is {event.target}, but {slot.name} is {slot.state_activity}")
            return


def settle_machine(pool: JudgedPool, name: str) -> None:
    """Check that every slot is Drained/Idle when a drain is complete."""
    machine = pool.state.machines.get(name)
    if machine is None or machine.drain is None or machine.drain.state not in ("Complete", "Stopped"):
        return
    for slot in machine.slots.values():
        if slot.state_activity != "Drained/Idle":
            pool.report(slot, "drain", f"the drain of {name} is {machine.drain.state}, and it is {slot.state_activity}")


@rule_of(e.ShutdownBegan, _known_machine)
def check_shutdown(pool: JudgedPool, machine: Machine, event: e.ShutdownBegan) -> None:
    if event.how not in SHUTDOWNS:
        pool.report(machine.name, "value", f"{event.how!r} is not a shutdown mode: {', '.join(SHUTDOWNS)}")
    elif not may_change_shutdown(machine, event.how, event.restart):
        pool.report(machine.name, "shutdown", f"a {event.how} shutdown begins during a {machine.shutdown} one")
    pool.asked = event.cause


# Defragmentation: when it polls, how many machines it drains, and which drains it began or canceled

THING = "defrag"
DRAINED, CANCELED = "defrag", "defrag_cancel"  #: the causes of the events of a poll


@rule(e.DefragPolled)
def check_defrag_poll(pool: JudgedPool, event: e.DefragPolled) -> None:
    policy, defrag = policy_in_force(pool.state.settings, event.daemon), pool.state.defrag.of(event.daemon)
    pool.defrag_daemon = event.daemon
    if policy is None:
        pool.report(THING, "defrag", f"it polls, but {event.daemon or DEFRAG} is not in the pool's DAEMON_LIST")
        pool.folds = None
        return
    _check_poll_time(pool, policy, event)
    _check_sets(pool, "drain", defrag.draining, event.began_draining, event.over_draining, event.draining)
    _check_sets(pool, "be whole", defrag.whole, event.became_whole, event.no_longer_whole, event.whole)
    _check_drain_count(pool, policy, event)
    _check_chosen_machines(pool, event)
    if not all(isfinite(value) and value >= 0 for value in event.costs.values()):
        pool.report(THING, "value", "the average cost of drains is not a number of 0 or more")
    pool.to_drain = {cancel.machine for cancel in event.drains if not cancel.refused}
    pool.to_cancel = {cancel.machine for cancel in event.cancels if not cancel.refused}


def _check_poll_time(pool: JudgedPool, policy: DefragPolicy, event: e.DefragPolled) -> None:
    last_poll = pool.state.defrag.of(event.daemon).last_poll
    if policy.interval <= 0:
        pool.report(THING, "defrag", f"it polls, but DEFRAG_INTERVAL is {policy.interval}")
    elif last_poll and event.at < last_poll + policy.interval * SECOND:
        pool.report(THING, "defrag", f"it polls {(event.at - last_poll) / SECOND:g} s after its last poll, too early")


def _check_sets(
    pool: JudgedPool, what: str, known: set[str], came: Sequence[str], went: Sequence[str], count: int
) -> None:
    if known & set(came) or not set(went) <= known:
        pool.report(THING, "defrag", f"machines are recorded as starting or ceasing to {what}, but did not change")
    if len((known - set(went)) | set(came)) != count:
        pool.report(THING, "defrag", f"{count} machines are recorded to {what}, but the polls give another number")


def _check_drain_count(pool: JudgedPool, policy: DefragPolicy, event: e.DefragPolled) -> None:
    if policy.interval <= 0:
        return
    drains_before = earlier_polls(pool.state, event.at, event.daemon)
    number, stop_reason = allowed_drains(
        policy, drains_before, event.at // SECOND, event.draining, event.whole, dialect_rules(pool.state)
    )
    if (event.wanted, event.stopped) != (number, stop_reason):
        stop_text = f" ({STOPPED[stop_reason]})" if stop_reason else ""
        pool.report(THING, "defrag", f"it may drain {number} machines{stop_text}, but {event.wanted} is recorded")
    begun_count = sum(not drain.refused for drain in event.drains)
    if begun_count > (0 if stop_reason else number):
        pool.report(THING, "defrag", f"it drains {begun_count} machines, but may drain only {number}")


def _check_chosen_machines(pool: JudgedPool, event: e.DefragPolled) -> None:
    state = pool.state
    whole = (state.defrag.of(event.daemon).whole - set(event.no_longer_whole)) | set(event.became_whole)
    _check_distinct(pool, [choice.machine for choice in event.drains if not choice.refused], "drained")
    _check_distinct(pool, [choice.machine for choice in event.cancels], "canceled")
    choices: list[e.DefragDrain | e.DefragCancel] = [*event.drains, *event.cancels]
    for choice in choices:
        slot = state.slots.get(choice.slot)
        if slot is None or slot.machine != choice.machine:
            pool.report(THING, "reference", f"{choice.slot} is not a slot of {choice.machine}")
        missing = [position for position in choice.evidence if position not in pool.notes]
        if missing:
            pool.report(THING, "evidence", f"the poll recorded no evidence at {missing[0]}")
        if isinstance(choice, e.DefragDrain):
            if choice.machine in whole:
                pool.report(THING, "defrag", f"{choice.machine} is drained, but it is whole")
            _check_evidence(pool, choice.evidence, "DEFRAG_REQUIREMENTS")
        else:
            _check_evidence(pool, choice.evidence, "DEFRAG_CANCEL_REQUIREMENTS")


def _check_distinct(pool: JudgedPool, machines: Sequence[str], noun: str) -> None:
    if len(set(machines)) < len(machines):
        pool.report(THING, "defrag", f"a machine is {noun} twice by one poll")


def _check_evidence(pool: JudgedPool, evidence: Iterable[int], name: str) -> None:
    notes = [pool.notes[position] for position in evidence if position in pool.notes]
    if not any(note.name == name and note.value == "true" for note in notes):
        pool.report(THING, "evidence", f"it chose a machine without recording a {name} that was true")


def check_drain_by_poll(pool: JudgedPool, event: e.DrainBegan) -> None:
    """Check that the defragmentation chose a drain, and that the drain has its settings."""
    if event.cause != DRAINED or MANAGER not in pool.state.roles:
        return
    policy = policy_in_force(pool.state.settings, pool.defrag_daemon)
    if event.machine not in pool.to_drain or policy is None:
        pool.report(event.machine, "defrag", "its drain names the defragmentation as its cause, but no poll chose it")
        return
    pool.to_drain.discard(event.machine)
    terms = (event.schedule, event.reason, event.completion)
    if terms != (policy.schedule, policy.reason, COMPLETION):
        pool.report(event.machine, "defrag", f"its drain does not follow the settings: {', '.join(terms)}")


def check_cancel_by_poll(pool: JudgedPool, event: e.DrainTransitioned) -> None:
    if event.cause != CANCELED or MANAGER not in pool.state.roles:
        return
    if event.machine not in pool.to_cancel:
        pool.report(event.machine, "defrag", "the defragmentation is recorded as canceling its drain, but no poll did")
    pool.to_cancel.discard(event.machine)


def settle_drains(pool: JudgedPool) -> None:
    """Check at the end of a stimulus that a poll's choices were carried out."""
    for machine in sorted(pool.to_drain):
        pool.report(machine, "defrag", "the defragmentation chose it, but no drain of it began")
    for machine in sorted(pool.to_cancel):
        pool.report(machine, "defrag", "the defragmentation canceled its drain, but that did not end")
    pool.to_drain, pool.to_cancel = set(), set()


# Backfill clients, and the slots in Backfill

_WITH_CLIENT: Final = (BACKFILL_BUSY, BACKFILL_KILLING)
_DESTINATIONS: Final = ("Matched", "Claimed", "Owner")
_AT_ANY_TIME: Final = ("failed", "lost", "unattended")
_OUTCOMES: Final = {True: ("killed", *_AT_ANY_TIME), False: ("exited", *_AT_ANY_TIME)}
"""The outcomes that a backfill client may have if it was signalled to end (True), and if it was not (False)."""


def _known_with_slots(pool: JudgedPool, event: e.MachineEvent) -> Machine | None:
    """Return the machine of an event, and mark its slots to be checked. Do not fold the event of an unknown machine."""
    machine = _known_machine(pool, event)
    if machine is None:
        pool.folds = None
    else:
        pool.touched_slots.update(dict.fromkeys(machine.slots))
    return machine


def _matching_client(
    pool: JudgedPool, event: e.BackfillExecuting | e.BackfillSignalled | e.BackfillExited
) -> BackfillClient | None:
    """Return the client of an event if the machine has it. Otherwise report the event and do not fold it."""
    machine = _known_with_slots(pool, event)
    client = None if machine is None else machine.backfill
    if machine is not None and (client is None or client.key != event.key):
        pool.folds = None
        client_text = "it has none" if client is None else f"its client is {client.key}"
        pool.report(event.machine, "backfill", f"the event is about backfill client {event.key}, but {client_text}")
        return None
    return client


@rule_of(e.BackfillStarted, _known_with_slots)
def check_client_started(pool: JudgedPool, machine: Machine, event: e.BackfillStarted) -> None:
    if machine.backfill is not None:
        pool.report(machine.name, "backfill", f"a backfill client starts while client {machine.backfill.key} runs")
    slot = machine.slots.get(event.slot)
    if slot is None:
        pool.report(machine.name, "reference", f"{event.slot} is not a slot of {machine.name}")
    elif slot.state_activity != BACKFILL_BUSY:
        pool.report(slot, "backfill", f"a client starts for it, but it is {slot.state_activity}")
    system = backfill_system(pool.state, machine)
    if event.system != system or event.client != client_settings(pool.state, machine, system):
        pool.report(machine.name, "backfill", f"its client does not follow the configuration of {system or 'backfill'}")
    if event.at < machine.backfill_retry:
        pool.report(machine.name, "backfill", "its client restarts too early")


@rule_of(e.BackfillExecuting, _matching_client)
def check_client_executing(pool: JudgedPool, client: BackfillClient, event: e.BackfillExecuting) -> None:
    if client.pid:
        pool.report(event.machine, "backfill", f"its client is recorded as process {event.pid}, but it is {client.pid}")
    if event.pid < 1 or event.began > event.at:
        pool.report(event.machine, "value", f"a process {event.pid} that began at {event.began} cannot exist")


@rule_of(e.BackfillSignalled, _matching_client)
def check_client_signalled(pool: JudgedPool, client: BackfillClient, event: e.BackfillSignalled) -> None:
    if event.until < event.at or event.at < client.next_signal:
        pool.report(event.machine, "backfill", "its client is signalled to end too early")


@rule_of(e.BackfillExited, _matching_client)
def check_client_exited(pool: JudgedPool, client: BackfillClient, event: e.BackfillExited) -> None:
    machine = pool.state.machines[event.machine]
    if event.outcome not in _OUTCOMES[bool(client.last_signalled)]:
        state = "signalled" if client.last_signalled else "not signalled"
        pool.report(event.machine, "backfill", f"its client was {state} to end, but {event.outcome} is recorded")
    expected_end = backoff_after_end(pool.state, machine, event.outcome, event.at)
    if (event.failures, event.retry) != expected_end:
        pool.report(event.machine, "backfill", "its client's next start does not follow from how it ended")
    if min(event.user_cpu, event.system_cpu, event.ended) < 0 or event.ended > event.at:
        pool.report(event.machine, "value", "its client's end has an invalid instant or time")


@rule_of(e.BackfillLeaving, known_slot)
def check_slot_leaves_backfill(pool: JudgedPool, slot: Slot, event: e.BackfillLeaving) -> None:
    if event.destination not in _DESTINATIONS:
        pool.report(slot, "value", f"{event.destination!r} is not a state that follows Backfill")
    elif event.destination == (slot.destination or "Owner"):
        pool.report(slot, "backfill", f"it is recorded as leaving for {event.destination}, as before")
    if slot.state_activity not in _WITH_CLIENT:
        pool.report(slot, "backfill", f"it is recorded as leaving Backfill, but it is {slot.state_activity}")


def check_backfill_destination(pool: JudgedPool, slot: Slot, event: e.SlotTransitioned) -> None:
    """Check that a slot whose client is gone moves to its destination."""
    if slot.state != "Backfill" or event.target.startswith("Backfill/"):
        return
    destination = slot.destination or ("Owner" if slot.state_activity == BACKFILL_KILLING else "")
    target_state = event.target.partition("/")[0]
    gave_up = target_state == "Owner" and destination == "Claimed" and slot.queued_claim is None
    if destination and target_state != destination and not gave_up:
        pool.report(slot, "backfill", f"it should move to {destination}, but moves to {target_state}")


def settle_backfill(pool: JudgedPool, slot: Slot, machine: Machine | None) -> None:
    """Check that a machine's backfill client runs only while a slot is in Backfill/Busy or Backfill/Killing."""
    if machine is None:
        return
    client = machine.backfill
    if slot.state_activity == BACKFILL_BUSY and not client_is_running(machine):
        text = "no client runs" if client is None else "its client was signalled to end"
        pool.report(slot, "backfill", f"it is {BACKFILL_BUSY}, but {text}")
    if slot.state_activity == BACKFILL_KILLING and (
        not slot_awaits_client(pool.state, slot) or client_is_running(machine)
    ):
        is_waiting = slot_awaits_client(pool.state, slot)
        text = "its client got no signal to end" if is_waiting else "there is nothing to wait for"
        pool.report(slot, "backfill", f"it is {BACKFILL_KILLING}, but {text}")
    if client is not None and not any(other.state_activity in _WITH_CLIENT for other in machine.slots.values()):
        pool.report(slot, "backfill", f"backfill client {client.key} runs, but no slot of its machine has it")


def may_await_client(pool: JudgedPool, slot: Slot) -> bool:
    """Return True if a claim may wait for an unclaimed slot, because a backfill client still uses the slot's cores."""
    return slot.state_activity == BACKFILL_BUSY or client_occupies_slot(pool.state, slot)
