"""Run the daemons in DAEMON_LIST that only read the log as separate processes, so that they never delay the pool."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ...domain.config import Configuration
from ...domain.coverage.settings import DAEMON_LIST, parse_daemon_list
from .config_sources import VARIABLE

COMPANIONS: Final[Mapping[str, Sequence[str]]] = {
    "METRICD": ("metrics",), "GANGLIAD": ("metrics", "-gangliad"), "ADSTASH": ("condor_adstash",),
}  # fmt: skip
"""The command of each daemon. At the end of its standard input, it ends, so it does not survive the pool."""
_HISTORY: Final = ("metrics", "-history")
_RESTART_S: Final = 10
_ENTRY: Final = "from poolbook.adapters.cli.main import entry; entry()"


class Companions:
    """The companions of a pool. `check` starts those that have ended again, a while later."""

    def __init__(
        self, url: str, configuration: Configuration, files: Sequence[str], warn: Callable[[str], None]
    ) -> None:
        self._warn = warn
        listed = parse_daemon_list(configuration.get(DAEMON_LIST))
        wanted = {name: words for name, words in COMPANIONS.items() if name in listed}
        if configuration.boolean("KEEP_POOL_HISTORY", False):
            wanted["the pool's history"] = _HISTORY
        config = [word for file in files for word in ("-config", file)]
        self._commands = {
            name: [sys.executable, "-c", _ENTRY, *words, "-stdin", *(config if words[0] == "metrics" else ())]
            for name, words in wanted.items()
        }
        # Its tools take the log and the configuration from the environment, as HTCondor's do.
        self._environment = {**os.environ, "POOLBOOK_LOG": url, **({VARIABLE: files[-1]} if files else {})}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._due = dict.fromkeys(self._commands, 0.0)

    def check(self) -> None:
        for name, process in list(self._running.items()):
            if process.poll() is not None:
                self._warn(f"warning: {name} ended with exit code {process.returncode}; it is started again")
                del self._running[name]
        now = time.monotonic()
        for name, command in self._commands.items():
            if name not in self._running and self._due[name] <= now:
                self._running[name] = subprocess.Popen(
                    command, stdin=subprocess.PIPE, start_new_session=True, env=self._environment
                )
                self._due[name] = now + _RESTART_S

    @property
    def until_due(self) -> float | None:
        """Seconds until `check` is to be called again, or None if there are no companions."""
        return _RESTART_S if self._commands else None

    def close(self) -> None:
        for process in self._running.values():
            process.communicate()  # closes its standard input
