"""Processes that transfer files: forked from the supervisor, each at work for one job at a time, and gone with it.

A file system may hang, and a disk may be slow: the supervisor itself never waits for a user's file. Forking a process
takes longer than moving a few small files. So one whose transfer is over takes the next one, if it has the rights of
the user whose files those are, and if the last one has left nothing in it: it has never had a child, and all that a
transfer opens is closed. What a process knows of a transfer is what it was told, a ``Task``.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import select
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from . import processes, spool, transfer
from .launch import Order
from .rights import UserIds, become
from .scratch import hand_over
from .usage_meter import FAILED, RECEIVING, Result

MOST = 1 << 18  #: bytes of a message, at most
_FOR_ALL = frozenset({"LANG", "PATH", "TZ"})  #: the variables that what is run for other users finds


class Task(NamedTuple):
    """A transfer: its way (input, output, checkpoint, or evict: what is kept of a job that was told to end), the job's
    order and scratch directory, the number that its processes bear, whether it has failed (then its outputs may not be
    wanted), and the name of its core file."""

    way: str
    order: Order
    scratch: str
    number: int
    failed: bool = False
    core: str = ""

    def message(self) -> bytes:
        """Return it as it is sent: without the ads, which stand in the scratch directory."""
        order = {name: part for name, part in self.order.items() if name not in ("job_ad", "machine_ad")}
        return json.dumps(self._replace(order=order)).encode()


class Hands(NamedTuple):
    """The user whose files move, and the one that the job runs as; None: this process's user."""

    files: UserIds | None
    account: UserIds | None

    @property
    def one(self) -> bool:
        """Whether both are the same user."""
        own = UserIds(os.geteuid(), os.getegid())
        return (self.files or own) == (self.account or own)


def serve(parent: int, talk: socket.socket, task: Task, hands: Hands) -> None:
    """Be a mover: do this task, tell its result and whether there may be another, and wait for that."""
    lasts = hands.one
    while True:
        processes.bequeath(task.number)
        result = _done(task.way, partial(_worked, parent, task, hands))
        # What children have left behind is not known: who has had any serves once.
        lasts = lasts and "failure" not in result and not resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        processes.close_all_but(talk.fileno())
        talk.send(json.dumps([result, lasts]).encode())
        if not lasts or not (said := talk.recv(MOST)):
            return
        task = Task(*json.loads(said))


def _worked(parent: int, task: Task, hands: Hands) -> Result:
    """Do a task with the rights of the user whose files move. Where the job runs as another one, the scratch directory
    changes hands behind its inputs, and before what comes after the job."""
    if hands.one:
        return _work_as(parent, hands.files, task)
    own = UserIds(os.geteuid(), os.getegid())
    files, account = hands.files or own, hands.account or own
    if task.way != "input":
        hand_over(task.scratch, account, files)
        return _work_as(parent, hands.files, task)
    here = os.getpid()
    result = _apart(task.way, partial(_work_as, here, hands.files, task))
    if "failure" not in result:
        hand_over(task.scratch, files, account)
    return result


def _work_as(parent: int, user: UserIds | None, task: Task) -> Result:
    """Do a task with the rights of a user, who has no business with this process's environment. Who becomes another
    user is no longer ended with its parent until it asks again."""
    if user is not None and user.uid != os.geteuid():
        become(user)
        for name in os.environ.keys() - _FOR_ALL:
            del os.environ[name]
        processes.end_with(parent)
    return _work(task)


def _work(task: Task) -> Result:
    if task.way == "input":
        return transfer.bring(task.order, task.scratch, give=spool.of(task.order))
    if task.way == "output":
        return transfer.take_back(task.order, task.scratch, task.failed, moves=True, core=task.core)
    return spool.keep(task.order, task.scratch, checkpoint=task.way == "checkpoint")


def _apart(way: str, work: Callable[[], Result]) -> Result:
    """Do the work in a process of its own, so that this one keeps its rights. Raise `OSError` if it fails."""
    pid, talk = processes.fork(lambda tell: tell.send(json.dumps(_done(way, work)).encode()))
    talk.setblocking(True)
    with talk:
        text = talk.recv(MOST)
    os.waitpid(pid, 0)
    if not text:
        raise OSError(errno.ECANCELED, "their transfer was ended")
    result: Result = json.loads(text)
    return result


def _done(way: str, work: Callable[[], Result]) -> dict[str, Any]:
    try:
        return work()
    except Exception as error:  # whatever a user's files bring about is a failure of their transfer
        number = getattr(error, "errno", 0) or errno.EINVAL
        words = f"{getattr(error, 'filename', None) or 'the files'}: (errno {number}) {error}"
        code = FAILED.get(way, FAILED["output"])
        failure = {"code": code, "errno": number, "end": RECEIVING, "words": words[:2000]}
        return {"files": 0, "size": 0, "listed": 0, "failure": failure}


# The same processes as the supervisor has them. Whoever is at rest takes the next transfer with the same rights; where
# nobody is, another one is forked: none waits for one that may hang.


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
    pid, talk = processes.fork(partial(serve, os.getpid(), task=task, hands=hands))
    process = processes.read(pid)
    assert process is not None, "a child that is not reaped is always there"
    return Mover(pid, process.started, talk, hands)
