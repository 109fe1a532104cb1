"""When the X server of this machine last had input, from its MIT-SCREEN-SAVER extension, as condor_kbdd asks for it.

The X protocol is spoken here, without Xlib, which ends the whole process if the server stops. Like condor_kbdd, the
connection tries the authority files (xauth) of all users whose files it may read.
"""

from __future__ import annotations

import os
import re
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from glob import glob
from typing import Final

from msgspec import Struct

DEFAULT_DISPLAY: Final = ":0.0"
_TIMEOUT: Final = 0.5  #: seconds for an answer of the server
_RETRY_AFTER: Final = 5_000_000  #: microseconds between attempts to connect
_EXTENSION: Final = b"MIT-SCREEN-SAVER"
_COOKIE: Final = b"MIT-MAGIC-COOKIE-1"
_QUERY_EXTENSION: Final = 98
_QUERY_INFO: Final = 1
_ERROR: Final = 0
_REPLY: Final = 1
_AUTHORITY_FILES: Final = (
    "~/.Xauthority", "/home/*/.Xauthority", "/run/user/*/xauth_*", "/run/user/*/gdm/Xauthority",
)  # fmt: skip


class XDisplay(Struct):
    """A connection to the X server of a display such as ``:0.0`` (X_CONSOLE_DISPLAY). It is opened when needed."""

    name: str
    _socket: socket.socket | None = None
    _root: int = 0  #: the root window
    _opcode: int = 0  #: the extension's requests
    _tried_at: int | None = None

    def last_input(self, now: int) -> int | None:
        """Return the instant of the last input, in microseconds; None: unknown, because no server can be asked."""
        if self._socket is None and (self._tried_at is None or not 0 <= now - self._tried_at < _RETRY_AFTER):
            self._tried_at = now
            self._connect()
        if self._socket is None:
            return None
        try:
            reply = self._ask(struct.pack("=BBHI", self._opcode, _QUERY_INFO, 2, self._root))
        except OSError:
            self.close()
            return None
        return now - int(struct.unpack_from("=I", reply, 16)[0]) * 1000

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connect(self) -> None:
        for cookie in (b"", *cookies(self.name)):
            with suppress(OSError, struct.error):
                self._open(cookie)
                return
            self.close()

    def _open(self, cookie: bytes) -> None:
        """Connect to the server with an authorization. Raise `OSError` if it refuses, or lacks the extension."""
        host, _, number = self.name.partition(":")
        display = int(number.partition(".")[0] or 0) if number.replace(".", "").isdigit() else 0
        if host in ("", "unix"):
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._socket.settimeout(_TIMEOUT)
            self._socket.connect(f"/tmp/.X11-unix/X{display}")
        else:
            self._socket = socket.create_connection((host, 6000 + display), _TIMEOUT)
        protocol = _COOKIE if cookie else b""
        order = b"l" if struct.pack("=H", 1)[0] else b"B"
        head = struct.pack("=cxHHHH2x", order, 11, 0, len(protocol), len(cookie))
        self._socket.sendall(head + _padded(protocol) + _padded(cookie))
        accepted, length = struct.unpack("=B5xH", self._receive(8))
        answer = self._receive(length * 4)
        if accepted != 1:
            raise ConnectionRefusedError(f"{self.name}: {answer!r}")
        vendor, formats = struct.unpack_from("=H", answer, 16)[0], answer[21]
        (self._root,) = struct.unpack_from("=I", answer, 32 + (vendor + 3) // 4 * 4 + formats * 8)
        size = 2 + (len(_EXTENSION) + 3) // 4
        reply = self._ask(struct.pack("=BxHH2x", _QUERY_EXTENSION, size, len(_EXTENSION)) + _padded(_EXTENSION))
        if not reply[8]:
            raise ConnectionRefusedError(f"{self.name} has no {_EXTENSION.decode()}")
        self._opcode = reply[9]

    def _ask(self, request: bytes) -> bytes:
        """Return the reply to a request. Skip events: the server tells all clients when the keyboard changes."""
        assert self._socket is not None
        self._socket.sendall(request)
        while (message := self._receive(32))[0] != _REPLY:
            if message[0] == _ERROR:
                raise ConnectionAbortedError(f"{self.name}: the server answered with an error")
        return message

    def _receive(self, size: int) -> bytes:
        assert self._socket is not None
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionResetError(f"{self.name}: the server closed the connection")
            data += part
        return data


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def cookies(display: str) -> Iterator[bytes]:
    """Yield the cookies for a display in the authority files that this process may read."""
    number = re.sub(r"^.*:(\d+).*$", r"\1", display).encode()
    for pattern in (os.environ.get("XAUTHORITY", ""), *_AUTHORITY_FILES):
        for path in sorted(glob(os.path.expanduser(pattern))):
            with suppress(OSError, struct.error), open(path, "rb") as file:
                yield from _cookies_of(file.read(1 << 20), number)


def _cookies_of(data: bytes, number: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        at += 2  # the family of the address
        fields = []
        for _ in range(4):
            (size,) = struct.unpack_from(">H", data, at)
            fields.append(data[at + 2 : at + 2 + size])
            at += 2 + size
        if fields[1] in (number, b"") and fields[2] == _COOKIE:
            yield fields[3]
