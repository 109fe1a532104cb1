"""Parse the entries of a job event log that may still be growing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from ..condor_files.job_event_log_ads import Unreadable, entry_of_json, entry_of_xml

SUBMITTED, EXECUTING, TERMINATED, ABORTED = 0, 1, 5, 9
_HEADER: Final = re.compile(r"(\d{3}) \((-?\d+)\.(-?\d+)\.(-?\d+)\) ", re.ASCII)
_ENDS: Final = ((b"<c>", b"</c>\n", entry_of_xml), (b"{", b"}\n", entry_of_json))
"""The start and end of an entry in XML or JSON, and its parser. Other entries end with a line of three dots."""


class LogEntry(NamedTuple):
    """An entry of a job event log: its event number, its job, and its text."""

    number: int
    job: tuple[int, int, int]  #: cluster, proc, subproc
    text: str

    @property
    def key(self) -> str:
        return "{}.{}.{}".format(*self.job)


class UnreadableEntry(Exception):
    """A part of a job event log is not a valid entry."""


def take_entries(data: bytes) -> tuple[list[LogEntry], int]:
    """Parse the complete entries at the start of `data`; return them and their length. Raise ``UnreadableEntry``."""
    entries, at = list[LogEntry](), 0
    while at < len(data):
        if data[at : at + 1] in b"\r\n":
            at += 1
            continue
        start_sign, end, read_size = next(
            ((start_text, e, size_reader) for start_text, e, size_reader in _ENDS if data.startswith(start_text, at)),
            (b"", b"...\n", None),
        )
        until = data.find(b"\n" + end, at)
        until = until + 1 if until >= 0 else data.find(end, at) if start_sign else -1
        if until < 0:
            break
        text = data[at : until + len(end)].decode("utf-8", "backslashreplace").replace("\r\n", "\n")
        at = until + len(end)
        if read_size is None:
            header = _HEADER.match(text)
            if header is None:
                raise UnreadableEntry(text.partition("\n")[0])
            number, *job = map(int, header.groups())
        else:
            try:
                number, *job, _, _ = read_size(text)
            except Unreadable as problem:
                raise UnreadableEntry(str(problem)) from None
        entries.append(LogEntry(number, (job[0], job[1], job[2]), text))
    return entries, at


Reader = Callable[[], bytes]


def poll_entries(read: Reader) -> Iterator[list[LogEntry]]:
    """Yield the entries that were appended since the last call of `read`. Raise ``UnreadableEntry``.

    :param read: returns the bytes that were appended
    """
    unread_bytes = b""
    while True:
        unread_bytes += read()
        entries, taken_size = take_entries(unread_bytes)
        unread_bytes = unread_bytes[taken_size:]
        yield entries
