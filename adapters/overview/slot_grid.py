"""The slots of a pool in a compact form, for a picture with a cell for each slot.

A pool of 10,000 slots has 10,000 names, states and users, most of which repeat, so columns refer to lists of distinct
values. Compressed, the answer takes a few bytes for each slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

from ...domain.units import SECOND
from ...projections.schema import GONE

if TYPE_CHECKING:
    from ..runtime.queries import Queries


class SlotGrid(Struct, frozen=True):
    """Columns with a value for each slot. Slots of a machine follow each other."""

    machines: list[str]
    parts: list[str]  #: the parts of slot names before the machine
    states: list[str]  #: such as Claimed/Busy
    letters: list[str]  #: the letter of each of ``states``
    users: list[str]
    machine: list[int]  #: index in ``machines``
    part: list[int]  #: index in ``parts``
    state: list[int]  #: index in ``states``
    user: list[int]  #: index in ``users``; the first is empty
    since: list[int]  #: when the slot entered its activity, in seconds after ``base``
    job: list[str]
    base: int  #: seconds since 1970

    def names(self) -> list[str]:
        """Return the slots' names."""
        pairs = zip(self.part, self.machine, strict=True)
        return [f"{self.parts[part]}@{self.machines[machine]}" for part, machine in pairs]


class _Cell(NamedTuple):
    name: str
    machine: str
    state: str
    activity: str
    since: int  #: seconds since 1970
    user: str
    job: str


_STATEMENT: Final = (
    "SELECT s.name, s.machine, s.state, s.activity, CAST(s.record->>'$.entered_activity' AS INTEGER) / 1000000, "
    "s.submitter, COALESCE(j.cluster || '.' || j.first, s.record->>'$.activation.job', '') FROM slots s "
    "JOIN machines m USING (machine) LEFT JOIN (SELECT * FROM jobs WHERE slot <> '') j ON j.slot = s.name "
    f"WHERE s.machine NOT IN ({GONE}) ORDER BY m.joined, m.rowid, s.born"
)


def slot_grid(queries: Queries) -> SlotGrid:
    """Return the slots of a pool, or the recorded slots of an import."""
    if queries.imported:
        return _grid(_imported_cells(queries))
    return _grid(map(_Cell._make, queries.views.connection.execute(_STATEMENT)))


def _imported_cells(queries: Queries) -> list[_Cell]:
    at = queries.views.at if queries.at is None else queries.at
    cells = []
    for ad in queries.slots(at // SECOND):
        since, owner, job = ad.eval("EnteredCurrentActivity"), ad.eval("RemoteOwner"), ad.eval("JobId")
        cells.append(
            _Cell(
                str(ad.eval("Name")),
                str(ad.eval("Machine")),
                str(ad.eval("State")),
                str(ad.eval("Activity")),
                since if isinstance(since, int) else at // SECOND,
                owner if isinstance(owner, str) else "",
                job if isinstance(job, str) else "",
            )
        )
    return sorted(cells, key=lambda cell: cell.machine)


def _grid(cells: Iterable[_Cell]) -> SlotGrid:
    from .records import slot_style

    rows = list(cells)
    machines, machine = _indexed([cell.machine for cell in rows])
    parts, part = _indexed([cell.name.removesuffix(f"@{cell.machine}") for cell in rows])
    states, state = _indexed([f"{cell.state}/{cell.activity}" for cell in rows])
    users, user = _indexed(["", *(cell.user for cell in rows)])
    base = min((cell.since for cell in rows), default=0)
    letters = [slot_style(*text.split("/", 1)).letter for text in states]
    since, jobs = [cell.since - base for cell in rows], [cell.job for cell in rows]
    return SlotGrid(machines, parts, states, letters, users, machine, part, state, user[1:], since, jobs, base)


def _indexed(values: Sequence[str]) -> tuple[list[str], list[int]]:
    """Return the distinct values in the order of appearance, and the index of each value in them."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return list(numbers), [numbers[value] for value in values]
