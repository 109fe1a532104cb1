"""The process that represents a job in a container: it prepares the container, waits for it, and exits with its exit
code or signal.

It is forked from the supervisor and leads its own session, as a job's process does. A docker container is not a
descendant of the supervisor, so the shim writes a file (a note) to disk before it creates the container, and deletes
this note after the container is removed. If a note remains after its shim has ended, its container is swept (removed).
The supervisor sends signals through a socket: ``kill 15``, ``pause``, ``unpause``. The shim answers in JSON: ``usage``,
or ``failed``, before it ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import time
from typing import Any

from . import processes, rights
from .apptainer import become_apptainer
from .docker import DockerContainer
from .launch import Order, StartError, close, open_streams
from .rights import UserIds

_SWEEP_S = 20  #: how long a starting supervisor waits for the removal of old containers
_MOST = 1 << 16
_PAUSE_S = 0.02


class ContainerShim:
    """The supervisor's handle on a shim. With ``alone``, the container's processes are descendants of the shim and get
    signals as any job does; otherwise the shim receives commands."""

    def __init__(self, pid: int, channel: socket.socket | None, note: str) -> None:
        self.pid, self.note = pid, note
        self._talk = channel
        self.usage: dict[str, int] = {}
        self.failed: dict[str, Any] = {}
        self._sweeper: Sweeper | None = None
        self.killed = False  #: whether a kill command was sent

    @property
    def alone(self) -> bool:
        return not self.note

    def send_command(self, command: str) -> None:
        if self._talk is not None:
            with contextlib.suppress(OSError):
                self._talk.send(command.encode())

    def listen(self) -> None:
        """Receive the shim's messages."""
        while self._talk is not None:
            try:
                data = self._talk.recv(_MOST)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._talk.close()
                self._talk = None
                return
            message = json.loads(data)
            self.usage = message.get("usage", self.usage)
            self.failed = message.get("failed", self.failed)

    def sweep(self) -> Sweeper | None:
        """Remove its container after it has ended, without waiting. Return the sweeper if one has just started;
        ``remains`` is False once the container is gone."""
        if self._sweeper is None:
            self._sweeper = begin_sweeping(self.note)
            return self._sweeper
        is_gone = self._sweeper.done()
        if is_gone is not None:
            self._sweeper = None
        if is_gone:
            forget(self.note)
        return None

    @property
    def remains(self) -> bool:
        """Return True if the shim's container may still exist."""
        return bool(self.note) and os.path.exists(self.note)


def fork(order: Order, number: int, scratch: str, variables: dict[str, str], notes: str) -> ContainerShim:
    """Start a shim. ``notes`` is the directory of the notes. Raise `StartError` if that fails."""
    spec = order["container"] = {**order["container"], "name": f"{order['container']['name']}_PID{os.getpid()}"}
    docker = spec["runtime"] == "docker"
    note = f"{notes}/{order['key']}" if docker else ""
    streams = open_streams(order, scratch)

    def run_shim(channel: socket.socket) -> None:
        try:
            _run_shim(order, scratch, variables, streams, channel, note)
        except BaseException as error:
            _say(channel, failed={"part": "container", "errno": 0, "reason": f"{type(error).__name__}: {error}"})

    try:
        if docker:
            os.makedirs(notes, exist_ok=True)
            with open(note, "w", encoding="utf-8", errors="surrogateescape") as file:
                json.dump({"command": spec["command"], "name": spec["name"]}, file)
        processes.mark_children(number)
        pid, channel = processes.fork(run_shim, *streams, outlives=True)
    except OSError as error:
        if note:
            forget(note)
        raise StartError("scratch", error.errno or 0, f"the container's shim: {error}", machine=True) from None
    finally:
        close(streams)
    return ContainerShim(pid, channel, note)


def _run_shim(
    order: Order, scratch: str, variables: dict[str, str], streams: list[int], channel: socket.socket, note: str
) -> None:
    """Run as the shim."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.nice(order["nice"])
    account = rights.ids_of_account(order.get("account"))
    if order["container"]["runtime"] != "docker":
        _say(channel, failed=become_apptainer(order, scratch, variables, streams, account))
        os._exit(1)
    os.chdir("/")
    user = account or UserIds(os.getuid(), os.getgid(), tuple(os.getgroups()))
    docker = DockerContainer(order, scratch, variables, streams, channel, user)
    failure, status = docker.run()
    if usage := docker.usage:
        _say(channel, usage=usage)
    if failure:
        _say(channel, failed=failure)
    if docker.removed:
        forget(note)
    _end(status)


def _say(channel: socket.socket, **message: Any) -> None:
    with contextlib.suppress(OSError):
        channel.send(json.dumps(message).encode()[:_MOST])


def _end(status: int) -> None:
    """Exit as the container's program did: with its exit code, or by its signal. Like shells, HTCondor takes an exit
    code above 128 for a signal."""
    number = status - 128
    if number in signal.valid_signals():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.kill(os.getpid(), number)
        signal.pause()  # a signal that does not terminate
    os._exit(status & 255)


# Containers without a shim.


class Sweeper:
    """A running removal of a container and its anonymous volumes: a child that the supervisor reaps."""

    def __init__(self, note: str) -> None:
        """Start the removal. Raise `OSError` if the container runtime is not installed."""
        try:
            with open(note, encoding="utf-8", errors="surrogateescape") as file:
                noted = json.load(file)
            self._name, argv = str(noted["name"]), [*noted["command"], "rm", "-f", "-v", noted["name"]]
        except (ValueError, KeyError):  # an incomplete note: its container was never created
            self._name, argv = "", ["/bin/true"]
        self._output, write_end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._output, False)
        self._read = b""
        processes.mark_children(0)
        try:
            self.pid = os.posix_spawn(
                argv[0], argv, os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, write_end, 1), (os.POSIX_SPAWN_DUP2, write_end, 2)],
            )  # fmt: skip
        except OSError:
            os.close(self._output)
            raise
        finally:
            os.close(write_end)

    def done(self) -> bool | None:
        """Return whether the container has been removed, or None if that is not known yet."""
        try:
            while chunk := os.read(self._output, _MOST):
                self._read += chunk
        except BlockingIOError:
            return None
        os.close(self._output)
        output = self._read.decode(errors="replace")
        return self._name in output.split() or "no such container" in output.lower()


def sweep(notes: str) -> None:
    """Remove the containers that a killed supervisor left behind. If a container is not removed in time, keep its
    note."""
    try:
        remaining = {f"{notes}/{name}" for name in os.listdir(notes)}
    except OSError:
        return
    until = time.monotonic() + _SWEEP_S
    while remaining and time.monotonic() < until:
        running_sweepers = {note: sweeper for note in remaining if (sweeper := begin_sweeping(note))}
        while running_sweepers and time.monotonic() < until:
            for note, sweeper in list(running_sweepers.items()):
                is_gone = sweeper.done()
                if is_gone is not None:
                    del running_sweepers[note]
                if is_gone:
                    forget(note)
            time.sleep(_PAUSE_S)
        remaining = {note for note in remaining if os.path.exists(note)}


def begin_sweeping(note: str) -> Sweeper | None:
    """Start to remove a container. Return None if its runtime is no longer installed, since the container then no
    longer exists, either."""
    try:
        return Sweeper(note)
    except OSError:
        forget(note)
        return None


def forget(note: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(note)
