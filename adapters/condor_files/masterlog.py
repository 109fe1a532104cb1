"""Read the MasterLog: the master's own beginning and end, and the deaths of the daemons that it started.

A daemon that was told to end and exits with status 0 says so in its own log. One that a signal ended, that failed, or
that hung cannot: its master's log alone tells when.
"""

from __future__ import annotations

from ...domain.events import DaemonReported
from .daemon_log import DAEMON_LIFE, DaemonLog, LogMessage, Rows, table

_WHO = r"The (?P<daemon>[A-Z]\w*) \(pid (?P<pid>\d+)\)"

CHILDREN: Rows = (
    (rf"{_WHO} died due to (?P<how>.+)", "_died"),
    (rf"{_WHO} was killed because it was no longer responding", "_hung"),
    (rf"{_WHO} exited with status (?P<status>[1-9]\d*)(?: \(.*\))?", "_failed"),
)


class MasterLogReader(DaemonLog):
    """Reads a MasterLog."""

    PATTERNS = table(DAEMON_LIFE, CHILDREN)
    DAEMON = "master"

    def _child(self, said: LogMessage, how: str) -> None:
        place, daemon = self.source.place(said.line), said["daemon"].lower()
        facts = {"pid": said["pid"], "how": how}
        self._events.append(DaemonReported(said.at, "reported", place, self.source.machine, daemon, "died", facts))

    def _died(self, said: LogMessage) -> None:
        self._child(said, said["how"])

    def _hung(self, said: LogMessage) -> None:
        self._child(said, "killed: it was no longer responding")

    def _failed(self, said: LogMessage) -> None:
        self._child(said, f"status {said['status']}")
