"""Act with the rights of another user: open, create and remove files as that user would.

A process for the user is forked and becomes that user permanently (``become``). This process itself handles a user's
files inside ``acting``, which changes only the file rights of the calling thread (setfsuid(2), setfsgid(2), and the
raw system call setgroups(2), since the C library's function changes all threads). seteuid(2) is not used: it changes
all threads of the process, and the user could then send it signals.
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
MASK = 0o022  #: the umask of a user's processes, as in HTCondor daemons
_TRIES, _PATIENCE_S = 5, 0.2
_ANYBODY = 0xFFFFFFFF  #: not a user: makes setfsuid(2) return the current one


class UserIds(NamedTuple):
    """A user's ids: the user, the primary group, and all groups."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


def ids_of_account(account: Mapping[str, Any] | None) -> UserIds | None:
    """Return the ids of an order's account, or None if the job uses this process's ids."""
    return None if account is None else UserIds(account["uid"], account["gid"], tuple(account["groups"]))


def become(rights: UserIds) -> None:
    """Permanently give this process the rights of a user. Raise `OSError` if that fails, or the user is root: nothing
    is done for users with root's privileges."""
    if rights.uid == 0 or rights.gid == 0:
        raise PermissionError(1, "programs of other users never run with root's privileges")
    os.setgroups(rights.groups)
    os.setresgid(rights.gid, rights.gid, rights.gid)
    os.setresuid(rights.uid, rights.uid, rights.uid)
    os.umask(MASK)


def kill_all(user: UserIds) -> None:
    """Kill all processes of a user at once, so that they cannot fork further ones. Do nothing if fork fails."""
    for _ in range(_TRIES):
        try:
            pid = os.fork()
        except OSError:
            return
        if not pid:
            try:
                become(user)
                os.kill(-1, signal.SIGKILL)  # every process that this one may kill, except itself
            finally:
                os._exit(0)
        if _ends(pid):
            return


def _ends(pid: int) -> bool:
    """Return True if a child exits soon: it runs as the user, so the processes that it kills might stop it first."""
    pidfd = os.pidfd_open(pid)
    try:
        ended = bool(select.select([pidfd], [], [], _PATIENCE_S)[0])
    finally:
        os.close(pidfd)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return ended


@contextmanager
def acting_as(rights: UserIds | None) -> Iterator[None]:
    """Run the block with a user's file rights, in this thread only; if ``rights`` is None, use this process's rights.
    Raise `OSError` if this process may not do that."""
    if rights is None:
        yield
        return
    own_ids = UserIds(os.geteuid(), os.getegid(), tuple(os.getgroups()))
    try:
        _assume_rights(rights)
        yield
    finally:
        _assume_rights(own_ids)


def in_steps(rights: UserIds, steps: Generator[None, None, Any]) -> Generator[None, None, Any]:
    """Run each step of a generator with a user's file rights; return its result."""
    while True:
        with acting_as(rights):
            try:
                next(steps)
            except StopIteration as end:
                return end.value
        yield


def _assume_rights(rights: UserIds) -> None:
    """Take a user's file rights, groups first: only root's rights can change groups."""
    library = _library()
    if rights.uid:
        _set_groups(rights.groups)
        library.setfsgid(ctypes.c_uint(rights.gid))
        library.setfsuid(ctypes.c_uint(rights.uid))
    else:
        library.setfsuid(ctypes.c_uint(rights.uid))
        library.setfsgid(ctypes.c_uint(rights.gid))
        _set_groups(rights.groups)
    old_ids = (library.setfsuid(ctypes.c_uint(_ANYBODY)), library.setfsgid(ctypes.c_uint(_ANYBODY)))
    if old_ids != (rights.uid, rights.gid):
        raise PermissionError(1, f"this process may not take the file rights of user id {rights.uid}")


def _set_groups(groups: tuple[int, ...]) -> None:
    number = _SETGROUPS.get(platform.machine())
    if number is None:
        raise PermissionError(1, f"the groups of one thread cannot be set on {platform.machine()}")
    numbers = (ctypes.c_uint * len(groups))(*groups)
    if _library().syscall(ctypes.c_long(number), ctypes.c_long(len(groups)), numbers) != 0:
        errno_now = ctypes.get_errno()
        raise OSError(errno_now, os.strerror(errno_now))


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
