"""Sockets and folders that are one user's own. Imports little: every command that asks a pool for something loads it.

A socket is bound and connected to through a descriptor of its folder, so that its path may be of any length and no
other place, which anybody could take first, is needed.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

_PEER = struct.Struct("3i")  #: pid, uid and gid, see unix(7), SO_PEERCRED


def peer_of(connection: socket.socket) -> int:
    """Return the user id of the process at the other end, which for a client is the one that listens."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return int(_PEER.unpack(credentials)[1])


def process_of(connection: socket.socket) -> int:
    """Return the id of the process at the other end, which for a client is the one that listens."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return int(_PEER.unpack(credentials)[0])


def connect(path: Path, trusted: Collection[int], timeout: float | None = None) -> socket.socket:
    """Connect to the socket at `path`, if one of these users listens; `timeout` in seconds. Raise `PermissionError`
    if another does, `OSError` if nobody does."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            connection.settimeout(timeout)
            connection.connect(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)
        if (other := peer_of(connection)) not in trusted:
            raise PermissionError(f"{path} is served by the user with number {other}, who is not to be trusted with it")
    except BaseException:
        connection.close()
        raise
    return connection


def listen(path: Path, waiting: int, mode: int) -> socket.socket:
    """Return a socket that listens at `path`, with these permissions, in the place of a dead server's; so many clients
    may be waiting to be accepted. Raise `OSError` if there can be none."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    unnamed = f"{path.name}.new"
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with suppress(FileNotFoundError):
                os.unlink(unnamed, dir_fd=folder)
            mask = os.umask(0o777 & ~mode)
            try:
                listener.bind(f"/proc/self/fd/{folder}/{unnamed}")
            finally:
                os.umask(mask)
            listener.listen(waiting)
            # It is renamed once it listens, so that it can be connected to at once.
            os.rename(unnamed, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            os.close(folder)
    except BaseException:
        listener.close()
        raise
    return listener


def make_private(folder: Path) -> None:
    """Make a folder that nobody else may read or write, unless it is there; close one of this user's to others. Raise
    `OSError` if it cannot be made, or is another user's."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if found.st_uid != os.geteuid():
            raise PermissionError(
                f"{folder} belongs to the user with number {found.st_uid}: what it holds is done with your rights, so "
                "it must be your own; take it away, or use another log"
            )
        if stat.S_IMODE(found.st_mode) & 0o077:
            os.fchmod(handle, 0o700)
    finally:
        os.close(handle)
