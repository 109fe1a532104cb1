"""condor_chirp: access a running job's initial directory, its ClassAd and its log.

Source: HTCondor's condor_chirp.cpp and chirp_client.c, and recordings of its output. Usage errors go to standard
output, with exit code 255.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from ..condor_tools.tool_options import ToolEnded, usage_of

_ERRNOS: Final = (
    errno.EACCES, errno.EACCES, errno.ENOENT, errno.EEXIST, errno.EFBIG, errno.ENOSPC, errno.ENOMEM, errno.EINVAL,
    errno.EMFILE, errno.EBUSY, errno.EAGAIN, errno.EBADF,
)  # fmt: skip
"""The errno for each negative answer of the protocol, from -1 down."""
_FAILURE_CODE, _LOST_CONNECTION_CODE = 255, 1  #: for invalid usage and failed requests; for a lost connection
_STAT: Final = ("device", "inode", "mode", "nlink", "uid", "gid", "rdevice", "size", "blksize", "blocks", "atime",
                "mtime", "ctime")  # fmt: skip
_STATFS: Final = ("f_type", "f_bsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree")
_CONNECT_FAILURE_TEXT: Final = "cannot chirp_connect to condor_starter\n"
_MAX_LINE_BYTES: Final = 1024  #: maximum length of a line of the protocol


class _ChirpFailed(Exception):
    def __init__(self, number: int) -> None:
        self.number = number


class Proxy:
    """A connection to the Chirp server of this job, authenticated with the cookie."""

    def __init__(self) -> None:
        folder = os.environ.get("_CONDOR_SCRATCH_DIR", ".")
        path = os.environ.get("_CONDOR_CHIRP_CONFIG") or os.path.join(folder, ".chirp.config")
        try:
            with open(path, encoding="ascii") as file:
                host, port, cookie = file.read().split()[:3]
        except (OSError, ValueError):
            raise ToolEnded(
                _FAILURE_CODE, f"Can't open {path} file\n{_CONNECT_FAILURE_TEXT}", _error(errno.ENOENT)
            ) from None
        try:
            self._stream = socket.create_connection((host, int(port))).makefile("rwb")
        except OSError:
            message = f"Can't connect to {host}:{port}\n{_CONNECT_FAILURE_TEXT}"
            raise ToolEnded(_FAILURE_CODE, message, _error(errno.ECONNREFUSED)) from None
        self.ask("cookie", cookie)

    def ask(self, request: str, *arguments: str | int, data: bytes = b"") -> int:
        """Send a request and its data, and return the answer. Raise `_ChirpFailed` if the answer is negative."""
        return self.read_answer(os.fsencode(" ".join([request, *map(_escape_blanks, arguments)])) + b"\n" + data)

    def read_answer(self, data: bytes = b"") -> int:
        """Return the answer to a request, after sending its data."""
        self._stream.write(data)
        self._stream.flush()
        line = self._stream.readline()
        if not line.strip():
            raise ToolEnded(_LOST_CONNECTION_CODE, "chirp: couldn't get response from server: Success\n")
        number = int(line)
        if number < 0:
            raise _ChirpFailed(_ERRNOS[-number - 1] if -number <= len(_ERRNOS) else errno.EIO)
        return number

    def read_line(self) -> bytes:
        return self._stream.readline()

    def request_data(self, request: str, *arguments: str | int) -> bytes:
        """Return the bytes that follow the answer; the answer is their number."""
        return self._stream.read(self.ask(request, *arguments))

    def request_numbers(self, request: str, *arguments: str | int) -> list[int]:
        """Return the numbers in the line that follows the answer."""
        self.ask(request, *arguments)
        return [int(word) for word in self.read_line().split()]


def _escape_blanks(word: str | int) -> str:
    return "".join(f"\\{letter}" if letter in " \t\n\r\\" else letter for letter in str(word))


def _error(number: int) -> str:
    return f"\tError: {number} ({os.strerror(number)})\n"


_VerbFunction = Callable[[Proxy, Sequence[str]], int]


class ChirpVerb(NamedTuple):
    """A Chirp verb: its arguments in the help, how many it allows, and the function that returns its exit code."""

    usage: str
    words: tuple[int, ...]
    do: _VerbFunction


def _sending_request(request: str) -> _VerbFunction:
    return lambda proxy, arguments: proxy.ask(request, *arguments)


def _printing_attribute(request: str) -> _VerbFunction:
    def print_attribute(proxy: Proxy, arguments: Sequence[str]) -> int:
        try:
            value = proxy.request_data(request, *arguments)
        except _ChirpFailed as error:
            if error.number != errno.ENOENT:
                raise
            value = b"UNDEFINED"
        print(os.fsdecode(value))
        return 0

    return print_attribute


def _printing_file_status(request: str, names: Sequence[str]) -> _VerbFunction:
    def print_file_status(proxy: Proxy, arguments: Sequence[str]) -> int:
        for name, value in zip(names, proxy.request_numbers(request, *arguments), strict=False):
            print(f"{name}: {time.ctime(value) if name.endswith('time') else value}")
        return 0

    return print_file_status


def _request_chosen_by_option(option: str, plain_request: str, other: str) -> _VerbFunction:
    def send_request(proxy: Proxy, arguments: Sequence[str]) -> int:
        return proxy.ask(other, *arguments[1:]) if arguments[0] == option else proxy.ask(plain_request, *arguments)

    return send_request


def _fetch(proxy: Proxy, arguments: Sequence[str]) -> int:
    remote_path, local = arguments
    try:
        data = proxy.request_data("getfile", remote_path)
    except _ChirpFailed as failed:
        raise ToolEnded(_LOST_CONNECTION_CODE, f"chirp: couldn't getfile: {os.strerror(failed.number)}\n") from None
    if local == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        return 0
    try:
        Path(local).write_bytes(data)
    except OSError as error:
        raise ToolEnded(_FAILURE_CODE, f"Can't open local file {local}\n", _error(error.errno or 0)) from None
    return 0


def _put(proxy: Proxy, arguments: Sequence[str]) -> int:
    options = dict(zip(arguments[:-2:2], arguments[1:-2:2], strict=False))
    local, remote_path = arguments[-2:]
    mode, permissions = options.get("-mode", "cwb"), int(options.get("-perm", "777"), 8)
    try:
        data = sys.stdin.buffer.read() if local == "-" else Path(local).read_bytes()
    except OSError as error:
        raise ToolEnded(_FAILURE_CODE, f"Can't open local file {local}\n", _error(error.errno or 0)) from None
    if mode == "cwb" and local != "-":
        proxy.ask("putfile", remote_path, permissions, len(data))
        proxy.read_answer(data)
        return 0
    number = proxy.ask("open", remote_path, "".join(letter for letter in mode if letter != "b"), permissions)
    proxy.read_line()
    for at in range(0, len(data), 8192):
        piece = data[at : at + 8192]
        proxy.ask("write", number, len(piece), data=piece)
    proxy.ask("close", number)
    return 0


def _read_remote(proxy: Proxy, arguments: Sequence[str]) -> int:
    offset = int(arguments[1]) if arguments[0] == "-offset" else 0
    name, length = arguments[-2:]
    number = proxy.ask("open", name, "r", 0)
    proxy.read_line()
    data = proxy.request_data("pread", number, int(length), offset)
    proxy.ask("close", number)
    print(os.fsdecode(data))
    return len(data)


def _print_answer(proxy: Proxy, request: str, *arguments: str | int, end: str = "\n") -> int:
    data = proxy.request_data(request, *arguments)
    print(os.fsdecode(data), end=end)
    return len(data)


_ACCESS: Final = {"r": os.R_OK, "w": os.W_OK, "x": os.X_OK, "f": os.F_OK}


def _access(proxy: Proxy, arguments: Sequence[str]) -> int:
    mode = 0
    for letter in arguments[1]:
        if letter not in _ACCESS:
            raise ToolEnded(_FAILURE_CODE, f"invalid mode char '{letter}'\n")
        mode |= _ACCESS[letter]
    return proxy.ask("access", arguments[0], mode)


VERBS: Final[dict[str, ChirpVerb]] = {
    "fetch": ChirpVerb("remote_file local_file", (2,), _fetch),
    "put": ChirpVerb("[-mode mode] [-perm perm] local_file remote_file", (2, 4, 6), _put),
    "remove": ChirpVerb("remote_file", (1,), _sending_request("unlink")),
    "get_job_attr": ChirpVerb("AttributeName", (1,), _printing_attribute("get_job_attr")),
    "get_job_attr_delayed": ChirpVerb("AttributeName", (1,), _printing_attribute("get_job_attr_delayed")),
    "set_job_attr": ChirpVerb("AttributeName AttributeValue", (2,), _sending_request("set_job_attr")),
    "set_job_attr_delayed": ChirpVerb("AttributeName AttributeValue", (2,), _sending_request("set_job_attr_delayed")),
    "ulog": ChirpVerb("message", (1,), _sending_request("ulog")),
    "read": ChirpVerb("[-offset offset] [-stride length skip] remotepath length", (2, 4), _read_remote),
    "rmdir": ChirpVerb("[-r] remotepath", (1, 2), _request_chosen_by_option("-r", "rmdir", "rmall")),
    "getdir": ChirpVerb("[-l] remotepath", (1,), lambda proxy, words: _print_answer(proxy, "getdir", *words, end="")),
    "whoami": ChirpVerb("", (0,), lambda proxy, _: _print_answer(proxy, "whoami", _MAX_LINE_BYTES)),
    "link": ChirpVerb("[-s] oldpath newpath", (2, 3), _request_chosen_by_option("-s", "link", "symlink")),
    "readlink": ChirpVerb(
        "remotepath length", (2,), lambda proxy, words: _print_answer(proxy, "readlink", words[0], int(words[1]))
    ),
    "stat": ChirpVerb("remotepath", (1,), _printing_file_status("stat", _STAT)),
    "lstat": ChirpVerb("remotepath", (1,), _printing_file_status("lstat", _STAT)),
    "statfs": ChirpVerb("remotepath", (1,), _printing_file_status("statfs", _STATFS)),
    "access": ChirpVerb("remotepath mode(rwxf)", (2,), _access),
    "chmod": ChirpVerb("remotepath mode", (2,), lambda proxy, words: proxy.ask("chmod", words[0], int(words[1], 8))),
    "chown": ChirpVerb("remotepath uid gid", (3,), _sending_request("chown")),
    "lchown": ChirpVerb("remotepath uid gid", (3,), _sending_request("lchown")),
    "truncate": ChirpVerb("remotepath length", (2,), _sending_request("truncate")),
    "utime": ChirpVerb("remotepath actime mtime", (3,), _sending_request("utime")),
}
_UNSUPPORTED_VERBS: Final = {
    "write": "`put` writes a whole file",
    "whoareyou": "the server does not accept this request",
}


def chirp(argv: Sequence[str]) -> int:
    if not argv or list(argv) == ["-h"]:
        raise ToolEnded(_FAILURE_CODE, out=usage_of("chirp"))
    name, *arguments = argv
    if name in _UNSUPPORTED_VERBS:
        raise ToolEnded(_FAILURE_CODE, f"condor_chirp {name} is not supported: {_UNSUPPORTED_VERBS[name]}\n")
    verb = VERBS.get(name)
    if verb is None:
        raise ToolEnded(_FAILURE_CODE, out=f"Unknown command {name}\n{usage_of('chirp')}")
    if len(arguments) not in verb.words:
        _raise_usage_error(name, verb)
    try:
        return verb.do(Proxy(), arguments) % 256
    except _ChirpFailed as error:
        raise ToolEnded(_FAILURE_CODE, out=_error(error.number)) from None
    except ValueError:
        _raise_usage_error(name, verb)


def _raise_usage_error(name: str, verb: ChirpVerb) -> NoReturn:
    raise ToolEnded(_FAILURE_CODE, out=f"condor_chirp {name} {verb.usage}".rstrip() + "\n")
