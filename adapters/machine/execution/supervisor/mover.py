"""Processes that transfer files: each is forked from the supervisor, works for one job at a time, and ends with the
supervisor.

A file system may hang, and a disk may be slow: the supervisor itself never waits for a user's file. Forking a process
takes longer than moving a few small files. So a process is reused for the next transfer if it has the rights of the
files' owner and nothing remains of the last one: it has never had a child, and it closes all that a transfer opens.
It has access only to the ``Task`` that it received.
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

from . import processes, remote_files, spool, transfer
from .launch import Order
from .rights import UserIds, become
from .scratch import hand_over
from .usage_meter import FAILED, RECEIVING, Result

MOST = 1 << 18  #: maximum number of bytes of a message
_FOR_ALL = frozenset({"LANG", "PATH", "TZ"})  #: the variables that programs run for other users inherit


class Task(NamedTuple):
    """A transfer: its kind (input, output, checkpoint, or evict: the files kept of an evicted job), the job's order and
    scratch directory, the number that marks its processes, whether the job has failed (then its outputs may not be
    requested), the name of its core file, and the number of a checkpoint that goes to a URL."""

    kind: str
    order: Order
    scratch: str
    number: int
    failed: bool = False
    core: str = ""
    checkpoint: int = 0

    def message(self) -> bytes:
        """Encode the task without the ads, which are in the scratch directory."""
        order = {name: value for name, value in self.order.items() if name not in ("job_ad", "machine_ad")}
        return json.dumps(self._replace(order=order)).encode()


class TransferUsers(NamedTuple):
    """The owner of the files, and the user that the job runs as; None means this process's user. ``is_remote``: whether
    the files are on another machine. A mover that has a user's rights cannot import what such a transfer needs."""

    files: UserIds | None
    account: UserIds | None
    is_remote: bool = False

    @property
    def is_one_user(self) -> bool:
        """Return True if both are the same user."""
        own_ids = UserIds(os.geteuid(), os.getegid())
        return (self.files or own_ids) == (self.account or own_ids)


def serve(parent: int, channel: socket.socket, task: Task, users: TransferUsers) -> None:
    """Run as a mover: do this task, send its result and whether the process can take another task, and wait for the
    next task."""
    reusable = users.is_one_user
    while True:
        processes.mark_children(task.number)
        result = _run_transfer(task.kind, partial(_run_task, parent, task, users))
        # Children may have left anything behind: a process that had any is not reused.
        reusable = reusable and "failure" not in result and not resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        processes.close_all_but(channel.fileno())
        channel.send(json.dumps([result, reusable]).encode())
        if not reusable or not (message := channel.recv(MOST)):
            return
        task = Task(*json.loads(message))


def _run_task(parent: int, task: Task, users: TransferUsers) -> Result:
    """Do a task with the rights of the files' owner. If the job runs as another user, change the owner of the scratch
    directory after the inputs and checkpoints, and again before the transfers that follow the job's process."""
    if users.is_one_user:
        return _work_as(parent, users.files, task)
    own_ids = UserIds(os.geteuid(), os.getegid())
    files, account = users.files or own_ids, users.account or own_ids
    if task.kind != "input":
        hand_over(task.scratch, account, files)
    if task.kind not in ("input", "checkpoint"):
        return _work_as(parent, users.files, task)
    own_pid = os.getpid()
    result = _run_as_other_process(task.kind, partial(_work_as, own_pid, users.files, task))
    if "failure" not in result:
        hand_over(task.scratch, files, account)
    return result


def _work_as(parent: int, user: UserIds | None, task: Task) -> Result:
    """Do a task with the rights of a user, who must not see this process's environment. The kernel drops the request to
    end with the parent when a process changes its user, so repeat the request."""
    if user is not None and user.uid != os.geteuid():
        if task.order.get("access_point") or task.order["transfer"].get("checkpoint_url"):
            remote_files.import_modules()
        become(user)
        for name in os.environ.keys() - _FOR_ALL:
            del os.environ[name]
        processes.end_with(parent)
    return _work(task)


def _work(task: Task) -> Result:
    if task.order.get("access_point"):
        return remote_files.transfer_files(task.kind, task.order, task.scratch, task.failed, task.core, task.checkpoint)
    if task.kind == "input":
        return transfer.transfer_inputs(task.order, task.scratch, restore=spool.restorer(task.order))
    if task.kind == "output":
        return transfer.transfer_outputs(task.order, task.scratch, task.failed, may_move=True, core=task.core)
    return spool.copy_to_spool(task.order, task.scratch, task.kind == "checkpoint", task.checkpoint)


