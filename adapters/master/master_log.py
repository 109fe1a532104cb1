"""Write the MasterLog of a machine's master from its journal, in HTCondor's format."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ...domain.master import transitions as t
from ..machine.stop_signals import GRACEFUL, PEACEFUL
from ..runtime.daemon_logs.facts import banner
from ..runtime.daemon_logs.fold import LogLine, LogName
from ..runtime.daemon_logs.line_table import TABLE
from ..runtime.daemon_logs.log_settings import LogSettings
from ..runtime.daemon_logs.writer import DaemonLogError, DaemonLogWriter
from .journal import read_journal

_SIGNALS = {GRACEFUL: "SIGTERM", PEACEFUL: "SIGTERM", "Fast": "SIGQUIT", "Kill": "SIGKILL"}


class MasterLines:
    """Folds the transitions of a master into the lines of its log. ``program_of`` returns a daemon's program, and
    whether it is one of Poolbook's."""

    def __init__(self, program_of: Callable[[str], tuple[str, bool]]) -> None:
        self.position = 0
        self._program_of = program_of
        self._pids: dict[str, int] = {}
        self._then = "Exit"

    def fold(self, position: int, event: t.Transition) -> list[LogLine]:
        """Return the lines of a transition at a position."""
        self.position = position
        fields = {name: getattr(event, name) for name in event.__struct_fields__}
        about, pid = type(event).__name__, os.getpid()
        facts = {name: str(value) for name, value in fields.items()} | {"master": str(pid), "program": "condor_master"}
        if isinstance(event, t.MasterBegan):
            facts["banner"] = banner("MASTER", pid)
        if isinstance(event, t.DaemonTransition):
            facts["program"], is_daemon = self._program_of(event.daemon)
            facts["kind"] = "DaemonCore " if is_daemon else ""
            if isinstance(event, t.DaemonStarted):
                self._pids[event.daemon] = event.pid
            elif isinstance(event, t.DaemonExited):
                facts["end"] = t.describe_end(event.code)
            elif isinstance(event, t.StopBegan):
                facts |= {"signal": _SIGNALS[event.how], "pid": str(self._pids.get(event.daemon, 0))}
        if isinstance(event, t.EndBegan):
            self._then = event.then
            about += f" {event.how}" if event.then == "Exit" else ""
        elif isinstance(event, t.AllDaemonsEnded | t.MasterEnded):
            about += f" {self._then}"
        return [
            LogLine(LogName("MASTER"), event.at, template.category, template.is_verbose, pid, text)
            for template in TABLE.get(("master", about), ())
            for text in template.text.format_map(facts).split("\n")
        ]


class MasterLog:
    """Writes the log of a master, each line once, even if the master was killed. ``warn`` prints a line."""

    def __init__(
        self, settings: LogSettings, folder: Path, journal: Path, program_of: Callable[[str], tuple[str, bool]],
        warn: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._warn, self._position = warn, 0
        self._writer: DaemonLogWriter | None = DaemonLogWriter(settings, folder, warn, logs=MasterLines(program_of))
        self._try(lambda writer: writer.start(map(self._numbered, read_journal(journal))))

    def write(self, transition: t.Transition) -> None:
        """Write the lines of the next transition."""
        self._try(lambda writer: writer.write([self._numbered(transition)]))

    def _numbered(self, transition: t.Transition) -> tuple[int, t.Transition]:
        """Return a transition and its position: its time, or that of the one before, if they have the same."""
        self._position = max(self._position + 1, transition.at)
        return self._position, transition

    def _try(self, write: Callable[[DaemonLogWriter], None]) -> None:
        try:
            if self._writer is not None:
                write(self._writer)
        except DaemonLogError as error:
            self._warn(f"warning: {error}")
            self._writer = None
