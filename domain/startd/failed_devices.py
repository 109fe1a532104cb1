"""Take failed devices of a machine, such as GPUs, offline, and vacate the slots that use them.

A device is offline until the machine's configuration is read again. As for devices that the configuration takes offline
(OFFLINE_MACHINE_RESOURCE_<name>), Offline<name> lists it in the ads of all slots, and it stays in Assigned<name>.
"""

from __future__ import annotations

from ..decision.draft import Draft
from ..events import SlotAdChanged
from ..ports.stimuli import DevicesFailed
from ..state.job_ad import quoted
from ..state.state import ExecutionPoint
from .custom_resources import assigned_ids, offline_ids
from .dynamic_slots import usable_devices
from .vacating import retire_claim

_CAUSE = "device_failed"


def take_devices_offline(draft: Draft[ExecutionPoint], stimulus: DevicesFailed) -> None:
    machine = draft.state.machines.get(stimulus.machine)
    slots = [] if machine is None else list(machine.slots.values())
    resource = stimulus.resource
    known_ids = {id for slot in slots for id in assigned_ids(slot.ad, resource)}
    failed = [id for id in stimulus.devices if id in known_ids]
    if not failed or all(set(failed) <= set(offline_ids(slot.ad, resource)) for slot in slots):
        return
    for slot in slots:
        ids = dict.fromkeys((*offline_ids(slot.ad, resource), *failed))
        changes = {f"Offline{resource}": quoted(",".join(ids)), f"Offline{resource}Reason": quoted(stimulus.reason)}
        draft.emit(SlotAdChanged(*draft.header(_CAUSE), slot.name, changes))
    for slot in slots:
        if set(failed).intersection(assigned_ids(slot.ad, resource)):
            draft.emit(SlotAdChanged(*draft.header(_CAUSE), slot.name, usable_devices(draft, slot, resource)))
    for slot in slots:
        if slot.kind != "partitionable" and set(failed).intersection(assigned_ids(slot.ad, resource)):
            retire_claim(draft, slot, _CAUSE)