def _run_as_other_process(kind: str, do_work: Callable[[], Result]) -> Result:
    """Do the work in a separate process, so that this process keeps its rights. Raise `OSError` if the work fails."""
    pid, channel = processes.fork(lambda tell: tell.send(json.dumps(_run_transfer(kind, do_work)).encode()))
    channel.setblocking(True)
    with channel:
        text = channel.recv(MOST)
    os.waitpid(pid, 0)
    if not text:
        raise OSError(errno.ECANCELED, "their transfer was stopped")
    result: Result = json.loads(text)
    return result


def _run_transfer(kind: str, do_work: Callable[[], Result]) -> dict[str, Any]:
    try:
        return do_work()
    except Exception as error:  # any error that a user's files cause is a failure of their transfer
        number = getattr(error, "errno", 0) or errno.EINVAL
        reason = f"{getattr(error, 'filename', None) or 'the files'}: (errno {number}) {error}"
        code = FAILED.get(kind, FAILED["output"])
        failure = {"code": code, "errno": number, "end": RECEIVING, "words": reason[:2000]}
        return {"files": 0, "size": 0, "listed": 0, "failure": failure}


# The supervisor's handles on these processes. An idle one takes the next transfer with the same rights; if none is
# idle, another one is forked, since a busy one may hang.


_MOST_IDLE = 16
_IDLE_US = 30_000_000  #: a process that has been idle for so long ends
_DETACH_S, _DETACH_TRIES = 0.0005, 2_000  #: how long, and how often, to wait for a process that detaches


class Mover:
    """The supervisor's handle on a process that transfers files."""

    def __init__(self, pid: int, started: int, channel: socket.socket, users: TransferUsers) -> None:
        self.pid, self.started, self.users = pid, started, users
        self.talk = channel
        self.reusable = False  #: whether the process reported that it can do another task
        self.idle_since = 0

    def offer(self, task: bytes) -> bool:
        """Send the mover a task; return False if the mover was killed or the task is too large for a message."""
        try:
            return bool(self.talk.send(task))
        except OSError:
            return False

    def receive_result(self) -> Result | None:
        """Return the result of the task, or None if there is none yet or the process has ended."""
        try:
            message = self.talk.recv(MOST)
        except OSError:
            return None
        if not message:
            return None
        try:
            result, self.reusable = json.loads(message)
        except ValueError:  # an incomplete message
            return None
        return dict(result)

    def wait_until_detached(self) -> None:
        """Wait until the mover has closed the supervisor's descriptors. A mover that is stopped earlier would hold the
        supervisor's socket and lock as long as it exists, even after the supervisor was killed."""
        for _ in range(_DETACH_TRIES):
            with contextlib.suppress(ProcessLookupError):
                if os.getsid(self.pid) != self.pid:
                    time.sleep(_DETACH_S)
                    continue
            return


class Movers:
    """All movers. ``poll``: where the supervisor waits for their messages."""

    def __init__(self, poll: select.epoll) -> None:
        self._poll = poll
        self._all: dict[int, Mover] = {}  # by their sockets
        self._idle: list[Mover] = []  # the last to become idle is reused first

    def start_task(self, task: Task, users: TransferUsers) -> Mover:
        """Start a task. Raise `OSError` if the task needs another process and this process cannot be started."""
        text = task.message() if self._idle else b""
        for mover in reversed(self._idle):
            if mover.users == users and mover.offer(text):
                self._idle.remove(mover)
                return mover
        mover = fork(task, users)
        self._all[mover.talk.fileno()] = mover
        self._poll.register(mover.talk, select.EPOLLIN)
        return mover

    def mover_with_descriptor(self, descriptor: int) -> Mover | None:
        return self._all.get(descriptor)

    def set_idle(self, mover: Mover, now: int) -> None:
        """Mark a mover as idle after its task, so that it can take another task."""
        mover.idle_since = now
        self._idle.append(mover)
        if len(self._idle) > _MOST_IDLE:
            self.drop_mover(self._idle[0])

    def drop_mover(self, mover: Mover) -> None:
        """Drop the handle on a mover; an idle mover then ends."""
        if self._all.pop(mover.talk.fileno(), None) is None:
            return
        self._poll.unregister(mover.talk)
        mover.talk.close()
        if mover in self._idle:
            self._idle.remove(mover)

    def end_idle(self, now: int) -> None:
        """End the movers that have been idle for long."""
        while self._idle and now - self._idle[0].idle_since >= _IDLE_US:
            self.drop_mover(self._idle[0])


def fork(task: Task, users: TransferUsers) -> Mover:
    """Start a mover with a task. Raise `OSError` if that fails."""
    pid, channel = processes.fork(partial(serve, os.getpid(), task=task, users=users))
    process = processes.read_process(pid)
    assert process is not None, "a child that is not reaped always exists"
    return Mover(pid, process.started, channel, users)
