"""Pass on what a job writes with condor_chirp: attributes of its ad, and lines for its log.

The process that answers the job (``Sender``) checks each write and sends it to the supervisor (``Receiver``). The
supervisor reports new writes every second, and all of them when the job ends or a pool reconnects. Each write has a
number, so that no write is applied twice. The sending process has the job's rights, so the supervisor checks each write
again.

Source: set_job_attr_delayed and ulog in HTCondor's io_proxy_handler.cpp, recordDelayedUpdate in jic_shadow.cpp.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import socket
from fnmatch import fnmatchcase
from threading import Lock
from typing import Any

_LONGEST = 993  #: maximum number of characters of an attribute's value
_NOTE = 128  #: maximum number of characters of a log line; the rest is cut off
_MOST_NOTES = 1000  #: maximum number of log lines of a run
_MOST = 1 << 26  #: maximum number of characters that a run may write in all, with this overhead for each write:
_OVERHEAD = 128
_PACKET = 1 << 16
_AT_ONCE = 1000  #: maximum number of writes to receive at a time: more than the socket holds
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_EXPRESSION = re.compile(r"[^\x00\n\r]+")  #: the pool parses it: this process has no parser

Write = tuple[str, str, str]
"""``set`` or ``delayed``, the attribute's name, its value; or ``note``, an empty string, the line."""


def refusal(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _is_valid(write: Any) -> bool:
    """Return True if this is a valid write: it is short and has one line."""
    if not (isinstance(write, list) and len(write) == 3 and all(isinstance(word, str) for word in write)):
        return False
    kind, name, text = write
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    if kind == "note":
        return len(text) <= _NOTE
    value = len(text) <= _LONGEST and _EXPRESSION.fullmatch(text)
    return kind in ("set", "delayed") and bool(_NAME.fullmatch(name) and value)


class Sender:
    """The data shared by a job's connections: the job's ad with the attributes set since its start, and the channel to
    the supervisor."""

    def __init__(self, ad: str, rules: dict[str, Any], channel: socket.socket) -> None:
        self._attributes = {}
        for line in ad.splitlines():
            name, _, text = line.partition(" = ")
            self._attributes[name.lower()] = text
        self._updates: bool = rules["updates"]
        self._prefixes = [prefix.lower() for prefix in rules["delayed"]]
        self._most: int = rules["most"]
        self._refused = frozenset(rules["refused"])
        self._set: set[str] = set()
        self._notes = 0
        self._spent = 0
        self._channel, self._lock = channel, Lock()

    def attribute_value(self, name: str) -> str | None:
        return self._attributes.get(name.lower())

    def delayed_value(self, name: str) -> str:
        """Return an attribute's value, like ``value``, for a job with delayed updates. Raise `OSError` if the attribute
        is missing, `ValueError` if delayed updates are off."""
        if not self._prefixes:
            raise ValueError
        text = self.attribute_value(name)
        if text is None:
            raise refusal(errno.ENOENT)
        return text

    def set_attribute(self, name: str, text: str) -> None:
        """Set an attribute. Raise `OSError` if the job may not set it or a limit is reached, `ValueError` if name or
        value is invalid or updates are off."""
        if not self._updates:
            raise ValueError
        self._write("set", name, text)

    def set_delayed(self, name: str, text: str) -> None:
        """Set an attribute with a delay, if CHIRP_DELAYED_UPDATE_PREFIX allows its name. Raise as ``set``."""
        if not self._prefixes:
            raise ValueError
        if not any(fnmatchcase(name.lower(), prefix) for prefix in self._prefixes):
            raise refusal(errno.EACCES)
        self._write("delayed", name, text)

    def _write(self, kind: str, name: str, text: str) -> None:
        if len(text) > _LONGEST:
            raise refusal(errno.EFBIG)
        if not _is_valid([kind, name, text]):
            raise ValueError
        key = name.lower()
        if key in self._refused:
            raise refusal(errno.EACCES)
        with self._lock:
            if key not in self._set and len(self._set) >= self._most:
                raise refusal(errno.ENOSPC)
            self._send((kind, name, text))
            self._set.add(key)
            self._attributes[key] = text

    def write_log_line(self, text: str) -> None:
        """Write a line to the job's log. Raise as ``set``."""
        write = ("note", "", text[:_NOTE])
        if not (self._updates and _is_valid(list(write))):
            raise ValueError
        with self._lock:
            if self._notes >= _MOST_NOTES:
                raise refusal(errno.ENOSPC)
            self._send(write)
            self._notes += 1

    def _send(self, write: Write) -> None:
        self._spent += len(write[2]) + _OVERHEAD
        if self._spent > _MOST:
            raise refusal(errno.ENOSPC)
        self._channel.send(json.dumps(write).encode())


class Receiver:
    """The supervisor's end: what a job has written in this run, with the last value of each attribute."""

    def __init__(self, channel: socket.socket, most: int) -> None:
        channel.setblocking(False)
        self._channel, self._most = channel, most
        self._number = 0
        self._notes = self._spent = 0
        self._all: dict[str, list[Any]] = {}

    def receive(self) -> list[list[Any]]:
        """Return the writes since the last call: number, kind, name and text of each."""
        writes = []
        with contextlib.suppress(OSError):
            for _ in range(_AT_ONCE):  # serve other jobs first; the remaining writes wait
                data = self._channel.recv(_PACKET)
                if not data:
                    break  # the process that answered the job has ended
                if (write := self._accept_write(data)) is not None:
                    writes.append(write)
        return writes

    def _accept_write(self, data: bytes) -> list[Any] | None:
        try:
            write = json.loads(data)
        except ValueError:
            return None
        if not _is_valid(write):
            return None
        kind, name, text = write
        self._spent += len(text) + _OVERHEAD
        self._notes += kind == "note"
        key = f"#{self._notes}" if kind == "note" else name.lower()
        if self._spent > _MOST or self._notes > _MOST_NOTES:
            return None
        if kind != "note" and key not in self._all and len(self._all) - self._notes >= self._most:
            return None
        self._number += 1
        self._all.pop(key, None)
        self._all[key] = [self._number, *write]
        return self._all[key]

    def all_writes(self) -> list[list[Any]]:
        """Return all writes of this run, oldest first."""
        return list(self._all.values())

    def close(self) -> None:
        self._channel.close()
