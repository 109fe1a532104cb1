"""Write a log as OCEL 2.0 in SQLite, the format of process mining tools (https://www.ocel-standard.org).

Objects are jobs, slots, machines and users. An event is what happened to one job or slot; the objects to which it is
related have a role in it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Final, NamedTuple

from ...domain.names import SlotName
from ...replay.accounts.intervals import SlotInterval
from ...replay.exports.tables import Row
from ...replay.narration.formatting import iso

_EVENT_ATTRIBUTES: Final = ("cause", "source", "target", "details", "position")
_OBJECTS: Final = {"job": ("user",), "slot": ("machine", "cores"), "machine": (), "user": ()}
"""The types of objects, with their attributes."""
_ON_SLOT: Final = re.compile(r"\b(?:on|with) ([^\s,]+@[^\s,]+)")
_BY_USER: Final = re.compile(r"^(?:by|of) ([^\s,]+@[^\s,]+)")
"""The slot and the user in the details of a transition, as `poolbook log` prints them."""
_SCHEMA: Final = """
CREATE TABLE event_map_type (ocel_type TEXT PRIMARY KEY, ocel_type_map TEXT NOT NULL);
CREATE TABLE object_map_type (ocel_type TEXT PRIMARY KEY, ocel_type_map TEXT NOT NULL);
CREATE TABLE event (ocel_id TEXT PRIMARY KEY, ocel_type TEXT NOT NULL REFERENCES event_map_type);
CREATE TABLE object (ocel_id TEXT PRIMARY KEY, ocel_type TEXT NOT NULL REFERENCES object_map_type);
CREATE TABLE event_object (ocel_event_id TEXT NOT NULL REFERENCES event, ocel_object_id TEXT NOT NULL REFERENCES object,
    ocel_qualifier TEXT NOT NULL, PRIMARY KEY (ocel_event_id, ocel_object_id, ocel_qualifier));
CREATE TABLE object_object (ocel_source_id TEXT NOT NULL REFERENCES object, ocel_target_id TEXT NOT NULL
    REFERENCES object, ocel_qualifier TEXT NOT NULL, PRIMARY KEY (ocel_source_id, ocel_target_id, ocel_qualifier));
"""


class Relation(NamedTuple):
    """An object of an event or of another object, with its type and role."""

    id: str
    kind: str
    role: str


def write_ocel(transitions: Iterable[Row], parts: Iterable[SlotInterval], path: str) -> int:
    """Write an OCEL 2.0 database to a new file, and return the number of events.

    :param transitions: the rows of the table `transitions`
    :param parts: the intervals of slots, which relate jobs to slots, machines and users
    """
    with closing(sqlite3.connect(path)) as database:
        database.executescript(_SCHEMA)
        writer = _Writer(database)
        for part in parts:
            writer.add_interval(part)
        count = sum(map(writer.add_transition, transitions))
        writer.finish()
        database.commit()
    return count


def _table(kind: str) -> str:
    """Return the name by which tables of a type end: only letters, digits and underscores."""
    return re.sub(r"\W", "_", kind)


class _Writer:
    def __init__(self, database: sqlite3.Connection) -> None:
        self._execute = database.execute
        self._event_kinds: set[str] = set()
        self._objects: set[str] = set()
        for kind, attributes in _OBJECTS.items():
            self._execute("INSERT INTO object_map_type VALUES (?, ?)", (kind, _table(kind)))
            columns = "".join(f", {name} TEXT" for name in attributes)
            self._execute(
                f"CREATE TABLE object_{_table(kind)} (ocel_id TEXT NOT NULL REFERENCES object, ocel_time TIMESTAMP, "
                f"ocel_changed_field TEXT{columns})"
            )

    def _add_object(self, id: str, kind: str, at: int, *values: object) -> None:
        if id not in self._objects:
            self._objects.add(id)
            self._execute("INSERT INTO object VALUES (?, ?)", (id, kind))
            attributes = (*values, *[""] * len(_OBJECTS[kind]))[: len(_OBJECTS[kind])]
            marks = ", ?" * len(attributes)
            self._execute(f"INSERT INTO object_{_table(kind)} VALUES (?, ?, NULL{marks})", (id, iso(at), *attributes))

    def _relate(self, source: str, target: str, role: str) -> None:
        self._execute("INSERT OR IGNORE INTO object_object VALUES (?, ?, ?)", (source, target, role))

    def add_interval(self, part: SlotInterval) -> None:
        self._add_object(part.machine, "machine", part.begin)
        self._add_object(part.slot, "slot", part.begin, part.machine, part.cores)
        self._relate(part.slot, part.machine, "slot of")
        if part.user:
            self._add_object(part.user, "user", part.begin)
        if part.job:
            self._add_object(part.job, "job", part.begin, part.user)
            self._relate(part.job, part.slot, "ran on")
            if part.user:
                self._relate(part.job, part.user, "submitted by")

    def add_transition(self, row: Row) -> bool:
        """Add an event, unless it is about something else than a job, slot or machine; return whether it was added."""
        position, number, at, _, _, what, _, source, target, cause, details, _ = row
        relations = list(_relations(row))
        if not relations:
            return False
        kind = f"{relations[0].kind} {'transition ' if str(what).isdigit() else ''}{what}"
        if kind not in self._event_kinds:
            self._event_kinds.add(kind)
            self._execute("INSERT INTO event_map_type VALUES (?, ?)", (kind, _table(kind)))
            columns = "".join(f", {name} TEXT" for name in _EVENT_ATTRIBUTES)
            self._execute(
                f"CREATE TABLE event_{_table(kind)} (ocel_id TEXT NOT NULL REFERENCES event, ocel_time TIMESTAMP"
                f"{columns})"
            )
        id = f"{position}.{number}"
        values = (id, iso(int(str(at))), cause, source, target, details, position)
        self._execute("INSERT INTO event VALUES (?, ?)", (id, kind))
        self._execute(f"INSERT INTO event_{_table(kind)} VALUES (?, ?{', ?' * len(_EVENT_ATTRIBUTES)})", values)
        for relation in relations:
            self._add_object(relation.id, relation.kind, int(str(at)))
            self._execute("INSERT OR IGNORE INTO event_object VALUES (?, ?, ?)", (id, relation.id, relation.role))
        return True

    def finish(self) -> None:
        """Index the relations by object, as queries about an object's events need it."""
        self._execute("CREATE INDEX event_object_by_object ON event_object (ocel_object_id)")


def _relations(row: Row) -> Iterator[Relation]:
    stream, thing, details = (str(row[index]) for index in (3, 4, 10))
    if re.fullmatch(r"\d+\.\d+", thing):
        yield Relation(thing, "job", "job")
    elif stream == f"slot/{thing}":
        yield Relation(thing, "slot", "slot")
        yield Relation(SlotName.parse(thing).machine, "machine", "machine of the slot")
    elif stream == f"machine/{thing}":
        yield Relation(thing, "machine", "machine")
    else:
        return
    if slot := _ON_SLOT.search(details):
        yield Relation(slot[1], "slot", "slot of the job")
    if user := _BY_USER.search(details):
        yield Relation(user[1], "user", "user")
