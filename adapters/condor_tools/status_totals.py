"""The totals below the tables of ``status``, and ``status -compact``: one line per machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .cells import ACTIVITY_CODES, STATE_CODES, CellContext, evaluate, has_flag, number, short_platform, text
from .layout import Column, Layout, lay_out

if TYPE_CHECKING:
    from ...domain.classad import ClassAd

Sums = dict[str, float]
"""The sums in one line, by the column's heading."""

MALFORMED = "malformed"
"""The sum that counts malformed ads; it has no column."""


class StatusTotals(NamedTuple):
    headings: tuple[tuple[str, int], ...]
    key: Callable[[ClassAd], str | None]  #: returns the key of an ad's line, or None if the ad is malformed
    sums: Callable[[ClassAd], Sums | None]  #: returns an ad's contribution to the sums
    show: Callable[[Mapping[str, float]], Sequence[str]]  #: returns the texts for a line
    total_only: bool = False  #: whether only the line Total has values


def totals_lines(
    totals: StatusTotals, counted_sums: Iterable[tuple[str | None, Sums | None]], width: int | None
) -> Iterator[str]:
    """Yield the lines with totals: one for each key, and the line Total.

    :param counted_sums: the key and sums of each ad; ads without either are counted as malformed
    :param width: the width of the key column; None: the length of the longest key
    """
    sums_by_key: dict[str, Sums] = {}
    total_sums: Sums = {}
    malformed_count = 0
    for key, sums in counted_sums:
        if key is None:
            malformed_count += 1
            continue
        line = sums_by_key.setdefault(key, {})
        if sums is None or sums.get(MALFORMED):
            malformed_count += 1
        for target_sums in (line, total_sums):
            for name, part_sum in (sums or {}).items():
                target_sums[name] = target_sums.get(name, 0) + part_sum
    if width is None:
        width = max([5, *(len(key) for key in sums_by_key)])
    numbers = (Column("", "", column_width, joined=at == 0) for at, (_, column_width) in enumerate(totals.headings))
    layout = Layout((Column("", "", width, cut=True), *numbers), headed=False)
    keys = sorted(sums_by_key)
    rows = [sums_by_key[key] for key in keys]
    texts = [[key, *totals.show(sums)] for key, sums in zip([*keys, "Total"], [*rows, total_sums], strict=True)]
    heading, *lines, last = lay_out(layout, [["", *(heading for heading, _ in totals.headings)], *texts])
    yield heading + "\n"
    yield from (line[:width] for line in lines) if totals.total_only else lines
    if sums_by_key:
        yield "\n"
    yield last
    if malformed_count:
        yield f"\n{' ' * width}(Omitted {malformed_count} malformed ads in computed attribute totals)\n\n"


def _counting_totals(
    headings: tuple[tuple[str, int], ...],
    key: Callable[[ClassAd], str | None],
    sums: Callable[[ClassAd], Sums | None],
    total_only: bool = False,
) -> StatusTotals:
    return StatusTotals(headings, key, sums, integers(*(name for name, _ in headings)), total_only)


def integers(*names: str) -> Callable[[Mapping[str, float]], list[str]]:
    """Return a formatter that prints these sums as integers."""
    return lambda sums: [str(int(sums.get(name, 0))) for name in names]


_LIKEWISE = ("Owner", "Claimed", "Unclaimed", "Matched", "Preempting", "Backfill")
STATES = {state: state for state in _LIKEWISE} | {"Drained": "Drain"}
"""The state of a slot -> the heading of the column that counts it."""


def platform(ad: ClassAd) -> str | None:
    """Return Arch/OpSys: X86_64/LINUX."""
    arch, system = text(ad, "Arch"), text(ad, "OpSys")
    return None if arch is None or system is None else f"{arch}/{system}"


