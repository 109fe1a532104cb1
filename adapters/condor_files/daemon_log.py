"""Read a daemon's log with a table of patterns; the first word of a message selects the patterns to try.

Most messages match no pattern and cost a single dict look-up. Each reader is a class with its own table (``PATTERNS``)
and a method for each row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy
from typing import ClassVar, NamedTuple

from attrs import frozen

from ...domain.events import DaemonReported, Event, JobReported
from ...domain.names import JobId
from .daemon_log_lines import GAP, LogLines
from .source_reader import SourceFile, State, without_secrets


@frozen
class LogMessage:
    """A message that matches a pattern: its line, its time, and the pattern's groups by name ("" if absent). ``what``
    names the report, as given in the table's row."""

    line: int
    at: int
    match: re.Match[str]
    what: str = ""

    def __getitem__(self, group: str) -> str:
        return self.match.groupdict().get(group) or ""

    def facts(self) -> dict[str, str]:
        """Return the groups that matched, except the job."""
        return {name: text for name, text in self.match.groupdict().items() if text and name != "job"}


Rows = Sequence[tuple[str, str]]
"""A pattern, whose first word is plain text, and the method for a match; after a colon, the name of the report."""

DAEMON_LIFE: Rows = (
    (r"\*\* .* \((?P<daemon>\w+)\) STARTING UP", "_starting"),
    (r"\*\* \$CondorVersion: (?P<version>\S+) .*", "_version"),
    (r"\*\* PID = (?P<pid>\d+).*", "_pid"),
    (r"\*\*\*\* \S+(?: \(\w+\))?(?: pid (?P<pid>\d+))? EXITING WITH STATUS (?P<status>-?\d+)", "_exiting"),
    (r"Our parent process \(pid (?P<parent>\d+)\) went away; shutting down fast", "_remember"),
    (r"Got SIG(?:TERM|QUIT)\. +Performing (?P<how>\w+) shutdown.*", "_remember"),
    (r"Got SIGHUP\. +Re-reading config files.*", "_reconfigured"),
)
"""The messages at every daemon's start, reconfiguration and exit."""


class MessageRule(NamedTuple):
    pattern: re.Pattern[str]
    method: str
    what: str


def table(*rows: Rows) -> dict[str, tuple[MessageRule, ...]]:
    """Return the rules by the first word of the messages that they match."""
    rules: dict[str, tuple[MessageRule, ...]] = {}
    for pattern, method in (row for group in rows for row in group):
        word = re.split(r" |\\\.", pattern, maxsplit=1)[0].replace("\\", "")
        word = re.sub(r"\(.*", "", word)
        name, _, report_name = method.partition(":")
        rules[word] = (*rules.get(word, ()), MessageRule(re.compile(pattern), name, report_name))
    return rules


