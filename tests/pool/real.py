"""Pools of real processes for tests: the command as users start it, in separate directories."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .. import forked

ROOT = Path(__file__).resolve().parent.parent.parent
POOLBOOK = ("-c", "from poolbook.adapters.cli.main import entry; entry()")
PATIENCE = 150.0


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / ".path"), "POOLBOOK_LOG": "pool.db"}


class Folder:
    """A directory with a log, and the command to call there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._session = forked.Session()

    def start(self, *arguments: str, ignored: Sequence[int] = ()) -> forked.Process:
        return forked.start(
            [*POOLBOOK, *arguments],
            cwd=self.path,
            env=environment(),
            stderr=forked.STDOUT,
            start_new_session=True,
            ignored=ignored,
        )

    def call(self, *arguments: str, code: int | None = 0) -> str:
        """Run a command until it ends; `code` is the exit code that it must have."""
        completed = self._session.run([*POOLBOOK, *arguments], cwd=self.path, env=environment(), timeout=PATIENCE)
        assert code is None or completed.returncode == code, (
            f"{arguments}: {completed.returncode}\n{completed.stdout}{completed.stderr}"
        )
        return completed.stdout + completed.stderr

    def json(self, *arguments: str) -> Any:
        return json.loads(self.call(*arguments, "--json"))

    def write(self, name: str, text: str) -> str:
        (self.path / name).write_text(text)
        return name

    @contextmanager
    def served(self, *arguments: str) -> Iterator[forked.Process]:
        """Run a server in the background, and stop it at the end."""
        connection = self._socket()  # of a killed server
        server = self.start("serve", *arguments)
        try:
            self.wait_for(lambda: self._socket() not in (None, connection) or server.poll() is not None)
            assert server.poll() is None, server.stdout and server.stdout.read()
            yield server
        finally:
            if server.poll() is None:
                server.send_signal(signal.SIGTERM)
            server.wait(PATIENCE)
            if server.stdout is not None:
                server.stdout.close()

    def _socket(self) -> tuple[int, int] | None:
        """Return what distinguishes the server's socket from another one with its name; None if there is none."""
        try:
            status = (self.path / "pool.db.sock").stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_ctime_ns

    def wait_for(self, condition: Any, seconds: float = PATIENCE) -> None:
        until = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < until, "it did not come to pass"
            time.sleep(0.02)

    def kill_everything(self) -> None:
        """Kill every process in this directory, also the ones that they start meanwhile; return when none is left."""
        self._session.close()
        self.wait_for(lambda: not self._kill_processes())

    def _kill_processes(self) -> int:
        """Kill the processes in this directory; return their number."""
        marker, killed = str(self.path).encode(), 0
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    marks = (entry / "cmdline").read_bytes() + os.readlink(entry / "cwd").encode()
                except OSError:
                    continue
                if marker in marks:
                    killed += 1
                    with suppress(ProcessLookupError):
                        os.kill(int(entry.name), signal.SIGKILL)
        return killed