def count_state(state: str | None, backfill: bool = False) -> Sums | None:
    """Count a slot in a state. Idle backfill slots are not included in the total."""
    if backfill and state == "Unclaimed":
        return {"BkIdle": 1}
    if backfill and state == "Claimed":
        state = "Backfill"
    heading = STATES.get(state or "")
    return None if heading is None else {heading: 1, "Total": 1}


def slot_state(ad: ClassAd) -> Sums | None:
    return count_state(text(ad, "State"), has_flag(ad, "SlotBackfill"))


def _activity_state(ad: ClassAd) -> Sums | None:
    # Like HTCondor, -state leaves the column Total empty.
    sums = slot_state(ad)
    return None if sums is None else {name: count for name, count in sums.items() if name != "Total"}


_BY_STATE = (("Total", 6), ("Owner", 5), ("Claimed", 7), ("Unclaimed", 9), ("Matched", 7), ("Preempting", 10))
_BY_ACTIVITY = (("Total", 6), ("Owner", 5), ("Unclaimed", 9), ("Claimed", 7), ("Preempting", 10), ("Matched", 7))
_REST = (("Drain", 6), ("Backfill", 8), ("BkIdle", 6))


SLOTS = _counting_totals((*_BY_STATE, *_REST), platform, slot_state)
ACTIVITIES = _counting_totals((*_BY_ACTIVITY, *_REST), lambda ad: text(ad, "Activity"), _activity_state)


def _attribute_sums(ad: ClassAd, names: Mapping[str, str], extra: Sums) -> Sums:
    """Return the values of attributes by heading; an ad without one of these attributes is malformed."""
    sums = dict(extra)
    for heading, name in names.items():
        value = number(ad, name)
        if value is None:
            sums[MALFORMED] = 1
        sums[heading] = sums.get(heading, 0) + (value or 0)
    return sums


def _computing_power(ad: ClassAd) -> Sums:
    return _attribute_sums(ad, {"MIPS": "Mips", "KFLOPS": "KFlops", "AvgLoadAvg": "LoadAvg"}, {"Machines": 1})


def _show_power(sums: Mapping[str, float]) -> list[str]:
    machines = int(sums.get("Machines", 0))
    average = sums.get("AvgLoadAvg", 0) / machines if machines else 0.0
    return [*integers("Machines", "MIPS", "KFLOPS")(sums), f"  {average:.3f}"]


def _server(ad: ClassAd) -> Sums | None:
    if text(ad, "State") is None:
        return None
    is_available = int(text(ad, "State") in ("Claimed", "Unclaimed"))
    names = {"Memory": "Memory", "Disk": "Disk", "MIPS": "Mips", "KFLOPS": "KFlops"}
    return _attribute_sums(ad, names, {"Slots": 1, "Avail": is_available})


def _show_server(sums: Mapping[str, float]) -> list[str]:
    slots, available_count, size, *others = integers("Slots", "Avail", "Memory", "Disk", "MIPS", "KFLOPS")(sums)
    return [slots, available_count, size.rjust(11), *others]


CLAIMS = StatusTotals(
    (("Machines", 9), ("MIPS", 12), ("KFLOPS", 12), ("  AvgLoadAvg", 0)), platform, _computing_power, _show_power
)
_SERVERS = (("Slots", 9), ("Avail", 5), ("Memory", 7), ("Disk", 11), ("MIPS", 11), ("KFLOPS", 11))
SERVERS = StatusTotals(_SERVERS, platform, _server, _show_server)
_QUEUES = (("TotalRunningJobs", 18), ("TotalIdleJobs", 18), ("TotalHeldJobs", 18))
QUEUES = _counting_totals(
    _QUEUES, lambda _: " ", lambda ad: _attribute_sums(ad, {name: name for name, _ in _QUEUES}, {}), total_only=True
)
_USERS = (("RunningJobs", 11), ("IdleJobs", 10), ("HeldJobs", 10))
USERS = _counting_totals(
    _USERS, lambda ad: text(ad, "Name"), lambda ad: _attribute_sums(ad, {name: name for name, _ in _USERS}, {})
)

