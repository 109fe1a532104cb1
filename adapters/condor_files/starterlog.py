"""Read a StarterLog: when a job's process began, and how it exited.

A slot's starters write to one file, one behind the other; each takes one job. Its first process behind "Starting a ...
universe job" is the job's: what a starter runs before (PreCmd) and afterwards (PostCmd, ssh_to_job) is not. Of a
container the status is that of the command that watches it, so nothing is said of those. (Lines of
src/condor_starter.V6.1 that D_ALWAYS writes.)
"""

from __future__ import annotations

import os
import re

from .daemon_log import DaemonLog, LogMessage, Rows, table

_JOB = r"(?P<job>\d{1,10}\.\d{1,10})"
_SLOT = re.compile(r"starterlog\.(slot\d+(?:_\d+)?)(?=\.|$)", re.IGNORECASE)

PROCESSES: Rows = (
    (r"\*\* .* \((?P<daemon>\w+)\) STARTING UP", "_anew"),
    (rf"Starting a (?:VANILLA|LOCAL) universe job with ID: {_JOB}", "_starting"),
    (r"About to exec (?P<command>.*)", "_executing"),
    (r"Create_Process succeeded, pid=(?P<pid>\d+)", "_began"),
    (r"Process exited, pid=(?P<pid>\d+), status=(?P<code>\d+)", "_exited"),
    (r"Process exited, pid=(?P<pid>\d+), signal=(?P<signal>\d+)", "_exited"),
    (r"Got vacate code=.*", "_told"),
    (r"ShutdownGraceful all jobs\.", "_told"),
    (r"ShutdownFast all jobs\.", "_told"),
    (r"Remove all jobs", "_told"),
    (r"Hold all jobs", "_told"),
)


class StarterLogReader(DaemonLog):
    """Reads a StarterLog. ``_remembered``: the job that is started, its process, whether that was told to end."""

    PATTERNS = table(PROCESSES)
    DAEMON = "starter"

    def _anew(self, said: LogMessage) -> None:
        self._forget()

    def _starting(self, said: LogMessage) -> None:
        self._remembered = {"job": said["job"]}

    def _executing(self, said: LogMessage) -> None:
        if "job" in self._remembered and not said["command"].startswith("docker:"):
            self._remembered["ready"] = True

    def _began(self, said: LogMessage) -> None:
        if not self._remembered.pop("ready", False):
            return
        again = {"again": "true"} if "pid" in self._remembered else {}
        self._remembered["pid"] = said["pid"]
        self._process(said, "process_began", again)

    def _exited(self, said: LogMessage) -> None:
        if self._remembered.get("pid") != said["pid"]:
            return
        found = said.found.groupdict()
        how = {name: found[name] for name in ("code", "signal") if found.get(name)}
        self._process(said, "process_ended", how | ({"told": "true"} if "told" in self._remembered else {}))

    def _told(self, said: LogMessage) -> None:
        self._remembered["told"] = True

    def _process(self, said: LogMessage, what: str, facts: dict[str, str]) -> None:
        slot = _SLOT.search(os.path.basename(self.source.path))
        where = {"slot": f"{slot[1].lower()}@{self.source.machine}"} if slot else {}
        self.job(said, what, where | {"pid": said["pid"]} | facts, str(self._remembered["job"]))
