"""Verify that a log still holds what was appended: compute everything again that can be, and compare.

The log is verified up to its head at the beginning, so that a writer may go on meanwhile. It is read in order, an
append at a time, so that the memory needed does not grow with the log (but for a number per stream). After a fault the
next append is judged by the digest stored before it: a fault is reported where it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import msgspec
from attrs import frozen

from ...domain.events import WriterBegan
from ...domain.ports.log import Head, LogDamaged, LogNewer
from .codec import topics_of
from .format import FORMAT
from .head_witness import disagreement
from .recorder import Appended, LogRecorder, head_in
from .seal import GENESIS, Row, recomputed_seal
from .stored_log import next_count

MOST = 100  #: problems that are reported; one fault may cause as many as there are events
_CHUNK = 512
_R = TypeVar("_R", Row, Appended)
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1  # what stands at a position that no log has must show, too
_WRITER = topics_of(WriterBegan)


@frozen
class Problem:
    """Something that is not as it was appended. ``position``: of the event, or of the last event of the append; None
    for the log as a whole."""

    position: int | None
    text: str


def problems_of(tables: LogRecorder, mark: Head | None) -> list[Problem]:
    """Return what is wrong with a log, at most `MOST` problems; empty for a sound one. `mark`: read before the log."""
    found: list[Problem] = []
    walk = _Walk(tables)
    try:
        head = _head(tables, found)
        for problem in walk.problems(head):
            found.append(problem)
            if len(found) >= MOST:
                return [*found, Problem(None, "and more: the rest was not looked at")]
        if head is not None:
            found += walk.at_the_end(head)
            wrong = disagreement(mark, head, tables.sealed)
            if wrong:
                found.append(Problem(None, f"its mark says otherwise: {wrong}"))
        found += [Problem(None, fault) for fault in tables.faults()]
    except LogDamaged as damage:
        found.append(Problem(walk.position, str(damage)))
    return found


def _head(tables: LogRecorder, found: list[Problem]) -> Head | None:
    try:
        return head_in(tables)
    except (LogDamaged, LogNewer) as error:
        found.append(Problem(None, str(error)))
        return None


class _Walk:
    """One pass over appends and events, side by side."""

    def __init__(self, tables: LogRecorder) -> None:
        self._tables = tables
        self._versions: dict[str, int] = {}
        self.position = 0
        self._format = 1
        self._epoch = 0
        self._digest = GENESIS

    def problems(self, head: Head | None) -> Iterator[Problem]:
        rows = self._rows()
        row = next(rows, None)
        for append in self._appends():
            if head is not None and append[0] > head.position:
                if self._still_ends_at(head):
                    yield Problem(append[0], f"there is an append that ends at position {append[0]}, behind the head")
                return
            part: list[Row] = []
            while row is not None and row[0] <= append[0]:
                part.append(row)
                row = next(rows, None)
            yield from self._of_rows(part)
            yield from self._of_append(append, part)
            self.position, version, self._epoch, self._digest = append
            self._format = version if type(version) is int else FORMAT
        if row is not None and (head is None or self._still_ends_at(head)):
            yield Problem(row[0], f"from position {row[0]} on there are events of no append")

    def _still_ends_at(self, head: Head) -> bool:
        """Tell whether no writer has appended since `head` was read: rows behind the head are then a fault."""
        return [found for _, found in self._tables.heads()] == [head]

    def at_the_end(self, head: Head) -> Iterator[Problem]:
        last = Head(self._epoch, self.position, self._digest)
        if head != last:
            yield Problem(head.position, f"the head is {head}, but the last append made it {last}")
        version = self._tables.heads()[0][0]
        if self.position and version != self._format:
            yield Problem(head.position, f"the head is of format {version}, but the last append of {self._format}")

    def _of_rows(self, part: list[Row]) -> Iterator[Problem]:
        versions = self._versions
        for expected, (position, _, _, _, _) in enumerate(part, self.position + 1):
            if position != expected:
                yield Problem(expected, f"position {expected} should come next, but {position} does")
                break
        for position, stream, version, _, _ in part:
            due = versions.get(stream, 0) + 1
            if version != due and (version != 0 or stream in versions):  # the library numbers some streams from 0
                yield Problem(position, f"event {due} of stream {stream!r} should come, but {version!r} does")
            versions[stream] = version if type(version) is int else 0

    def _of_append(self, append: Appended, part: list[Row]) -> Iterator[Problem]:
        position, version, epoch, digest = append
        if not part or part[-1][0] != position:
            yield Problem(position, f"an append ends at position {position}, but its last event is not there")
        if [type(field) for field in append] != [int, int, int, str]:
            yield Problem(position, "the record of the append is none that a writer made")
        elif not self._format <= version <= FORMAT:
            yield Problem(position, f"the append is of format {version}, after one of {self._format}")
        if epoch != self._due(part):
            yield Problem(position, f"the append is of epoch {epoch!r}, and should be of {self._due(part)}")
        if digest != recomputed_seal(self._digest, version, epoch, self.position + 1, part):
            yield Problem(
                position, f"the seal of the append that ends at position {position} is broken: it or its events changed"
            )

    def _due(self, part: list[Row]) -> int:
        """Return the epoch of an append of these rows: the one before, or that of its WriterBegan."""
        epoch = self._epoch if type(self._epoch) is int else 0
        for _, _, _, topic, state in part:
            if topic in _WRITER:
                try:
                    began = msgspec.json.decode(state, type=WriterBegan).epoch
                except (msgspec.MsgspecError, ValueError, TypeError):
                    return -1
                epoch = began if began == epoch + 1 else -1
        return epoch

    def _rows(self) -> Iterator[Row]:
        after, count = _LOWEST, _CHUNK // 8
        while rows := self._numbered(self._tables.chunk(after, _HIGHEST, count)):
            yield from rows
            after = self._further(after, rows[-1][0])
            count = next_count(rows)

    def _appends(self) -> Iterator[Appended]:
        after = _LOWEST
        while appends := self._numbered(self._tables.appends(after, _CHUNK)):
            yield from appends
            after = self._further(after, appends[-1][0])

    def _numbered(self, rows: list[_R]) -> list[_R]:
        if all(type(row[0]) is int for row in rows):  # not so where the table's own description is damaged
            return rows
        raise LogDamaged(f"{self._tables.name}: behind position {self.position} there are rows without a position")

    def _further(self, after: int, last: int) -> int:
        # In a damaged file a table can lead in a circle.
        if last <= after:
            raise LogDamaged(f"{self._tables.name}: behind position {after} the same positions come again")
        return last
