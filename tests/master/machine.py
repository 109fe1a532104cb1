"""A machine with a real master, and programs that it runs as daemons."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from poolbook.adapters.master.journal import read_journal
from poolbook.adapters.master.service import JOURNAL
from poolbook.domain.master import transitions as t

from .. import forked
from ..pool.real import PATIENCE, Folder

QUICK = "MASTER_BACKOFF_CONSTANT = 1\nMASTER_BACKOFF_FACTOR = 0.5\nCONDOR_ADMIN = admin@example.org\n"
"""Settings with which a daemon is started again after 2 s, then 2 s, ..."""


class Machine(Folder):
    """A folder with a master and its configuration, `pool.conf`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.process: forked.Process | None = None

    def program(self, name: str, text: str) -> str:
        """Write a shell script, and return its path."""
        script = self.path / name
        script.write_text(f"#!/bin/sh\n{text}\n")
        script.chmod(0o755)
        return str(script)

    def configure(self, text: str) -> None:
        mail = self.program("mail", f'echo "$@" >> {self.path}/mails\ncat >> {self.path}/mails')
        self.write("pool.conf", f"{QUICK}MAIL = {mail}\n{text}\n")

    def master(self, *options: str) -> forked.Process:
        """Start the master, and wait until it accepts commands."""
        self.process = process = self.start("master", "-config", "pool.conf", *options)
        socket = self.path / "pool.db.master" / "socket"
        self.wait_for(lambda: socket.exists() or process.poll() is not None)
        assert process.poll() is None, process.stdout and process.stdout.read()
        return process

    def transitions(self) -> list[t.Transition]:
        journal = self.path / "pool.db.master" / JOURNAL
        return list(read_journal(journal)) if journal.exists() else []

    def count(self, kind: type[t.Transition], daemon: str = "") -> int:
        of_kind = (each for each in self.transitions() if isinstance(each, kind))
        return sum(getattr(each, "daemon", "") in (daemon, "") or not daemon for each in of_kind)

    def started(self, daemon: str, times: int = 1) -> int:
        """Wait until a daemon was started this number of times, and return the pid of its last process."""
        self.wait_for(lambda: self.count(t.DaemonStarted, daemon) >= times)
        starts = [each for each in self.transitions() if isinstance(each, t.DaemonStarted) and each.daemon == daemon]
        return starts[-1].pid

    def wait_for_file(self, name: str, text: str = "") -> None:
        path = self.path / name
        self.wait_for(lambda: path.exists() and text in path.read_text())

    def end(self, number: int = signal.SIGTERM) -> str:
        """End the master by a signal, and return what it has printed."""
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(PATIENCE)
        assert self.process.stdout is not None
        return self.process.stdout.read()

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()
        broker = self.path / "pool.db.security" / "broker" / "nats-server.pid"
        if broker.exists():
            with suppress(ProcessLookupError, ValueError):
                os.kill(int(broker.read_text()), signal.SIGTERM)
        self.kill_everything()


def is_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
