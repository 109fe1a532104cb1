"""The dynamic attributes of a slot's ad, which are computed from the slot's state, the time and the sensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..classad import Context, Moving
from ..names import SlotName
from ..ports.sensor_readings import Readings
from ..ports.slot_ads import PAIRS_WITH_TOTAL, total_name
from ..state.accounting_groups import NO_GROUP, assigned_group
from ..state.caches import Caches
from ..state.job_ad import unquoted
from ..state.machine_times import machine_context
from ..state.records import Machine, Slot
from ..state.state import ExecutionPoint
from ..units import DAY, SECOND
from .drain_estimates import DrainEstimates
from .load import slot_load
from .startd_settings import duration, setting


class SlotSnapshot(Struct):
    """A slot at a given time, with all inputs of its dynamic attributes."""

    state: ExecutionPoint
    slot: Slot
    machine: Machine | None
    readings: Readings
    now: int
    context: Context
    caches: Caches
    estimates: Callable[[], DrainEstimates | None]
    """Returns the drain estimates of the slot's machine, or None if they cannot be computed."""

    @property
    def seconds(self) -> int:
        return self.now // SECOND


MACHINE_LOADS = frozenset({"totalloadavg", "totalcondorloadavg"})
"""The sensor readings that are equal in all slots of a machine."""


def first_slot(state: ExecutionPoint, slot: Slot) -> Slot:
    """Return the first slot of a slot's machine: the one that publishes the machine's load."""
    machine = state.machines.get(slot.machine)
    return slot if machine is None else next(iter(machine.slots.values()), slot)


def input_idle(snapshot: SlotSnapshot, console: bool) -> int:
    """Return KeyboardIdle, or ConsoleIdle if ``console`` is true."""
    return max(0, snapshot.seconds - last_input(snapshot, console))


def last_input(snapshot: SlotSnapshot, console: bool) -> int:
    """Return the second of the last input. A slot not connected to the keyboard or console is treated as idle since
    DISCONNECTED_KEYBOARD_IDLE_BOOST before the startd's start."""
    started = snapshot.machine.joined if snapshot.machine else 0
    connected = setting(snapshot.state, snapshot.machine, f"SLOTS_CONNECTED_TO_{'CONSOLE' if console else 'KEYBOARD'}")
    slot_id = snapshot.slot.ad.get("SlotID", "1")
    if connected and not (slot_id.isdigit() and int(slot_id) <= int(float(connected))):
        idle_boost = duration(snapshot.state, snapshot.machine, "DISCONNECTED_KEYBOARD_IDLE_BOOST")
        return (started - idle_boost) // SECOND
    last_reading = snapshot.readings.last_console if console else snapshot.readings.last_input
    return (started if last_reading is None else last_reading) // SECOND


def latches_cpu_busy(snapshot: SlotSnapshot) -> bool:
    """Return True if CpuBusy is in STARTD_LATCH_EXPRS. In that case, CpuBusyTime is the time since the epoch at which
    CpuBusy became true, and CpuBusyValue is 1 while it is true. Otherwise, CpuBusyTime is the number of seconds since
    then."""
    latched = setting(snapshot.state, snapshot.machine, "STARTD_LATCH_EXPRS")
    return "cpubusy" in latched.lower().replace(",", " ").split()


def _busy_time(snapshot: SlotSnapshot) -> int:
    since = snapshot.slot.busy_since // SECOND
    return since if latches_cpu_busy(snapshot) or not since else snapshot.seconds - since


def reads_cpu_busy_time(names: frozenset[str] | None) -> bool:
    """Return True if these attributes (None: all) include CpuBusyTime or CpuBusyValue."""
    return names is None or not names.isdisjoint(("cpubusytime", "cpubusyvalue"))


def _local_seconds(snapshot: SlotSnapshot) -> int:
    """Return the local time, in seconds since the epoch."""
    return snapshot.seconds + machine_context(snapshot.slot.ad, snapshot.context).utc_offset(snapshot.seconds)


def _job_suspend_time(snapshot: SlotSnapshot) -> Any:
    activation = snapshot.slot.activation
    if activation is None:
        return None
    if not activation.suspended_since:
        return activation.suspended_time // SECOND
    return snapshot.seconds - (activation.suspended_since - activation.suspended_time) // SECOND


