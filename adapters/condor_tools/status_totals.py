"""The totals under the tables of ``status``: slots by state, machines, jobs of queues and users."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .cells import flag, number, text
from .layout import Column, Layout, laid_out

if TYPE_CHECKING:
    from ...domain.classad import ClassAd

Sums = dict[str, float]
"""The sums of one line, by the heading of the column."""

MALFORMED = "malformed"
"""The sum that counts incomplete ads; it has no column."""


class Totals(NamedTuple):
    """One kind of totals."""

    headings: tuple[tuple[str, int], ...]
    key: Callable[[ClassAd], str | None]  #: returns the key of an ad's line; None if it cannot be counted
    sums: Callable[[ClassAd], Sums | None]  #: returns the ad's part of the sums
    show: Callable[[Mapping[str, float]], Sequence[str]]  #: returns a line's texts
    total_only: bool = False  #: whether only the line of all is filled


def totals_lines(totals: Totals, counted: Iterable[tuple[str | None, Sums | None]], width: int | None) -> Iterator[str]:
    """Yield the lines of totals: one for each key, and one for all.

    :param counted: the key and sums of each ad; those without one are counted as malformed
    :param width: of the column of keys; None for that of the longest
    """
    by_key: dict[str, Sums] = {}
    everything: Sums = {}
    malformed = 0
    for key, sums in counted:
        if key is None:
            malformed += 1
            continue
        line = by_key.setdefault(key, {})
        if sums is None or sums.get(MALFORMED):
            malformed += 1
        for into in (line, everything):
            for name, part in (sums or {}).items():
                into[name] = into.get(name, 0) + part
    if width is None:
        width = max([5, *(len(key) for key in by_key)])
    numbers = (Column("", "", wide, joined=at == 0) for at, (_, wide) in enumerate(totals.headings))
    layout = Layout((Column("", "", width, cut=True), *numbers), headed=False)
    keys = sorted(by_key)
    rows = [by_key[key] for key in keys]
    texts = [[key, *totals.show(sums)] for key, sums in zip([*keys, "Total"], [*rows, everything], strict=True)]
    heading, *lines, last = laid_out(layout, [["", *(heading for heading, _ in totals.headings)], *texts])
    yield heading + "\n"
    yield from (line[:width] for line in lines) if totals.total_only else lines
    if by_key:
        yield "\n"
    yield last
    if malformed:
        yield f"\n{' ' * width}(Omitted {malformed} malformed ads in computed attribute totals)\n\n"


def _counting(
    headings: tuple[tuple[str, int], ...],
    key: Callable[[ClassAd], str | None],
    sums: Callable[[ClassAd], Sums | None],
    total_only: bool = False,
) -> Totals:
    """Return totals that show a whole number under each of the headings."""
    return Totals(headings, key, sums, whole(*(name for name, _ in headings)), total_only)


def whole(*names: str) -> Callable[[Mapping[str, float]], list[str]]:
    """Return a formatter of these sums as whole numbers."""
    return lambda sums: [str(int(sums.get(name, 0))) for name in names]


# -- slots by state ------------------------------------------------------------------------------------------------

_LIKEWISE = ("Owner", "Claimed", "Unclaimed", "Matched", "Preempting", "Backfill")
STATES = {state: state for state in _LIKEWISE} | {"Drained": "Drain"}
"""A slot's state -> the heading under which it is counted."""


def platform(ad: ClassAd) -> str | None:
    """Return Arch/OpSys: X86_64/LINUX."""
    arch, system = text(ad, "Arch"), text(ad, "OpSys")
    return None if arch is None or system is None else f"{arch}/{system}"


def one_state(state: str | None, backfill: bool = False) -> Sums | None:
    """Count a slot in a state. Idle backfill slots are not among the total."""
    if backfill and state == "Unclaimed":
        return {"BkIdle": 1}
    if backfill and state == "Claimed":
        state = "Backfill"
    heading = STATES.get(state or "")
    return None if heading is None else {heading: 1, "Total": 1}


def slot_state(ad: ClassAd) -> Sums | None:
    return one_state(text(ad, "State"), flag(ad, "SlotBackfill"))


