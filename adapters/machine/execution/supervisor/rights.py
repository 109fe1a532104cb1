"""Do something with the rights of another user: files are opened, made and removed as that user would.

There are two ways. A process that is to be the user's is forked, and becomes that user for good (``become``). What this
process itself does about a user's files it does inside ``acting``, which changes the file rights of the calling thread
alone (setfsuid(2), setfsgid(2), and setgroups(2) called past the library, which would change all threads). seteuid(2)
is not used: it changes all threads of the process, and the user could then send it signals.
"""

from __future__ import annotations

import ctypes
import os
import platform
import select
import signal
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

_SETGROUPS = {"x86_64": 116, "aarch64": 159, "riscv64": 159, "ppc64le": 81, "s390x": 206}
"""The number of setgroups(2), by machine."""
MASK = 0o022  #: the umask of a user's processes, as HTCondor's daemons have it
_TRIES, _PATIENCE_S = 5, 0.2
_ANYBODY = 0xFFFFFFFF  #: not a user: setfsuid(2) answers with the present one


class UserIds(NamedTuple):
    """A user's rights: its number, its group's, and those of all its groups."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


def of(account: Mapping[str, Any] | None) -> UserIds | None:
    """Return the rights of an order's account; None: those of this process."""
    return None if account is None else UserIds(account["uid"], account["gid"], tuple(account["groups"]))


def become(rights: UserIds) -> None:
    """Give this process the rights of a user, for good. Raise `OSError` if that cannot be, or the user is root: what
    is done for others is never done with root's rights."""
    if rights.uid == 0 or rights.gid == 0:
        raise PermissionError(1, "nothing is run for others with the rights of root")
    os.setgroups(rights.groups)
    os.setresgid(rights.gid, rights.gid, rights.gid)
    os.setresuid(rights.uid, rights.uid, rights.uid)
    os.umask(MASK)


def end_all(user: UserIds) -> None:
    """Kill all processes of a user, which have no time to make further ones. Do nothing for want of a process."""
    for _ in range(_TRIES):
        try:
            pid = os.fork()
        except OSError:
            return
        if not pid:
            try:
                become(user)
                os.kill(-1, signal.SIGKILL)  # all that this process may kill, but itself
            finally:
                os._exit(0)
        if _ends(pid):
            return


def _ends(pid: int) -> bool:
    """Tell whether a child ends by itself, and soon: while it is a user's, whom it is to kill can stop it."""
    watched = os.pidfd_open(pid)
    try:
        ended = bool(select.select([watched], [], [], _PATIENCE_S)[0])
    finally:
        os.close(watched)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return ended


@contextmanager
def acting(rights: UserIds | None) -> Iterator[None]:
    """Do what follows with a user's file rights, in this thread alone; None: with one's own. Raise `OSError` if this
    process may not."""
    if rights is None:
        yield
        return
    own = UserIds(os.geteuid(), os.getegid(), tuple(os.getgroups()))
    try:
        _take(rights)
        yield
    finally:
        _take(own)


def in_steps(rights: UserIds, steps: Generator[None, None, Any]) -> Generator[None, None, Any]:
    """Take each step of a generator with a user's file rights; return what it returns."""
    while True:
        with acting(rights):
            try:
                next(steps)
            except StopIteration as end:
                return end.value
        yield


def _take(rights: UserIds) -> None:
    """Take a user's file rights, groups first: without root's they cannot be changed."""
    library = _library()
    if rights.uid:
        _set_groups(rights.groups)
        library.setfsgid(ctypes.c_uint(rights.gid))
        library.setfsuid(ctypes.c_uint(rights.uid))
    else:
        library.setfsuid(ctypes.c_uint(rights.uid))
        library.setfsgid(ctypes.c_uint(rights.gid))
        _set_groups(rights.groups)
    taken = (library.setfsuid(ctypes.c_uint(_ANYBODY)), library.setfsgid(ctypes.c_uint(_ANYBODY)))
    if taken != (rights.uid, rights.gid):
        raise PermissionError(1, f"this process may not act with the rights of the user with number {rights.uid}")


def _set_groups(groups: tuple[int, ...]) -> None:
    number = _SETGROUPS.get(platform.machine())
    if number is None:
        raise PermissionError(1, f"the groups of one thread cannot be set on {platform.machine()}")
    numbers = (ctypes.c_uint * len(groups))(*groups)
    if _library().syscall(ctypes.c_long(number), ctypes.c_long(len(groups)), numbers) != 0:
        failed = ctypes.get_errno()
        raise OSError(failed, os.strerror(failed))


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
