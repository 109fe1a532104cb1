"""A child process whose output the pool's loop reads as it arrives."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

Watch = Callable[[int, Callable[[], None]], None]  #: registers a function to call whenever a descriptor is readable
Unwatch = Callable[[int], None]
LONGEST = 1 << 20  #: maximum bytes of a line; a longer line is split
_PIPE = 1 << 16  #: bytes that a pipe holds


class Child:
    """A process in its own session. The pool's loop calls ``take_line`` with each line that the process prints (the
    last line may lack its line feed), and ``ended`` after it has exited. ``errors`` is the descriptor for its
    standard error. Raises `OSError` if the process cannot be started."""

    def __init__(
        self,
        command: Sequence[str],
        watch: Watch,
        unwatch: Unwatch,
        take_line: Callable[[str], None],
        ended: Callable[[], None],
        *,
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
        errors: int | None = None,
    ) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if errors is None else errors,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._output = self._process.stdout.fileno()
        os.set_blocking(self._output, False)
        self._exit_descriptor = os.pidfd_open(self._process.pid)
        self._unwatch, self._take_line, self._ended = unwatch, take_line, ended
        self.exit_status = 0  #: once it has exited: its status, or the negative number of the signal that ended it
        self._incomplete_line = bytearray()
        self._listening, self._is_released = True, False
        watch(self._output, self._read)
        watch(self._exit_descriptor, self._after_exit)

    def _read(self) -> None:
        if not self._listening:
            return
        try:
            chunk = os.read(self._output, _PIPE)
        except BlockingIOError:
            return
        if not chunk:
            self._stop_listening()
            return
        self._incomplete_line += chunk
        *lines, unfinished = bytes(self._incomplete_line).split(b"\n")
        if len(unfinished) > LONGEST:
            lines.append(unfinished)
            unfinished = b""
        self._incomplete_line = bytearray(unfinished)
        for line in lines:
            self._take_line(line.decode(errors="replace"))

    def _stop_listening(self) -> None:
        self._listening = False
        self._unwatch(self._output)

    def _after_exit(self) -> None:
        if self._is_released:
            return
        if self._listening and select.select([self._output], [], [], 0)[0]:
            self._read()  # its own output is complete; its descendants may still hold the pipe open
        if self._incomplete_line:
            self._take_line(self._incomplete_line.decode(errors="replace"))
        self._release()
        self._ended()

    def _release(self) -> None:
        self._is_released = True
        if self._listening:
            self._stop_listening()
        self._unwatch(self._exit_descriptor)
        os.close(self._exit_descriptor)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self.exit_status = self._process.wait()

    def signal(self, number: int) -> None:
        if not self._is_released:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def hang_up(self) -> None:
        """Send SIGHUP to the process, but not to its descendants."""
        if not self._is_released:
            self._process.send_signal(signal.SIGHUP)

    def kill(self) -> None:
        """Kill the child and discard the rest of its output."""
        if not self._is_released:
            self.signal(signal.SIGKILL)
            self._release()
