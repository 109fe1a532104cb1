"""Custom resources of a machine (MACHINE_RESOURCE_<name>): either a quantity, or devices with ids, such as GPUs.

Source: the manual, "Dividing System Resources in Multi-core Machines" and "Configuring GPUs". Devices are assigned to
slots, and their properties published, as by HTCondor's startd.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from ..classad import ClassAd, ClassAdSyntaxError, EvaluationError, Expression, Value, parse, unparse
from ..events import Ad
from ..state.job_ad import quoted, unquoted
from .slot_types import SlotAllocation, SlotTypeError

if TYPE_CHECKING:
    from ..config import Configuration


class CustomResource(Struct, frozen=True):
    """A custom resource of a machine. ``quantity`` and ``ids`` exclude offline devices. ``properties`` contains an ad
    for each device; ``facts`` contains the other attributes printed by the inventory command."""

    name: str
    quantity: float
    ids: tuple[str, ...] = ()
    offline: tuple[str, ...] = ()
    properties: Mapping[str, ClassAd] = field(default_factory=dict)
    facts: Ad = field(default_factory=dict)


PREFIX: Final = "MACHINE_RESOURCE_"
INVENTORY: Final = "INVENTORY_"
_STANDARD_NAMES: Final = frozenset({"cpu", "cpus", "disk", "swap", "mem", "memory", "ram"})
_NAME: Final = re.compile("[a-z_][a-z0-9_]*", re.ASCII)
_GPUS: Final = "GPUs"


def inventory_commands(configuration: Configuration) -> dict[str, str]:
    """Return the commands that list a machine's devices (MACHINE_RESOURCE_INVENTORY_<name>), by resource name."""
    prefix = (PREFIX + INVENTORY).lower()
    texts = ((name, configuration.get(name)) for name in configuration.names() if name.lower().startswith(prefix))
    commands = {name[len(prefix) :]: text for name, text in texts if text}
    options = configuration.get("STARTD_DETECT_GPUS")
    is_configured = _GPUS.lower() in map(str.lower, commands) or configuration.get(f"{PREFIX}{_GPUS}")
    if not is_configured and options.lower() not in ("", "0", "false"):
        commands[_GPUS] = f"{configuration.get('LIBEXEC')}/condor_gpu_discovery {options}"
    return commands


def make_custom_resources(configuration: Configuration, outputs: Mapping[str, str]) -> list[CustomResource]:
    """Return a machine's custom resources, sorted by name. ``outputs`` contains the inventory commands' output.

    :raises SlotTypeError: if a name is not an identifier, or is a standard resource
    """
    resources = {name.lower(): _from_ad(configuration, name, text) for name, text in outputs.items()}
    for setting_name in configuration.names():
        name = setting_name[len(PREFIX) :]
        lower_name = name.lower()
        value = configuration.get(setting_name) if setting_name.lower().startswith(PREFIX.lower()) else ""
        if not value or lower_name == "names" or lower_name.startswith(INVENTORY.lower()):
            continue
        if "\n" in value:
            resources[lower_name] = _from_ad(configuration, name, value)
        else:
            resources[lower_name] = _without_offline(name, value, configuration.get(f"OFFLINE_{PREFIX}{name}"))
    if _GPUS.lower() not in resources and configuration.get("STARTD_DETECT_GPUS").lower() not in ("", "0", "false"):
        resources[_GPUS.lower()] = CustomResource(_GPUS, 0)
    allowed = {name.lower() for name in split_list(configuration.get(f"{PREFIX}NAMES"))}
    for name in resources:
        if name in _STANDARD_NAMES:
            raise SlotTypeError(
                f"{PREFIX}{resources[name].name}: {resources[name].name} is a standard resource; choose another name"
            )
        if not _NAME.fullmatch(name):
            raise SlotTypeError(f"{PREFIX}{resources[name].name}: use letters, digits and underscores in the name")
    return [resources[name] for name in sorted(resources) if not allowed or name in allowed]


def split_list(text: str) -> list[str]:
    """Split a list whose items are separated by commas or blanks."""
    return text.replace(",", " ").split()


def _parse_devices(text: str) -> tuple[float, list[str]]:
    """Return the number of devices that a text specifies, and their ids if the text is a list of ids."""
    try:
        value = parse(text).evaluate(ClassAd())
    except (ClassAdSyntaxError, EvaluationError):
        value = None
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value), []
    ids = split_list(text)
    return float(len(ids)), ids


def _without_offline(name: str, configured: str, offline: str) -> CustomResource:
    quantity, ids = _parse_devices(configured)
    offline_quantity, offline_ids = _parse_devices(offline) if offline else (0.0, [])
    if not ids:
        return CustomResource(name, max(0.0, quantity - offline_quantity))
    online_ids = tuple(id for id in ids if id not in offline_ids)
    return CustomResource(name, float(len(online_ids)), online_ids, tuple(id for id in ids if id in offline_ids))


def _from_ad(configuration: Configuration, name: str, text: str) -> CustomResource:
    """Return the resource that an ad describes. Detected<name> is the quantity or the list of ids. Nested ads contain
    the properties of single devices, or under ``common`` the properties of all devices."""
    ad = ClassAd.from_old(text)
    offline = _attribute_text(ad, f"Offline{name}") or configuration.get(f"OFFLINE_{PREFIX}{name}")
    resource = _without_offline(name, _attribute_text(ad, f"Detected{name}") or "0", offline)
    nested = {key: value for key in ad if isinstance(value := _attribute_value(ad, key), ClassAd)}
    common_properties = next((nested[key] for key in nested if key.lower() == "common"), ClassAd())
    properties = {id: common_properties.copy() for id in resource.ids} if common_properties else {}
    described = {_attribute_text(ad, "id") or key: ad for key, ad in nested.items()}
    for id in resource.ids:
        if id in described:
            device = properties.setdefault(id, ClassAd())
            for key in described[id]:
                if key.lower() != "id":
                    device[key] = described[id][key]
    facts = {key: unparse(ad[key]) for key in ad if key not in nested and key.lower() != name.lower()}
    return CustomResource(name, resource.quantity, resource.ids, resource.offline, properties, facts)


