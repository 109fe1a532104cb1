"""Wait for the jobs of a job event log, as condor_wait does (its source: ``condor_tools/wait.cpp``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from ..condor_files.job_event_log_ads import Unreadable, entry_of_json, entry_of_xml

_SUBMITTED, _EXECUTING, _TERMINATED, _ABORTED = 0, 1, 5, 9
_HEADER: Final = re.compile(r"(\d{3}) \((-?\d+)\.(-?\d+)\.(-?\d+)\) ", re.ASCII)
_HOST: Final = re.compile(r"Job executing on host: (.*)")
_ENDS: Final = ((b"<c>", b"</c>\n", entry_of_xml), (b"{", b"}\n", entry_of_json))
"""How an entry in XML or JSON begins and ends, and what reads it. All others end with a line of three dots."""


class LogEntry(NamedTuple):
    """An entry of a job event log: its number, its job, and its whole text."""

    number: int
    job: tuple[int, int, int]  #: cluster, proc, subproc
    text: str

    @property
    def key(self) -> str:
        return "{}.{}.{}".format(*self.job)


class UnreadableEntry(Exception):
    """What stands in a log is no entry."""


def take_entries(data: bytes) -> tuple[list[LogEntry], int]:
    """Return the whole entries at the beginning of `data`, and how many bytes they take. Raise ``UnreadableEntry``."""
    found, at = list[LogEntry](), 0
    while at < len(data):
        if data[at : at + 1] in b"\r\n":
            at += 1
            continue
        sign, end, read = next(((s, e, r) for s, e, r in _ENDS if data.startswith(s, at)), (b"", b"...\n", None))
        until = data.find(b"\n" + end, at)
        until = until + 1 if until >= 0 else data.find(end, at) if sign else -1
        if until < 0:
            break
        text = data[at : until + len(end)].decode("utf-8", "backslashreplace").replace("\r\n", "\n")
        at = until + len(end)
        if read is None:
            header = _HEADER.match(text)
            if header is None:
                raise UnreadableEntry(text.partition("\n")[0])
            number, *job = map(int, header.groups())
        else:
            try:
                number, *job, _, _ = read(text)
            except Unreadable as problem:
                raise UnreadableEntry(str(problem)) from None
        found.append(LogEntry(number, (job[0], job[1], job[2]), text))
    return found, at


class Waiting:
    """What was seen of the jobs that are waited for.

    :param only: cluster, proc and subproc of the jobs, as many of them as are given
    :param jobs: the number of jobs that have to end; None for all that were submitted
    :param event: the number of an event that is waited for instead, as often as `times`
    """

    def __init__(
        self, only: tuple[int, ...] = (), jobs: int | None = None, event: int | None = None, times: int = 1
    ) -> None:
        self._only, self._jobs, self._event, self._times = only, jobs, event, times
        self._left: set[str] = set()
        self.submitted = self._ended = self._seen = 0

    def take(self, entry: LogEntry) -> str | None:
        """Take an entry; return the words of ``-status``, empty if there are none, or None if it is of another job."""
        if entry.job[: len(self._only)] != self._only:
            return None
        if entry.number == _SUBMITTED:
            self._left.add(entry.key)
            self.submitted += 1
            return f"{entry.key} submitted"
        if entry.number in (_TERMINATED, _ABORTED):
            self._left.discard(entry.key)
            self._ended += 1
            return f"{entry.key} {'completed' if entry.number == _TERMINATED else 'aborted'}"
        if entry.number == _EXECUTING:
            host = _HOST.search(entry.text)
            return f"{entry.key} executing on host {host[1] if host else ''}"
        if entry.number == self._event:
            self._seen += 1
            return f"{entry.key} event {self._event} found"
        return ""

    def done(self, read_to_the_end: bool) -> str:
        """Return the words with which the waiting ends; empty if it goes on.

        :param read_to_the_end: all was read that stood in the log at first
        """
        if self._jobs is not None and self._ended >= self._jobs:
            return f"Specifed number of jobs ({self._jobs}) done."  # the word is HTCondor's
        if self._event is not None:
            return f"Got {self._seen} events of id {self._event}" if self._seen >= self._times else ""
        return "All jobs done." if read_to_the_end and self._jobs is None and not self._left else ""


Reader = Callable[[], bytes]


def follow(read: Reader) -> Iterator[list[LogEntry]]:
    """Yield the entries that were added to a log since the last time. Raise ``UnreadableEntry``.

    :param read: returns the bytes that were added
    """
    rest = b""
    while True:
        rest += read()
        entries, taken = take_entries(rest)
        rest = rest[taken:]
        yield entries