_MACHINE = {
    "Slots": "TotalSlots",
    "Cpus": "TotalCpus", "BusyCpus": "TotalInUseCpus", "BkCpus": "TotalBackfillInUseCpus",
    "GPUs": "TotalGPUs", "BusyGPUs": "TotalInUseGPUs", "BkGPUs": "TotalBackfillInUseGPUs",
}  # fmt: skip
_NEEDED = ("TotalSlots", "TotalCpus", "TotalGPUs", "TotalMemory")


def _machine(ad: ClassAd) -> Sums:
    sums: Sums = {heading: number(ad, name) or 0 for heading, name in _MACHINE.items()}
    size = number(ad, "TotalMemory") or 0
    sums["Machines"] = 1
    for heading, name in (("Memory%", "TotalInUseMemory"), ("BkMem%", "TotalBackfillInUseMemory")):
        sums[heading] = (number(ad, name) or 0) / size if size else 0
    if any(number(ad, name) is None for name in _NEEDED):
        sums[MALFORMED] = 1
    return sums


def _show_machine(sums: Mapping[str, float]) -> list[str]:
    machines = sums.get("Machines", 0) or 1
    shares = [f"{100 * sums.get(name, 0) / machines:.2f}%" for name in ("Memory%", "BkMem%")]
    return [*integers("Machines", *_MACHINE)(sums), *shares]


_MACHINES = tuple((name, 8) for name in ("Machines", *_MACHINE, "Memory%", "BkMem%"))
MACHINES = StatusTotals(_MACHINES, short_platform, _machine, _show_machine)

TOTALS = {
    **dict.fromkeys(("slots", "avail", "absent", "offline", "java", "vm"), SLOTS),
    **dict.fromkeys(("gpus", "state"), ACTIVITIES),
    "claimed": CLAIMS, "server": SERVERS, "schedd": QUEUES, "submitters": USERS,
    **dict.fromkeys(("startd", "startd-gpus"), MACHINES),
}  # fmt: skip
"""The totals below each table."""


COMPACT_CONSTRAINT = "PartitionableSlot =?= true || DynamicSlot =!= true"
"""Selects the ads that are printed: a partitionable slot also represents its dynamic slots."""

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


def common_letter(states: Iterable[str], table: dict[str, str], winner: str) -> str:
    """Return the letter of ``winner`` if it is among these states, or of the states if they are equal, else ``*``."""
    state_letters_found = {table.get(state, " ") for state in states}
    if table[winner] in state_letters_found:
        return table[winner]
    return state_letters_found.pop() if len(state_letters_found) == 1 else ("*" if state_letters_found else "")


def state_letters(ad: ClassAd) -> str:
    """Return the letters for a slot; a partitionable slot includes its dynamic slots.

    A fully used partitionable slot shows the letters of its dynamic slots; a drained one shows Claimed until they
    finish. (Manual: condor_status, -compact.)
    """
    state, activity = STATE_CODES.get(text(ad, "State") or "", " "), ACTIVITY_CODES.get(text(ad, "Activity") or "", " ")
    if not has_flag(ad, "PartitionableSlot"):
        return state + activity
    states = common_letter(_strings(ad.eval("ChildState")), STATE_CODES, "Preempting")
    activities = common_letter(_strings(ad.eval("ChildActivity")), ACTIVITY_CODES, "Vacating")
    is_exhausted = (number(ad, "Cpus") or 0) < 0.1
    if state + activity == "Ui" and is_exhausted and states:
        state, activity = states, activities
    elif state == "D" and states == "C":
        state = states
    if states == "P":
        state = states
    if activities == "v":
        activity = activities
    return ("*" if states and state != states else state) + ("*" if activities and activity != activities else activity)


