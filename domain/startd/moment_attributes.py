"""The attributes of a slot's ad that change from moment to moment: each by its name, and how its value is computed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import Struct

from ..classad import Context, Moving
from ..ports.sensor_readings import Readings
from ..ports.slot_ads import TOTALLED, total_name
from ..state.accounting_groups import NO_GROUP, assigned_group
from ..state.caches import Caches
from ..state.job_ad import unquoted
from ..state.records import Machine, Slot
from ..state.state import ExecutionPoint
from ..units import DAY, SECOND
from .drain_estimates import DrainEstimates
from .load import load_of
from .startd_settings import duration, setting


class SlotSnapshot(Struct):
    state: ExecutionPoint
    slot: Slot
    machine: Machine | None
    readings: Readings
    now: int
    context: Context
    caches: Caches
    estimates: Callable[[], DrainEstimates | None]
    """What a drain of its machine would cost; None where nobody can tell."""

    @property
    def seconds(self) -> int:
        return self.now // SECOND


def input_idle(m: SlotSnapshot, console: bool) -> int:
    """Return KeyboardIdle or ConsoleIdle."""
    return max(0, m.seconds - last_input(m, console))


def last_input(m: SlotSnapshot, console: bool) -> int:
    """Return the second of the last input. A slot that is connected to neither keyboard nor console has been idle since
    the startd began, and DISCONNECTED_KEYBOARD_IDLE_BOOST longer."""
    began = m.machine.joined if m.machine else 0
    connected = setting(m.state, m.machine, f"SLOTS_CONNECTED_TO_{'CONSOLE' if console else 'KEYBOARD'}")
    number = m.slot.ad.get("SlotID", "1")
    if connected and not (number.isdigit() and int(number) <= int(float(connected))):
        boost = duration(m.state, m.machine, "DISCONNECTED_KEYBOARD_IDLE_BOOST")
        return (began - boost) // SECOND
    last = m.readings.last_console if console else m.readings.last_input
    return (began if last is None else last) // SECOND


def latches_cpu_busy(m: SlotSnapshot) -> bool:
    """Tell whether CpuBusy is one of STARTD_LATCH_EXPRS, as in the policy templates: then CpuBusyValue is 1 while it is
    true, and CpuBusyTime the instant (seconds since the epoch) when that began; else it is the seconds since then."""
    return "cpubusy" in setting(m.state, m.machine, "STARTD_LATCH_EXPRS").lower().replace(",", " ").split()


def _busy_time(m: SlotSnapshot) -> int:
    since = m.slot.busy_since // SECOND
    return since if latches_cpu_busy(m) or not since else m.seconds - since


def asks_busy(names: frozenset[str] | None) -> bool:
    """Tell whether expressions that read these attributes (None: any) read since when CpuBusy is true."""
    return names is None or not names.isdisjoint(("cpubusytime", "cpubusyvalue"))


def _local(m: SlotSnapshot) -> int:
    """Return the seconds since local midnight, with the days before them."""
    return m.seconds + m.context.utc_offset(m.seconds)


def _ran(m: SlotSnapshot) -> Any:
    activation = m.slot.activation
    return None if activation is None else activation.ran_seconds(m.now)


def _suspended(m: SlotSnapshot) -> Any:
    activation = m.slot.activation
    if activation is None:
        return None
    if not activation.since:
        return activation.suspended // SECOND
    return m.seconds - (activation.since - activation.suspended) // SECOND


def _job_id(m: SlotSnapshot) -> Any:
    activation = m.slot.activation
    if activation is None:
        return None
    return activation.job or f"{activation.cluster}.{activation.proc}"


def _of_job(m: SlotSnapshot, name: str) -> Any:
    """Return an attribute of the slot's job as the starter reports it: a string or a whole number."""
    run = m.slot.activation
    known = run is not None and run.cluster
    text = m.state.job_ad((run.cluster, run.proc), run.ad).value(name) if run is not None and known else ""
    return unquoted(text) if text.startswith('"') else int(text) if text.isdecimal() else None


def _user(m: SlotSnapshot) -> Any:
    return m.slot.user or None


def _group(m: SlotSnapshot) -> Any:
    """Return the submitter that the slot counts for, if it is not its job's user."""
    claim = m.slot.claim
    return None if claim is None or claim.submitter == m.slot.user else claim.submitter


def _quota_group(m: SlotSnapshot) -> Any:
    """Return the accounting group that the claim counts for; none where there are no groups."""
    claim, settings = m.slot.claim, m.state.settings
    return assigned_group(claim.submitter, settings) if claim and settings.get("GROUP_NAMES") else None


