"""The supervisor's loop: one process, one thread, one client at a time.

The last client to connect is the pool: requests of earlier ones are done first, then they are told that they are
replaced. Messages are JSON objects, one a line: requests are named by ``do``, answers and reports by ``say``.

A turn of the loop: read messages, start a few jobs, reap, settle ends, one fsync for all of them, report.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import select
import signal
import socket
import time
import traceback
from collections import deque
from collections.abc import Iterable
from typing import Any

from ....sockets import Lines, peer_of
from . import processes
from .records import Record, line_of
from .supervised_job import ticker
from .supervised_jobs import SAMPLE_US, SupervisedJobs

VERSION = 3
_REQUESTS = frozenset({"hello", "start", "signal", "acknowledge", "recover"})

_LINGER_US = 2_000_000  #: with no job and no client for this long the supervisor exits: its records are on disk
_UNATTENDED_US = 5_000_000  #: with no client for this long, what is to be attended is killed
_STARTS = 8  #: starts in one turn: more would keep ends waiting, fewer would fsync for less
_BUSY_US, _IDLE_US = 300, 5_000  #: the time for chores in a turn in which something happened, or nothing did
_REFUSED_US = 500_000  #: after this a record that a full disk refused is offered again
_DEFECT_S = 0.1  #: the pause behind a turn that a defect has ended
_UNTOLD = 64 << 10  #: bytes of its own log that are kept for a disk that refuses them


class SupervisorLog:
    """The supervisor's own log, its stderr: what the disk refuses is kept, and offered to it again."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._left = b""
        self._last = ""

    def tell(self, text: str, again: bool = True) -> None:
        """Tell, with the time. ``again``: also what was told last."""
        if again or text != self._last:
            self._left += f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n".encode(errors="backslashreplace")
            self._left = self._left[-_UNTOLD:]
        self._last = text
        self.write()

    def passed(self) -> None:
        """What was told last is over: the next trouble is a new one."""
        self._last = ""

    def write(self) -> bool:
        """Write what is left; return whether nothing is left then."""
        try:
            while self._left:
                self._left = self._left[os.write(self._descriptor, self._left) :]
        except OSError:
            return False
        return True


