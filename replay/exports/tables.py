"""The tables of an export. ``tables.txt`` defines their columns; a released column keeps its name, type and meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec

from ...domain import events as e
from ...domain.events.base import TOPIC_OF
from ...domain.names import JobId
from ...domain.package_data import get_data, sections
from ...domain.ports.log import EventStore
from ..accounts.intervals import slot_intervals
from ..listing.members import entries
from ..narration.formatting import EVER
from ..runs.of_log import runs_of

VERSION: Final = 1  #: changes when a column is removed, or changes its type or meaning

Row = tuple[object, ...]
Rows = Callable[[EventStore, int, int], Iterator[Row]]
"""The rows of a log between two instants, in microseconds. An instant in a row is an int."""

_encode = msgspec.json.Encoder().encode


class Column(NamedTuple):
    name: str
    kind: str  #: str, int, float or time (an instant)
    meaning: str


class ExportTable(NamedTuple):
    description: str
    columns: tuple[Column, ...]
    rows: Rows


def _runs(log: EventStore, since: int, until: int) -> Iterator[Row]:
    for run in runs_of(log, since, until).runs:
        yield (
            run.job, *JobId.parse(run.job), run.user, run.group, run.slot, run.machine, run.began,
            max(run.began, run.ended), run.duration, run.outcome, run.cause.name, run.reason_text, run.position,
        )  # fmt: skip


def _slots(log: EventStore, since: int, until: int) -> Iterator[Row]:
    for part in slot_intervals(log, since, until):
        yield (
            part.slot, part.machine, part.begin, part.end, part.end - part.begin, part.kind, part.state, part.activity,
            part.job, part.user, part.group, part.cause, part.cores,
        )  # fmt: skip


def _cycles(log: EventStore, since: int, until: int) -> Iterator[Row]:
    for position, event in log.read_stream(e.CycleHeld.stream):
        if isinstance(event, e.CycleHeld) and since <= event.at < until:
            counts = len(event.matches), len(event.unmatched)
            yield position, event.at, event.negotiator, *counts, _encode(event.statistics).decode()


def _events(log: EventStore, since: int, until: int) -> Iterator[Row]:
    for position, event in log.read():
        if since <= event.at < until:
            kind, content = TOPIC_OF[type(event)], _encode(event).decode()
            yield position, event.at, event.stream, kind, event.cause, event.stimulus, content


def _transitions(log: EventStore, since: int, until: int) -> Iterator[Row]:
    for member in entries(log, None, since, until):
        yield (
            member.position, member.index, member.at, member.stream, member.thing, member.what, member.letter,
            member.source, member.target, member.cause, member.details, member.stimulus,
        )  # fmt: skip


_ROWS: Final[dict[str, Rows]] = {
    "runs": _runs, "slots": _slots, "cycles": _cycles, "events": _events, "transitions": _transitions,
}  # fmt: skip


def _tables() -> Iterator[tuple[str, ExportTable]]:
    for section in sections(get_data(__package__, "tables.txt")):
        description, *lines = section.lines
        yield (
            section.about,
            ExportTable(description, tuple(Column(*line.split(" | ")) for line in lines), _ROWS[section.about]),
        )


TABLES: Final[dict[str, ExportTable]] = dict(_tables())


def rows_of(name: str, log: EventStore, since: int = 0, until: int = EVER) -> Iterator[Row]:
    """Yield the rows of a table, in the order of its columns."""
    return TABLES[name].rows(log, since, until)
