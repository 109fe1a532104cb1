"""The process that stands for a job in a container: it makes the container ready, waits for it, and ends as it ended.

It is forked from the supervisor and leads a session of its own, as a job's process does. A container of docker is no
descendant of anything here, so it is noted on disk before it is made, and its note goes when it is removed: what notes
are left, when their keeper is gone, are swept. How signals come to it is said through a socket: ``kill 15``, ``pause``,
``unpause``. What it says comes back as JSON: ``usage``, or ``failed``, before it ends.
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

_SWEEP_S = 20  #: for so long a supervisor that begins waits for containers to be removed
_MOST = 1 << 16
_PAUSE_S = 0.02


class ContainerShim:
    """A keeper at work, as the supervisor sees it. ``alone``: the container's processes are its descendants, and are
    signalled as any job's; else it is told what to do."""

    def __init__(self, pid: int, talk: socket.socket | None, note: str) -> None:
        self.pid, self.note = pid, note
        self._talk = talk
        self.usage: dict[str, int] = {}
        self.failed: dict[str, Any] = {}
        self._sweeper: Sweeper | None = None
        self.killed = False  #: whether it was told to kill the container

    @property
    def alone(self) -> bool:
        return not self.note

    def tell(self, words: str) -> None:
        if self._talk is not None:
            with contextlib.suppress(OSError):
                self._talk.send(words.encode())

    def listen(self) -> None:
        """Take in what it has said."""
        while self._talk is not None:
            try:
                said = self._talk.recv(_MOST)
            except BlockingIOError:
                return
            except OSError:
                said = b""
            if not said:
                self._talk.close()
                self._talk = None
                return
            message = json.loads(said)
            self.usage = message.get("usage", self.usage)
            self.failed = message.get("failed", self.failed)

    def sweep(self) -> Sweeper | None:
        """Remove what is left of its container, now that it has ended, without waiting. Return who does so, if somebody
        has begun; ``left`` tells when nothing is."""
        if self._sweeper is None:
            self._sweeper = begin_sweeping(self.note)
            return self._sweeper
        gone = self._sweeper.done()
        if gone is not None:
            self._sweeper = None
        if gone:
            forget(self.note)
        return None

    @property
    def left(self) -> bool:
        """Whether a container of it may be there."""
        return bool(self.note) and os.path.exists(self.note)


def fork(order: Order, number: int, scratch: str, variables: dict[str, str], notes: str) -> ContainerShim:
    """Start a keeper. ``notes``: the directory of notes. Raise `StartError` if there can be none."""
    spec = order["container"] = {**order["container"], "name": f"{order['container']['name']}_PID{os.getpid()}"}
    docker = spec["runtime"] == "docker"
    note = f"{notes}/{order['key']}" if docker else ""
    streams = open_streams(order, scratch)

    def keep(talk: socket.socket) -> None:
        try:
            _keep(order, scratch, variables, streams, talk, note)
        except BaseException as error:
            _say(talk, failed={"part": "container", "errno": 0, "reason": f"{type(error).__name__}: {error}"})

    try:
        if docker:
            os.makedirs(notes, exist_ok=True)
            with open(note, "w", encoding="utf-8", errors="surrogateescape") as file:
                json.dump({"command": spec["command"], "name": spec["name"]}, file)
        processes.bequeath(number)
        pid, talk = processes.fork(keep, *streams, outlives=True)
    except OSError as error:
        if note:
            forget(note)
        raise StartError("scratch", error.errno or 0, f"the container's keeper: {error}", machine=True) from None
    finally:
        close(streams)
    return ContainerShim(pid, talk, note)


def _keep(
    order: Order, scratch: str, variables: dict[str, str], streams: list[int], talk: socket.socket, note: str
) -> None:
    """Be the keeper."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.nice(order["nice"])
    account = rights.of(order.get("account"))
    if order["container"]["runtime"] != "docker":
        _say(talk, failed=become_apptainer(order, scratch, variables, streams, account))
        os._exit(1)
    os.chdir("/")
    docker = DockerContainer(
        order, scratch, variables, streams, talk, account or UserIds(os.getuid(), os.getgid(), tuple(os.getgroups()))
    )
    failed, status = docker.run()
    if usage := docker.usage:
        _say(talk, usage=usage)
    if failed:
        _say(talk, failed=failed)
    if docker.removed:
        forget(note)
    _end(status)


def _say(talk: socket.socket, **message: Any) -> None:
    with contextlib.suppress(OSError):
        talk.send(json.dumps(message).encode()[:_MOST])


def _end(status: int) -> None:
    """End as the container's program ended: by its exit code, or by its signal. HTCondor takes an exit code above 128
    for a signal, as shells do."""
    number = status - 128
    if number in signal.valid_signals():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.kill(os.getpid(), number)
        signal.pause()  # a signal that ends nothing
    os._exit(status & 255)


# Containers without a keeper.


class Sweeper:
    """The removal of a container with its anonymous volumes, at work: a child of the supervisor's, which reaps it."""

    def __init__(self, note: str) -> None:
        """Raise `OSError` if the runtime is not there."""
        try:
            with open(note, encoding="utf-8", errors="surrogateescape") as file:
                noted = json.load(file)
            self._name, words = str(noted["name"]), [*noted["command"], "rm", "-f", "-v", noted["name"]]
        except (ValueError, KeyError):  # a torn note: its container was not begun
            self._name, words = "", ["/bin/true"]
        self._said, tell = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._said, False)
        self._text = b""
        processes.bequeath(0)
        try:
            self.pid = os.posix_spawn(
                words[0], words, os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, tell, 1), (os.POSIX_SPAWN_DUP2, tell, 2)],
            )  # fmt: skip
        except OSError:
            os.close(self._said)
            raise
        finally:
            os.close(tell)

    def done(self) -> bool | None:
        """Return whether the container is gone; None: that is not known yet."""
        try:
            while part := os.read(self._said, _MOST):
                self._text += part
        except BlockingIOError:
            return None
        os.close(self._said)
        said = self._text.decode(errors="replace")
        return self._name in said.split() or "no such container" in said.lower()


def sweep(notes: str) -> None:
    """Remove the containers that a killed supervisor left. What cannot be removed in time stays noted."""
    try:
        left = {f"{notes}/{name}" for name in os.listdir(notes)}
    except OSError:
        return
    until = time.monotonic() + _SWEEP_S
    while left and time.monotonic() < until:
        at_work = {note: sweeper for note in left if (sweeper := begin_sweeping(note))}
        while at_work and time.monotonic() < until:
            for note, sweeper in list(at_work.items()):
                gone = sweeper.done()
                if gone is not None:
                    del at_work[note]
                if gone:
                    forget(note)
            time.sleep(_PAUSE_S)
        left = {note for note in left if os.path.exists(note)}


def begin_sweeping(note: str) -> Sweeper | None:
    """Begin to remove a container; None: its runtime is not there any more, and neither is what it ran."""
    try:
        return Sweeper(note)
    except OSError:
        forget(note)
        return None


def forget(note: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(note)