class SupervisorServer:
    """The loop and its state."""

    def __init__(self, jobs: SupervisedJobs, listener: socket.socket, lock: int) -> None:
        self._jobs = jobs
        self._lock = lock
        self._signed = self._sign()
        self._listener = listener
        self._clients: dict[int, Lines] = {}
        self._requests: deque[tuple[Lines, dict[str, Any]]] = deque()
        self._reports: list[Record] = []
        self._poll = select.epoll()
        self._woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        # The handler does nothing: a byte in the pipe ends the wait.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        listener.setblocking(False)
        self._poll.register(listener, select.EPOLLIN)
        self._poll.register(self._woken, select.EPOLLIN)
        self._sample_at = ticker() + SAMPLE_US
        self._alone_at = self._attended_at = ticker()
        self._flush_at = 0
        self._chores_left = True
        self._told = SupervisorLog(2)

    def run(self) -> None:
        """Serve until there is nothing to do. No error ends the loop: the jobs have no other parent."""
        self._jobs.inherit(self._poll)
        goes_on = True
        while goes_on:
            try:
                goes_on = self._turn()
            except Exception:
                self._told.tell(f"a turn was cut short: {traceback.format_exc()}")
                time.sleep(_DEFECT_S)

    def _turn(self) -> bool:
        busy = bool(self._requests)
        for descriptor, _ in self._poll.poll(0 if busy else self._pause_s()):
            busy = True
            self._ready(descriptor)
        self._serve()
        self._jobs.reap()
        now = ticker()
        self._jobs.settle(now)
        self._reports += self._jobs.news()
        if now >= self._flush_at:
            self._flush(now)
        if now >= self._sample_at:
            self._reports += self._jobs.sample(now)
            self._sample_at = now + SAMPLE_US
        self._jobs.tire(now)
        self._report()
        if self._clients:
            self._attended_at = now
        elif now - self._attended_at >= _UNATTENDED_US:
            self._jobs.abandon()
        self._chores_left = self._jobs.chores(_BUSY_US if busy else _IDLE_US)
        if self._clients or self._jobs.running or self._chores_left:
            self._alone_at = now
        return now - self._alone_at < _LINGER_US

    def _flush(self, now: int) -> None:
        """Offer everything to the disk that is to be on it; a while later again what it refuses."""
        try:
            self._reports += self._jobs.flush()
            self._told.passed()
        except OSError as error:
            self._told.tell(f"the journal of exits cannot be written: {error}", again=False)
        if not self._signed:
            self._signed = self._sign()
        if not (self._told.write() and self._signed) or self._jobs.refused():
            self._flush_at = now + _REFUSED_US

    def _sign(self) -> bool:
        """Write into the lock whose it is, for people; return whether the disk took it."""
        try:
            os.pwrite(self._lock, b"%-10d\n" % os.getpid(), 0)
        except OSError:
            return False
        return True

    def _pause_s(self) -> float:
        """Return the seconds that may pass if nothing happens."""
        if self._chores_left:
            return 0
        now = ticker()
        until = now + _LINGER_US
        if self._jobs.running:
            until = min(until, self._sample_at)
        if (retry := self._jobs.next_retry()) is not None:
            until = min(until, retry)
        if self._flush_at > now:
            until = min(until, self._flush_at)
        return max(0, until - now) / 1e6

    def _ready(self, descriptor: int) -> None:
        if descriptor == self._woken:
            os.read(descriptor, 4096)
        elif descriptor == self._listener.fileno():
            self._accept()
        elif descriptor in self._clients:
            client = self._clients[descriptor]
            self._receive(client)
            if client.unsent:
                self._send(client, b"")
        else:
            self._jobs.hear(descriptor)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        connection.setblocking(False)
        if peer_of(connection) not in (0, os.geteuid()):  # what is asked for is done with this user's rights
            connection.close()
            return
        for other in list(self._clients.values()):
            self._receive(other)
            if other.connection.fileno() in self._clients:
                self._tell(other, [{"say": "replaced"}])
                self._drop(other)
        self._clients[connection.fileno()] = Lines(connection)
        self._poll.register(connection, select.EPOLLIN)

    def _receive(self, client: Lines) -> None:
        try:
            while True:
                messages = [json.loads(line) for line in client.receive()]
                if not all(isinstance(message, dict) and message.get("do") in _REQUESTS for message in messages):
                    raise ValueError("no pool talks like that")
                self._requests.extend((client, message) for message in messages)
        except BlockingIOError:
            return
        except (OSError, ValueError):
            self._drop(client)

    def _drop(self, client: Lines) -> None:
        self._poll.unregister(client.connection)
        del self._clients[client.connection.fileno()]
        client.connection.close()

    def _serve(self) -> None:
        """Do the requests in order, but only so many starts."""
        starts = 0
        while self._requests and starts < _STARTS:
            client, request = self._requests.popleft()
            starts += request["do"] == "start"
            match request["do"]:
                case "hello":
                    self._answer(client, {"say": "hello", "version": VERSION, "pid": os.getpid()})
                case "start":
                    if (said := self._jobs.start(request["order"])) is not None:
                        self._reports.append(said)
                case "signal":
                    self._jobs.signal(request["key"], request["how"])
                case "acknowledge":
                    self._jobs.release(request["keys"])
                case "recover":
                    known = {key: self._jobs.known(key) for key in request["keys"]}
                    self._answer(client, {"say": "known", "jobs": known})

    def _answer(self, client: Lines, answer: Record) -> None:
        """Queue an answer behind everything queued before."""
        self._report()
        if client.connection.fileno() in self._clients:
            self._tell(client, [answer])

    def _report(self) -> None:
        if self._reports:
            for client in list(self._clients.values()):
                self._tell(client, self._reports)
            self._reports.clear()

    def _tell(self, client: Lines, messages: Iterable[Record]) -> None:
        self._send(client, b"".join(map(line_of, messages)))

    def _send(self, client: Lines, data: bytes) -> None:
        if client.send(data):
            self._poll.modify(client.connection, select.EPOLLIN | (select.EPOLLOUT if client.unsent else 0))
        else:  # when it reconnects it learns all from the records
            self._drop(client)


def main(folder: str) -> int:
    """Become the supervisor of a folder, in a process of its own, unless it has one; return 0 when one listens. Raise
    `OSError` if there can be none."""
    lock = os.open(f"{folder}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return 0
    jobs = SupervisedJobs(folder)
    listener = _listen(folder)
    if os.fork():
        return 0
    os.setsid()
    os.dup2(2, 1)  # whoever started this one reads its output to the end
    os.chdir("/")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    processes.become_subreaper()
    try:
        SupervisorServer(jobs, listener, lock).run()
    finally:
        # Before the lock is let go, so that no successor's socket is removed.
        with contextlib.suppress(OSError):
            os.unlink(f"{folder}/socket")
    return 0


def _listen(folder: str) -> socket.socket:
    """Bind the socket through a descriptor: its own path may be too long for an address."""
    where = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if os.path.lexists(f"{folder}/socket"):
            os.unlink(f"{folder}/socket")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(f"/proc/self/fd/{where}/socket")
        listener.listen(64)
    finally:
        os.close(where)
    return listener
