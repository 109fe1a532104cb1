"""The processes that transfer files, as the supervisor has them.

Each is at work for one job, which it stands for meanwhile. Whoever is at rest takes the next transfer with the same
rights; where nobody is, another one is forked: none waits for one that may hang.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import time

from . import processes
from .mover import MOST, Hands, Task, serve
from .usage_meter import Result

_MOST_AT_REST = 16
_REST_US = 30_000_000  #: who has been at rest for so long ends
_LEAVING_S, _LEAVING_MOST = 0.0005, 2_000  #: how long, and how often, it is waited for a process that leaves


class Mover:
    """A process that transfers files."""

    def __init__(self, pid: int, started: int, talk: socket.socket, hands: Hands) -> None:
        self.pid, self.started, self.hands = pid, started, hands
        self.talk = talk
        self.lasts = False  #: whether it can do another task, as it said last
        self.rests_since = 0

    def told(self, task: bytes) -> bool:
        """Give it a task; return whether it takes it: it may have been killed, or the task be larger than a message."""
        try:
            return bool(self.talk.send(task))
        except OSError:
            return False

    def hear(self) -> Result | None:
        """Return what became of its task, once it has said that; None: it has not, or is gone."""
        try:
            said = self.talk.recv(MOST)
        except OSError:
            return None
        if not said:
            return None
        try:
            result, self.lasts = json.loads(said)
        except ValueError:  # it was cut
            return None
        return dict(result)

    def stands_alone(self) -> None:
        """Wait until it has let go of all that is the supervisor's: one that is stopped earlier holds the supervisor's
        socket and lock for as long as it is, also when that has been killed."""
        for _ in range(_LEAVING_MOST):
            with contextlib.suppress(ProcessLookupError):
                if os.getsid(self.pid) != self.pid:
                    time.sleep(_LEAVING_S)
                    continue
            return


class Movers:
    """All of them. ``poll``: where the supervisor waits for what they say."""

    def __init__(self, poll: select.epoll) -> None:
        self._poll = poll
        self._all: dict[int, Mover] = {}  # by their sockets
        self._at_rest: list[Mover] = []  # the last one first to work again

    def begin(self, task: Task, hands: Hands) -> Mover:
        """Have a task done. Raise `OSError` if that needs another process, and there can be none."""
        text = task.message() if self._at_rest else b""
        for mover in reversed(self._at_rest):
            if mover.hands == hands and mover.told(text):
                self._at_rest.remove(mover)
                return mover
        mover = fork(task, hands)
        self._all[mover.talk.fileno()] = mover
        self._poll.register(mover.talk, select.EPOLLIN)
        return mover

    def of(self, descriptor: int) -> Mover | None:
        return self._all.get(descriptor)

    def rest(self, mover: Mover, now: int) -> None:
        """Its task is done: another one may come."""
        mover.rests_since = now
        self._at_rest.append(mover)
        if len(self._at_rest) > _MOST_AT_REST:
            self.leave(self._at_rest[0])

    def leave(self, mover: Mover) -> None:
        """Have no more to do with it: one that rests ends then."""
        if self._all.pop(mover.talk.fileno(), None) is None:
            return
        self._poll.unregister(mover.talk)
        mover.talk.close()
        if mover in self._at_rest:
            self._at_rest.remove(mover)

    def tire(self, now: int) -> None:
        """End those that have rested for long."""
        while self._at_rest and now - self._at_rest[0].rests_since >= _REST_US:
            self.leave(self._at_rest[0])


def fork(task: Task, hands: Hands) -> Mover:
    """Start a mover with a task. Raise `OSError` if there can be none."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        ours.close()
        theirs.close()
        raise
    if pid:
        theirs.close()
        process = processes.read(pid)
        assert process is not None, "a child that is not reaped is always there"
        return Mover(pid, process.started, ours, hands)
    try:
        serve(parent, theirs, task, hands)
    finally:
        os._exit(0)
