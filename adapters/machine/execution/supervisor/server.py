"""The supervisor's loop: one process, one thread, one client at a time.

The last client to connect is the pool. The requests of earlier clients are handled first; then these clients receive a
message that they were replaced. Messages are JSON objects, one per line: ``do`` names a request, ``say`` an answer or
report.

An iteration of the loop: read messages, start a few jobs, reap, process ends, one fsync for all of them, report.
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
import sys
import time
import traceback
from collections import deque
from typing import Any

from ....sockets import JsonLineConnection, peer_of
from . import launch, processes
from .records import Record, line_of
from .supervised_job import ticker
from .supervised_jobs import SAMPLE_US, SupervisedJobs

VERSION = 4
_REQUESTS = frozenset({"hello", "start", "signal", "acknowledge", "recover", "deadline"})

_LINGER_US = 2_000_000  #: with no job and no client for this long, the supervisor exits: its records are on disk
_UNATTENDED_US = 5_000_000  #: with no client for this long, attended jobs are killed
_STARTS = 8  #: starts in one iteration: more would delay ends, fewer would waste fsyncs
_BUSY_US, _IDLE_US = 300, 5_000  #: the time for chores in a busy and in an idle iteration
_RETRY_US = 500_000  #: when to retry a write that failed, for example on a full disk
_DEFECT_S = 0.1  #: the pause after an iteration that raised an error
_END = b"."  #: what a guard receives from a supervisor that ends because it has nothing to do
_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "launch_program.py")
_MOST_PENDING = 64 << 10  #: maximum number of bytes of the supervisor's log to keep while the disk is full


class SupervisorLog:
    """The supervisor's own log, its stderr. It keeps the text of a failed write and writes it later."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._pending = b""
        self._last = ""

    def log_text(self, text: str, may_repeat: bool = True) -> None:
        """Log a text with the time. Without ``may_repeat``, skip a text that repeats the last one."""
        if may_repeat or text != self._last:
            self._pending += f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n".encode(errors="backslashreplace")
            self._pending = self._pending[-_MOST_PENDING:]
        self._last = text
        self.write()

    def forget_last(self) -> None:
        """Forget the last text: its cause has ended, so the next text is logged even if it is the same."""
        self._last = ""

    def write(self) -> bool:
        """Write the pending text; return False if some is still pending."""
        try:
            while self._pending:
                self._pending = self._pending[os.write(self._descriptor, self._pending) :]
        except OSError:
            return False
        return True