def _attribute_value(ad: ClassAd, name: str) -> Value | None:
    try:
        return ad.eval(name) if name in ad else None
    except EvaluationError:
        return None


def _attribute_text(ad: ClassAd, name: str) -> str:
    value = _attribute_value(ad, name)
    return value if isinstance(value, str) else "" if value is None else str(value)


# Assigning devices to slots


class DeviceAssignment(Struct, frozen=True):
    """The ids of a slot's devices, by resource, and why the slot is broken (empty: it is not)."""

    ids: Mapping[str, tuple[str, ...]]
    broken: str = ""


def meets_constraint(resource: CustomResource, number: int, constraint: str) -> bool:
    """Return True if a device meets a constraint: a device number, a list of ids, or an expression over its
    properties."""
    id = resource.ids[number]
    if not constraint or id in split_list(constraint):
        return True
    try:
        expression = parse(constraint)
        value = expression.evaluate(resource.properties.get(id, ClassAd()))
    except (ClassAdSyntaxError, EvaluationError):
        return False
    if isinstance(value, str):
        return value.lower() == id.lower()
    if isinstance(value, int) and not isinstance(value, bool) and unparse(expression).strip("()").isdigit():
        return value == number
    return id in resource.properties and value not in (False, 0) and isinstance(value, int | float)


def assign_devices(
    resources: Iterable[CustomResource], allocations: Iterable[SlotAllocation], *, may_break: bool
) -> dict[int, DeviceAssignment]:
    """Return each slot's devices, by slot number. In slot order, each slot takes the first suitable devices. If too few
    are left for a slot, it is broken.

    :raises SlotTypeError: if a slot is broken, unless ``may_break``
    """
    with_devices = [resource for resource in resources if resource.ids]
    free_numbers = {resource.name: list(range(len(resource.ids))) for resource in with_devices}
    assignments: dict[int, DeviceAssignment] = {}
    for allocation in allocations:
        ids: dict[str, tuple[str, ...]] = {}
        broken = ""
        for resource in with_devices:
            name, slot_type = resource.name, allocation.type
            count, constraint = int(allocation.amount(name)), slot_type.constraints.get(name, "")
            suitable = [number for number in free_numbers[name] if meets_constraint(resource, number, constraint)]
            if len(suitable) < count and not may_break:
                raise SlotTypeError(
                    f"SLOT_TYPE_{slot_type.number}: slot {allocation.number} needs {count} {name} that satisfy "
                    f"{constraint}, but only {len(suitable)} are left: ask for fewer, or change the constraint"
                )
            chosen = suitable[:count]
            free_numbers[name] = [number for number in free_numbers[name] if number not in chosen]
            if chosen:
                ids[name] = tuple(resource.ids[number] for number in chosen)
            if len(suitable) < count:
                broken = f"Not enough instances of resource {name}"
                break
        assignments[allocation.number] = DeviceAssignment(ids, broken)
    return assignments


def assigned_ids(ad: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return the ids of a resource that a slot's ad lists as assigned (Assigned<name>)."""
    return _ids(ad, f"Assigned{name}")


def offline_ids(ad: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return the ids of a resource's devices that no slot of the machine may use (Offline<name>)."""
    return _ids(ad, f"Offline{name}")


def _ids(ad: Mapping[str, str], attribute: str) -> tuple[str, ...]:
    text = ad.get(attribute)
    return () if text is None else tuple(filter(None, unquoted(text).split(",")))


def devices_in_ad(ad: ClassAd, name: str) -> dict[str, ClassAd]:
    """Return the properties of a resource's devices, by id, from a slot's ad."""
    prefix = f"{name}_".lower()
    properties = {}
    for key in ad:
        if key.lower().startswith(prefix) and isinstance(value := _attribute_value(ad, key), ClassAd) and "Id" in value:
            properties[_attribute_text(value, "Id")] = value
    return properties


def attributes_of_devices(name: str, ids: Sequence[str], properties_by_id: Mapping[str, ClassAd]) -> Ad:
    """Return a slot ad's attributes for its devices: the ids, the properties that all share, and an ad for each
    device. A device that the slot has several times is listed several times."""
    ad = {f"Available{name}": available_text(name, ids)}
    if not ids:
        return ad
    ad[f"Assigned{name}"] = quoted(",".join(ids))
    properties = [(id, properties_by_id[id]) for id in dict.fromkeys(ids) if id in properties_by_id]
    shared: dict[str, Expression] = dict(properties[0][1]) if properties else {}
    for _, other_device in properties[1:]:
        shared = {key: value for key, value in shared.items() if key in other_device and other_device[key] == value}
    ad |= {f"{name}_{key}": unparse(value) for key, value in shared.items() if key.lower() != "id"}
    for id, device in properties:
        device_ad = device.copy()
        device_ad["Id"] = id
        ad[_attribute(name, id)] = device_ad.to_new()
    return ad


def available_text(name: str, ids: Iterable[str]) -> str:
    """Return Available<name>: a list of references to the attributes that contain these devices' properties."""
    return "{" + ",".join(_attribute(name, id) for id in ids) + "}"


def _attribute(name: str, id: str) -> str:
    return f"{name}_{re.sub('[^A-Za-z0-9_]+', '_', id)}"