def _negotiated_group(m: SlotSnapshot) -> Any:
    """Return the group as which the claim was negotiated for: by autoregroup, that of those in none."""
    claim = m.slot.claim
    return None if claim is None else NO_GROUP if claim.regrouped else _quota_group(m) or NO_GROUP


def _next_user(m: SlotSnapshot) -> Any:
    waiting = m.slot.waiting
    return None if waiting is None else waiting.user or waiting.submitter


def _next_group(m: SlotSnapshot) -> Any:
    waiting = m.slot.waiting
    return None if waiting is None or waiting.submitter == _next_user(m) else waiting.submitter


def _drain(m: SlotSnapshot, what: Callable[[Any], Any]) -> Any:
    drain = m.machine.drain if m.machine else None
    return None if drain is None else what(drain)


def _expected(m: SlotSnapshot, name: str) -> int | None:
    """Return one of the estimates of a drain of the slot's machine."""
    found = m.estimates()
    return None if found is None else int(getattr(found, name))


def _instant(at: int) -> int | None:
    return at // SECOND if at else None


def unclaimed_in_drains(machine: Machine, now: int) -> int:
    """Return TotalMachineDrainingUnclaimedTime: core-seconds that the machine's slots spent in Drained."""
    return int(sum(slot.drained_until(now) for slot in machine.slots.values())) // SECOND if machine.drains else 0


def total_time(m: SlotSnapshot, pair: str) -> int | None:
    """Return the seconds that the slot was in a pair; None if it never was."""
    if m.slot.state_activity == pair:
        return m.seconds - total_since(m.slot)
    spent = m.slot.spent.get(pair, 0)
    return spent // SECOND if spent else None


def total_since(slot: Slot) -> int:
    """Return the second since which the slot would be in its present pair, had it been there without a break."""
    return (slot.entered_activity - slot.spent.get(slot.state_activity, 0)) // SECOND


def _unclaimed(m: SlotSnapshot) -> Any:
    return None if m.machine is None else unclaimed_in_drains(m.machine, m.now) or None


Attribute = tuple[str, Callable[[SlotSnapshot], Any]]

_EXPECTED: tuple[Attribute, ...] = tuple(
    (name, partial(_expected, name=estimate))
    for name, estimate in (
        ("ExpectedMachineGracefulDrainingBadput", "graceful_badput"),
        ("ExpectedMachineGracefulDrainingCompletion", "graceful_completion"),
        ("ExpectedMachineQuickDrainingBadput", "quick_badput"),
        ("ExpectedMachineQuickDrainingCompletion", "quick_completion"),
    )
)
_TOTALS: tuple[Attribute, ...] = tuple((total_name(pair), partial(total_time, pair=pair)) for pair in TOTALLED)