def _strings(value: Any) -> list[str]:
    items = [] if isinstance(value, str) or not hasattr(value, "__iter__") else value
    return [item for item in items if isinstance(item, str)]


class MachineTotals:
    """The line for a machine, computed from its partitionable and static slots."""

    def __init__(self, ad: ClassAd, display: CellContext) -> None:
        context = display.context()
        is_partitionable = has_flag(ad, "PartitionableSlot")
        self.first = ad
        self.kind = " " if is_partitionable else ("S" if text(ad, "SlotType") == "Static" else "")
        self.state = state_letters(ad)
        self.starts = (number(ad, "RecentJobStarts") or 0) / 20
        memory = (number(ad, "Memory") or 0) / 1024
        is_busy = not is_partitionable and text(ad, "State") in ("Matched", "Claimed", "Preempting")
        self.free_cpus = 0 if is_busy else number(ad, "Cpus") or 0
        self.free_gb = 0.0 if is_busy else memory
        self.slots = int(number(ad, "NumDynamicSlots") or 0) if is_partitionable else 1
        largest_gb = evaluate(ad, "max(ChildMemory) / 1024.0", context)
        self.largest: float | None = memory
        if is_partitionable:
            self.largest = largest_gb if isinstance(largest_gb, int | float) else None

    def add_slot(self, other: MachineTotals) -> None:
        """Add another slot of the machine to the line."""
        self.slots += other.slots
        self.free_cpus += other.free_cpus
        # HTCondor adds another partitionable slot's largest dynamic slot instead of its free memory.
        self.free_gb += (other.largest or 0) if has_flag(other.first, "PartitionableSlot") else other.free_gb
        self.starts += other.starts
        sizes = [size for size in (self.largest, other.largest) if size is not None]
        self.largest = max(sizes, default=None)
        pairs = zip(self.state, other.state, strict=True)
        self.state = "".join(own_letter if own_letter == other_letter else "*" for own_letter, other_letter in pairs)

    def row(self, display: CellContext, name: str) -> list[str | None]:
        """Return the texts of the columns; the first column is ``name``."""
        ad, context = self.first, display.context()
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


def compact_table(ads: Iterable[ClassAd], display: CellContext) -> Iterator[str]:
    """Yield the heading, an empty line, and a line for each machine; nothing without ads.

    :param ads: slots for which ``COMPACT_CONSTRAINT`` is true, sorted by machine. A partitionable slot has its own
    line, the static slots of a machine share one. All but the first line of a machine show the slot's name
    """
    machines: dict[tuple[str, str], MachineTotals] = {}
    for ad in ads:
        key = (text(ad, "Machine") or "", str(abs(number(ad, "SlotTypeId") or 0)))
        machine = MachineTotals(ad, display)
        first = machines.setdefault(key, machine)
        if first is not machine:
            first.add_slot(machine)
    rows = []
    row_above = None
    for (name, _), machine in machines.items():
        slot = (text(machine.first, "Name") or "").partition("@")[0]
        rows.append(machine.row(display, f"   {slot}" if name == row_above else name))
        row_above = name
    if rows:
        heading, *lines = lay_out(Layout(COLUMNS, limit=display.longest), rows)
        yield heading + "\n"
        yield from lines


def compact_totals(ads: Iterable[ClassAd], width: int | None) -> Iterator[str]:
    """Yield the totals below the table: slots by state, with dynamic slots and partitionable slots' unused parts."""
    return totals_lines(SLOTS, ((short_platform(ad), sums) for ad in ads for sums in _state_sums(ad)), width)


def _state_sums(ad: ClassAd) -> Iterator[Sums | None]:
    if not has_flag(ad, "PartitionableSlot"):
        yield slot_state(ad)
        return
    backfill = has_flag(ad, "SlotBackfill")
    for state in _strings(ad.eval("ChildState")):
        yield count_state(state, backfill)
    if (number(ad, "Cpus") or 0) >= 0.1 and not backfill:
        yield slot_state(ad)
