"""The objects behind the descriptors of a simulated program: files, pipes, polled sets of descriptors, connections."""

from __future__ import annotations

import errno
from collections import deque
from typing import Any

from attrs import define, field

from .disk import File, Folder, os_error

_FIRST_DESCRIPTOR = 1000


class Handle:
    """The object behind a descriptor."""

    def readable(self) -> bool:
        return False

    def close(self) -> None: ...


@define(eq=False)
class OpenFile(Handle):
    path: str
    node: File | Folder | None
    flags: int = 0
    at: int = 0

    def readable(self) -> bool:
        return True


@define(eq=False)
class Pipe(Handle):
    """An eventfd or a pipe: it can be read while it has data."""

    count: int = 0

    def readable(self) -> bool:
        return self.count > 0


@define(eq=False)
class Poll(Handle):
    of: dict[int, Handle] = field(factory=dict)

    def readable(self) -> bool:
        return any(value.readable() for value in self.of.values())


@define(eq=False)
class End(Handle):
    """One end of a connection."""

    received: bytearray = field(factory=bytearray)
    other: End | None = None
    closed: bool = False

    def readable(self) -> bool:
        return bool(self.received) or self.over()

    def over(self) -> bool:
        return self.other is None or self.other.closed

    def close(self) -> None:
        self.closed = True


@define(eq=False)
class Listener(Handle):
    waiting: deque[End] = field(factory=deque)
    closed: bool = False

    def readable(self) -> bool:
        return bool(self.waiting)

    def close(self) -> None:
        self.closed = True
        for end in self.waiting:
            end.close()


@define(eq=False)
class SocketFile(File):
    listener: Listener | None = None


@define
class Descriptors:
    """All open descriptors of one program."""

    program: str
    open: dict[int, Handle] = field(factory=dict)
    _next: int = _FIRST_DESCRIPTOR

    def add(self, handle: Handle) -> int:
        self._next += 1
        self.open[self._next] = handle
        return self._next

    def of(self, number: int) -> Any:
        if number not in self.open:
            raise os_error(errno.EBADF)
        return self.open[number]

    def close_all(self) -> None:
        for handle in self.open.values():
            handle.close()
        self.open.clear()
