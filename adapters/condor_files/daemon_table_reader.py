"""Read job_queue.log and Accountantnew.log, the transaction logs of the schedd and the negotiator.

Each line is an operation: a number and its operands. docs/import.md describes how unfinished or torn transactions are
handled, and how the time of an event is determined.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ...domain.events import Event, TableWritten
from ...domain.imported.record_sources import (
    BEGIN_TRANSACTION,
    DELETE_ATTRIBUTE,
    DESTROY_AD,
    END_TRANSACTION,
    LOG_SEQUENCE,
    NEW_AD,
    SET_ATTRIBUTE,
)
from .source_reader import SourceFile, State, is_private, without_secrets

Operation = tuple[int, str, str, str]

DATES: Final = frozenset(
    """
    CompletionDate EnteredCurrentStatus FirstJobMatchDate JobCurrentFinishTransferInputDate
    JobCurrentFinishTransferOutputDate JobCurrentStartDate JobCurrentStartExecutingDate JobCurrentStartTransferInputDate
    JobCurrentStartTransferOutputDate JobFinishedHookDone JobLastStartDate JobStartDate JobSuspendedDate
    LastJobLeaseRenewal LastMatchTime LastRejMatchTime LastRemoteStatusUpdate LastSuspensionTime LastVacateTime QDate
    ShadowBday TransferInFinished TransferInQueued TransferInStarted TransferOutFinished TransferOutQueued
    TransferOutStarted

    BeginUsageTime LastUpdateTime LastUsageTime StartTime
    """.lower().split()
)
"""The attributes (lower case) that contain a date written by a daemon (seconds since the epoch): first of jobs, then of
submitters, slots and the accountant."""

MAX_FUTURE = 86_400  #: ignore a date that is later than the import by more than this (seconds), since it must be wrong

# The operands of each operation: key, attribute, text. An empty group () means a missing operand.
_FORMS: Final = {
    NEW_AD: re.compile(rb"(\S+)()[ \t]+(\S.*)"),
    DESTROY_AD: re.compile(rb"(\S+)()()\s*"),
    SET_ATTRIBUTE: re.compile(rb"(\S+)[ \t]+(\S+)[ \t](.*\S.*)"),
    DELETE_ATTRIBUTE: re.compile(rb"(\S+)[ \t]+(\S+)()\s*"),
    BEGIN_TRANSACTION: re.compile(rb"()()()\s*"),
    END_TRANSACTION: re.compile(rb"()()((?:#.*)?)\s*"),
    LOG_SEQUENCE: re.compile(rb"(\d+)[ \t]+(\S+)[ \t]+(\d+)\s*"),
}
_NUMBER = re.compile(rb"[ \t]*(10[1-7])(?![^ \t\r#])[ \t]*")
_TRIMMED = re.compile(rb"(?:#+|\.{3,})[ \t]*trimmed")
# The end of a transaction: its 106, the 105 of the next transaction, or a place where lines were removed.
_ENDS = re.compile(rb"^[ \t]*(?:106(?![^ \t\r\n#])|105(?![^ \t\r\n])|(?:#+|\.{3,})[ \t]*trimmed)", re.MULTILINE)


class _TableLine(NamedTuple):
    """A line of the file: its number, the positions in the data at which it and the next line start, and its bytes."""

    number: int
    begin: int
    end: int
    text: bytes


class TableReader:
    """Reads a transaction log (kinds "queue" and "accountant")."""

    def __init__(self, source: SourceFile, state: State | None, line: int) -> None:
        state = state or {}
        self.line = line
        self._source = source
        self._at: int = state.get("at", 0)
        self._number: int = state.get("number", 0)
        # After removed lines, a line before the next transaction may be the rest of an operation.
        self._cut: bool = state.get("cut", False) and line > 0
        self._names: dict[bytes, str] = {}

    def state(self) -> State:
        return {"at": self._at, "number": self._number, "cut": self._cut}

    def read(self, data: bytes) -> tuple[list[Event], int]:
        events: list[Event] = []
        position = 0
        while (line := self._next_line(data, position)) is not None:
            end = self._read_operation_or_transaction(data, line, events)
            if end is None:
                break
            position = end
        return events, position

    def _next_line(self, data: bytes, position: int, number: int = 0) -> _TableLine | None:
        newline = data.find(b"\n", position)
        if newline < 0:
            return None
        return _TableLine(number or self.line + 1, position, newline + 1, data[position:newline].rstrip(b"\r"))

    def _read_operation_or_transaction(self, data: bytes, line: _TableLine, events: list[Event]) -> int | None:
        """Process the operation or transaction that starts at `line`; return its end, or None if it is not complete."""
        if _TRIMMED.match(line.text):
            events.append(self._source.gap(self._at, line.number, "lines were taken out of the file", self._at))
            self._cut = True
            self.line = line.number
            return line.end
        operation = self._parse_operation(line)
        if operation is not None and operation[0] == BEGIN_TRANSACTION:
            return self._read_transaction(data, line, events)
        if operation is None or operation[0] == END_TRANSACTION:
            return self._reject_line(data, line, events)
        if operation[0] == LOG_SEQUENCE and line.number > 1:
            events.append(self._rejection(line, "a table begins in the middle of the file"))
        else:
            events.append(self._table_written(line.number, [operation]))
        self.line = line.number
        return line.end

    def _reject_line(self, data: bytes, line: _TableLine, events: list[Event]) -> int | None:
        """Reject a line outside of transactions that is not an operation, unless it is blank or was truncated."""
        if line.text.strip():
            follower = self._next_line(data, line.end, line.number + 1)
            if follower is None:
                return None
            if not self._cut and not _TRIMMED.match(follower.text):
                events.append(self._rejection(line, "not a valid operation"))
        self.line = line.number
        return line.end

    def _read_transaction(self, data: bytes, begin: _TableLine, events: list[Event]) -> int | None:
        """Process the transaction that starts with the 105 in `begin`; return its end, or None if it is incomplete."""
        match = _ENDS.search(data, begin.end)
        if match is None or (last_break := data.find(b"\n", match.start())) < 0:
            return None
        self._cut = False
        if match[0].strip() != b"106":
            # The next transaction starts inside this one, or its end was removed, so it is unknown whether it took
            # effect.
            if match[0].strip() == b"105":
                events.append(self._rejection(begin, "a transaction that was never finished"))
            self.line = begin.number + data.count(b"\n", begin.end, match.start())
            return match.start()
        operations: list[Operation] = []
        lines = data[begin.begin : last_break].split(b"\n")
        for number, text in enumerate(lines, begin.number):
            line = _TableLine(number, 0, 0, text.rstrip(b"\r"))
            operation = self._parse_operation(line)
            if operation is not None and operation[0] != LOG_SEQUENCE:
                operations.append(operation)
            elif text.strip():
                events.append(self._rejection(line, "not a valid operation"))
        events.append(self._table_written(begin.number, operations))
        self.line = begin.number + len(lines) - 1
        return last_break + 1

    def _parse_operation(self, line: _TableLine) -> Operation | None:
        match = _NUMBER.match(line.text)
        if match is None:
            return None
        number = int(match[1])
        fields = _FORMS[number].fullmatch(line.text, match.end())
        if fields is None:
            return None
        key, name, text = fields.groups()
        return number, self._interned_name(key), self._interned_name(name), text.decode("utf-8", "backslashreplace")

    def _interned_name(self, text: bytes) -> str:
        """Return a key or attribute as a string. The same few names occur often, so each string is stored only once."""
        name = self._names.get(text)
        if name is None:
            if len(self._names) > 100_000:
                self._names.clear()
            name = self._names[text] = text.decode("utf-8", "backslashreplace")
        return name

    def _table_written(self, line: int, operations: list[Operation]) -> TableWritten:
        cleaned_operations: list[Operation] = []
        for number, key, name, text in operations:
            if name and is_private(name):
                continue
            if (name and name.lower() in DATES) or number == LOG_SEQUENCE:
                self._advance_time(text)
            cleaned_operations.append((number, key, name, without_secrets(text)))
        self._number += 1
        place = self._source.location_of_line(line)
        return TableWritten(self._at, "reported", place, self._source.kind, self._number, tuple(cleaned_operations))

    def _advance_time(self, text: str) -> None:
        """Advance the table's time to the date in `text`, if there is one."""
        text = text.strip()
        if not text.isdecimal() or not text.isascii() or len(text) > 12:
            return
        seconds = int(text)
        if not self._source.now or seconds <= self._source.now // 1_000_000 + MAX_FUTURE:
            self._at = max(self._at, seconds * 1_000_000)

    def _rejection(self, line: _TableLine, reason: str) -> Event:
        return self._source.refused(line.number, reason, line.text.decode("utf-8", "backslashreplace"), self._at)