def _job_id(snapshot: SlotSnapshot) -> Any:
    activation = snapshot.slot.activation
    if activation is None:
        return None
    return activation.job or f"{activation.cluster}.{activation.proc}"


def _job_attribute(snapshot: SlotSnapshot, name: str) -> Any:
    starter = snapshot.slot.activation
    if starter is None or not starter.cluster:
        return None
    text = snapshot.state.job_ad((starter.cluster, starter.proc), starter.ad).value(name)
    return unquoted(text) if text.startswith('"') else int(text) if text.isdecimal() else None


def _user(snapshot: SlotSnapshot) -> Any:
    return snapshot.slot.user or None


def _accounting_group(snapshot: SlotSnapshot) -> Any:
    """Return the submitter charged for the slot's usage, if it differs from the job's user."""
    claim = snapshot.slot.claim
    return None if claim is None or claim.submitter == snapshot.slot.user else claim.submitter


def _quota_group(snapshot: SlotSnapshot) -> Any:
    """Return the accounting group whose quota the claim uses, if the pool has groups."""
    claim, settings = snapshot.slot.claim, snapshot.state.settings
    return assigned_group(claim.submitter, settings) if claim and settings.get("GROUP_NAMES") else None


def _negotiated_group(snapshot: SlotSnapshot) -> Any:
    """Return the group for which the claim was negotiated: the root group after autoregroup."""
    claim = snapshot.slot.claim
    return None if claim is None else NO_GROUP if claim.regrouped else _quota_group(snapshot) or NO_GROUP


def _preempting_user(snapshot: SlotSnapshot) -> Any:
    queued_claim = snapshot.slot.queued_claim
    return None if queued_claim is None else queued_claim.user or queued_claim.submitter


def _preempting_group(snapshot: SlotSnapshot) -> Any:
    claim = snapshot.slot.queued_claim
    return None if claim is None or claim.submitter == _preempting_user(snapshot) else claim.submitter


def _drain(snapshot: SlotSnapshot, attribute: Callable[[Any], Any]) -> Any:
    drain = snapshot.machine.drain if snapshot.machine else None
    return None if drain is None else attribute(drain)


def _drain_estimate(snapshot: SlotSnapshot, name: str) -> int | None:
    estimates = snapshot.estimates()
    return None if estimates is None else int(getattr(estimates, name))


def _seconds_or_none(instant: int) -> int | None:
    return instant // SECOND if instant else None


def unclaimed_in_drains(machine: Machine, now: int) -> int:
    """Return TotalMachineDrainingUnclaimedTime: the core-seconds that the machine's slots have spent in Drained."""
    return int(sum(slot.drained_until(now) for slot in machine.slots.values())) // SECOND if machine.drains else 0


def total_time(snapshot: SlotSnapshot, state_activity: str) -> int | None:
    """Return the number of seconds the slot has spent in a state/activity, or None if it was never in it."""
    if snapshot.slot.state_activity == state_activity:
        return snapshot.seconds - total_since(snapshot.slot)
    spent = snapshot.slot.time_spent.get(state_activity, 0)
    return spent // SECOND if spent else None


def total_since(slot: Slot) -> int:
    """Return the second in which the slot entered its current state/activity, minus the time it spent there earlier."""
    return (slot.entered_activity - slot.time_spent.get(slot.state_activity, 0)) // SECOND


def _unclaimed_in_drains(snapshot: SlotSnapshot) -> Any:
    return None if snapshot.machine is None else unclaimed_in_drains(snapshot.machine, snapshot.now) or None


Attribute = tuple[str, Callable[[SlotSnapshot], Any]]

_DRAIN_ESTIMATES: tuple[Attribute, ...] = tuple(
    (name, partial(_drain_estimate, name=estimate))
    for name, estimate in (
        ("ExpectedMachineGracefulDrainingBadput", "graceful_badput"),
        ("ExpectedMachineGracefulDrainingCompletion", "graceful_completion"),
        ("ExpectedMachineQuickDrainingBadput", "quick_badput"),
        ("ExpectedMachineQuickDrainingCompletion", "quick_completion"),
    )
)
_TOTAL_TIMES: tuple[Attribute, ...] = tuple(
    (total_name(pair), partial(total_time, state_activity=pair)) for pair in PAIRS_WITH_TOTAL
)

