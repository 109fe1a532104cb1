"""Find jobs, clusters, slots, machines, users, groups and events by a part of their names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ...projections.schema import GONE
from ...replay.forensics.daemon_tables import NotKnown

if TYPE_CHECKING:
    from ..runtime.queries import Queries

_MOST_OF_A_KIND: Final = 8


class Hit(Struct, frozen=True):
    """A thing that matches: ``kind`` and ``name`` identify its page, and ``text`` describes it."""

    kind: str
    name: str
    text: str


def search(queries: Queries, text: str) -> list[Hit]:
    """Return at most eight things of each kind whose names contain a text, in any case."""
    wanted = text.strip().lower()
    if not wanted:
        return []
    kinds = (_numbers, _clusters, _slots, _machines, _accounts, _findings)
    return [hit for kind in kinds for hit in islice(kind(queries, wanted), _MOST_OF_A_KIND)]


def _numbers(queries: Queries, wanted: str) -> Iterator[Hit]:
    """Yield the job, cluster or event with this number."""
    if re.fullmatch(r"\d{1,9}\.\d{1,9}", wanted, re.ASCII):
        yield Hit("job", wanted, "a job")
    elif re.fullmatch(r"\d{1,9}", wanted, re.ASCII):
        yield Hit("cluster", str(int(wanted)), "a cluster of jobs")
        if 0 < int(wanted) <= queries.log.head.position:
            yield Hit("event", str(int(wanted)), "an event of the log")


def _pattern(wanted: str) -> str:
    return "%" + re.sub(r"([\\%_])", r"\\\1", wanted) + "%"


def _rows(queries: Queries, statement: str, *parameters: object) -> Iterator[tuple[str, ...]]:
    return iter(queries.views.connection.execute(statement, parameters))


def _clusters(queries: Queries, wanted: str) -> Iterator[Hit]:
    statement = (
        "SELECT cluster, owner, batch FROM clusters WHERE owner LIKE ? ESCAPE '\\' OR batch LIKE ? ESCAPE '\\' "
        "ORDER BY cluster DESC LIMIT 8"
    )
    for cluster, owner, batch in _rows(queries, statement, _pattern(wanted), _pattern(wanted)):
        yield Hit("cluster", str(cluster), f"{batch}, of {owner}" if batch else f"of {owner}")


def _slots(queries: Queries, wanted: str) -> Iterator[Hit]:
    if queries.imported:
        from .slot_grid import slot_grid

        grid = slot_grid(queries)
        for slot, number in zip(grid.names(), grid.state, strict=True):
            if wanted in slot.lower():
                yield Hit("slot", slot, grid.states[number])
        return
    statement = (
        "SELECT name, state || '/' || activity FROM slots WHERE name LIKE ? ESCAPE '\\' "
        f"AND machine NOT IN ({GONE}) ORDER BY born LIMIT 8"
    )
    for name, state in _rows(queries, statement, _pattern(wanted)):
        yield Hit("slot", name, state)


def _machines(queries: Queries, wanted: str) -> Iterator[Hit]:
    from .pool import machines

    for machine in machines(queries):
        if wanted in machine.machine.lower():
            yield Hit("machine", machine.machine, f"{machine.busy} of {machine.slots} slots busy")


def _accounts(queries: Queries, wanted: str) -> Iterator[Hit]:
    from .shares import shares

    try:
        rows = shares(queries).shares
    except NotKnown:
        return
    for share in rows:
        if wanted in share.name.lower():
            yield Hit("group" if share.is_group else "user", share.name, f"{share.used:g} cores")


def _findings(queries: Queries, wanted: str) -> Iterator[Hit]:
    statement = (
        "SELECT position, kind || ': ' || text FROM findings WHERE text LIKE ? ESCAPE '\\' "
        "ORDER BY position DESC LIMIT 8"
    )
    for position, text in _rows(queries, statement, _pattern(wanted)):
        yield Hit("event", str(position), text)