DYNAMIC_ATTRIBUTES: dict[str, Attribute] = {
    name.lower(): (name, value)
    for name, value in (
        # attribute, its value (None: the slot has none now)
        ("State", lambda m: m.slot.state),
        ("Activity", lambda m: m.slot.activity),
        ("EnteredCurrentState", lambda m: m.slot.entered_state // SECOND),
        ("EnteredCurrentActivity", lambda m: m.slot.entered_activity // SECOND),
        ("MyCurrentTime", lambda m: m.seconds),
        ("KeyboardIdle", lambda m: input_idle(m, console=False)),
        ("ConsoleIdle", lambda m: input_idle(m, console=True)),
        ("LoadAvg", lambda m: load_of(m.state, m.slot, m.readings, m.caches).load),
        ("CondorLoadAvg", lambda m: load_of(m.state, m.slot, m.readings, m.caches).condor),
        ("TotalLoadAvg", lambda m: m.readings.load),
        ("TotalCondorLoadAvg", lambda m: float(m.readings.pool_load)),
        ("ClockMin", lambda m: _local(m) // 60 % 1440),
        ("ClockDay", lambda m: (_local(m) // 86400 + 4) % 7),  # the epoch was a Thursday
        ("CpuBusyTime", _busy_time),
        ("CpuBusyValue", lambda m: int(bool(m.slot.busy_since)) if latches_cpu_busy(m) else None),
        ("LastBenchmark", lambda m: m.machine.benchmarked // SECOND if m.machine else 0),
        ("Mips", lambda m: m.machine.benchmarks[0] or None if m.machine else None),
        ("KFlops", lambda m: m.machine.benchmarks[1] or None if m.machine else None),
        ("Rank", lambda m: 0.0 if m.slot.ad.spelling("rank") is None else None),
        ("CurrentRank", lambda m: m.slot.claim.rank if m.slot.claim else 0.0),
        ("RemoteOwner", _user),
        ("RemoteUser", _user),
        ("AccountingGroup", _group),
        ("RemoteGroup", _quota_group),
        ("RemoteNegotiatingGroup", _negotiated_group),
        ("RemoteAutoregroup", lambda m: False if m.slot.claim else None),  # HTCondor's negotiator never sets it
        ("PublicClaimId", lambda m: m.slot.claim.id if m.slot.claim else None),
        ("ClientMachine", lambda m: (m.slot.claim.holder or m.state.name) if m.slot.claim else None),
        ("ConcurrencyLimits", lambda m: (m.slot.claim.limits or None) if m.slot.claim else None),
        ("RemoteScheddName", lambda m: (m.slot.claim.holder or m.state.name) if m.slot.claim else None),
        ("IsSplittable", lambda m: True if m.slot.claim and m.slot.kind == "dynamic" else None),
        ("JobId", _job_id),
        ("GlobalJobId", lambda m: _of_job(m, "GlobalJobId")),
        ("JobUniverse", lambda m: _of_job(m, "JobUniverse")),
        ("JobStart", lambda m: m.slot.activation.began // SECOND if m.slot.activation else None),
        ("TotalJobRunTime", _ran),
        ("TotalJobSuspendTime", _suspended),
        ("TotalClaimRunTime", lambda m: m.seconds - m.slot.claim.since // SECOND if m.slot.claim else None),
        ("PreemptingRank", lambda m: m.slot.waiting.rank if m.slot.waiting else None),
        ("PreemptingUser", _next_user),
        ("PreemptingOwner", _next_user),
        ("PreemptingAccountingGroup", _next_group),
        ("PreemptingConcurrencyLimits", lambda m: (m.slot.waiting.limits or None) if m.slot.waiting else None),
        ("AcceptedWhileDraining", lambda m: bool(m.slot.claim and "late" in m.slot.claim.marks)),
        ("Draining", lambda m: _drain(m, lambda drain: True)),
        ("DrainReason", lambda m: _drain(m, lambda drain: drain.reason)),
        ("DrainingRequestId", lambda m: _drain(m, lambda drain: str(drain.number))),
        ("LastDrainStartTime", lambda m: _instant(m.machine.drain_began) if m.machine else None),
        ("LastDrainStopTime", lambda m: _instant(m.machine.drain_ended) if m.machine else None),
        ("TotalMachineDrainingBadput", lambda m: (m.machine.badput or None) if m.machine else None),
        ("TotalMachineDrainingUnclaimedTime", _unclaimed),
        *_EXPECTED,
        *_TOTALS,
    )
}  # fmt: skip
"""The attributes of the moment, by their names in small letters."""

OF_EVENTS = frozenset({"state", "activity", "enteredcurrentstate", "enteredcurrentactivity"})
"""Those that the transitions alone tell: of a slot of a real pool that is all that is known besides its own ad."""

_EVER = 1000 * 366 * DAY
_QUARTER = 900
"""Clocks are set forward or back at a quarter of an hour."""


def moving_attributes(m: SlotSnapshot) -> dict[str, Moving]:
    """Return the attributes that move evenly by the clock, by their names in small letters."""
    found = {"mycurrenttime": Moving(0)}
    slot, now = m.slot, m.seconds
    for name, console in (("keyboardidle", False), ("consoleidle", True)):
        last, since = m.readings.last_console if console else m.readings.last_input, input_idle(m, console)
        if last is not None and last > m.now and not since:  # until then somebody types
            found[name] = Moving(now, _EVER, last // SECOND + 1)
        else:
            found[name] = Moving(now - since)
    local = now + m.context.utc_offset(now)
    midnight = now - local % DAY
    until = midnight + DAY
    if m.context.utc_offset(until) != m.context.utc_offset(now):  # clocks are set forward or back on that day
        until = now + _QUARTER - now % _QUARTER
    found["clockmin"] = Moving(midnight, 60, until)
    found["clockday"] = Moving(midnight - ((local // DAY + 4) % 7) * DAY, DAY, until)
    if slot.busy_since and not latches_cpu_busy(m):
        found["cpubusytime"] = Moving(slot.busy_since // SECOND)
    activation = slot.activation
    if activation is not None:
        if activation.since:
            found["totaljobsuspendtime"] = Moving((activation.since - activation.suspended) // SECOND)
        else:
            found["totaljobruntime"] = Moving((activation.began + activation.suspended) // SECOND)
    if slot.claim is not None:
        found["totalclaimruntime"] = Moving(slot.claim.since // SECOND)
    found[total_name(slot.state_activity).lower()] = Moving(total_since(slot))
    for said in (m.readings.attributes, m.readings.slots.get(slot.name, {})):  # readings override all of these
        for name in said:
            found.pop(name.lower(), None)
    return found
