"""The processes of a master's daemons: start them, signal them, and report how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Final, NamedTuple

from ...domain.errors import PoolbookError
from ...domain.master import transitions as t
from ...domain.master.supervision import Supervision
from ..machine.children import Unwatch, Watch
from ..machine.execution.supervisor.processes import end_with
from ..machine.stop_signals import GRACEFUL, PEACEFUL, STOP_SIGNALS
from .journal import rotate

_ENTRY: Final = "from poolbook.adapters.cli.main import entry; entry()"
_SIGNALS: Final = {how: number for number, how in STOP_SIGNALS.items()} | {"Kill": signal.SIGKILL}


class DaemonCommand(NamedTuple):
    """How a daemon is started."""

    arguments: Sequence[str]
    environment: Mapping[str, str] = {}  #: in addition to that of this process
    log: Path | None = None  #: the file that its output is appended to; None: the output of this process
    reads_end: bool = False  #: it ends at the end of its standard input; else the kernel kills it with this process
    is_program: bool = False  #: not a part of Poolbook; its descendants end with it


def poolbook_arguments(*words: str) -> list[str]:
    """Return the arguments that run a command of this installation."""
    return [sys.executable, "-c", _ENTRY, *words]


class ChildProcesses:
    """Carries out the transitions of a supervision. ``others`` receives transitions that do not concern processes."""

    def __init__(
        self, supervision: Supervision, command_of: Callable[[str], DaemonCommand], watch: Watch, unwatch: Unwatch,
        clock: Callable[[], int], others: Callable[[t.Transition], None] = lambda _: None,
    ) -> None:  # fmt: skip
        """``command_of`` returns how a daemon is started, and ``clock`` the time in microseconds."""
        self.supervision, self.clock = supervision, clock
        self._command_of = command_of
        self._watch, self._unwatch, self._others = watch, unwatch, others
        self._processes: dict[str, tuple[subprocess.Popen[bytes], int, DaemonCommand]] = {}

    def act(self, transitions: Iterable[t.Transition]) -> None:
        """Carry out transitions and their consequences."""
        due = list(transitions)
        while due:
            transition = due.pop(0)
            match transition:
                case t.DaemonLaunched(_, daemon):
                    due += self._start(daemon)
                case t.StopBegan(_, daemon, how):
                    self._signal(daemon, how)
                case t.Reconfigured(_, daemons):
                    for daemon in daemons:
                        self.reconfigure(daemon)
                case _:
                    self._others(transition)

    def tick(self) -> None:
        self.act(self.supervision.tick(self.clock()))

    def _start(self, daemon: str) -> list[t.Transition]:
        try:
            command = self._command_of(daemon)
            with _output(command.log) as output:
                process = subprocess.Popen(
                    command.arguments, env={**os.environ, **command.environment}, start_new_session=True,
                    stdin=subprocess.PIPE if command.reads_end else subprocess.DEVNULL, stdout=output, stderr=output,
                    preexec_fn=None if command.reads_end else partial(end_with, os.getpid()),
                )  # fmt: skip
        except (OSError, subprocess.SubprocessError, PoolbookError) as error:
            return self.supervision.not_started(self.clock(), daemon, str(error))
        end = os.pidfd_open(process.pid)
        self._processes[daemon] = process, end, command
        self._watch(end, partial(self._after_exit, daemon))
        return self.supervision.started(self.clock(), daemon, process.pid)

    def _after_exit(self, daemon: str) -> None:
        process, end, command = self._processes.pop(daemon)
        code = process.wait()
        self._unwatch(end)
        os.close(end)
        if process.stdin is not None:
            process.stdin.close()
        if command.is_program:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        self.act(self.supervision.exited(self.clock(), daemon, code))

    def _signal(self, daemon: str, how: str) -> None:
        process, _, command = self._processes[daemon]
        is_part = not (command.is_program or command.reads_end)
        process.send_signal(_SIGNALS[GRACEFUL if how == PEACEFUL and not is_part else how])

    def reconfigure(self, daemon: str) -> None:
        """Make a daemon read its configuration again. Companions read it only when they start."""
        if daemon in self._processes and not self.supervision.master.daemons[daemon].stop:
            process, _, command = self._processes[daemon]
            if not command.reads_end:
                process.send_signal(signal.SIGHUP)

    def close(self) -> None:
        """End the companions. The other daemons end with this process."""
        for process, end, command in self._processes.values():
            self._unwatch(end)
            os.close(end)
            if command.reads_end:
                process.communicate()  # closes its standard input
        self._processes.clear()


def _output(log: Path | None) -> IO[bytes]:
    if log is None:
        return open(os.dup(1), "wb")
    rotate(log)
    return open(log, "ab")