class DaemonLog:
    """The base class of the readers of daemon logs. A subclass defines ``PATTERNS`` and the methods named there, and
    stores its state in ``_remembered`` (JSON)."""

    PATTERNS: ClassVar[dict[str, tuple[MessageRule, ...]]] = {}
    DAEMON: ClassVar[str] = ""

    def __init__(self, source: SourceFile, state: State | None, line: int) -> None:
        state = state or {}
        self.line = line
        self.source = source
        self.machine = source.machine
        self._lines = LogLines(source, state.get("lines"), line)
        self._remembered: State = state.get("books", {})
        self._events: list[Event] = []

    def state(self) -> State:
        return {"lines": self._lines.state(), "books": deepcopy(self._remembered)}

    def read(self, data: bytes) -> tuple[list[Event], int]:
        events: list[Event] = []
        self._events = events
        for line, at, text in self._lines.split(data, events):
            if text == GAP:
                self._forget()
                continue
            self._before(line, at, text)
            word = text.split(None, 1)[:1]
            if word:
                self._take(line, at, text.strip(), word[0])
        self.line = self._lines.line
        return events, self._lines.consumed

    def _take(self, line: int, at: int, text: str, word: str) -> None:
        for pattern, method, report_name in self.PATTERNS.get(word, ()):
            match = pattern.fullmatch(text)
            if match:
                getattr(self, method)(LogMessage(line, at, match, report_name))
                return

    def _before(self, line: int, at: int, text: str) -> None:
        """Examine a message before it is processed."""

    def _forget(self) -> None:
        """Drop the remembered state, since missing lines may have changed it."""
        self._remembered = {}

    def job(self, message: LogMessage, report_name: str, facts: dict[str, str], job: str = "") -> None:
        """Report an event of a job: the job that the message names, or `job`."""
        cluster, proc = JobId.parse(job or message["job"])
        facts = {name: without_secrets(text) for name, text in facts.items() if text}
        place = self.source.place(message.line)
        self._events.append(JobReported(message.at, "reported", place, cluster, proc, report_name, facts))

    def _note(self, message: LogMessage) -> None:
        """Report, for the job, the name in the message's row."""
        self.job(message, message.what, self._facts(message))

    def _facts(self, message: LogMessage) -> dict[str, str]:
        return message.facts()

    # -- The daemon's start and exit

    def _daemon(self, message: LogMessage, what: str, facts: dict[str, str], line: int = 0, daemon: str = "") -> None:
        place, daemon = self.source.place(line or message.line), daemon or self.DAEMON
        self._events.append(DaemonReported(message.at, "reported", place, self.machine, daemon, what, facts))

    def _starting(self, message: LogMessage) -> None:
        self._forget()
        self._remembered["began"] = message.line

    def _version(self, message: LogMessage) -> None:
        if "began" in self._remembered:
            self._remembered["version"] = message["version"]

    def _pid(self, message: LogMessage) -> None:
        if "began" in self._remembered:
            line = self._remembered.pop("began")
            facts = {"version": self._remembered.pop("version", ""), "pid": message["pid"]}
            self._daemon(message, "began", {name: text for name, text in facts.items() if text}, line)

    def _remember(self, message: LogMessage) -> None:
        self._remembered |= message.facts()

    def _exiting(self, message: LogMessage) -> None:
        exit_reason, orphan_parent = (self._remembered.get(name, "") for name in ("how", "parent"))
        exit_reason = exit_reason or f"status {message['status']}"
        facts = {"how": exit_reason, "status": message["status"], "pid": message["pid"], "orphaned": orphan_parent}
        self._forget()
        self._daemon(message, "ended", {name: text for name, text in facts.items() if text})

    def _reconfigured(self, message: LogMessage) -> None:
        self._daemon(message, "reconfigured", {})


class CollectorLogReader(DaemonLog):
    """Reads a CollectorLog: the collector's start and exit."""

    PATTERNS = table(DAEMON_LIFE)
    DAEMON = "collector"


_WHO = r"The (?P<daemon>[A-Z]\w*) \(pid (?P<pid>\d+)\)"
CHILDREN: Rows = (
    (rf"{_WHO} died due to (?P<how>.+)", "_died"),
    (rf"{_WHO} was killed because it was no longer responding", "_died:killed: it was no longer responding"),
    (rf"{_WHO} exited with status (?P<status>[1-9]\d*)(?: \(.*\))?", "_died"),
)
"""A daemon that is shut down and exits with status 0 logs its exit. If a daemon was killed by a signal, failed or hung,
only the MasterLog records when it ended."""


class MasterLogReader(DaemonLog):
    """Reads a MasterLog: the master's own start and exit, and the deaths of the daemons that it started."""

    PATTERNS = table(DAEMON_LIFE, CHILDREN)
    DAEMON = "master"

    def _died(self, message: LogMessage) -> None:
        exit_reason = message["how"] or message.what or f"status {message['status']}"
        self._daemon(message, "died", {"pid": message["pid"], "how": exit_reason}, daemon=message["daemon"].lower())