DYNAMIC_ATTRIBUTES: dict[str, Attribute] = {
    name.lower(): (name, value)
    for name, value in (
        # attribute, its value (None: the slot does not have the attribute now)
        ("State", lambda m: m.slot.state),
        ("Activity", lambda m: m.slot.activity),
        ("EnteredCurrentState", lambda m: m.slot.entered_state // SECOND),
        ("EnteredCurrentActivity", lambda m: m.slot.entered_activity // SECOND),
        ("MyCurrentTime", lambda m: m.seconds),
        ("KeyboardIdle", lambda m: input_idle(m, console=False)),
        ("ConsoleIdle", lambda m: input_idle(m, console=True)),
        ("LoadAvg", lambda m: slot_load(m.state, m.slot, m.readings, m.caches).load),
        ("CondorLoadAvg", lambda m: slot_load(m.state, m.slot, m.readings, m.caches).condor),
        ("TotalLoadAvg", lambda m: m.readings.load),
        ("TotalCondorLoadAvg", lambda m: float(m.readings.pool_load)),
        ("ClockMin", lambda m: _local_seconds(m) // 60 % 1440),
        ("ClockDay", lambda m: (_local_seconds(m) // 86400 + 4) % 7),  # 1 January 1970 was a Thursday
        ("CpuBusyTime", _busy_time),
        ("CpuBusyValue", lambda m: int(bool(m.slot.busy_since)) if latches_cpu_busy(m) else None),
        ("LastBenchmark", lambda m: m.machine.benchmarked // SECOND if m.machine else 0),
        ("Mips", lambda m: m.machine.benchmarks[0] or None if m.machine else None),
        ("KFlops", lambda m: m.machine.benchmarks[1] or None if m.machine else None),
        ("Rank", lambda m: 0.0 if m.slot.ad.spelling("rank") is None else None),
        ("CurrentRank", lambda m: m.slot.claim.rank if m.slot.claim else 0.0),
        ("RemoteOwner", _user),
        ("RemoteUser", _user),
        ("AccountingGroup", _accounting_group),
        ("RemoteGroup", _quota_group),
        ("RemoteNegotiatingGroup", _negotiated_group),
        ("RemoteAutoregroup", lambda m: False if m.slot.claim else None),  # HTCondor's negotiator never sets it
        ("NumPids", lambda m: int(bool(m.slot.activation)) if m.slot.claim else None),  # counts the job's own process
        ("PublicClaimId", lambda m: m.slot.claim.id if m.slot.claim else None),
        ("ClientMachine", lambda m: (m.slot.claim.holder or m.state.name) if m.slot.claim else None),
        ("ConcurrencyLimits", lambda m: (m.slot.claim.limits or None) if m.slot.claim else None),
        ("RemoteScheddName", lambda m: (m.slot.claim.holder or m.state.name) if m.slot.claim else None),
        ("IsSplittable", lambda m: True if m.slot.claim and m.slot.kind == "dynamic" else None),
        ("JobId", _job_id),
        ("GlobalJobId", lambda m: _job_attribute(m, "GlobalJobId")),
        ("JobUniverse", lambda m: _job_attribute(m, "JobUniverse")),
        ("JobStart", lambda m: m.slot.activation.began // SECOND if m.slot.activation else None),
        ("TotalJobRunTime", lambda m: m.slot.activation.run_seconds(m.now) if m.slot.activation else None),
        ("TotalJobSuspendTime", _job_suspend_time),
        ("TotalClaimRunTime", lambda m: m.seconds - m.slot.claim.since // SECOND if m.slot.claim else None),
        ("PreemptingRank", lambda m: m.slot.queued_claim.rank if m.slot.queued_claim else None),
        ("PreemptingUser", _preempting_user),
        ("PreemptingOwner", _preempting_user),
        ("PreemptingAccountingGroup", _preempting_group),
        (
            "PreemptingConcurrencyLimits",
            lambda m: (m.slot.queued_claim.limits or None) if m.slot.queued_claim else None,
        ),
        ("AcceptedWhileDraining", lambda m: bool(m.slot.claim and "late" in m.slot.claim.flags)),
        ("Draining", lambda m: _drain(m, lambda drain: True)),
        ("DrainReason", lambda m: _drain(m, lambda drain: drain.reason)),
        ("DrainingRequestId", lambda m: _drain(m, lambda drain: str(drain.number))),
        ("LastDrainStartTime", lambda m: _seconds_or_none(m.machine.drain_began) if m.machine else None),
        ("LastDrainStopTime", lambda m: _seconds_or_none(m.machine.drain_ended) if m.machine else None),
        ("TotalMachineDrainingBadput", lambda m: (m.machine.badput or None) if m.machine else None),
        ("TotalMachineDrainingUnclaimedTime", _unclaimed_in_drains),
        *_DRAIN_ESTIMATES,
        *_TOTAL_TIMES,
    )
}  # fmt: skip
"""The dynamic attributes by lower-case name."""

TRANSITION_ATTRIBUTES = frozenset({"state", "activity", "enteredcurrentstate", "enteredcurrentactivity"})
"""The dynamic attributes that follow from transitions. For imported slots, only these are known."""

_EVER = 1000 * 366 * DAY
_QUARTER_HOUR = 900
"""Time zones change their offset at multiples of a quarter of an hour."""


def moving_attributes(snapshot: SlotSnapshot) -> dict[str, Moving]:
    """Return the attributes that change steadily with time, by lower-case name."""
    moving = {"mycurrenttime": Moving(0)}
    slot, now, readings = snapshot.slot, snapshot.seconds, snapshot.readings
    for name, console in (("keyboardidle", False), ("consoleidle", True)):
        reading, idle = readings.last_console if console else readings.last_input, input_idle(snapshot, console)
        if reading is not None and reading > snapshot.now and not idle:  # input continues until then
            moving[name] = Moving(now, _EVER, reading // SECOND + 1)
        else:
            moving[name] = Moving(now - idle)
    context = machine_context(slot.ad, snapshot.context)
    local_seconds = now + context.utc_offset(now)
    midnight = now - local_seconds % DAY
    next_change = midnight + DAY
    if context.utc_offset(next_change) != context.utc_offset(now):  # the offset changes that day
        next_change = now + _QUARTER_HOUR - now % _QUARTER_HOUR
    moving["clockmin"] = Moving(midnight, 60, next_change)
    moving["clockday"] = Moving(midnight - ((local_seconds // DAY + 4) % 7) * DAY, DAY, next_change)
    if slot.busy_since and not latches_cpu_busy(snapshot):
        moving["cpubusytime"] = Moving(slot.busy_since // SECOND)
    activation = slot.activation
    if activation is not None:
        if activation.suspended_since:
            moving["totaljobsuspendtime"] = Moving((activation.suspended_since - activation.suspended_time) // SECOND)
        else:
            moving["totaljobruntime"] = Moving((activation.began + activation.suspended_time) // SECOND)
    if slot.claim is not None:
        moving["totalclaimruntime"] = Moving(slot.claim.since // SECOND)
    moving[total_name(slot.state_activity).lower()] = Moving(total_since(slot))
    for attributes in (readings.attributes, readings.slots.get(slot.name, {})):  # readings override all of the above
        for name in attributes:
            moving.pop(name.lower(), None)
    return moving


def moving_attributes_of_machine(snapshot: SlotSnapshot) -> dict[str, Moving]:
    """Return the slot's attributes that change steadily with time, including what the machine's slots publish to each
    other (STARTD_SLOT_ATTRS)."""
    names = setting(snapshot.state, snapshot.machine, "STARTD_SLOT_ATTRS").replace(",", " ").lower().split()
    moving = moving_attributes(snapshot)
    for other in snapshot.state.machine_slots(snapshot.slot) if names else ():
        prefix = SlotName.parse(other.name).slot
        attributes = moving_attributes(replace(snapshot, slot=other))
        moving |= {f"{prefix}_{name}": attributes[name] for name in names if name in attributes}
    return moving