def _activity_state(ad: ClassAd) -> Sums | None:
    # Under -state the column Total is never filled, by HTCondor neither.
    sums = slot_state(ad)
    return None if sums is None else {name: count for name, count in sums.items() if name != "Total"}


_BY_STATE = (("Total", 6), ("Owner", 5), ("Claimed", 7), ("Unclaimed", 9), ("Matched", 7), ("Preempting", 10))
_BY_ACTIVITY = (("Total", 6), ("Owner", 5), ("Unclaimed", 9), ("Claimed", 7), ("Preempting", 10), ("Matched", 7))
_REST = (("Drain", 6), ("Backfill", 8), ("BkIdle", 6))


SLOTS = _counting((*_BY_STATE, *_REST), platform, slot_state)
ACTIVITIES = _counting((*_BY_ACTIVITY, *_REST), lambda ad: text(ad, "Activity"), _activity_state)

# -- machines, queues and users ------------------------------------------------------------------------------------


def _sums(ad: ClassAd, names: Mapping[str, str], extra: Sums) -> Sums:
    """Return attributes' numbers under their headings; an ad that lacks one is malformed."""
    sums = dict(extra)
    for heading, name in names.items():
        value = number(ad, name)
        if value is None:
            sums[MALFORMED] = 1
        sums[heading] = sums.get(heading, 0) + (value or 0)
    return sums


def _power(ad: ClassAd) -> Sums:
    return _sums(ad, {"MIPS": "Mips", "KFLOPS": "KFlops", "AvgLoadAvg": "LoadAvg"}, {"Machines": 1})


def _show_power(sums: Mapping[str, float]) -> list[str]:
    machines = int(sums.get("Machines", 0))
    average = sums.get("AvgLoadAvg", 0) / machines if machines else 0.0
    return [*whole("Machines", "MIPS", "KFLOPS")(sums), f"  {average:.3f}"]


def _server(ad: ClassAd) -> Sums | None:
    if text(ad, "State") is None:
        return None
    available = int(text(ad, "State") in ("Claimed", "Unclaimed"))
    names = {"Memory": "Memory", "Disk": "Disk", "MIPS": "Mips", "KFLOPS": "KFlops"}
    return _sums(ad, names, {"Slots": 1, "Avail": available})


def _show_server(sums: Mapping[str, float]) -> list[str]:
    slots, available, size, *rest = whole("Slots", "Avail", "Memory", "Disk", "MIPS", "KFLOPS")(sums)
    return [slots, available, size.rjust(11), *rest]


CLAIMS = Totals((("Machines", 9), ("MIPS", 12), ("KFLOPS", 12), ("  AvgLoadAvg", 0)), platform, _power, _show_power)
_SERVERS = (("Slots", 9), ("Avail", 5), ("Memory", 7), ("Disk", 11), ("MIPS", 11), ("KFLOPS", 11))
SERVERS = Totals(_SERVERS, platform, _server, _show_server)
_QUEUES = (("TotalRunningJobs", 18), ("TotalIdleJobs", 18), ("TotalHeldJobs", 18))
QUEUES = _counting(
    _QUEUES, lambda _: " ", lambda ad: _sums(ad, {name: name for name, _ in _QUEUES}, {}), total_only=True
)
_USERS = (("RunningJobs", 11), ("IdleJobs", 10), ("HeldJobs", 10))
USERS = _counting(_USERS, lambda ad: text(ad, "Name"), lambda ad: _sums(ad, {name: name for name, _ in _USERS}, {}))

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
    return [*whole("Machines", *_MACHINE)(sums), *shares]


_ARCHITECTURES = {"X86_64": "x64", "X86": "x86"}


def short_platform(ad: ClassAd, _: Any = None) -> str | None:
    """Return the platform in short: x64/Debian13."""
    system = text(ad, "OpSys")
    name = text(ad, "OpSysShortName" if system == "WINDOWS" else "OpSysAndVer")
    arch = text(ad, "Arch") or ""
    return None if name is None else f"{_ARCHITECTURES.get(arch, arch)}/{name}"


_MACHINES = tuple((name, 8) for name in ("Machines", *_MACHINE, "Memory%", "BkMem%"))
MACHINES = Totals(_MACHINES, short_platform, _machine, _show_machine)
