"""The words for why no slot could ever run a job: what it asks for, and the most that there is."""

from __future__ import annotations

from collections.abc import Callable

from .evidence import bare
from .formatting import counted, memory, shortened
from .unmatchable_jobs import Misfit, RefusingSlots, Short, Unmet


def no_slot_in_short(found: Misfit) -> str:
    """Tell the reason without the conditions' own text."""
    if found.refused is not None and not found.refused.lacks:
        others = f" and {counted(found.refused.slots - 1, 'other')}" if found.refused.slots > 1 else ""
        return f"{found.nearest}{others} would fit it, but START keeps this job out"
    if not found.slots or found.short or lacks_attribute(found):
        return no_slot(found)
    return f"no slot can run it: none of {counted(found.slots, 'slot')} meets all that it asks for{_nearest(found)}"


def lacks_attribute(found: Misfit) -> bool:
    """Return True if the job or the slots lack an attribute, without which a condition cannot be true."""
    if found.refused is not None:
        return bool(found.refused.lacks)
    return any(one.lacks or "undefined" in one.has.values() for one in found.unmet)


def no_slot(found: Misfit) -> str:
    """Tell the reason as a sentence without its period: "no slot can run it: it asks for 64 cores; ..."."""
    if found.refused is not None:
        return _refused(found.nearest, found.refused)
    if not found.slots:
        return "no slot can run it: the pool has no slots"
    if found.short:
        return f"no slot can run it: it asks for {'; and for '.join(map(_short, found.short))}"
    if found.unmet:
        lacking = [_lacking(one) for one in found.unmet]
        if all(lacking):
            return f"no slot can run it: it needs {' and '.join(lacking)}, which no slot has"
        absent = [name for one in found.unmet for name in one.lacks]
        if absent:
            return f"no slot can run it: its Requirements read {' and '.join(absent)}, which neither it nor a slot has"
        told = " and ".join(shortened(bare(one.condition), 120) for one in found.unmet)
        none = "the slot does not meet" if found.slots == 1 else f"none of {found.slots:,} slots meets"
        return f"no slot can run it: {none} {told}{_nearest(found)}"
    what = "all conditions of its Requirements" if found.nearest else "all that it asks for"
    return f"no slot can run it: none of {counted(found.slots, 'slot')} has {what}{_nearest(found)}"


def _refused(slot: str, found: RefusingSlots) -> str:
    condition = shortened(bare(found.condition), 120)
    if found.lacks:
        lacks = " and ".join(found.lacks)
        return f"no slot can run it: the job lacks {lacks}, without which {condition} of {slot} is {found.value}"
    if found.slots == 1:
        return f"{slot} would fit it, but its START is {found.value} for this job: {condition}"
    others = counted(found.slots - 1, "other")
    return f"{slot} and {others} would fit it, but START keeps this job out; on {slot} it is {found.value}: {condition}"


def _lacking(one: Unmet) -> str:
    """The attribute which is all that a condition asks for, where the nearest slot has none; else nothing."""
    name = bare(one.condition).rpartition(".")[2]
    return name if list(one.has.items()) == [(name, "undefined")] else ""


def _nearest(found: Misfit) -> str:
    """What the nearest slot has in place of what is asked."""
    has = {name: text for one in found.unmet for name, text in one.has.items()}
    said = ", ".join(f"{name} = {shortened(text, 60)}" for name, text in has.items())
    if said:
        return f" ({found.nearest} has {said})" if found.slots == 1 else f" (the nearest, {found.nearest}, has {said})"
    return f" (the nearest is {found.nearest})" if found.nearest and not found.unmet else ""


def _short(one: Short) -> str:
    amount, unit = _AMOUNTS.get(one.resource.lower(), _plain), _UNITS.get(one.resource.lower(), one.resource)
    asked, most = amount(one.asked), amount(one.most)
    if asked == most:  # rounded to the same
        asked, most, unit = _plain(one.asked), _plain(one.most), f"of {one.resource}"
    if unit == "cores" and one.asked == 1:
        unit = "core"
    largest = f"the largest slot has {most}" if one.most else "no slot has any"
    return f"{asked} {unit}; {largest} (request_{one.resource.lower()})"


def _plain(amount: float) -> str:
    return f"{amount:,g}" if amount < 1e6 else f"{amount:,.0f}"


_UNITS = {"cpus": "cores", "memory": "of memory", "disk": "of disk"}
_AMOUNTS: dict[str, Callable[[float], str]] = {
    "memory": lambda mib: memory(round(mib * 1024)),
    "disk": lambda kib: memory(round(kib)),
}
