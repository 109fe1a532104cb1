"""Private sockets and folders of one user, and the lines sent over a connection.

Imports little: every command that contacts a pool loads this module, and so does the supervisor of jobs.

Binding and connecting use a descriptor of the socket's folder, so that the path may have any length. A shorter path in
a shared directory, which another user could occupy first, is then not needed.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_PEER = struct.Struct("3i")  #: pid, uid and gid, see unix(7), SO_PEERCRED
_READ = 1 << 20
MOST_UNSENT = 64 << 20  #: unread bytes after which the other end is considered disconnected


class JsonLineConnection:
    """The lines received and sent on a connection; each is a JSON object."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.unsent = bytearray()
        self._unread = bytearray()
        self._searched = 0

    def receive(self, flags: int = 0) -> list[bytes]:
        """Return the complete lines after one read. Raise `ConnectionError` if the peer closed the connection,
        `BlockingIOError` if a nonblocking read would have to wait, and `OSError` for any other failure."""
        data = self.connection.recv(_READ, flags)
        if not data:
            raise ConnectionResetError("the peer closed the connection")
        self._unread += data
        end = self._unread.rfind(b"\n", self._searched) + 1
        self._searched = len(self._unread) - end  # the remaining bytes contain no line end
        lines = bytes(self._unread[:end]).split(b"\n")[:-1]
        del self._unread[:end]
        return lines

    def send(self, data: bytes = b"") -> bool:
        """Send as much as possible without waiting, and queue the rest. Return False if the other end has disconnected,
        or if more than `MOST_UNSENT` bytes remain unread."""
        self.unsent += data
        try:
            while self.unsent:
                del self.unsent[: self.connection.send(self.unsent)]
        except BlockingIOError:
            return len(self.unsent) <= MOST_UNSENT
        except OSError:
            self.unsent.clear()
            return False
        return True


def peer_of(connection: socket.socket) -> int:
    """Return the user id of the process at the other end; for a client, this is the listening process."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return int(_PEER.unpack(credentials)[1])


def process_of(connection: socket.socket) -> int:
    """Return the process id of the other end; for a client, this is the listening process."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return int(_PEER.unpack(credentials)[0])


def connect(path: Path, trusted_uids: Collection[int], timeout: float | None = None) -> socket.socket:
    """Connect to the socket at `path` if a process of a trusted user listens there; `timeout` is in seconds. Raise
    `PermissionError` if another user's process listens, and `OSError` if no process does."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            connection.settimeout(timeout)
            connection.connect(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)
        if (peer := peer_of(connection)) not in trusted_uids:
            raise PermissionError(f"{path} is served by the user with uid {peer}, whom this command does not trust")
    except BaseException:
        connection.close()
        raise
    return connection


def listen(path: Path, backlog: int, mode: int) -> socket.socket:
    """Return a socket that listens at `path` with the permissions `mode`, replacing the socket of a dead server. At
    most `backlog` clients can wait to be accepted. Raise `OSError` if the socket cannot be created."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    new_name = f"{path.name}.new"
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with suppress(FileNotFoundError):
                os.unlink(new_name, dir_fd=folder)
            mask = os.umask(0o777 & ~mode)
            try:
                listener.bind(f"/proc/self/fd/{folder}/{new_name}")
            finally:
                os.umask(mask)
            listener.listen(backlog)
            # Rename the socket only after it listens, so that clients can connect as soon as they see it.
            os.rename(new_name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            os.close(folder)
    except BaseException:
        listener.close()
        raise
    return listener


def make_private(folder: Path) -> None:
    """Create a folder that no other user can read or write; make an existing folder of this user private. Raise
    `OSError` if the folder cannot be created or belongs to another user."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        info = os.fstat(handle)
        if info.st_uid != os.geteuid():
            raise PermissionError(
                f"{folder} belongs to the user with uid {info.st_uid}: requests in it run with your permissions, so "
                f"you must own it; remove it, or use another log"
            )
        if stat.S_IMODE(info.st_mode) & 0o077:
            os.fchmod(handle, 0o700)
    finally:
        os.close(handle)
