"""Answer a job's condor_chirp: files of its initial directory, and the attributes of its ad.

A separate process serves each job on a port of the loopback interface, with the rights of the owner of the job's files.
``.chirp.config`` in the scratch directory has the port and a cookie, which each connection sends first. Nothing outside
the initial directory can be accessed, not even through links.

Source: HTCondor's chirp client (chirp_client.c, io_proxy_handler.cpp).
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import socket
import time
from collections.abc import Callable
from typing import BinaryIO

from . import processes
from .chirp_writes import Sender, refusal
from .scratch import STAGING, remove_now

CONFIG = ".chirp.config"
VERSION = 2
_LINE = 5120  #: maximum number of bytes of a request's line
_MOST = 1 << 26  #: bytes that one request may read or write
_ERRORS = {
    errno.EPERM: -2, errno.EACCES: -2, errno.ENOENT: -3, errno.EEXIST: -4, errno.EFBIG: -5, errno.ENOSPC: -6,
    errno.ENOMEM: -7, errno.EINVAL: -8, errno.E2BIG: -8, errno.ENFILE: -9, errno.EMFILE: -9, errno.EBUSY: -10,
    errno.ETXTBSY: -10, errno.EAGAIN: -11, errno.EINTR: -11, errno.EBADF: -12, errno.EISDIR: -13, errno.ENOTDIR: -14,
    errno.ENOTEMPTY: -15, errno.EXDEV: -16, errno.ETIMEDOUT: -18,
}  # fmt: skip
_NOT_AUTHENTICATED, _TOO_BIG, _INVALID, _UNKNOWN = -1, -5, -8, -127


def listen(scratch: str) -> tuple[socket.socket, str]:
    """Listen on a port, and write address and cookie into the scratch directory. Return the socket and the cookie.
    Raise `OSError` if that fails."""
    listener = socket.create_server(("127.0.0.1", 0))
    cookie = os.urandom(16).hex()
    path = f"{scratch}/{CONFIG}"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"127.0.0.1 {listener.getsockname()[1]} {cookie}\n")
    except OSError:
        listener.close()
        raise
    return listener, cookie


def serve(listener: socket.socket, cookie: str, iwd: str, sender: Sender) -> None:
    """Answer until this process is killed; each connection has a thread."""
    from threading import Thread  # the supervisor itself does not need it

    while True:
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            Thread(target=Session(connection, cookie, iwd, sender).run, daemon=True).start()


def fork(
    listener: socket.socket, cookie: str, iwd: str, make: Callable[[socket.socket], Sender], become: Callable[[], None]
) -> tuple[int, socket.socket]:
    """Start the process that serves, with the rights that ``become`` takes. Return its pid and the socket on which it
    reports what the job writes. Raise `OSError` if the process cannot be started."""
    parent = os.getpid()

    def answer(channel: socket.socket) -> None:
        become()
        processes.end_with(parent)
        serve(listener, cookie, iwd, make(channel))

    return processes.fork(answer, listener.fileno())


class Session:
    """One connection: its requests and its open files."""

    def __init__(self, connection: socket.socket, cookie: str, iwd: str, sender: Sender) -> None:
        self._stream = connection.makefile("rwb")
        self._connection = connection
        self._cookie, self._sender = cookie, sender
        self._home = os.path.realpath(iwd)
        self._files: dict[int, BinaryIO] = {}

    def run(self) -> None:
        is_authenticated = False
        with contextlib.suppress(OSError, ValueError, _BrokenError), self._connection, self._stream:
            while line := self._stream.readline(_LINE + 1):
                if len(line) > _LINE:
                    self._say(_TOO_BIG)
                    break
                request = _words(os.fsdecode(line))
                if is_authenticated:
                    self._answer(request)
                    continue
                is_authenticated = len(request) == 2 and request[0] == "cookie" and request[1] == self._cookie
                if not is_authenticated:
                    time.sleep(1)
                self._say(0 if is_authenticated else _NOT_AUTHENTICATED)
        for file in self._files.values():
            file.close()

    def _say(self, number: int, more_data: bytes = b"") -> None:
        self._stream.write(b"%d\n" % number + more_data)
        self._stream.flush()

    def _answer(self, request: list[str]) -> None:
        command = _COMMANDS.get(request[0]) if request else None
        try:
            if command is None or len(request) - 1 != len(command[1]):
                raise ValueError
            values = [int(word) if kind == "d" else word for kind, word in zip(command[1], request[1:], strict=True)]
            answer = command[0](self, *values)
        except OSError as error:
            self._say(_ERRORS.get(error.errno or 0, _UNKNOWN))
        except (ValueError, OverflowError):
            self._say(_INVALID)
        else:
            if isinstance(answer, bytes):
                self._say(len(answer), answer)
            elif answer is not _SAID:
                self._say(*answer if isinstance(answer, tuple) else (answer or 0,))

    # Paths and files

    def _resolve_path(self, path: str, follow: bool = True) -> str:
        """Resolve a path. Raise `OSError` if the target is outside the initial directory. Without ``follow``, do not
        resolve a link in the last component."""
        joined_path = os.path.join(self._home, path)
        folder, name = os.path.split(joined_path)
        real_path = os.path.realpath(joined_path)
        if not follow and name not in ("", os.curdir, os.pardir):
            real_path = f"{os.path.realpath(folder)}/{name}"
        if os.path.commonpath((self._home, real_path)) != self._home:
            raise refusal(errno.EACCES)
        return real_path

    def _own(self, path: str) -> str:
        return self._resolve_path(path, follow=False)

    def _file(self, number: int) -> int:
        if number not in self._files:
            raise refusal(errno.EBADF)
        return self._files[number].fileno()

    def open(self, path: str, letters: str, mode: int) -> tuple[int, bytes]:
        flags = os.O_RDONLY
        if "w" in letters:
            flags = os.O_RDWR if "r" in letters else os.O_WRONLY
        for letter, flag in {"c": os.O_CREAT, "t": os.O_TRUNC, "x": os.O_EXCL, "a": os.O_APPEND}.items():
            flags |= flag if letter in letters else 0
        descriptor = os.open(
            self._resolve_path(path), flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, mode & 0o777
        )
        number = next(number for number in range(len(self._files) + 1) if number not in self._files)
        self._files[number] = os.fdopen(descriptor, "rb" if flags & 3 == os.O_RDONLY else "wb", buffering=0)
        return number, _stat(os.fstat(descriptor))

    def close(self, number: int) -> None:
        self._file(number)
        self._files.pop(number).close()

    def sread(self, number: int, length: int, offset: int, piece: int, skip: int) -> bytes:
        contents = b""
        for at, part_length in _pieces(length, offset, piece, skip):
            data = os.pread(self._file(number), part_length, at)
            contents += data
            if len(data) < part_length:
                break
        return contents

    def _read_data(self, length: int) -> bytes:
        data = self._stream.read(_bounded(length))
        if len(data) < length:
            raise refusal(errno.EINVAL)
        return data

    def write(self, number: int, length: int, *offset: int) -> int:
        data = self._read_data(length)  # read even if the write fails: the next request comes after it
        file = self._file(number)
        return os.pwrite(file, data, *offset) if offset else os.write(file, data)

    def swrite(self, number: int, length: int, offset: int, piece: int, skip: int) -> int:
        data, done_count = self._read_data(length), 0
        for at, part_length in _pieces(length, offset, piece, skip):
            done_count += os.pwrite(self._file(number), data[done_count : done_count + part_length], at)
        return done_count

    def getfile(self, path: str) -> tuple[int, bytes]:
        with open(self._resolve_path(path), "rb", opener=_never_waiting) as file:
            size = os.fstat(file.fileno()).st_size
            self._say(size)
            remaining = size
            while remaining and (data := file.read(min(remaining, 1 << 20))):
                self._stream.write(data)
                remaining -= len(data)
        if remaining:
            raise _BrokenError  # the file shrank: the client must not take the next answer for the rest
        self._stream.flush()
        return _SAID

    def putfile(self, path: str, mode: int, length: int) -> int:
        """Receive a file; rename it to its name once it is complete."""
        target = self._resolve_path(path)
        if os.path.isdir(target):
            raise refusal(errno.EISDIR)
        staged = f"{os.path.dirname(target)}/{STAGING}{os.urandom(8).hex()}"
        descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode & 0o777)
        try:
            with os.fdopen(descriptor, "wb") as file:
                remaining = length
                if remaining:
                    self._say(0)
                while remaining and (data := self._stream.read(min(remaining, 1 << 20))):
                    file.write(data)
                    remaining -= len(data)
                if remaining:
                    raise _BrokenError
                file.flush()
                os.fsync(descriptor)
            os.replace(staged, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(staged)
            raise
        return length

    def getdir(self, path: str) -> bytes:
        return b"".join(os.fsencode(name) + b"\n" for name in sorted(os.listdir(self._resolve_path(path))))

    def getlongdir(self, path: str) -> bytes:
        folder = self._resolve_path(path)
        lines = (os.fsencode(name) + b"\n" + _stat(os.lstat(f"{folder}/{name}")) for name in sorted(os.listdir(folder)))
        return b"".join(lines)

    def symlink(self, target: str, path: str) -> None:
        self._resolve_path(os.path.join(os.path.dirname(path), target))
        os.symlink(target, self._own(path))

    def access(self, path: str, mode: int) -> None:
        if not os.access(self._resolve_path(path), mode & 7):
            raise OSError(errno.EACCES if os.path.lexists(self._resolve_path(path)) else errno.ENOENT, "")

    def rmall(self, path: str) -> None:
        place = self._own(path)
        if place == self._home:
            raise refusal(errno.EACCES)
        if os.path.isdir(place) and not os.path.islink(place):
            remove_now(place)
            if os.path.lexists(place):
                raise refusal(errno.EACCES)
        else:
            os.unlink(place)

    # Attributes

    def whoami(self, length: int) -> bytes:
        try:
            name = os.fsencode(pwd.getpwuid(os.geteuid()).pw_name)
        except KeyError:
            name = b"%d" % os.geteuid()
        return name[: _bounded(length)]


_SAID = (-1, b"")  #: the answer was sent already


class _BrokenError(Exception):
    """The connection must be closed, because client and server no longer agree on the message boundaries."""


def _never_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)


def _bounded(length: int) -> int:
    if not 0 <= length <= _MOST:
        raise refusal(errno.EINVAL)
    return length


def _pieces(length: int, offset: int, piece: int, skip: int) -> list[tuple[int, int]]:
    """Return the offset and the length of each piece of a strided access."""
    if piece <= 0 or skip < piece:
        raise refusal(errno.EINVAL)
    starts = range(0, _bounded(length), piece)
    return [(offset + skip * index, min(piece, length - start)) for index, start in enumerate(starts)]


def _words(line: str) -> list[str]:
    """Split a request at white space; a backslash escapes the next character."""
    words, word, is_escaped = [], "", False
    is_begun = False
    for letter in line.rstrip("\r\n"):
        if not is_escaped and letter == "\\":
            is_escaped = is_begun = True
        elif not is_escaped and letter.isspace():
            words += [word] if is_begun else []
            word, is_begun = "", False
        else:
            word, is_begun, is_escaped = word + letter, True, False
    return [*words, word] if is_begun else words


def _stat(info: os.stat_result) -> bytes:
    numbers = (
        info.st_dev, info.st_ino, info.st_mode, info.st_nlink, info.st_uid, info.st_gid, info.st_rdev,
        info.st_size, info.st_blksize, info.st_blocks, int(info.st_atime), int(info.st_mtime), int(info.st_ctime),
    )  # fmt: skip
    return " ".join(map(str, numbers)).encode() + b"\n"


def _statfs(info: os.statvfs_result) -> bytes:
    numbers = (0, info.f_bsize, info.f_blocks, info.f_bfree, info.f_bavail, info.f_files, info.f_ffree)
    return " ".join(map(str, numbers)).encode() + b"\n"


_Answer = int | bytes | tuple[int, bytes] | None
"""A number; bytes, sent after their length; a number and bytes; or None, sent as 0."""
_COMMANDS: dict[str, tuple[Callable[..., _Answer], str]] = {
    "open": (Session.open, "ssd"),
    "close": (Session.close, "d"),
    "read": (lambda self, number, length: os.read(self._file(number), _bounded(length)), "dd"),
    "pread": (lambda self, number, length, offset: os.pread(self._file(number), _bounded(length), offset), "ddd"),
    "sread": (Session.sread, "ddddd"),
    "write": (Session.write, "dd"),
    "pwrite": (Session.write, "ddd"),
    "swrite": (Session.swrite, "ddddd"),
    "lseek": (lambda self, number, offset, whence: os.lseek(self._file(number), offset, whence), "ddd"),
    "fsync": (lambda self, number: os.fsync(self._file(number)), "d"),
    "fstat": (lambda self, number: (0, _stat(os.fstat(self._file(number)))), "d"),
    "fstatfs": (lambda self, number: (0, _statfs(os.fstatvfs(self._file(number)))), "d"),
    "fchown": (lambda self, number, uid, gid: os.fchown(self._file(number), uid, gid), "ddd"),
    "fchmod": (lambda self, number, mode: os.fchmod(self._file(number), mode & 0o777), "dd"),
    "ftruncate": (lambda self, number, length: os.ftruncate(self._file(number), length), "dd"),
    "getfile": (Session.getfile, "s"),
    "putfile": (Session.putfile, "sdd"),
    "getdir": (Session.getdir, "s"),
    "getlongdir": (Session.getlongdir, "s"),
    "unlink": (lambda self, path: os.unlink(self._own(path)), "s"),
    "rename": (lambda self, path, other: os.rename(self._own(path), self._own(other)), "ss"),
    "mkdir": (lambda self, path, mode: os.mkdir(self._own(path), mode & 0o777), "sd"),
    "rmdir": (lambda self, path: os.rmdir(self._own(path)), "s"),
    "rmall": (Session.rmall, "s"),
    "link": (lambda self, path, other: os.link(self._resolve_path(path), self._own(other)), "ss"),
    "symlink": (Session.symlink, "ss"),
    "readlink": (lambda self, path, most: os.fsencode(os.readlink(self._own(path)))[: _bounded(most)], "sd"),
    "stat": (lambda self, path: (0, _stat(os.stat(self._resolve_path(path)))), "s"),
    "lstat": (lambda self, path: (0, _stat(os.lstat(self._own(path)))), "s"),
    "statfs": (lambda self, path: (0, _statfs(os.statvfs(self._resolve_path(path)))), "s"),
    "access": (Session.access, "sd"),
    "chmod": (lambda self, path, mode: os.chmod(self._resolve_path(path), mode & 0o777), "sd"),
    "chown": (lambda self, path, uid, gid: os.chown(self._resolve_path(path), uid, gid), "sdd"),
    "lchown": (lambda self, path, uid, gid: os.lchown(self._own(path), uid, gid), "sdd"),
    "truncate": (lambda self, path, length: os.truncate(self._resolve_path(path), length), "sd"),
    "utime": (lambda self, path, access, change: os.utime(self._resolve_path(path), (access, change)), "sdd"),
    "get_job_attr": (lambda self, name: os.fsencode(self._sender.attribute_value(name) or "UNDEFINED"), "s"),
    "get_job_attr_delayed": (lambda self, name: os.fsencode(self._sender.delayed_value(name)), "s"),
    "set_job_attr": (lambda self, name, text: self._sender.set_attribute(name, text), "ss"),
    "set_job_attr_delayed": (lambda self, name, text: self._sender.set_delayed(name, text), "ss"),
    "ulog": (lambda self, text: self._sender.write_log_line(text), "s"),
    "whoami": (Session.whoami, "d"),
    "version": (lambda self: VERSION, ""),
}
"""By request name: the handler, and the types of its arguments: numbers (d) or texts (s)."""
