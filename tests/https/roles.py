"""A manager and other roles as processes on this machine, in one directory, as users start them."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from poolbook.adapters.machine.host import host_name

from .. import forked
from ..pool.real import POOLBOOK, environment
from ..ports import free_port

PATIENCE = 150.0
_NEW_UTS = 0x04000000  #: CLONE_NEWUTS


class Roles:
    """The processes, by their logs, and what they have printed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.port, self.broker_port = free_port(), free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self._processes: dict[str, forked.Process] = {}
        self.outputs: dict[str, str] = {}
        self._session = forked.Session()

    def start_manager(self, *options: str, log: str = "m.db", host: str = "") -> None:
        listen = f"127.0.0.1:{self.port}"
        ports = ("-listen", listen, "-broker-port", str(self.broker_port))
        self.start(log, "serve", "-role", "manager", *ports, *options, host=host)

    def token(self, log: str = "m.db", host: str = "") -> str:
        """Write a token to a file, and return its name."""
        identity = f"condor@{host or host_name()}"
        self.call("token", "create", "-identity", identity, "-file", str(self.path / "token"), "-log", log)
        return "token"

    def start(self, log: str, *command: str, ready: int = 1, host: str = "") -> None:
        """Start a process that serves a log, and wait until it has printed that it serves something `ready` times. Only
        root can give it another host name."""
        option, code = POOLBOOK
        if host:
            code = f"import ctypes, socket; ctypes.CDLL(None).unshare({_NEW_UTS}); socket.sethostname({host!r}); {code}"
        arguments = [option, code, *command, "-log", log]
        process = forked.start(
            arguments, cwd=self.path, env=environment(), stderr=forked.STDOUT, start_new_session=True
        )
        self._processes[log], self.outputs[log] = process, ""
        self.wait_for(lambda: self.output(log).count("; Ctrl-C stops it") == ready or process.poll() is not None)
        assert process.poll() is None, self.output(log)

    def pid(self, log: str) -> int:
        return self._processes[log].pid

    def output(self, log: str) -> str:
        """Return what the process that serves a log has printed."""
        stream = self._processes[log].stdout
        assert stream is not None
        while select.select([stream], [], [], 0)[0] and (data := os.read(stream.fileno(), 65536)):
            self.outputs[log] += data.decode()
        return self.outputs[log]

    def stop(self, log: str, number: int = signal.SIGTERM) -> int:
        """Send the process that serves a log a signal, and return its exit code."""
        process = self._processes[log]
        process.send_signal(number)
        code = process.wait(PATIENCE)
        self.output(log)
        del self._processes[log]
        assert process.stdout is not None
        process.stdout.close()
        return code

    def call(self, *arguments: str, code: int | None = 0) -> str:
        completed = self._session.run([*POOLBOOK, *arguments], cwd=self.path, env=environment(), timeout=PATIENCE)
        output = completed.stdout + completed.stderr
        assert code is None or completed.returncode == code, f"{arguments}: {completed.returncode}\n{output}"
        return output

    def wait_for(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, {log: self.output(log) for log in self._processes}
            time.sleep(0.02)

    def submit(self, name: str, script: str, log: str = "a.db") -> None:
        """Submit a shell script to an access point; its output has the job's name."""
        self.path.joinpath(f"{name}.sh").write_text(script)
        text = f"executable = /bin/sh\narguments = {self.path}/{name}.sh\noutput = {name}\n"
        self.path.joinpath("job.sub").write_text(f"{text}transfer_executable = false\nqueue\n")
        self.call("submit", "job.sub", "-log", log)

    def wait_until_printed(self, name: str, text: str) -> None:
        path = self.path / name
        self.wait_for(lambda: path.exists() and path.read_text() == text)

    def run_job(self, name: str, log: str = "a.db") -> None:
        """Run a job, and wait until it has printed its name."""
        self.submit(name, f"echo {name}", log)
        self.wait_until_printed(name, f"{name}\n")

    def close(self) -> None:
        for log in [*self._processes]:
            self.stop(log)
        for pid_path in self.path.rglob("nats-server.pid"):
            os.kill(int(pid_path.read_text()), signal.SIGTERM)


@contextmanager
def role_processes(path: Path) -> Iterator[Roles]:
    roles = Roles(path)
    try:
        yield roles
    finally:
        roles.close()
