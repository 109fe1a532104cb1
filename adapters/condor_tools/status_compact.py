"""``status -compact``: one line per machine, for all its slots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from .cells import Setting, evaluate, flag, number, text
from .layout import Column, Layout, laid_out
from .status_totals import SLOTS, Sums, one_state, short_platform, slot_state, totals_lines

if TYPE_CHECKING:
    from ...domain.classad import ClassAd

STATES = {
    "Owner": "O", "Unclaimed": "U", "Matched": "M", "Claimed": "C", "Preempting": "P", "Shutdown": "S", "Delete": "X",
    "Backfill": "F", "Drained": "D",
}  # fmt: skip
ACTIVITIES = {
    "Idle": "i", "Busy": "b", "Retiring": "r", "Vacating": "v", "Suspended": "s", "Benchmarking": "e", "Killing": "k",
    "Cleaning": "c",
}  # fmt: skip
"""The letters of the column ST: the state's and the activity's; ``*`` if the slots differ."""

CONSTRAINT = "PartitionableSlot =?= true || DynamicSlot =!= true"
"""The ads for the lines: a partitionable slot stands for its dynamic slots, too."""

COLUMNS = (
    Column("Machine", "Machine", -12, grow=True),
    Column("Platform", "Platform"),
    Column("Slot", "Slots", -4, missing=" "),
    Column("s", "Kind", joined=True),
    Column("Cpus", "TotalSlotCpus"),
    Column("Gpus", "TotalSlotGPUs"),
    Column(" TotalGb", "TotalGb"),
    Column("FreCpu", "FreeCpus"),
    Column(" FreeGb ", "FreeGb"),
    Column("CpuLoad", "Load"),
    Column("ST", "State"),
    Column("Jobs/Min", "Starts", missing="_"),
    Column("MaxSlotGb", "Largest", missing="*"),
)


def letters(states: Iterable[str], table: dict[str, str], wins: str) -> str:
    """Return the letter that states have in common, else ``*``; the letter of the one that ``wins`` if it is among
    them."""
    found = {table.get(state, " ") for state in states}
    if table[wins] in found:
        return table[wins]
    return found.pop() if len(found) == 1 else ("*" if found else "")


def state_letters(ad: ClassAd) -> str:
    """Return the letters of a slot and, for a partitionable one, of its dynamic slots.

    A partitionable slot with nothing left shows its dynamic slots' letters; a drained one shows Claimed until they
    finish. (Manual: condor_status, -compact.)
    """
    state, activity = STATES.get(text(ad, "State") or "", " "), ACTIVITIES.get(text(ad, "Activity") or "", " ")
    if not flag(ad, "PartitionableSlot"):
        return state + activity
    states = letters(_strings(ad.eval("ChildState")), STATES, "Preempting")
    activities = letters(_strings(ad.eval("ChildActivity")), ACTIVITIES, "Vacating")
    exhausted = (number(ad, "Cpus") or 0) < 0.1
    if state + activity == "Ui" and exhausted and states:
        state, activity = states, activities
    elif state == "D" and states == "C":
        state = states
    if states == "P":
        state = states
    if activities == "v":
        activity = activities
    return ("*" if states and state != states else state) + ("*" if activities and activity != activities else activity)


def _strings(value: Any) -> list[str]:
    return [] if isinstance(value, str) or not hasattr(value, "__iter__") else [s for s in value if isinstance(s, str)]


class Machine:
    """The line of a machine, from its partitionable and static slots."""

    __slots__ = ("first", "free_cpus", "free_gb", "kind", "largest", "slots", "starts", "state")

    def __init__(self, ad: ClassAd, setting: Setting) -> None:
        context = setting.context()
        partitionable = flag(ad, "PartitionableSlot")
        self.first = ad
        self.kind = " " if partitionable else ("S" if text(ad, "SlotType") == "Static" else "")
        self.state = state_letters(ad)
        self.starts = (number(ad, "RecentJobStarts") or 0) / 20
        memory = (number(ad, "Memory") or 0) / 1024
        busy = not partitionable and text(ad, "State") in ("Matched", "Claimed", "Preempting")
        self.free_cpus = 0 if busy else number(ad, "Cpus") or 0
        self.free_gb = 0.0 if busy else memory
        self.slots = int(number(ad, "NumDynamicSlots") or 0) if partitionable else 1
        largest = evaluate(ad, "max(ChildMemory) / 1024.0", context)
        self.largest: float | None = memory
        if partitionable:
            self.largest = largest if isinstance(largest, int | float) else None

    def add(self, other: Machine) -> None:
        """Add another slot of the machine to the line."""
        self.slots += other.slots
        self.free_cpus += other.free_cpus
        self.free_gb += other.free_gb
        self.starts += other.starts
        sizes = [size for size in (self.largest, other.largest) if size is not None]
        self.largest = max(sizes, default=None)
        pairs = zip(self.state, other.state, strict=True)
        self.state = "".join(mine if mine == theirs else "*" for mine, theirs in pairs)

    def row(self, setting: Setting, name: str) -> list[str | None]:
        """Return the texts of the columns, the first of which is the ``name``."""
        ad, context = self.first, setting.context()
        load = evaluate(ad, "TotalLoadAvg * 1.0 / TotalCpus", context)
        return [
            name,
            short_platform(ad),
            f"{self.slots:4d}" if self.slots or number(ad, "NumDynamicSlots") is not None else None,
            self.kind,
            f"{int(number(ad, 'TotalSlotCpus') or 0):4d}",
            f"{int(number(ad, 'TotalSlotGPUs') or 0):4d}",
            f"{(number(ad, 'TotalSlotMemory') or 0) / 1024:8.2f}",
            f"{int(self.free_cpus):6d}",
            f"{self.free_gb:8.2f}",
            f"{load:7.2f}" if isinstance(load, int | float) else None,
            self.state,
            f"{self.starts:8.2f}",
            None if self.largest is None else f"{self.largest:9.2f}",
        ]


def compact_table(ads: Iterable[ClassAd], setting: Setting) -> Iterator[str]:
    """Yield the heading, an empty line, and a line for each machine; nothing without ads.

    :param ads: slots for which ``CONSTRAINT`` is true, by machine; a partitionable slot is a line of its own, static
        slots of a machine share one. Below a machine's first line its others have the slot's name
    """
    machines: dict[tuple[str, str], Machine] = {}
    for ad in ads:
        key = (text(ad, "Machine") or "", str(abs(number(ad, "SlotTypeId") or 0)))
        machine = Machine(ad, setting)
        if key in machines:
            machines[key].add(machine)
        else:
            machines[key] = machine
    rows = []
    above = None
    for (name, _), machine in machines.items():
        slot = (text(machine.first, "Name") or "").partition("@")[0]
        rows.append(machine.row(setting, f"   {slot}" if name == above else name))
        above = name
    if rows:
        heading, *lines = laid_out(Layout(COLUMNS, limit=setting.longest), rows)
        yield heading + "\n"
        yield from lines


def compact_totals(ads: Iterable[ClassAd], width: int | None) -> Iterator[str]:
    """Return the totals under the table: slots by state, dynamic ones included, and the rest of partitionable ones."""
    return totals_lines(SLOTS, ((short_platform(ad), sums) for ad in ads for sums in _counted(ad)), width)


def _counted(ad: ClassAd) -> Iterator[Sums | None]:
    if not flag(ad, "PartitionableSlot"):
        yield slot_state(ad)
        return
    backfill = flag(ad, "SlotBackfill")
    for state in _strings(ad.eval("ChildState")):
        yield one_state(state, backfill)
    if (number(ad, "Cpus") or 0) >= 0.1 and not backfill:
        yield slot_state(ad)
