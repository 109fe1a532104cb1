"""Read a daemon's log by a table of patterns: a message's first word selects the patterns to try.

Most messages of a daemon match none, and cost one look-up in a dict. A reader is a class with a table of its own
(``PATTERNS``) and a method for each row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import ClassVar, NamedTuple

from attrs import frozen

from ...domain.events import DaemonReported, Event, JobReported
from ...domain.names import JobId
from .log_lines import GAP, LogLines
from .reader import SourceFile, State, without_secrets


@frozen
class LogMessage:
    """A message that matches a pattern: its line, instant, and the pattern's groups by name ("" if absent)."""

    line: int
    at: int
    found: re.Match[str]

    def __getitem__(self, group: str) -> str:
        return self.found[group] or ""


Rows = Sequence[tuple[str, str]]  #: pattern, whose first word is plain text, and the name of the method for a match

DAEMON_LIFE: Rows = (
    (r"\*\* .* \((?P<daemon>\w+)\) STARTING UP", "_starting"),
    (r"\*\* \$CondorVersion: (?P<version>\S+) .*", "_version"),
    (r"\*\* PID = (?P<pid>\d+).*", "_pid"),
    (r"\*\*\*\* \S+ \((?P<daemon>\w+)\) pid (?P<pid>\d+) EXITING WITH STATUS (?P<status>\d+)", "_exiting"),
    (r"Our parent process \(pid (?P<parent>\d+)\) went away; shutting down fast", "_orphaned"),
    (r"Got SIG(?:TERM|QUIT)\. +Performing (?P<how>\w+) shutdown.*", "_shutdown"),
    (r"Got SIGHUP\. +Re-reading config files.*", "_reconfigured"),
)
"""The messages of every daemon's start, reconfiguration and end."""


class MessageRule(NamedTuple):
    pattern: re.Pattern[str]
    method: str


def table(*rows: Rows) -> dict[str, tuple[MessageRule, ...]]:
    """Return the rules by the first word of the messages that they match."""
    rules: dict[str, tuple[MessageRule, ...]] = {}
    for pattern, method in (row for group in rows for row in group):
        word = re.split(r" |\\\.", pattern, maxsplit=1)[0].replace("\\", "")
        word = re.sub(r"\(.*", "", word)
        rules[word] = (*rules.get(word, ()), MessageRule(re.compile(pattern), method))
    return rules


class DaemonLog:
    """The base of the readers of daemons' logs. A subclass has ``PATTERNS`` and the methods named there, and keeps its
    state in ``_remembered`` (JSON)."""

    PATTERNS: ClassVar[dict[str, tuple[MessageRule, ...]]] = {}
    DAEMON: ClassVar[str] = ""

    def __init__(self, source: SourceFile, state: State | None, line: int) -> None:
        state = state or {}
        self.line = line
        self.source = source
        self._lines = LogLines(source, state.get("lines"), line)
        self._remembered: State = state.get("books", {})
        self._events: list[Event] = []
        self._methods: dict[str, Callable[[LogMessage], None]] = {
            rule.method: getattr(self, rule.method) for rules in self.PATTERNS.values() for rule in rules
        }

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
        for pattern, method in self.PATTERNS.get(word, ()):
            found = pattern.fullmatch(text)
            if found:
                self._methods[method](LogMessage(line, at, found))
                return

    def _before(self, line: int, at: int, text: str) -> None:
        """Look at any message before it is taken."""

    def _forget(self) -> None:
        """Drop what was remembered: lines are missing, so it may no longer hold."""
        self._remembered = {}

    def job(self, said: LogMessage, what: str, facts: dict[str, str], job: str = "") -> None:
        """Report something of a job: the one that the message names, or `job`."""
        cluster, proc = JobId.parse(job or said["job"])
        facts = {name: without_secrets(text) for name, text in facts.items() if text}
        place = self.source.place(said.line)
        self._events.append(JobReported(said.at, "reported", place, cluster, proc, what, facts))

    # -- The daemon's start and end

    def _daemon(self, said: LogMessage, what: str, facts: dict[str, str], line: int = 0) -> None:
        place = self.source.place(line or said.line)
        self._events.append(DaemonReported(said.at, "reported", place, self.source.machine, self.DAEMON, what, facts))

    def _starting(self, said: LogMessage) -> None:
        self._forget()
        self._remembered["began"] = said.line

    def _version(self, said: LogMessage) -> None:
        if "began" in self._remembered:
            self._remembered["version"] = said["version"]

    def _pid(self, said: LogMessage) -> None:
        if "began" in self._remembered:
            line = self._remembered.pop("began")
            facts = {"version": self._remembered.pop("version", ""), "pid": said["pid"]}
            self._daemon(said, "began", {name: text for name, text in facts.items() if text}, line)

    def _shutdown(self, said: LogMessage) -> None:
        self._remembered["how"] = said["how"]

    def _orphaned(self, said: LogMessage) -> None:
        self._remembered["parent"] = said["parent"]

    def _exiting(self, said: LogMessage) -> None:
        how = self._remembered.get("how") or f"status {said['status']}"
        orphaned = {"orphaned": parent} if (parent := self._remembered.get("parent")) else {}
        self._forget()
        self._daemon(said, "ended", {"how": how, "status": said["status"], "pid": said["pid"]} | orphaned)

    def _reconfigured(self, said: LogMessage) -> None:
        self._daemon(said, "reconfigured", {})
