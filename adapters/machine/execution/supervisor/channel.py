"""A channel for the bytes of files: pieces with an offset and a checksum, each of which can be sent again.

A file is whole when all of its pieces have come and it is as long as was announced; until then it has another name, or
stands in a directory that goes if the transfer does. ``LocalChannel`` has both ends on one machine, so the kernel moves
the bytes, from one descriptor to the other. ``PieceChannel`` is for two machines: what travels is a ``Piece``.
"""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

PIECE = 1 << 20  #: bytes in one piece, at most
_AT_ONCE = 1 << 30  #: bytes that the kernel is asked to move in one call, at most
_SMALL = 1 << 16  #: bytes of a file that is read and written by ourselves, in two calls
_ELSEWHERE = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM})
"""What copy_file_range(2) answers where it cannot be used: sendfile(2) can."""


class Piece(NamedTuple):
    """Some bytes of a file, where they belong, and their CRC-32."""

    offset: int
    data: bytes
    checksum: int

    @property
    def is_sound(self) -> bool:
        return zlib.crc32(self.data) == self.checksum


def pieces(source: int, offset: int = 0) -> Iterator[Piece]:
    """Yield the pieces of an open file from ``offset`` on: what was sent before need not be sent again."""
    while data := os.pread(source, PIECE, offset):
        yield Piece(offset, data, zlib.crc32(data))
        offset += len(data)


def take(target: int, piece: Piece) -> int:
    """Write a piece to where it belongs; return where the next one begins. Raise `OSError` (EBADMSG) for one that was
    damaged on its way: it is to be sent again."""
    if not piece.is_sound:
        raise OSError(errno.EBADMSG, os.strerror(errno.EBADMSG))
    done = 0
    while done < len(piece.data):
        done += os.pwrite(target, piece.data[done:], piece.offset + done)
    return piece.offset + done


class Channel(Protocol):
    """The way of files from one end to the other."""

    def carry(self, source: int, target: int) -> int:
        """Bring all bytes of an open file into another, empty one; return how many. Raise `OSError`."""


class PieceChannel:
    """Two machines, with a way for pieces between them: it returns a piece as it came, or raises `OSError`."""

    def __init__(self, way: Callable[[Piece], Piece], tries: int = 3) -> None:
        self._way, self._tries = way, tries

    def carry(self, source: int, target: int) -> int:
        """Go on behind what the other file has already; send a piece again that was damaged, as often as is allowed."""
        done, damaged = os.fstat(target).st_size, 0
        while (piece := next(pieces(source, done), None)) is not None:
            try:
                done = take(target, self._way(piece))
            except OSError as error:
                damaged += 1
                if error.errno != errno.EBADMSG or damaged >= self._tries:
                    raise
            else:
                damaged = 0
        return done


class LocalChannel:
    """Both ends on one machine."""

    def carry(self, source: int, target: int) -> int:
        data = os.read(source, _SMALL)
        size = done = len(data)
        while data:
            data = data[os.write(target, data) :]
        if size < _SMALL:  # all of it
            return done
        try:
            while moved := os.copy_file_range(source, target, _AT_ONCE):
                done += moved
        except OSError as error:
            if error.errno not in _ELSEWHERE:
                raise
        while moved := os.sendfile(target, source, None, _AT_ONCE):  # the rest; nothing, if that was all
            done += moved
        return done
