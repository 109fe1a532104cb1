"""Read a daemon's log with a table of patterns; the first word of a message selects the patterns to try.

Most messages match no pattern, so they cost a single dict look-up. Each reader is a class with its own table of
patterns (``PATTERNS``), which names the method that handles a matching message.
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
    """A message that matches a pattern.

    ``line`` is its line number, ``at`` its time in microseconds. ``message["job"]`` returns the text of the pattern's
    group ``job``, "" if the group is absent. ``report_name`` names the event to report, as given in the pattern table.
    """

    line: int
    at: int
    match: re.Match[str]
    report_name: str = ""

    def __getitem__(self, group: str) -> str:
        return self.match.groupdict().get(group) or ""

    def facts(self) -> dict[str, str]:
        """Return the text of each group that matched, except the job."""
        return {name: text for name, text in self.match.groupdict().items() if text and name != "job"}


MessageRows = Sequence[tuple[str, str]]
"""Each row has a pattern, whose first word is plain text, and the name of the method that handles a match. After a
colon follows the name of the event to report."""

DAEMON_LIFE_MESSAGES: MessageRows = (
    (r"\*\* .* \((?P<daemon>\w+)\) STARTING UP", "_on_startup"),
    (r"\*\* \$CondorVersion: (?P<version>\S+) .*", "_on_version"),
    (r"\*\* PID = (?P<pid>\d+).*", "_on_pid"),
    (r"\*\*\*\* \S+(?: \(\w+\))?(?: pid (?P<pid>\d+))? EXITING WITH STATUS (?P<status>-?\d+)", "_on_daemon_exit"),
    (r"Our parent process \(pid (?P<parent>\d+)\) went away; shutting down fast", "_remember_facts"),
    (r"Got SIG(?:TERM|QUIT)\. +Performing (?P<how>\w+) shutdown.*", "_remember_facts"),
    (r"Got SIGHUP\. +Re-reading config files.*", "_on_reconfig"),
)
"""The messages at every daemon's start, reconfiguration and exit."""


class MessageRule(NamedTuple):
    pattern: re.Pattern[str]
    method: str
    report_name: str


def rules_by_first_word(*rows: MessageRows) -> dict[str, tuple[MessageRule, ...]]:
    """Return the rules by the first word of the messages that they match."""
    rules: dict[str, tuple[MessageRule, ...]] = {}
    for pattern, method in (row for group in rows for row in group):
        word = re.split(r" |\\\.", pattern, maxsplit=1)[0].replace("\\", "")
        word = re.sub(r"\(.*", "", word)
        name, _, report_name = method.partition(":")
        rules[word] = (*rules.get(word, ()), MessageRule(re.compile(pattern), name, report_name))
    return rules


class DaemonLog:
    """The base class of the readers of daemon logs. A subclass defines ``PATTERNS`` and the methods named there. It
    stores what a later message needs in ``_remembered``, which must be valid JSON because the log stores it."""

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
                self._forget_state()
                continue
            self._examine_line(line, at, text)
            word = text.split(None, 1)[:1]
            if word:
                self._handle_message(line, at, text.strip(), word[0])
        self.line = self._lines.line
        return events, self._lines.consumed

    def _handle_message(self, line: int, at: int, text: str, word: str) -> None:
        for pattern, method, report_name in self.PATTERNS.get(word, ()):
            match = pattern.fullmatch(text)
            if match:
                getattr(self, method)(LogMessage(line, at, match, report_name))
                return

    def _examine_line(self, line: int, at: int, text: str) -> None:
        """Examine a message before it is processed."""

    def _forget_state(self) -> None:
        """Forget the messages so far, because lines are missing and may have changed the daemon's state."""
        self._remembered = {}

    def report_job(self, message: LogMessage, report_name: str, facts: dict[str, str], job: str = "") -> None:
        """Append a `JobReported` for `job`, or if that is empty for the job that the message names."""
        cluster, proc = JobId.parse(job or message["job"])
        facts = {name: without_secrets(text) for name, text in facts.items() if text}
        place = self.source.location_of_line(message.line)
        self._events.append(JobReported(message.at, "reported", place, cluster, proc, report_name, facts))

    def _report_named(self, message: LogMessage) -> None:
        self.report_job(message, message.report_name, self._report_facts(message))

    def _report_facts(self, message: LogMessage) -> dict[str, str]:
        return message.facts()

    def _report_daemon(
        self, message: LogMessage, report_name: str, facts: dict[str, str], line: int = 0, daemon: str = ""
    ) -> None:
        place, daemon = self.source.location_of_line(line or message.line), daemon or self.DAEMON
        self._events.append(DaemonReported(message.at, "reported", place, self.machine, daemon, report_name, facts))

    def _on_startup(self, message: LogMessage) -> None:
        self._forget_state()
        self._remembered["began"] = message.line

    def _on_version(self, message: LogMessage) -> None:
        if "began" in self._remembered:
            self._remembered["version"] = message["version"]

    def _on_pid(self, message: LogMessage) -> None:
        if "began" in self._remembered:
            line = self._remembered.pop("began")
            facts = {"version": self._remembered.pop("version", ""), "pid": message["pid"]}
            self._report_daemon(message, "began", {name: text for name, text in facts.items() if text}, line)

    def _remember_facts(self, message: LogMessage) -> None:
        self._remembered |= message.facts()

    def _on_daemon_exit(self, message: LogMessage) -> None:
        exit_reason, orphan_parent = (self._remembered.get(name, "") for name in ("how", "parent"))
        exit_reason = exit_reason or f"status {message['status']}"
        facts = {"how": exit_reason, "status": message["status"], "pid": message["pid"], "orphaned": orphan_parent}
        self._forget_state()
        self._report_daemon(message, "ended", {name: text for name, text in facts.items() if text})

    def _on_reconfig(self, message: LogMessage) -> None:
        self._report_daemon(message, "reconfigured", {})


class CollectorLogReader(DaemonLog):
    """Reads a CollectorLog: the collector's start and exit."""

    PATTERNS = rules_by_first_word(DAEMON_LIFE_MESSAGES)
    DAEMON = "collector"


_CHILD = r"The (?P<daemon>[A-Z]\w*) \(pid (?P<pid>\d+)\)"
CHILD_DEATH_MESSAGES: MessageRows = (
    (rf"{_CHILD} died due to (?P<how>.+)", "_on_child_death"),
    (
        rf"{_CHILD} was killed because it was no longer responding",
        "_on_child_death:killed: it was no longer responding",
    ),
    (rf"{_CHILD} exited with status (?P<status>[1-9]\d*)(?: \(.*\))?", "_on_child_death"),
)
"""A daemon logs its own exit when it is shut down and exits with status 0. If a daemon fails, hangs or is killed by a
signal, only the MasterLog records when it ended."""


class MasterLogReader(DaemonLog):
    """Reads a MasterLog: the master's own start and exit, and the deaths of the daemons that it started."""

    PATTERNS = rules_by_first_word(DAEMON_LIFE_MESSAGES, CHILD_DEATH_MESSAGES)
    DAEMON = "master"

    def _on_child_death(self, message: LogMessage) -> None:
        exit_reason = message["how"] or message.report_name or f"status {message['status']}"
        self._report_daemon(
            message, "died", {"pid": message["pid"], "how": exit_reason}, daemon=message["daemon"].lower()
        )
