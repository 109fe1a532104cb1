"""Verify that a log is unaltered: recompute every value that can be recomputed, and compare it with the stored one.

The log is verified up to its head at the start, so that a writer may continue meanwhile. It is read in order, one
append at a time, so that the memory does not grow with the log (except for a number per stream). After a problem, the
next append is checked against the stored digest before it, so that each problem is reported only at its own position.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import msgspec

from ...domain.events import WriterBegan
from ...domain.ports.log import Head, LogDamaged, LogNewer
from .codec import topics_of
from .format import FORMAT
from .head_witness import disagreement
from .recorder import Appended, LogRecorder, head_in
from .seal import GENESIS, Row, recomputed_seal
from .stored_log import next_count

MAX_PROBLEMS = 100  #: maximum number of problems to report; one fault may cause as many as there are events
_CHUNK = 512
_R = TypeVar("_R", Row, Appended)
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1  # also find rows at impossible positions
_WRITER_TOPICS = topics_of(WriterBegan)


class Problem(NamedTuple):
    """A difference from what was appended. ``position`` is the position of the event or of the append's last event, or
    None if the problem concerns the whole log."""

    position: int | None
    text: str


def find_problems(tables: LogRecorder, mark: Head | None) -> list[Problem]:
    """Return a log's problems, at most `MAX_PROBLEMS`; none for an unaltered log. Read `mark` before the log."""
    problems: list[Problem] = []
    walk = _Walk(tables)
    try:
        head = _checked_head(tables, problems)
        for problem in walk.problems(head):
            problems.append(problem)
            if len(problems) >= MAX_PROBLEMS:
                return [*problems, Problem(None, "and more: the rest was not checked")]
        if head is not None:
            problems += walk.head_problems(head)
            disagreement_text = disagreement(mark, head, tables.seal_at)
            if disagreement_text:
                problems.append(Problem(None, f"it disagrees with its mark: {disagreement_text}"))
        problems += [Problem(None, fault) for fault in tables.integrity_problems()]
    except LogDamaged as damage:
        problems.append(Problem(walk.position, str(damage)))
    return problems


def _checked_head(tables: LogRecorder, problems: list[Problem]) -> Head | None:
    try:
        return head_in(tables)
    except (LogDamaged, LogNewer) as error:
        problems.append(Problem(None, str(error)))
        return None


class _Walk:
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
                if self._has_same_end(head):
                    yield Problem(append[0], f"an append ends at position {append[0]}, after the head")
                return
            part_rows: list[Row] = []
            while row is not None and row[0] <= append[0]:
                part_rows.append(row)
                row = next(rows, None)
            yield from self._row_problems(part_rows)
            yield from self._append_problems(append, part_rows)
            self.position, version, self._epoch, self._digest = append
            self._format = version if type(version) is int else FORMAT
        if row is not None and (head is None or self._has_same_end(head)):
            yield Problem(row[0], f"the events from position {row[0]} on belong to no append")

    def _has_same_end(self, head: Head) -> bool:
        """Return True if no writer has appended since `head` was read: rows after the head are then a problem."""
        return [stored_head for _, stored_head in self._tables.head_rows()] == [head]

    def head_problems(self, head: Head) -> Iterator[Problem]:
        last_head = Head(self._epoch, self.position, self._digest)
        if head != last_head:
            yield Problem(head.position, f"the head is {head}, but the last append set it to {last_head}")
        version = self._tables.head_rows()[0][0]
        if self.position and version != self._format:
            yield Problem(head.position, f"the head has format {version}, but the last append has {self._format}")

    def _row_problems(self, part_rows: list[Row]) -> Iterator[Problem]:
        versions = self._versions
        for expected, (position, _, _, _, _) in enumerate(part_rows, self.position + 1):
            if position != expected:
                yield Problem(expected, f"position {expected} is missing; the next one is {position}")
                break
        for position, stream, version, _, _ in part_rows:
            due = versions.get(stream, 0) + 1
            if version != due and (version != 0 or stream in versions):  # the library numbers some streams from 0
                yield Problem(position, f"event {due} of stream {stream!r} is missing; the next one is {version!r}")
            versions[stream] = version if type(version) is int else 0

    def _append_problems(self, append: Appended, part_rows: list[Row]) -> Iterator[Problem]:
        position, version, epoch, digest = append
        if not part_rows or part_rows[-1][0] != position:
            yield Problem(position, f"an append ends at position {position}, but its last event is missing")
        if [type(field) for field in append] != [int, int, int, str]:
            yield Problem(position, "the record of the append is invalid")
        elif not self._format <= version <= FORMAT:
            yield Problem(position, f"the append has format {version}, after one with {self._format}")
        if epoch != self._expected_epoch(part_rows):
            yield Problem(position, f"the append has epoch {epoch!r} instead of {self._expected_epoch(part_rows)}")
        if digest != recomputed_seal(self._digest, version, epoch, self.position + 1, part_rows):
            append_text = f"the append that ends at position {position}"
            yield Problem(position, f"the seal of {append_text} is broken: it or its events changed")

    def _expected_epoch(self, part_rows: list[Row]) -> int:
        """Return the expected epoch of an append of these rows: that of their WriterBegan, else of the previous
        append."""
        epoch = self._epoch if type(self._epoch) is int else 0
        for _, _, _, topic, state in part_rows:
            if topic in _WRITER_TOPICS:
                try:
                    began = msgspec.json.decode(state, type=WriterBegan).epoch
                except (msgspec.MsgspecError, ValueError, TypeError):
                    return -1
                epoch = began if began == epoch + 1 else -1
        return epoch

    def _rows(self) -> Iterator[Row]:
        after, count = _LOWEST, _CHUNK // 8
        while rows := self._check_positions(self._tables.read_rows(after, _HIGHEST, count)):
            yield from rows
            after = self._advance(after, rows[-1][0])
            count = next_count(rows)

    def _appends(self) -> Iterator[Appended]:
        after = _LOWEST
        while appends := self._check_positions(self._tables.read_appends(after, _CHUNK)):
            yield from appends
            after = self._advance(after, appends[-1][0])

    def _check_positions(self, rows: list[_R]) -> list[_R]:
        if all(type(row[0]) is int for row in rows):  # else the table's schema is damaged
            return rows
        raise LogDamaged(f"{self._tables.name}: rows after position {self.position} have no position")

    def _advance(self, after: int, last: int) -> int:
        # In a damaged file, a table can form a loop.
        if last <= after:
            raise LogDamaged(f"{self._tables.name}: a position after {after} occurs twice")
        return last
