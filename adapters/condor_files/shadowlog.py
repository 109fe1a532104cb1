"""Read the ShadowLog: how each shadow's job ended, and why it left its slot.

All shadows of an access point write to one file: each line begins with its job, and the shadow's pid. (Lines of
src/condor_shadow.V6.1 that D_ALWAYS writes.)
"""

from __future__ import annotations

import re

from .daemon_log import DaemonLog, LogMessage, Rows, table

_JOB = r"(?P<job>\d{1,10}\.\d{1,10})"
_OF_SHADOW = re.compile(r"\((?:\d+\.\d+|\?\.\?)\) \((\d+)(?:>\d+)?\): ")

ENDS: Rows = (
    (rf"Job {_JOB} terminated: exited with status (?P<code>\d+)", "_terminated"),
    (rf"Job {_JOB} terminated: killed by signal (?P<signal>\d+)", "_terminated"),
    (rf"Job {_JOB} is being evicted from (?P<slot>\S+)", "_evicting"),
    (rf"Job {_JOB} going into Hold state \(code (?P<code>\d+),(?P<subcode>-?\d+)\): (?P<reason>.*)", "_holding"),
    (rf"Job {_JOB} is being put back in the job queue: (?P<reason>.*)", "_requeuing"),
    (rf"Job {_JOB} is being removed: (?P<reason>.*)", "_removing"),
)


class ShadowLogReader(DaemonLog):
    """Reads a ShadowLog."""

    PATTERNS = table(ENDS)
    DAEMON = "shadow"
    _shadow = ""  #: the shadow that wrote the line, by its pid

    def _take(self, line: int, at: int, text: str, word: str) -> None:
        written = _OF_SHADOW.match(text)
        if written is not None:
            self._shadow = written[1]
            text = text[written.end() :]
            super()._take(line, at, text, text.partition(" ")[0])

    def _ends(self, said: LogMessage, what: str) -> None:
        facts = {name: value for name, value in said.found.groupdict().items() if name != "job" and value}
        self.job(said, what, {"shadow": self._shadow} | facts)

    def _terminated(self, said: LogMessage) -> None:
        self._ends(said, "terminated")

    def _evicting(self, said: LogMessage) -> None:
        self._ends(said, "evicting")

    def _holding(self, said: LogMessage) -> None:
        self._ends(said, "holding")

    def _requeuing(self, said: LogMessage) -> None:
        self._ends(said, "requeuing")

    def _removing(self, said: LogMessage) -> None:
        self._ends(said, "removing")
