"""Real jobs under a real supervisor, and helpers that wait for what they do."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import patch

from poolbook.adapters.machine.execution.activation import Exited, Failed, LaunchRequest, Lost, Report, Running
from poolbook.adapters.machine.execution.client import Supervisor

from .. import forked

# Nothing here takes that long; a test waits this long before it fails.
PATIENCE_S = 150.0

End: TypeAlias = Exited | Failed | Lost


class QuickSupervisor(Supervisor):
    """A handle whose supervisors are forked from a process that has imported their program, so that they start
    quickly."""

    def _launch(self) -> None:
        with patch("subprocess.run", forked.run_program):
            super()._launch()


class Bench:
    """A handle on a supervisor, and all its reports."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / "pool"
        self.supervisor: Supervisor = QuickSupervisor(self.folder)
        self.reports: list[Report] = []

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self.supervisor.close()
        if self.folder.exists():
            with QuickSupervisor(self.folder) as last:
                while running := [
                    key
                    for key, what_became in last.recover(list(last.claimed_keys())).items()
                    if isinstance(what_became, Running)
                ]:
                    for key in running:
                        last.signal(key, "hard")
                    last.poll(0.01)
                pid = self.pid()
            os.kill(pid, signal.SIGKILL)

    def activation(self, key: str, *command: str, **fields: Any) -> LaunchRequest:
        fields.setdefault("iwd", str(self.home))
        fields.setdefault("slot", "slot1_1@host")
        return LaunchRequest(key=key, job="1.0", executable=command[0], arguments=command[1:], **fields)

    def start(self, key: str, *command: str, **fields: Any) -> None:
        self.supervisor.start([self.activation(key, *command, **fields)])

    def sh(self, key: str, script: str, **fields: Any) -> None:
        """Start a shell script as a job."""
        self.start(key, "/bin/sh", "-c", script, **fields)

    def of(self, key: str, kind: type[Any]) -> list[Any]:
        return [report for report in self.reports if isinstance(report, kind) and report.key == key]

    def until(self, holds: Callable[[], Any]) -> Any:
        """Return the result of ``holds`` as soon as it is true; receive reports meanwhile."""
        deadline = time.monotonic() + PATIENCE_S
        while not (holds_lock := holds()):
            assert time.monotonic() < deadline, f"waited in vain; reported was {self.reports}"
            self.reports += self.supervisor.poll(0.01)
        return holds_lock

    def end(self, key: str) -> Any:
        """Return how the activation ended."""
        return self.until(lambda: self.of(key, Exited) + self.of(key, Failed) + self.of(key, Lost))[0]

    def file(self, name: str) -> str:
        """Return what a job wrote, when there is a complete line."""
        path = self.home / name
        self.until(lambda: path.exists() and path.read_text().endswith("\n"))
        return path.read_text()

    def pid(self) -> int:
        """Return the supervisor's pid."""
        return int((self.folder / "lock").read_text())

    def alive(self) -> bool:
        """Return True if there is a supervisor."""
        return (self.folder / "lock").exists() and bool((self.folder / "lock").read_text()) and state(self.pid()) != ""

    def kill_supervisor(self) -> None:
        pid = self.pid()
        os.kill(pid, signal.SIGKILL)
        wait(lambda: state(pid) in ("", "Z"))


def state(pid: int) -> str:
    """Return the state letter in /proc/PID/stat; empty if the process does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def runs(pid: int) -> bool:
    return state(pid) not in ("", "Z", "X")


def wait(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)
