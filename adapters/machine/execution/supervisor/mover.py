"""The process that transfers files: forked from the supervisor, and gone with it.

A file system may hang, and a disk may be slow: the supervisor itself never waits for a user's file.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import signal
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from .rights import Rights, become
from .scratch import hand_over
from .tally import RECEIVING, Result

_PR_SET_PDEATHSIG = 1  # prctl(2)
_prctl = ctypes.CDLL(None).prctl  #: found once, and not by each process that is forked
_FOR_ALL = frozenset({"LANG", "PATH", "TZ"})  #: the variables that what is run for other users finds
_LEAVING_S, _LEAVING_MOST = 0.0005, 2_000  #: how long, and how often, it is waited for a process that leaves
_MOST = 1 << 16  #: bytes of a result: what a pipe holds without a reader


class Mover:
    """A transfer at work. ``way``: input or output."""

    def __init__(self, way: str, pid: int, said: int, began: int) -> None:
        self.way, self.pid, self.began = way, pid, began
        self._said = said

    def result(self) -> Result | None:
        """Return what it said, when its process has ended; None if it was killed before it said anything."""
        try:
            text = os.read(self._said, _MOST)
        finally:
            os.close(self._said)
        return json.loads(text) if text else None

    def stands_alone(self) -> None:
        """Wait until its process has let go of all that is the supervisor's: one that is stopped earlier holds the
        supervisor's socket and lock for as long as it is, also when that has been killed."""
        for _ in range(_LEAVING_MOST):
            with contextlib.suppress(ProcessLookupError):
                if os.getsid(self.pid) != self.pid:
                    time.sleep(_LEAVING_S)
                    continue
            return


class Hands(NamedTuple):
    """A scratch directory, the user whose files move, and the one that the job runs as; None: this process's user."""

    scratch: str
    files: Rights | None
    account: Rights | None


def fork(way: str, code: int, began: int, work: Callable[[], Result], hands: Hands | None = None) -> Mover:
    """Start a process that does the work, with the rights of the user whose files move. Where the job runs as another
    one, the scratch directory changes hands behind its inputs, and before what comes after the job. ``code``: the hold
    code of a failure. Raise `OSError` if there can be none."""
    said, tell = os.pipe2(os.O_CLOEXEC)
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        os.close(said)
        os.close(tell)
        raise
    if pid:
        os.close(tell)
        return Mover(way, pid, said, began)
    try:
        _leave(parent, tell)
        os.write(tell, json.dumps(_done(code, lambda: _worked(parent, way, code, work, hands))).encode()[:_MOST])
    finally:
        os._exit(0)


def _leave(parent: int, kept: int) -> None:
    """Be a process of its own: none of the supervisor's descriptors, its signals, nor its life."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    _end_with(parent)
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
    os.setsid()  # the last of it: ``stands_alone`` waits for that


def _end_with(parent: int) -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _worked(parent: int, way: str, code: int, work: Callable[[], Result], hands: Hands | None) -> Result:
    if hands is None:
        return work()
    own = Rights(os.geteuid(), os.getegid())
    files, account = hands.files or own, hands.account or own
    if files == account or way != "input":
        if files != account:
            hand_over(hands.scratch, account, files)
        return _work_as(parent, hands.files, work)
    here = os.getpid()
    result = _apart(code, lambda: _work_as(here, hands.files, work))
    if "failure" not in result:
        hand_over(hands.scratch, files, account)
    return result


def _work_as(parent: int, user: Rights | None, work: Callable[[], Result]) -> Result:
    """Do the work with the rights of a user, who has no business with this process's environment. Who becomes another
    user is no longer ended with its parent until it asks again."""
    if user is not None:
        become(user)
        for name in os.environ.keys() - _FOR_ALL:
            del os.environ[name]
        _end_with(parent)
    return work()


def _apart(code: int, work: Callable[[], Result]) -> Result:
    """Do the work in a process of its own, so that this one keeps its rights. Raise `OSError` if it fails."""
    said, tell = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if not pid:
        try:
            os.write(tell, json.dumps(_done(code, work)).encode()[:_MOST])
        finally:
            os._exit(0)
    os.close(tell)
    with open(said, "rb") as file:
        text = file.read()
    os.waitpid(pid, 0)
    if not text:
        raise OSError(errno.ECANCELED, "their transfer was ended")
    result: Result = json.loads(text)
    return result


def _done(code: int, work: Callable[[], Result]) -> dict[str, Any]:
    try:
        return work()
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", 0) or errno.EINVAL
        words = f"{getattr(error, 'filename', None) or 'the files'}: (errno {number}) {error}"
        failure = {"code": code, "errno": number, "end": RECEIVING, "words": words[:2000]}
        return {"files": 0, "size": 0, "listed": 0, "failure": failure}