class SupervisorServer:
    """The loop and its state."""

    def __init__(self, jobs: SupervisedJobs, listener: socket.socket, lock: int, folder: str) -> None:
        self._jobs = jobs
        self._folder = folder
        self._guard: socket.socket | None = None
        self._lock = lock
        self._wrote_pid = self._write_pid()
        self._listener = listener
        self._clients: dict[int, JsonLineConnection] = {}
        self._requests: deque[tuple[JsonLineConnection, dict[str, Any]]] = deque()
        self._reports: list[bytes] = []
        self._poll = select.epoll()
        self._wakeup, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        # The handler does nothing: a byte in the pipe ends the wait.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        listener.setblocking(False)
        self._poll.register(listener, select.EPOLLIN)
        self._poll.register(self._wakeup, select.EPOLLIN)
        self._sample_at = ticker() + SAMPLE_US
        self._alone_at = self._attended_at = ticker()
        self._flush_at = 0
        self._chores_left = True
        self._log = SupervisorLog(2)

    def run(self) -> None:
        """Serve until there is nothing to do. No error ends the loop: the jobs have no other parent."""
        self._jobs.inherit(self._poll)
        is_running = True
        while is_running:
            try:
                is_running = self._iterate()
            except Exception:
                self._log.log_text(f"an iteration failed: {traceback.format_exc()}")
                time.sleep(_DEFECT_S)
        if self._guard is not None:
            self._guard.send(_END)

    def _iterate(self) -> bool:
        is_busy = bool(self._requests)
        for descriptor, _ in self._poll.poll(0 if is_busy else self._pause_s()):
            is_busy = True
            self._ready(descriptor)
        self._serve()
        self._jobs.reap()
        now = ticker()
        self._jobs.settle(now)
        self._reports += map(line_of, self._jobs.new_reports())
        if now >= self._flush_at:
            self._flush(now)
        if now >= self._sample_at:
            self._reports += map(line_of, self._jobs.sample(now))
            self._sample_at = now + SAMPLE_US
        self._jobs.end_idle_movers(now)
        self._jobs.end_expired()
        if self._guard is None and self._jobs.next_deadline_us() is not None:
            self._start_guard()
        self._report()
        if self._clients:
            self._attended_at = now
        elif now - self._attended_at >= _UNATTENDED_US:
            self._jobs.abandon()
        self._chores_left = self._jobs.chores(_BUSY_US if is_busy else _IDLE_US)
        if self._clients or self._jobs.running or self._chores_left:
            self._alone_at = now
        return now - self._alone_at < _LINGER_US

    def _start_guard(self) -> None:
        """Start a process that starts the next supervisor if this one is killed. The next one ends the jobs, whose
        deadlines no one else would keep if no pool is connected. If the guard cannot be started, this is tried
        again."""

        def guard(channel: socket.socket) -> None:
            if channel.recv(1) != _END:
                os.execv(sys.executable, [sys.executable, "-I", "-S", "-B", _PROGRAM, "server", self._folder])

        processes.mark_children(0)
        with contextlib.suppress(OSError):
            pid, self._guard = processes.fork(guard, outlives=True)
            self._jobs.leave_alone(pid)

    def _flush(self, now: int) -> None:
        """Write everything that is due to disk; retry later if that fails."""
        try:
            self._reports += self._jobs.flush()
            self._log.forget_last()
        except OSError as error:
            self._log.log_text(f"the journal of exits cannot be written: {error}", may_repeat=False)
        if not self._wrote_pid:
            self._wrote_pid = self._write_pid()
        if not (self._log.write() and self._wrote_pid) or self._jobs.refused():
            self._flush_at = now + _RETRY_US

    def _write_pid(self) -> bool:
        """Write this pid into the lock file, for the administrator; return False if that fails."""
        try:
            os.pwrite(self._lock, b"%-10d\n" % os.getpid(), 0)
        except OSError:
            return False
        return True

    def _pause_s(self) -> float:
        """Return the longest time to wait for a message, in seconds."""
        if self._chores_left:
            return 0
        now = ticker()
        until = now + _LINGER_US
        if self._jobs.running:
            until = min(until, self._sample_at)
        if (left := self._jobs.next_deadline_us()) is not None:
            until = min(until, now + left)
        if (retry := self._jobs.next_retry()) is not None:
            until = min(until, retry)
        if self._flush_at > now:
            until = min(until, self._flush_at)
        return max(0, until - now) / 1e6

    def _ready(self, descriptor: int) -> None:
        if descriptor == self._wakeup:
            os.read(descriptor, 4096)
        elif descriptor == self._listener.fileno():
            self._accept()
        elif descriptor in self._clients:
            client = self._clients[descriptor]
            self._receive(client)
            if client.unsent and descriptor in self._clients:  # it may have been dropped
                self._send(client, b"")
        else:
            self._jobs.read_mover_result(descriptor)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        connection.setblocking(False)
        if peer_of(connection) not in (0, os.geteuid()):  # requests run with this user's privileges
            connection.close()
            return
        for client in list(self._clients.values()):
            self._receive(client)
            if client.connection.fileno() in self._clients:
                self._send(client, line_of({"say": "replaced"}))
                self._drop(client)
        self._clients[connection.fileno()] = JsonLineConnection(connection)
        self._poll.register(connection, select.EPOLLIN)

    def _receive(self, client: JsonLineConnection) -> None:
        try:
            while True:
                messages = [json.loads(line) for line in client.receive()]
                if not all(isinstance(message, dict) and message.get("do") in _REQUESTS for message in messages):
                    raise ValueError("unknown request")
                self._requests.extend((client, message) for message in messages)
        except BlockingIOError:
            return
        except (OSError, ValueError):
            self._drop(client)

    def _drop(self, client: JsonLineConnection) -> None:
        self._poll.unregister(client.connection)
        del self._clients[client.connection.fileno()]
        client.connection.close()

    def _serve(self) -> None:
        """Handle the requests in order, up to a number of starts."""
        starts = 0
        while self._requests and starts < _STARTS:
            client, request = self._requests.popleft()
            starts += request["do"] == "start"
            match request["do"]:
                case "hello":
                    self._answer(client, {"say": "hello", "version": VERSION, "pid": os.getpid()})
                case "start":
                    if (report := self._jobs.start(request["order"])) is not None:
                        self._reports.append(line_of(report))
                case "signal":
                    self._jobs.signal(request["key"], request["how"])
                case "deadline":
                    self._jobs.set_deadlines(request["deadlines"])
                case "acknowledge":
                    self._jobs.release(request["keys"])
                case "recover":
                    known_jobs = {key: self._jobs.known_state(key) for key in request["keys"]}
                    self._answer(client, {"say": "known", "jobs": known_jobs})

    def _answer(self, client: JsonLineConnection, answer: Record) -> None:
        """Send the pending reports, then an answer."""
        self._report()
        if client.connection.fileno() in self._clients:
            self._send(client, line_of(answer))

    def _report(self) -> None:
        if self._reports:
            for client in list(self._clients.values()):
                self._send(client, b"".join(self._reports))
            self._reports.clear()

    def _send(self, client: JsonLineConnection, data: bytes) -> None:
        if client.send(data):
            self._poll.modify(client.connection, select.EPOLLIN | (select.EPOLLOUT if client.unsent else 0))
            return
        self._receive(client)  # its last requests
        if client.connection.fileno() in self._clients:  # when it reconnects, it receives the records
            self._drop(client)


def main(folder: str) -> int:
    """Start the supervisor of a folder in a separate process, unless one is already running; return 0 once a supervisor
    listens. Raise `OSError` if that fails."""
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
    os.dup2(2, 1)  # the process that started this one reads its output to the end
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, launch.NULL)
    os.close(null)
    os.chdir("/")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    processes.become_subreaper()
    try:
        SupervisorServer(jobs, listener, lock, folder).run()
    finally:
        # Before releasing the lock, so as not to remove the next supervisor's socket.
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
